"""What is wrong with a configuration, one line per mistake, each with its place, its key and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perturbations.base.errors import ConfigError, cut, did_you_mean, short
from perturbations.config.line_numbers import NOWHERE, Key, LinesOfKeys, prefix
from perturbations.config.pruned import key_of, value_at
from perturbations.datasets import adapter_registry as datasets
from perturbations.datasets.adapter_registry import Dataset
from perturbations.manifest import manifest_paths
from perturbations.models.guides import guide_registry as guides
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import ParameterValue

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
    hint = "; write all, not [all]" if value == "all" else elsewhere or did_you_mean(value, names)
    return f"{what} {short(value)}; known: {', '.join(names) or 'none'}{hint}"


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


def of_datasets(config: Config) -> list[Problem]:
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


def of_suites(suites: Mapping[str, SuiteSection]) -> list[Problem]:
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
        problems += _of_suite(key, wanted, [entry.in_variant(variant) for entry in suite.perturbations])
    return problems


def _of_suite(key: Key, wanted: SuiteSection, entries: Sequence[suite_registry.Perturbation]) -> list[Problem]:
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
    problems: list[Problem] = []
    for index, name in enumerate(names):
        if name not in known:
            elsewhere = "" if name.rpartition("/")[2] in known else another_kind(name)  # not of `mlvp/fog`
            problems.append(((*key, str(index)), unknown(name, known, elsewhere=elsewhere)))
    return problems


def _of_parameters(
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
    """Problems of what is kept of `values`, without those that follow from others, which are `told`.

    Such as a name that is wrong where it is given.
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
    hint = did_you_mean(name, names) or (another_kind(name) if what == "suites" else "")
    return f"{short(name)} is not among `{what}`: {', '.join(names)}{hint}"


def of_backends(config: Config) -> list[Problem]:
    """What a guide says that its backends lack, and a number of frames for a tier that stores none or all."""
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


_ROLES_BY_BACKEND = {"embedding", "main_object", "style"}
_SETTINGS = {adapter.settings.__name__ for adapter in datasets.adapters().values()} | {Dataset.__name__}


def wants_text(error: ValidationError) -> set[Key]:
    """The keys of values that are no texts and should be."""
    items = error.errors(include_url=False)
    return {_key_of(item) for item in items if item["type"] in ("string_type", "path_type")}


_SYNONYMS = {"backbone": "model", "pretrained": "model"}
"""What others call a key -> its name."""


def of_types(error: ValidationError, schema: _Schema) -> list[Problem]:
    """What pydantic finds wrong, one problem per key; `schema` is that of the configuration."""
    # A list whose items are wrong is also reported as too short.
    errors = [item for item in error.errors(include_url=False) if item["type"] != "too_short" or not item["input"]]
    by_key: dict[Key, list[ErrorDetails]] = {}
    for item in errors:
        by_key.setdefault(_key_of(item), []).append(item)
    listed: set[Key] = set()
    problems = []
    for key, items in by_key.items():
        if items[0]["type"] == "literal_error" and any(other[:-1] == key for other in by_key):
            continue  # it is a list, whose members are wrong
        if items[0]["type"] == "extra_forbidden":
            keys = _known_keys(_nodes(schema, _parts(items[0])[:-1]), schema)
            known = "" if key[:-1] in listed else f"; known: {cut(', '.join(keys), 1000)}"  # once per object
            listed.add(key[:-1])
            elsewhere = another_kind(key[-1]) if len(key) == 1 else ""
            hint = did_you_mean(_SYNONYMS.get(key[-1], key[-1]), keys) or elsewhere
            problems.append((key, f"unknown key{known}{hint}"))
        else:
            problems.append((key, _told(items, schema)))
    return problems


def _parts(item: ErrorDetails) -> list[str]:
    """pydantic's location of an error, with its tags of unions."""
    return [str(part) for part in item["loc"]]


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


def _told(items: Sequence[ErrorDetails], schema: _Schema) -> str:
    """What the errors of one value mean: what is allowed, what is given, and what may have been meant."""
    # Where a severity is missing, its parameters are no severities, and their values no parameters.
    items = [item for item in items if item["loc"][-1:] == ("[key]",)] or items
    kind, value = items[0]["type"], items[0]["input"]
    nodes = _nodes(schema, _parts(items[0]))
    if kind in ("missing", "union_tag_not_found"):
        described = [node["description"] for node in nodes if "description" in node]
        form = _FORMS.get(str(items[0]["loc"][-1]) if kind == "missing" else "adapter", "")
        return "is missing" + (f"; it says {described[0]}" if described else "") + form
    if own := [str(item["ctx"]["error"]) for item in items if item["type"] == "value_error"]:
        return "; or: ".join(dict.fromkeys(own))
    if kind == "union_tag_invalid":
        value = items[0]["ctx"]["tag"]
    choices = [choice for item in items for choice in _choices_of(item)]
    allowed = [_in_words([repr(choice) for choice in choices])] if choices else []
    allowed += [words for item in items if not _choices_of(item) and (words := _allowed(item, schema))]
    text = f"must be {' or '.join(dict.fromkeys(allowed))}"
    if value is None:
        return f"{text}; the key has no value"
    if isinstance(value, bool):
        hint = "; YAML reads yes, no, on and off as true and false: a text of these letters has quotes"
        return f"{text}, not {str(value).lower()}{'' if kind.startswith('int') else hint}"
    text += f", not {short(value)}"
    return text + (_meant(items[0], value, choices, schema) if isinstance(value, str) else "")


