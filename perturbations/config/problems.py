"""What is wrong with a configuration, one line per mistake, each with its place, its key and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perturbations.base.errors import ConfigError, cut, did_you_mean, short
from perturbations.config.line_numbers import NOWHERE, Key, LinesOfKeys, prefix
from perturbations.datasets import registry as datasets
from perturbations.datasets.registry import Dataset
from perturbations.manifest import layout
from perturbations.models.guides import registry as guides
from perturbations.suites import registry
from perturbations.suites.registry import ParameterValue

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from perturbations.config.sections import Config, SuiteSection


_Schema = Mapping[str, Any]
"""A part of a JSON schema."""


Problem = tuple[Key, str]
"""A mistake: the path of its key from the top of the configuration, and what is wrong there."""


def problem(key: str, text: str) -> Problem:
    """A mistake at a key without unusual names in its path: `suites.mlvp.draw`."""
    return tuple(key.split(".")), text


def raise_all(
    problems: Iterable[Problem], what: str = "config.yaml is not valid", places: LinesOfKeys = NOWHERE
) -> None:
    """Raise `ConfigError` with one line per problem, each once, in the order of the files' lines; nothing without any.

    What is written nowhere, as a missing key at the top, comes first.
    """
    placed = sorted(((places.of(key), key, text) for key, text in problems), key=lambda line: line[0])
    named = ((place, ".".join(cut(part, 80) for part in key) or "(top level)", text) for place, key, text in placed)
    if lines := list(dict.fromkeys(f"{prefix(place)}{key}: {text}" for place, key, text in named)):
        raise ConfigError(f"{what}:\n" + "\n".join(f"  {line}" for line in lines)) from None


def unknown(value: str, known: Iterable[str], what: str = "unknown") -> str:
    """The message about a name that is not among the known ones, with the nearest of them."""
    names = list(known)
    hint = "; `all` stands without brackets" if value == "all" else did_you_mean(value, names)
    return f"{what} {short(value)}; known: {', '.join(names) or 'none'}{hint}"


def of_datasets(config: Config) -> list[Problem]:
    """Names that are taken, paths that an adapter needs or does not take, and donors that there are not."""
    problems: list[Problem] = []
    for name, dataset in config.datasets.items():
        if dataset.donors is not None and dataset.donors not in config.datasets:
            text = unknown(dataset.donors, config.datasets, "unknown dataset")
            problems.append((("datasets", name, "donors"), text))
        if name in layout.RESERVED:
            text = "the name is taken by a folder of the workflow; choose another"
            problems.append((("datasets", name), text))
        adapter = datasets.get(dataset.adapter)
        for key in adapter.needs:
            if getattr(dataset, key) is None:
                problems.append((("datasets", name, key), f"the adapter '{dataset.adapter}' needs it"))
        for key in _OF_SOME_ADAPTERS:
            given = key in dataset.model_fields_set and getattr(dataset, key) is not None
            if given and key not in adapter.takes:
                having = ", ".join(other.name for other in datasets.adapters().values() if key in other.takes)
                problems.append((("datasets", name, key), f"for the adapters {having}, not '{dataset.adapter}'"))
    return problems


_OF_SOME_ADAPTERS = ("ids", "columns", "captions", "clips")
"""Keys that only the adapters read which take them."""


def of_suites(suites: Mapping[str, SuiteSection]) -> list[Problem]:
    """Suites, perturbations, severities and parameters that there are not, and numbers out of their bounds."""
    problems: list[Problem] = []
    for name, wanted in suites.items():
        key = ("suites", name)
        if name not in registry.suites():
            known = list(registry.suites())
            text = f"unknown suite; known: {', '.join(known)}{did_you_mean(name, known)}"
            problems.append((key, text))
            continue
        suite = registry.suite(name)
        if wanted.draw is not None and not suite.draws_by_choice:
            choosing = ", ".join(name for name, other in registry.suites().items() if other.draws_by_choice)
            problems.append(((*key, "draw"), f"the paper says what is drawn; a choice for: {choosing}"))
        variant = wanted.variant or suite.variants[0]
        if variant not in suite.variants:
            allowed = " or ".join(f"'{name}'" for name in suite.variants)
            text = f"must be {allowed}, not {short(wanted.variant)}{did_you_mean(variant, suite.variants)}"
            problems.append(((*key, "variant"), text))
            continue
        problems += _of_suite(key, wanted, [entry.in_variant(variant) for entry in suite.perturbations])
    return problems


def _of_suite(key: Key, wanted: SuiteSection, entries: Sequence[registry.Perturbation]) -> list[Problem]:
    known = {entry.name: entry for entry in entries if entry.kind == "video"}
    problems = _unknown_names((*key, "perturbations"), wanted.perturbations, known, "video")
    problems += _of_parameters((*key, "parameters"), wanted.parameters, known, wanted.perturbations)
    texts = {entry.name: entry for entry in entries if entry.kind == "text"}
    captions, key = wanted.captions, (*key, "captions")
    problems += _unknown_names((*key, "perturbations"), captions.perturbations, texts, "text")
    return problems + _of_parameters((*key, "parameters"), captions.parameters, texts, captions.perturbations)


def _unknown_names(key: Key, wanted: str | Sequence[str], known: Iterable[str], kind: registry.Medium) -> list[Problem]:
    names = [] if isinstance(wanted, str) else list(wanted)
    known = list(known)
    problems: list[Problem] = []
    for index, name in enumerate(names):
        if name not in known:
            having = [entry.suite for entry in registry.perturbations(None, kind) if entry.name == name]
            hint = f"; it is a perturbation of {' and '.join(having)}" if having else ""
            problems.append(((*key, str(index)), unknown(name, known) + hint))
    return problems


def _of_parameters(
    key: Key,
    replaced: Mapping[str, Mapping[int, Mapping[str, ParameterValue]]],
    known: Mapping[str, registry.Perturbation],
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
                problems.append(((*own, str(severity)), f"no severity {severity}; it has {has}"))
                continue
            complete = {**known[name].parameters(severity), **values}
            for line in registry.parameter_problems(known[name], complete):
                parameter, _, text = line.partition(": ")
                known_parameter = parameter in known[name].bounds
                hint = "" if known_parameter else did_you_mean(parameter, known[name].bounds)
                problems.append(((*own, str(severity), parameter), text + hint))
    return problems


def is_known(suite: str, config: Config) -> bool:
    """Whether a suite is configured, and there."""
    return suite in config.suites and suite in registry.suites()


def not_configured(
    section: str, suites: Mapping[str, Sequence[str] | None], configured: Iterable[str]
) -> list[Problem]:
    """The names that a section's keys list and that are not among the configured suites."""
    known = list(configured)
    return [
        ((section, key, str(index)), not_among(name, "suites", known))
        for key, names in suites.items()
        for index, name in enumerate(names or ())
        if name not in known
    ]


