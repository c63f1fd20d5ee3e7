"""What is wrong with a configuration, one line per mistake, each with its place, its key and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perturbations.base.errors import ConfigError, cut, did_you_mean, short
from perturbations.config.line_numbers import COMMAND_LINE, NOWHERE, Key, LineOfKey, LinesOfKeys
from perturbations.datasets import registry as datasets
from perturbations.datasets.registry import Dataset
from perturbations.guides import registry as guides
from perturbations.manifest import layout
from perturbations.suites import registry
from perturbations.suites.registry import ParameterValue

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from perturbations.config.sections import Config, SuiteSection


_Schema = Mapping[str, Any]
"""A part of a JSON schema."""


@dataclass(frozen=True)
class Problem:
    """A mistake: the path of its key from the top of the configuration, and what is wrong there."""

    key: Key
    text: str
    inner: Key = ()  # the rest of the path, of a member of the key's value that is wrong: where the line is looked for

    def __str__(self) -> str:
        return f"{'.'.join(cut(part, 80) for part in self.key) or '(top level)'}: {self.text}"


def problem(key: str, text: str) -> Problem:
    """A mistake at a key without unusual names in its path: `suites.mlvp.draw`."""
    return Problem(tuple(key.split(".")), text)


def raise_all(
    problems: Iterable[Problem], what: str = "config.yaml is not valid", places: LinesOfKeys = NOWHERE
) -> None:
    """Raise `ConfigError` with one line per problem, each once, in the order of the files' lines; nothing without any.

    What is written nowhere, as a missing key at the top, comes first.
    """
    placed = [(places.of(problem.key + problem.inner), problem) for problem in problems]
    placed.sort(key=lambda pair: pair[0] or LineOfKey(-1, 0, ""))
    lines = list(dict.fromkeys(f"{place}: {problem}" if place else str(problem) for place, problem in placed))
    if lines:
        raise ConfigError(f"{what}:\n" + "\n".join(f"  {line}" for line in lines)) from None


def unknown(value: str, known: Iterable[str], what: str = "unknown") -> str:
    """The message about a name that is not among the known ones, with the nearest of them."""
    names = list(known)
    hint = "; `all` stands without brackets" if value == "all" else did_you_mean(value, names)
    return f"{what} {short(value)}; known: {', '.join(names) or 'none'}{hint}"


def of_datasets(config: Config) -> list[Problem]:
    """Names that are taken, paths that an adapter needs or does not take, and donors that there are not."""
    problems = []
    for name, dataset in config.datasets.items():
        if dataset.donors is not None and dataset.donors not in config.datasets:
            text = unknown(dataset.donors, config.datasets, "unknown dataset")
            problems.append(Problem(("datasets", name, "donors"), text))
        if name in layout.RESERVED:
            text = "the name is taken by a folder of the workflow; choose another"
            problems.append(Problem(("datasets", name), text))
        adapter = datasets.get(dataset.adapter)
        for key in adapter.needs:
            if getattr(dataset, key) is None:
                problems.append(Problem(("datasets", name, key), f"the adapter '{dataset.adapter}' needs it"))
        for key in _OF_SOME_ADAPTERS:
            given = key in dataset.model_fields_set and getattr(dataset, key) is not None
            if given and key not in adapter.takes:
                having = ", ".join(other.name for other in datasets.adapters().values() if key in other.takes)
                problems.append(Problem(("datasets", name, key), f"for the adapters {having}, not '{dataset.adapter}'"))
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
            problems.append(Problem(key, text))
            continue
        suite = registry.suite(name)
        if wanted.draw is not None and not suite.draws_by_choice:
            choosing = ", ".join(name for name, other in registry.suites().items() if other.draws_by_choice)
            problems.append(Problem((*key, "draw"), f"the paper says what is drawn; a choice for: {choosing}"))
        variant = wanted.variant or suite.variants[0]
        if variant not in suite.variants:
            allowed = " or ".join(f"'{name}'" for name in suite.variants)
            text = f"must be {allowed}, not {short(wanted.variant)}{did_you_mean(variant, suite.variants)}"
            problems.append(Problem((*key, "variant"), text))
            continue
        problems += _of_suite(key, wanted, [entry.in_variant(variant) for entry in suite.perturbations])
    return problems


def _of_suite(key: Key, wanted: SuiteSection, entries: Sequence[registry.Perturbation]) -> list[Problem]:
    known = {entry.name: entry for entry in entries if entry.kind == "video"}
    problems = _unknown_names((*key, "perturbations"), wanted.perturbations, known)
    problems += _of_parameters((*key, "parameters"), wanted.parameters, known, wanted.perturbations)
    texts = {entry.name: entry for entry in entries if entry.kind == "text"}
    captions, key = wanted.captions, (*key, "captions")
    problems += _unknown_names((*key, "perturbations"), captions.perturbations, texts)
    return problems + _of_parameters((*key, "parameters"), captions.parameters, texts, captions.perturbations)


def _unknown_names(key: Key, wanted: str | Sequence[str], known: Iterable[str]) -> list[Problem]:
    names = [] if isinstance(wanted, str) else list(wanted)
    known = list(known)
    return [Problem(key, unknown(name, known), (str(index),)) for index, name in enumerate(names) if name not in known]


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
            problems.append(Problem(key, unknown(name, known), (name,)))
            continue
        if selected != "all" and name not in selected and known.keys() >= set(selected):
            text = f"not made: `perturbations` lists {cut(', '.join(selected)) or 'nothing'}; add it, or leave this out"
            problems.append(Problem(own, text))
        for severity, values in by_severity.items():
            if severity not in known[name].severities:
                has = list(known[name].severities)
                problems.append(Problem(own, f"no severity {severity}; it has {has}", (str(severity),)))
                continue
            complete = {**known[name].parameters(severity), **values}
            for line in registry.parameter_problems(known[name], complete):
                parameter, _, text = line.partition(": ")
                known_parameter = parameter in known[name].bounds
                hint = "" if known_parameter else did_you_mean(parameter, known[name].bounds)
                problems.append(Problem((*own, str(severity), parameter), text + hint))
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
        Problem((section, key), not_among(name, "suites", known), (str(index),))
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


def of_types(error: ValidationError, schema: _Schema, places: LinesOfKeys) -> list[Problem]:
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
            text += _belongs(schema, key) or did_you_mean(key[-1], keys)
        elif item["type"] in _NO_MAPPING and key:
            text += _belongs(schema, key)
        elif len(key) > 1 and isinstance(item["input"], str) and getattr(places.of(key), "source", "") == COMMAND_LINE:
            text += "; within braces, --config gives texts: write it into a file, and name that with --configfile"
        texts.setdefault(key, []).append(text)
    return [Problem(key, "; or: ".join(dict.fromkeys(lines))) for key, lines in texts.items()]


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


_NO_MAPPING = ("model_type", "dict_type", "model_attributes_type")
_WORDS = {
    "extra_forbidden": "unknown key",
    "missing": "is missing",
    "union_tag_not_found": "is missing",
    **dict.fromkeys(_NO_MAPPING, "must be a mapping of keys to values"),
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


def _belongs(schema: _Schema, key: Key) -> str:
    """Where a key belongs that stands a level too high or too low, as the end of a message; "" where it may stand."""
    *around, name = key
    paths = [path for path in dict.fromkeys(_paths(schema, schema)) if path[-1] == name and _matches(path[:-1], around)]
    if name in registry.suites():
        paths = [("suites", name)]
    elif key[0] == "suites" and len(key) == 3 and key[1] in registry.suites() and name in _names(key[1]):
        paths = [(*around, "perturbations")]
    if not paths or any(len(path) == len(key) and _matches(path, key) for path in paths):
        return ""
    nearest = [
        ".".join(key[at] if part == _ANY and at < len(around) else part for at, part in enumerate(path))
        for path in sorted(paths, key=len)[:3]
    ]
    top = " at the top of the file" if len(paths[0]) == 1 else ""
    return f"; it belongs to {' or '.join(nearest)}{top}"


def _names(suite: str) -> set[str]:
    return {entry.name for entry in registry.suite(suite).perturbations}


_ANY = "<name>"
"""In a path of keys, a name that the user chooses."""


def _matches(path: Sequence[str], key: Sequence[str]) -> bool:
    """Whether one of them leads to the other, or they are the same."""
    return all(part in (_ANY, name) for part, name in zip(path, key, strict=False))


def _paths(root: _Schema, node: _Schema, around: Key = ()) -> Iterator[Key]:
    """The path of every key that a configuration may have."""
    for _, choice in _choices(root, node):
        named = [*choice.get("patternProperties", {}).values(), choice.get("additionalProperties")]
        for name, inner in (*choice.get("properties", {}).items(), *((_ANY, value) for value in named)):
            if isinstance(inner, Mapping):
                yield (*around, name)
                yield from _paths(root, inner, (*around, name))


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
