"""What the workflow takes from inside of Snakemake, where no documented way gives it: one function per need.

Each is tried with the lowest and the newest Snakemake that `pyproject.toml` allows; a new version of Snakemake can
break nothing outside of this file. `workflow` and `rules` are the names that Snakemake gives every Snakefile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perturbations.base.errors import cut
from perturbations.config import line_numbers


def config_files(workflow: Any) -> list[Path]:
    """The files of `--configfile`: `config` holds their values, but not where they stand."""
    return [Path(name) for name in workflow.overwrite_configfiles]


def command_line(workflow: Any) -> dict[str, Any]:
    """What `--config` gives."""
    given: dict[str, Any] = workflow.config_settings.config
    return given


def places(workflow: Any, written: line_numbers.LinesOfKeys) -> line_numbers.LinesOfKeys:
    """Where the keys of the configuration stand; that of a module with `config:` stands in its user's Snakefile."""
    if workflow.modifier.skip_configfile:
        return line_numbers.LinesOfKeys({}, f"the configuration of the module `{cut(workflow.modifier.namespace)}`")
    return written


def prefix(workflow: Any) -> Path:
    """The folder in which a module's `prefix:` puts work/, manifests/ and corpora/; `Path()` without one."""
    return Path(workflow.modifier.path_modifier.prefix or "")


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


def make_default(workflow: Any, rules: Any, name: str) -> None:
    """Make a rule the default target, which an `include:` gives back to nobody."""
    workflow.default_target = getattr(rules, name).rule.name