def not_among(name: str, what: str, known: Iterable[str]) -> str:
    """That a name is not among the known ones, and which of them may have been meant."""
    names = list(known)
    return f"{short(name)} is not among `{what}`: {', '.join(names)}{did_you_mean(name, names)}"


def of_backends(config: Config) -> list[Problem]:
    """What a guide says that its backends lack, and a number of frames for a tier that stores none or all."""
    problems = []
    storage = config.storage
    if storage.tier != "frames" and "num_frames" in storage.model_fields_set:
        problems.append(problem("storage.num_frames", f"for the tier 'frames', not '{storage.tier}'"))
    for variant, kind in used_guides(config):
        lines = guides.get(kind).problems(config.backends.guide_settings(variant=variant))
        problems += [problem(key, text) for key, _, text in (line.partition(": ") for line in lines)]
    return problems


def used_guides(config: Config) -> list[tuple[str, str]]:
    """The guides of the perturbations of videos that a configuration lists, each after its suite's variant."""
    return [
        (wanted.variant, kind)
        for suite, wanted in config.suites.items()
        if suite in registry.suites() and wanted.variant in registry.suite(suite).variants
        for kind in dict.fromkeys(
            entry.in_variant(wanted.variant).guide
            for entry in registry.perturbations(suite, "video")
            if wanted.perturbations == "all" or entry.name in wanted.perturbations
        )
        if kind
    ]


_ROLES_BY_BACKEND = {"embedding", "main_object", "style"}
_SETTINGS = {adapter.settings.__name__ for adapter in datasets.adapters().values()} | {Dataset.__name__}


