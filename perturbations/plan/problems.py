"""What is wrong with a configuration, one line per mistake, each with its key."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perturbations.datasets import registry as datasets
from perturbations.datasets.registry import Dataset
from perturbations.errors import ConfigError, cut, short
from perturbations.guides import registry as guides
from perturbations.strengths import Value
from perturbations.suites import registry
from perturbations.tta.methods import registry as methods

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from perturbations.plan.config import Config, Suite

MOST_PROBLEMS = 100

RESERVED = ("whole", "logs", "benchmarks", "demo_encoder")
"""No names of datasets: folders of that name below `work` hold something else."""


def raise_all(problems: Sequence[str], what: str = "config.yaml is not valid") -> None:
    """Raise `ConfigError` with one line per problem, each once; nothing where there is none."""
    lines = list(dict.fromkeys(problems))
    if len(lines) > MOST_PROBLEMS:
        lines[MOST_PROBLEMS:] = [f"and {len(lines) - MOST_PROBLEMS} more"]
    if lines:
        raise ConfigError(f"{what}:\n" + "\n".join(f"  {line}" for line in lines)) from None


def of_datasets(config: Config) -> list[str]:
    """Names that are taken, and paths that an adapter needs or does not take."""
    problems = []
    for name, dataset in config.datasets.items():
        if name in RESERVED:
            problems.append(f"datasets.{name}: the name is taken by a folder of the workflow; choose another")
        adapter = datasets.get(dataset.adapter)
        for key in adapter.needs:
            if getattr(dataset, key) is None:
                problems.append(f"datasets.{name}.{key}: the adapter '{dataset.adapter}' needs it")
        if dataset.ids is not None and "ids" not in adapter.takes:
            having = ", ".join(other.name for other in datasets.adapters().values() if "ids" in other.takes)
            problems.append(f"datasets.{name}.ids: for the adapters {having}, not '{dataset.adapter}'")
    return problems


def of_suites(suites: Mapping[str, Suite]) -> list[str]:
    """Suites, perturbations, severities and parameters that there are not, and numbers out of their bounds."""
    problems = []
    for suite_name, wanted in suites.items():
        if suite_name not in registry.suites():
            problems.append(f"suites.{cut(suite_name)}: unknown suite; known: {', '.join(registry.suites())}")
            continue
        suite = registry.suite(suite_name)
        if wanted.draw is not None and not suite.draws_by_choice:
            choosing = ", ".join(name for name, one in registry.suites().items() if one.draws_by_choice)
            problems.append(f"suites.{suite_name}.draw: the paper says what is drawn; a choice for: {choosing}")
        variant = wanted.variant or suite.variants[0]
        if variant not in suite.variants:
            allowed = " or ".join(f"'{name}'" for name in suite.variants)
            problems.append(f"suites.{suite_name}.variant: must be {allowed}, not {short(wanted.variant)}")
            continue
        entries = [entry.in_variant(variant) for entry in suite.perturbations]
        known = {entry.name: entry for entry in entries if entry.kind == "video"}
        if isinstance(wanted.perturbations, tuple):
            for name in wanted.perturbations:
                if name not in known:
                    problems.append(
                        f"suites.{suite_name}.perturbations: unknown {short(name)}; known: {', '.join(known)}"
                    )
        asked = known if wanted.perturbations == "all" else wanted.perturbations
        resized = [name for name in asked if name in known and known[name].shape is not None]
        if wanted.severity == "calibrated" and resized:
            problems.append(
                f"suites.{suite_name}.severity: `calibrated` compares frames with clean ones, and those of "
                f"{', '.join(resized)} ({variant}) have another size: list `perturbations` without, or "
                "take another variant"
            )
        problems += _parameter_problems(suite_name, "parameters", wanted.parameters, known)
        texts = {entry.name: entry for entry in entries if entry.kind == "text"}
        of_captions = wanted.captions
        if isinstance(of_captions.perturbations, tuple):
            for name in of_captions.perturbations:
                if name not in texts:
                    place = f"suites.{suite_name}.captions.perturbations"
                    problems.append(f"{place}: unknown {short(name)}; known: {', '.join(texts) or 'none'}")
        problems += _parameter_problems(suite_name, "captions.parameters", of_captions.parameters, texts)
    return problems


def of_evaluation(config: Config) -> list[str]:
    """What an evaluation asks for that is not configured, or not there."""
    wanted = config.evaluation
    problems = [
        f"evaluation.suites: {short(name)} is not among `suites`: {', '.join(config.suites)}"
        for name in wanted.suites or ()
        if name not in config.suites
    ]
    if wanted.bank is None:
        problems += [
            f"evaluation.bank: the method `{name}` needs a bank: a dataset of training queries"
            for name in wanted.methods
            if methods.method(name).needs_bank
        ]
    if wanted.bank is not None and wanted.bank not in config.datasets:
        problems.append(f"evaluation.bank: {short(wanted.bank)} is not among `datasets`: {', '.join(config.datasets)}")
    if wanted.precision == "tf32" and not wanted.device.startswith("cuda"):
        problems.append(f"evaluation.precision: tf32 needs an NVIDIA GPU, and `device` is {short(wanted.device)}")
    if wanted.model == "xpool" and wanted.checkpoint is None:
        problems.append(
            "evaluation.checkpoint: `xpool` needs the weights of its pooling: a published X-Pool checkpoint"
        )
    if wanted.pretrained is None and (wanted.checkpoint is not None or wanted.revision is not None):
        problems.append("evaluation.pretrained: weights are given, but not the model they are for")
    if wanted.checkpoint is not None and not os.path.isfile(wanted.checkpoint):
        problems.append(f"evaluation.checkpoint: no such file: {cut(str(wanted.checkpoint))}")
    return problems


def of_composed(config: Config) -> list[str]:
    """What composed retrieval asks for that is not configured, or not there."""
    wanted = config.composed
    problems = [
        f"composed.{key}: {short(name)} is not among `suites`: {', '.join(config.suites)}"
        for key, names in (("suites", wanted.suites), ("text_suites", wanted.text_suites))
        for name in names or ()
        if name not in config.suites
    ]
    for key in wanted.both:
        suite, _, name = key.partition("/")
        known = [entry.name for entry in registry.perturbations(suite, "text")] if suite in config.suites else []
        if name not in known:
            problems.append(
                f"composed.both: {short(key)} is no perturbation of captions of one of `suites`, as suite/name"
            )
    return problems


def _parameter_problems(
    suite_name: str,
    key: str,
    replaced: Mapping[str, Mapping[int, Mapping[str, Value]]],
    known: Mapping[str, registry.Perturbation],
) -> list[str]:
    problems = []
    for name, by_severity in replaced.items():
        if name not in known:
            problems.append(f"suites.{suite_name}.{key}: unknown {short(name)}; known: {', '.join(known)}")
            continue
        for severity, values in by_severity.items():
            if severity not in known[name].severities:
                has = list(known[name].severities)
                problems.append(f"suites.{suite_name}.{key}.{name}: no severity {severity}; it has {has}")
                continue
            place = f"suites.{suite_name}.{key}.{name}.{severity}"
            complete = {**known[name].parameters(severity), **values}
            problems += [f"{place}.{line}" for line in registry.parameter_problems(known[name], complete)]
    return problems


def of_backends(config: Config) -> list[str]:
    """Datasets of donors that there are not, and what a guide says that its backends lack."""
    problems = []
    for name, dataset in config.datasets.items():
        if dataset.donors is not None and dataset.donors not in config.datasets:
            known = ", ".join(config.datasets)
            problems.append(f"datasets.{name}.donors: unknown dataset {short(dataset.donors)}; known: {known}")
    for suite, wanted in config.suites.items():
        if suite not in registry.suites() or wanted.variant not in registry.suite(suite).variants:
            continue
        chosen = wanted.perturbations
        guided = {
            entry.guide: entry
            for entry in (entry.in_variant(wanted.variant) for entry in registry.perturbations(suite, "video"))
            if entry.guide and (chosen == "all" or entry.name in chosen)
        }
        for kind in guided:
            problems += guides.get(kind).problems(config.backends.guide_settings(variant=wanted.variant))
    return problems


_ROLES_BY_BACKEND = {role.name for role in guides.roles() if len(role.players) > 1}


_SETTINGS = {adapter.settings.__name__ for adapter in datasets.adapters().values()} | {Dataset.__name__}


def of_types(error: ValidationError) -> list[str]:
    """What pydantic finds wrong."""
    # A list whose items are wrong is also reported as too short.
    errors = [item for item in error.errors(include_url=False) if item["type"] != "too_short" or not item["input"]]
    return [f"{_key(item)}: {_explained(item)}" for item in errors]


def _key(problem: ErrorDetails) -> str:
    """The key of a pydantic error, as the file has it."""
    # pydantic puts the discriminator's value and the literal's alternatives into the path; the file has no such keys
    location = list(problem["loc"])
    unknown_tag = problem["type"].startswith("union_tag")
    if location[:1] == ["datasets"] and len(location) > 2 and location[2] in _SETTINGS:
        del location[2]
    if location[:1] == ["storage"]:
        location[1:2] = ["tier"] if unknown_tag else []
    elif location[:1] == ["backends"] and len(location) > 1 and location[1] in _ROLES_BY_BACKEND:
        location[2:3] = ["backend"] if unknown_tag else []
    parts = [
        cut(str(part), 80) for part in location if part != "[key]" and not str(part).startswith(("tuple[", "literal["))
    ]
    return ".".join(parts) or "(top level)"


def _explained(problem: ErrorDetails) -> str:
    """What a pydantic error means, in words."""
    if problem["type"] == "extra_forbidden":
        return "unknown key"
    if problem["type"] in ("missing", "union_tag_not_found"):
        return "is missing"
    if problem["type"] == "union_tag_invalid":
        return f"Input should be {problem['ctx']['expected_tags']}, not {short(problem['ctx']['tag'])}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return f"{cut(problem['msg'])}, not {short(problem['input'])}"
