"""What the workflow takes from inside of Snakemake, where no documented way gives it: one function per need.

Each is tried with the lowest and the newest Snakemake that `pyproject.toml` allows; a new version of Snakemake can
break nothing outside of this file. `workflow` and `rules` are the names that Snakemake gives every Snakefile.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from perturbations.base.errors import ConfigError, cut
from perturbations.config import line_numbers
from perturbations.manifest.layout import TOP
from perturbations.plan import workplace


def config_files(workflow: Any) -> list[Path]:
    """The files of `--configfile`: `config` holds their values, but not where they stand."""
    return [Path(name) for name in workflow.overwrite_configfiles]


def places(workflow: Any, written: line_numbers.LinesOfKeys) -> line_numbers.LinesOfKeys:
    """Where the keys of the configuration stand; that of a module with `config:` stands in its user's Snakefile."""
    if workflow.modifier.skip_configfile:
        return line_numbers.LinesOfKeys({}, f"the configuration of the module `{cut(workflow.modifier.namespace)}`")
    return written


def moved(workflow: Any, own: Mapping[str, str]) -> dict[str, str]:
    """The variables of paths that the user's Snakefile sets, before this workflow sets its `own`.

    Snakemake reads a module once per `use rule`, so from the second time on its own are there too.
    """
    variables = workflow.pathvars
    set_here = {name: variables.get(name) for name in variables.items if variables.level[name] < _DEFAULT}
    return {name: value for name, value in set_here.items() if own.get(name) != value}


_DEFAULT = 4
"""The level of the variables that Snakemake sets itself."""


def folder(workflow: Any, by_user: Mapping[str, str]) -> Path:
    """The folder of work/, manifests/ and corpora/: a module's `prefix:` or `pathvars: results=`; else `Path()`.

    Functions of rules give paths of their own, which only a prefix moves: so `results` becomes one. Logs and
    benchmarks that are moved as well lie where they are said to be. `by_user` is what `moved` gives. Raises
    `ConfigError` where several folders are named.
    """
    for name in sorted(by_user.keys() & set(TOP)):
        raise ConfigError(f"`pathvars`: {name}: work/, manifests/ and corpora/ stay together: set `results`")
    paths = workflow.modifier.path_modifier
    place = workplace.of_module(paths.replace_prefix)
    results = by_user.get("results", "").rstrip("/")
    if not results or paths.prefix == f"{results}/":  # the latter when the module is read again
        return place
    if place.parts:
        raise ConfigError("the module's `prefix` and `pathvars: results=` both name the folder of its results")
    paths.prefix = f"{results}/"
    paths.skip_properties |= {kind for kind in ("log", "benchmark") if f"{kind}s" in by_user}
    return workplace.of_module(paths.replace_prefix)


def is_dry(workflow: Any) -> bool:
    """Whether this is a dry run."""
    return bool(workflow.output_settings.dryrun)


def may_start_jobs(workflow: Any) -> bool:
    """Whether this is neither a dry run nor `--lint`, of which only the command line knows."""
    return not (is_dry(workflow) or any(word.startswith("--lint") for word in sys.argv))


def plans_all(workflow: Any) -> bool:
    """Whether this process plans the run, is no job of it, and may use all rules: a generated unit test has one."""
    settings = workflow.dag_settings  # none yet while the Snakefile is read
    return bool(workflow.is_main_process and not (settings and settings.allowed_rules))


def runs_here(workflow: Any) -> bool:
    """Whether jobs run on this machine."""
    return bool(workflow.local_exec)


def touches(workflow: Any) -> bool:
    """Whether `--touch` only renews the times of files."""
    return bool(workflow.touch)


def deployment(workflow: Any) -> Literal["apptainer", "conda"] | None:
    """What `--software-deployment-method` names."""
    names = {method.name for method in workflow.deployment_settings.deployment_method}
    return "apptainer" if "APPTAINER" in names else "conda" if "CONDA" in names else None


def targets(workflow: Any) -> list[str]:
    """The targets of the command line."""
    return list(workflow.dag_settings.targets)


def describe(rules: Any, name: str, text: str) -> str:
    """Give a rule its line in `--list-target-rules`, and return its name, which a module's user may have changed.

    A rule without a docstring of its own is found by the name that it has in this file.
    """
    rule = getattr(rules, name).rule
    rule.docstring = text
    return str(rule.name)


def needed_jobs(workflow: Any, rules: Any) -> Iterator[tuple[str, Mapping[str, str], list[str]]]:
    """The jobs of these rules that will run: the rule's name in these files, the wildcards, and the written files.

    In a module, rules may have other names, and other rules stand beside them.
    """
    names = {proxy.rule: name for name, proxy in rules._rules.items()}
    for job in workflow.dag.needrun_jobs():
        if job.rule in names:
            written = [str(path) for path in (*job.output, *job.log, job.benchmark) if path]
            yield names[job.rule], job.wildcards_dict, written


_GROWING = {"mem_mb", "runtime"}


def grow_with_attempts(rules: Any) -> None:
    """Double what these rules request at each attempt, because what is killed for memory or time needs more.

    Numbers of `--set-resources` grow too. An expression that names `attempt` is left as it is, and so is what grows
    already: Snakemake reads a module once per `use rule`. A rule that it left out has no resources.
    """
    for proxy in rules._rules.values():
        resources = proxy.rule.resources or {}
        for name in _GROWING & {*resources}:
            given = resources[name]
            if "attempt" not in str(given.raw):
                resources[name] = type(given)(name, _grown(given), raw="attempt")


def _grown(resource: Any) -> Callable[..., Any]:
    def grown(wildcards: Any, attempt: int, **more: Any) -> Any:
        value = resource.evaluate(wildcards, attempt=attempt, **more).value
        return value << (attempt - 1) if isinstance(value, int) else value

    _note_parameters(resource._evaluator)
    return grown


def remember_parameters(rules: Any) -> None:
    """Note the parameters of these rules' functions, after `grow_with_attempts`: Snakemake inspects 24 per job else."""
    for proxy in rules._rules.values():
        resources = [*(proxy.rule.resources or {}).values()]
        of_files = (getattr(item, "_file", item) for item in (*proxy.rule.input, *proxy.rule.params))
        functions = [getattr(held, "callable", held) for held in of_files]
        for resource in resources:
            functions += [resource.evaluate, resource._evaluator]
        for function in functions:
            _note_parameters(function)


def _note_parameters(function: Any) -> None:
    held = getattr(function, "__func__", function)
    if inspect.isroutine(function) and not hasattr(held, _PARAMETERS):
        setattr(held, _PARAMETERS, inspect.signature(function).parameters)


_PARAMETERS = "_overwrite_params"
"""Where Snakemake takes the parameters of a function from, in place of its signature."""


def make_default(workflow: Any, rules: Any, name: str) -> None:
    """Make a rule the default target, which an `include:` gives back to nobody."""
    workflow.default_target = getattr(rules, name).rule.name