def of_types(error: ValidationError, schema: _Schema) -> list[Problem]:
    """What pydantic finds wrong, one problem per key; `schema` is that of the configuration."""
    # A list whose items are wrong is also reported as too short.
    errors = [item for item in error.errors(include_url=False) if item["type"] != "too_short" or not item["input"]]
    texts: dict[Key, list[str]] = {}
    listed: set[Key] = set()
    for item in errors:
        key = _key_of(item)
        text = _explained(item)
        if item["type"] == "extra_forbidden":
            keys = _known_keys(schema, [str(part) for part in item["loc"][:-1]])
            if key[:-1] not in listed:  # once per object
                text += f"; known: {cut(', '.join(keys), 1000)}"
                listed.add(key[:-1])
            text += did_you_mean(key[-1], keys)
        texts.setdefault(key, []).append(text)
    return [(key, "; or: ".join(dict.fromkeys(lines))) for key, lines in texts.items()]


def _key_of(item: ErrorDetails) -> Key:
    """The key of a pydantic error, as the file has it."""
    # pydantic puts the discriminator's value and the literal's alternatives into the path; the file has no such keys
    location = list(item["loc"])
    unknown_tag = item["type"].startswith("union_tag")
    if location[:1] == ["datasets"] and len(location) > 2 and location[2] in _SETTINGS:
        del location[2]
    if location[:1] == ["backends"] and len(location) > 1 and location[1] in _ROLES_BY_BACKEND:
        location[2:3] = ["backend"] if unknown_tag else []
    return tuple(str(part) for part in location if part != "[key]" and not str(part).startswith(("tuple[", "literal[")))


_WORDS = {
    "extra_forbidden": "unknown key",
    "missing": "is missing",
    "union_tag_not_found": "is missing",
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "must be a mapping of keys to values"),
    "too_short": "must list at least one",
    "tuple_type": "must be a list, such as [1, 2]",
    "path_type": "must be a path, which is a text",
}
"""What pydantic's errors are called here: its own words name types of Python."""


def _explained(item: ErrorDetails) -> str:
    """What a pydantic error means: what is allowed, what is given, and what may have been meant."""
    kind, value = item["type"], item["input"]
    if kind in ("extra_forbidden", "missing", "union_tag_not_found"):
        return _WORDS[kind]
    if kind == "value_error":
        return str(item["ctx"]["error"])
    allowed = str(item.get("ctx", {}).get("expected") or item.get("ctx", {}).get("expected_tags") or "")
    if kind == "union_tag_invalid":
        value = item["ctx"]["tag"]
    text = _WORDS.get(kind) or (f"must be {allowed}" if allowed else cut(item["msg"]))
    text = f"{text}, not {short(value)}"
    if value is None:
        return f"{text}; the key has no value"
    if isinstance(value, bool):
        return f"{text}; YAML reads yes, no, on and off as true and false: a text of these letters has quotes"
    return text + (did_you_mean(value, re.findall(r"'([^']*)'", allowed)) if isinstance(value, str) else "")


def _known_keys(schema: _Schema, location: Sequence[str]) -> list[str]:
    """The keys that an object of the configuration may have; `location` is pydantic's, with its tags of unions."""
    nodes: list[_Schema] = [schema]
    for part in location:
        choices = [choice for node in nodes for choice in _choices(schema, node)]
        named = [node for names, node in choices if part in names]
        nodes = named or [inner for _, node in choices if (inner := _member(node, part))]
    objects = (node for outer in nodes for _, node in _choices(schema, outer))
    return list(dict.fromkeys(key for node in objects for key in node.get("properties", ())))


def _choices(root: _Schema, node: _Schema) -> Iterator[tuple[set[str], _Schema]]:
    """What a value may be, where its types are several: each with the names that pydantic's location has for it."""
    tags = {reference: tag for tag, reference in node.get("discriminator", {}).get("mapping", {}).items()}
    for choice in node.get("anyOf") or node.get("oneOf") or [node]:
        reference = choice.get("$ref", "")
        name = reference.rpartition("/")[2]
        yield {tags.get(reference, name), name}, root["$defs"][name] if name else choice


def _member(node: _Schema, part: str) -> _Schema | None:
    members = [node.get("properties", {}).get(part), *node.get("patternProperties", {}).values()]
    members += [node.get("additionalProperties"), node.get("items")]
    return next((member for member in members if isinstance(member, Mapping)), None)