def _choices_of(item: ErrorDetails) -> list[str]:
    """The words that a value may be, as pydantic lists them."""
    context = item.get("ctx", {})
    return re.findall(r"'([^']*)'", str(context.get("expected") or context.get("expected_tags") or ""))


def _in_words(names: Sequence[str]) -> str:
    """Names as a sentence lists them: `a, b or c`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _meant(item: ErrorDetails, value: str, choices: Sequence[str], schema: _Schema) -> str:
    """The choice that a text may have meant, or the key beside it that has this choice."""
    if hint := did_you_mean(value, choices):
        return hint
    around = [members for node in _nodes(schema, _parts(item)[:-1]) for members in _objects(schema, node)]
    keys = [key for node in around for key, member in node["properties"].items() if value in member.get("enum", ())]
    return f"; {short(value)} is of the key `{keys[0]}`" if keys and choices else ""


_FORMS = {
    "datasets": ", as in `datasets: {mine: {adapter: folder, annotations: captions.csv, videos: clips}}`",
    "suites": ", as in `suites: {mlvp: {perturbations: [fog]}}`",
    "adapter": ", as in `adapter: folder`",
}
"""How keys are written that have no default."""

_PATTERNS = {
    f"^{manifest_paths.NAME}$": "a name of lower-case letters, digits and _ that begins with a letter",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "a name of letters, digits, dots, _ and - that begins with a letter or digit",
}


def _allowed(item: ErrorDetails, schema: _Schema) -> str:
    """What a value must be, in plain words and with an example that is made of the given one."""
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    if kind.startswith(("int", "float", "greater", "less", "finite")):
        return _number(item, _nodes(schema, _parts(item)))
    if kind in ("tuple_type", "list_type"):
        members = [
            choice for node in _nodes(schema, _parts(item)) for _, choice in _choices(schema, node.get("items", {}))
        ]
        whole = any(member.get("type") == "integer" for member in members)
        fits = isinstance(value, int) if whole else isinstance(value, str)
        return f"a list: [{value}]" if fits else "a list of whole numbers, such as [1, 3]" if whole else "a list"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        keys = _known_keys(_nodes(schema, _parts(item)), schema)
        form = _FORMS.get(str(item["loc"][-1]), "") if len(item["loc"]) == 1 else ""
        return "a mapping of keys to values" + (f" ({cut(', '.join(keys))})" if keys else form)
    if kind == "string_type":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"a text, with quotes: '{cut(str(value))}'" if number else "a text"
    if kind == "string_pattern_mismatch":
        proper = manifest_paths.proper_name(str(value))
        words = _PATTERNS.get(context["pattern"], f"a text of the form {context['pattern']}")
        return words + (f": {cut(proper)}" if proper else "")
    lengths = {
        "string_too_short": "a text that is not empty",
        "string_too_long": f"a text of at most {context.get('max_length')} letters",
        "too_short": "a list of at least one" if isinstance(value, list) else "a mapping of at least one name",
        "too_long": f"a list of at most {context.get('max_length')}",
        "path_type": "one path, such as a.csv",
        **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    }
    return lengths.get(kind) or cut(item["msg"].removeprefix("Input should be "))


def _number(item: ErrorDetails, nodes: Sequence[_Schema]) -> str:
    """The numbers that a value may be."""
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    bounds = {name: node[name] for node in nodes for name in ("minimum", "maximum") if name in node}
    low, high = bounds.get("minimum", context.get("ge")), bounds.get("maximum", context.get("le"))
    is_severity = item["loc"][-1:] == ("[key]",)  # the schema says nothing of keys
    low = 1 if is_severity else low
    whole = is_severity or kind.startswith("int") or any(node.get("type") == "integer" for node in nodes)
    words = "a severity, a whole number" if is_severity else "a whole number" if whole else "a number"
    if low is not None and high is not None:
        words += f" from {low} to {high}"
    elif low is not None or high is not None:
        words += f" of at least {low}" if high is None else f" of at most {high}"
    written = isinstance(value, str) and re.fullmatch(r"\s*[-+]?[0-9]+\s*", value)
    return f"{words}, without quotes: {value.strip()}" if written else words


# --- the schema -------------------------------------------------------------------------------------------------------


def _nodes(schema: _Schema, location: Sequence[str]) -> list[_Schema]:
    """The parts of the schema that describe a value; `location` is pydantic's, with its tags of unions."""
    nodes: list[_Schema] = [schema]
    for part in location:
        if part == "[key]" or part.startswith(("literal[", "tuple[")):  # the schema has no such parts
            continue
        choices = [choice for node in nodes for choice in _choices(schema, node)]
        named = [node for names, node in choices if part in names]
        nodes = named or [inner for _, node in choices if (inner := _member(node, part))] or nodes
    return [choice for node in nodes for _, choice in _choices(schema, node)] or nodes


def _objects(schema: _Schema, node: _Schema) -> Iterator[_Schema]:
    yield from (choice for _, choice in _choices(schema, node) if "properties" in choice)


def _known_keys(nodes: Iterable[_Schema], schema: _Schema) -> list[str]:
    """The keys that an object of the configuration may have."""
    return list(dict.fromkeys(key for outer in nodes for node in _objects(schema, outer) for key in node["properties"]))


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
