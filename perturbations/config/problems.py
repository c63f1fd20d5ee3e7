"""What is wrong with a configuration, one line per mistake, each with its place, its key and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from perturbations.base.errors import ConfigError, cut, did_you_mean, short
from perturbations.config.line_numbers import NOWHERE, Key, LinesOfKeys, prefix
from perturbations.config.pruned import key_of, value_at
from perturbations.datasets import adapter_registry as datasets
from perturbations.manifest import manifest_paths
from perturbations.models.guides import guide_registry as guides
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import ParameterValue

if TYPE_CHECKING:
    from perturbations.config.sections import Config, SuiteSection


Problem = tuple[Key, str]
"""A mistake: the path of its key from the top of the configuration, and what is wrong there."""


def problem(key: str, text: str) -> Problem:
    """A mistake at a key without unusual names in its path: `suites.mlvp.draw`."""
    return tuple(key.split(".")), text


def raise_all(
    problems: Iterable[Problem], what: str = "the configuration is not valid", places: LinesOfKeys = NOWHERE
) -> None:
    """Raise `ConfigError` with one line per problem, each once, in the order of the files' lines; nothing without any.

    What is written nowhere, as a missing key at the top, comes first.
    """
    placed = sorted(((places.of(key), key, text) for key, text in problems), key=lambda line: line[0])
    named = ((place, ".".join(cut(part, 80) for part in key) or "(top level)", text) for place, key, text in placed)
    if lines := list(dict.fromkeys(f"{prefix(place)}{key}: {text}" for place, key, text in named)):
        raise ConfigError(f"{what}:\n" + "\n".join(f"  {line}" for line in lines)) from None


def unknown(value: str, known: Iterable[str], what: str = "unknown", elsewhere: str = "") -> str:
    """The message about a name that is not among the known ones: with where it is known, or the nearest of them."""
    names = list(known)
    return f"{what} {short(value)}; known: {', '.join(names) or 'none'}{elsewhere or did_you_mean(value, names)}"


def another_kind(name: str) -> str:
    """What a name is that is written where another kind of name is expected, and where it belongs; empty of no name.

    The end of a message about a suite in place of a perturbation, a perturbation in place of a suite, or an adapter.
    """
    alone = name.rpartition("/")[2]
    entries = [entry for entry in suite_registry.perturbations() if entry.name == alone]
    if entries:
        forms = [_FORMS_OF_NAMES[entry.kind].format(suite=entry.suite, name=alone) for entry in entries]
        return f"; it is a perturbation of {' and '.join(entry.suite for entry in entries)}: {' or '.join(forms)}"
    if name in suite_registry.suites():
        return f"; it is a suite: suites: {{{name}: {{}}}}"
    if name in datasets.adapters():
        return f"; it is an adapter: datasets: {{{name}: {{adapter: {name}, ...}}}}"
    return ""


_FORMS_OF_NAMES = {
    "video": "suites: {{{suite}: {{perturbations: [{name}]}}}}",
    "text": "suites: {{{suite}: {{captions: {{perturbations: [{name}]}}}}}}",
}
"""How a perturbation of videos is written, and one of captions."""


def dataset_problems(config: Config) -> list[Problem]:
    """Names that are taken, paths that an adapter needs or does not take, and donors that there are not."""
    problems: list[Problem] = []
    for name, dataset in config.datasets.items():
        if dataset.donors is not None and dataset.donors not in config.datasets:
            text = unknown(dataset.donors, config.datasets, "unknown dataset")
            problems.append((("datasets", name, "donors"), text))
        if name in manifest_paths.RESERVED:
            text = f"the workflow has a folder or a rule of this name; choose another, such as {name}_clips"
            problems.append((("datasets", name), text))
        adapter = datasets.get(dataset.adapter)
        for key in adapter.needs:
            if getattr(dataset, key) is None:
                problems.append((("datasets", name, key), _needed(adapter, key)))
        for key in _OF_SOME_ADAPTERS:
            given = key in dataset.model_fields_set and getattr(dataset, key) is not None
            if given and key not in adapter.takes:
                having = ", ".join(other.name for other in datasets.adapters().values() if key in other.takes)
                problems.append(
                    (
                        ("datasets", name, key),
                        f"only datasets of {having} have this key, not of '{dataset.adapter}': leave it out",
                    )
                )
    return problems


def _needed(adapter: datasets.Adapter, key: str) -> str:
    """That an adapter needs a path, and how it is written."""
    forms = {"annotations": f"FILE`, {adapter.annotations}", "videos": "FOLDER`", "ids": "FILE`, one id per line"}
    own = "; clips without captions: `perturb init FOLDER --videos CLIPS` writes a table"
    is_own = key == "annotations" and not adapter.reference
    return f"the adapter '{adapter.name}' needs it: `{key}: {forms[key]}{own if is_own else ''}"


_OF_SOME_ADAPTERS = ("ids", "columns", "captions", "clips")
"""Keys that only the adapters read which take them."""


def suite_problems(suites: Mapping[str, SuiteSection]) -> list[Problem]:
    """Suites, perturbations, severities and parameters that there are not, and numbers out of their bounds."""
    problems: list[Problem] = []
    for name, wanted in suites.items():
        key = ("suites", name)
        if name not in suite_registry.suites():
            known = list(suite_registry.suites())
            text = f"unknown suite; known: {', '.join(known)}{another_kind(name) or did_you_mean(name, known)}"
            problems.append((key, text))
            continue
        suite = suite_registry.suite(name)
        if wanted.draw is not None and not suite.draws_by_choice:
            choosing = ", ".join(name for name, other in suite_registry.suites().items() if other.draws_by_choice)
            text = f"the paper says what is drawn: leave it out; only {choosing} leaves the choice"
            problems.append(((*key, "draw"), text))
        variant = wanted.variant or suite.variants[0]
        if variant not in suite.variants:
            allowed = " or ".join(f"'{name}'" for name in suite.variants)
            text = f"must be {allowed}, not {short(wanted.variant)}{did_you_mean(variant, suite.variants)}"
            problems.append(((*key, "variant"), text))
            continue
        problems += _problems_of_suite(key, wanted, [entry.in_variant(variant) for entry in suite.perturbations])
    return problems


def _problems_of_suite(key: Key, wanted: SuiteSection, entries: Sequence[suite_registry.Perturbation]) -> list[Problem]:
    known = {entry.name: entry for entry in entries if entry.kind == "video"}
    problems = _name_problems((*key, "perturbations"), wanted.perturbations, known)
    problems += _parameter_problems((*key, "parameters"), wanted.parameters, known, wanted.perturbations)
    texts = {entry.name: entry for entry in entries if entry.kind == "text"}
    captions, key = wanted.captions, (*key, "captions")
    problems += _name_problems((*key, "perturbations"), captions.perturbations, texts)
    return problems + _parameter_problems((*key, "parameters"), captions.parameters, texts, captions.perturbations)


def _name_problems(key: Key, wanted: str | Sequence[str], known: Iterable[str]) -> list[Problem]:
    names = [] if isinstance(wanted, str) else list(wanted)
    known = list(known)
    problems: list[Problem] = []
    for index, name in enumerate(names):
        if name not in known:
            elsewhere = "" if name.rpartition("/")[2] in known else another_kind(name)  # not of `mlvp/fog`
            elsewhere = "; write all, not [all]" if name == "all" else elsewhere
            problems.append(((*key, str(index)), unknown(name, known, elsewhere=elsewhere)))
    return problems


def _parameter_problems(
    key: Key,
    replaced: Mapping[str, Mapping[int, Mapping[str, ParameterValue]]],
    known: Mapping[str, suite_registry.Perturbation],
    selected: str | Sequence[str],
) -> list[Problem]:
    problems = []
    for name, by_severity in replaced.items():
        own = (*key, name)
        if name not in known:
            problems.append((own, unknown(name, known)))
            continue
        if selected != "all" and name not in selected and known.keys() >= set(selected):
            text = f"not made: `perturbations` lists {cut(', '.join(selected)) or 'nothing'}; add it, or leave this out"
            problems.append((own, text))
        for severity, values in by_severity.items():
            if severity not in known[name].severities:
                has = list(known[name].severities)
                text = f"no severity {severity}; it has {has}: {name}: {{{has[-1]}: {{...}}}}"
                problems.append(((*own, str(severity)), text))
                continue
            complete = {**known[name].parameters(severity), **values}
            for line in suite_registry.parameter_problems(known[name], complete):
                parameter, _, text = line.partition(": ")
                known_parameter = parameter in known[name].bounds
                hint = "" if known_parameter else did_you_mean(parameter, known[name].bounds)
                problems.append(((*own, str(severity), parameter), text + hint))
    return problems


def not_following(problems: Iterable[Problem], told: Iterable[Problem], values: object) -> list[Problem]:
    """The problems that do not follow from others, which are `told`: a dataset that is wrong is not unknown as well.

    The keys of `problems` are those of the right part of `values`.
    """
    keys = {key for key, _ in told}
    wrong_names = {key[1] for key in keys if len(key) > 1 and key[0] in ("datasets", "suites")}
    unreadable = {key[0] for key in keys if key in (("datasets",), ("suites",))}
    return [
        (key, text)
        for key, text in ((key_of(values, key), text) for key, text in problems)
        if not any(key[:length] in keys for length in range(1, len(key) + 1))
        and (not unreadable or key[0] in ("datasets", "suites"))
        and str(value_at(values, key)) not in wrong_names
    ]


def may_be_brought(key: Key) -> bool:
    """Whether a file of `plugins` may bring what a key names."""
    return not {"adapter", "methods", "parameters"}.isdisjoint(key)


def is_known(suite: str, config: Config) -> bool:
    """Whether a suite is configured, and there."""
    return suite in config.suites and suite in suite_registry.suites()


def not_configured(
    section: str, suites: Mapping[str, Sequence[str] | None], configured: Iterable[str]
) -> list[Problem]:
    """The names that a section's keys list and that are not among the configured suites."""
    known, what = list(configured), "no configured suite is called"
    return [
        ((section, key, str(index)), unknown(name, known, what, did_you_mean(name, known) or another_kind(name)))
        for key, names in suites.items()
        for index, name in enumerate(names or ())
        if name not in known
    ]


def backend_problems(config: Config) -> list[Problem]:
    """What is wrong with backends for the guides that use them; and a number of frames for a tier that ignores it."""
    problems = []
    storage = config.storage
    if storage.tier != "frames" and "num_frames" in storage.model_fields_set:
        text = f"only the tier 'frames' has this key, not '{storage.tier}': leave it out, or write `tier: frames`"
        problems.append(problem("storage.num_frames", text))
    for variant, kind in used_guides(config):
        lines = guides.get(kind).problems(guides.GuideSettings(backends=config.backends, variant=variant))
        problems += [problem(key, text) for key, _, text in (line.partition(": ") for line in lines)]
    return problems


def used_guides(config: Config) -> list[tuple[str, str]]:
    """The guides of the perturbations of videos that a configuration lists, each after its suite's variant."""
    return [
        (wanted.variant, kind)
        for suite, wanted in config.suites.items()
        if suite in suite_registry.suites() and wanted.variant in suite_registry.suite(suite).variants
        for kind in dict.fromkeys(
            entry.in_variant(wanted.variant).guide
            for entry in suite_registry.perturbations(suite, "video")
            if wanted.perturbations == "all" or entry.name in wanted.perturbations
        )
        if kind
    ]
