"""What pydantic finds wrong with the types of a configuration's values, in words: what is allowed, given and meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from perturbations.base import plugins
from perturbations.base.errors import cut, did_you_mean, short
from perturbations.config.line_numbers import Key
from perturbations.config.problems import Problem, another_kind
from perturbations.config.sections import Config
from perturbations.datasets import adapter_registry as datasets
from perturbations.datasets.adapter_registry import Dataset
from perturbations.manifest import manifest_paths

_Schema = Mapping[str, Any]
"""A part of the configuration's JSON schema."""

_Location = Sequence[int | str]
"""Where pydantic has found an error: the key with the tags of unions in it."""

_ROLES_BY_BACKEND = {"embedding", "main_object", "style"}
_SETTINGS = {adapter.settings.__name__ for adapter in datasets.adapters().values()} | {Dataset.__name__}


def wants_text(error: ValidationError) -> set[Key]:
    """The keys of values that are no texts and should be."""
    items = error.errors(include_url=False)
    return {_key_of(item) for item in items if item["type"] in ("string_type", "path_type")}


_SYNONYMS = {"backbone": "model", "pretrained": "model"}
"""What others call a key -> its name."""


def problems_of_types(error: ValidationError) -> list[Problem]:
    """What pydantic finds wrong, one problem per key."""
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
            keys = _keys_at(items[0]["loc"][:-1])
            known = "" if key[:-1] in listed else f"; known: {cut(', '.join(keys), 1000)}"  # once per object
            listed.add(key[:-1])
            elsewhere = another_kind(key[-1]) if len(key) == 1 else ""
            hint = did_you_mean(_SYNONYMS.get(key[-1], key[-1]), keys) or elsewhere
            problems.append((key, f"unknown key{known}{hint}"))
        else:
            problems.append((key, _meaning(items)))
    return problems


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


def _meaning(items: Sequence[ErrorDetails]) -> str:
    """What the errors of one value mean: what is allowed, what is given, and what may have been meant."""
    # Where a severity is missing, its parameters are no severities, and their values no parameters.
    items = [item for item in items if item["loc"][-1:] == ("[key]",)] or items
    kind, value = items[0]["type"], items[0]["input"]
    if kind in ("missing", "union_tag_not_found"):
        described = [node["description"] for node in _nodes(items[0]["loc"]) if "description" in node]
        form = _FORMS.get(str(items[0]["loc"][-1]) if kind == "missing" else "adapter", "")
        return "is missing" + (f"; it says {described[0]}" if described else "") + form
    if own := [str(item["ctx"]["error"]) for item in items if item["type"] == "value_error"]:
        return "; or: ".join(dict.fromkeys(own))
    if kind == "union_tag_invalid":
        value = items[0]["ctx"]["tag"]
    choices = [choice for item in items for choice in _choices_of(item)]
    allowed = [_in_words([repr(choice) for choice in choices])] if choices else []
    allowed += [words for item in items if not _choices_of(item) and (words := _allowed(item))]
    text = f"must be {' or '.join(dict.fromkeys(allowed))}"
    if value is None:
        return f"{text}; the key has no value"
    if isinstance(value, bool):
        hint = "; YAML reads yes, no, on and off as true and false: a text of these letters has quotes"
        return f"{text}, not {str(value).lower()}{'' if kind.startswith('int') else hint}"
    text += f", not {short(value)}"
    return text + (_meant(items[0]["loc"], value, choices) if isinstance(value, str) else "")


def _choices_of(item: ErrorDetails) -> list[str]:
    """The words that a value may be, as pydantic lists them."""
    context = item.get("ctx", {})
    return re.findall(r"'([^']*)'", str(context.get("expected") or context.get("expected_tags") or ""))


def _in_words(names: Sequence[str]) -> str:
    """Names as a sentence lists them: `a, b or c`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _meant(location: _Location, value: str, choices: Sequence[str]) -> str:
    """The choice that a text may have meant, or the key beside it that has this choice."""
    if hint := did_you_mean(value, choices):
        return hint
    beside = [key for node in _nodes(location[:-1]) for key in node.get("properties", {}).items()]
    keys = [key for key, node in beside if value in node.get("enum", ())]
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


def _allowed(item: ErrorDetails) -> str:
    """What a value must be, in plain words and with an example that is made of the given one."""
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    if kind.startswith(("int", "float", "greater", "less", "finite")):
        return _number(item)
    if kind in ("tuple_type", "list_type"):
        members = [member for node in _nodes(item["loc"]) for _, member in _alternatives(node.get("items", {}))]
        whole = any(member.get("type") == "integer" for member in members)
        fits = isinstance(value, int) if whole else isinstance(value, str)
        return f"a list: [{value}]" if fits else "a list of whole numbers, such as [1, 3]" if whole else "a list"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        keys = _keys_at(item["loc"])
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


def _number(item: ErrorDetails) -> str:
    """The numbers that a value may be."""
    kind, value, context, nodes = item["type"], item["input"], item.get("ctx", {}), _nodes(item["loc"])
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


@plugins.cached
def _schema() -> _Schema:
    return Config.model_json_schema()


def _nodes(location: _Location) -> list[_Schema]:
    """The parts of the schema that describe a value, one for each of its types."""
    nodes: list[_Schema] = [_schema()]
    for part in map(str, location):
        if part == "[key]" or part.startswith(("literal[", "tuple[")):  # the schema has no such parts
            continue
        choices = [choice for node in nodes for choice in _alternatives(node)]
        named = [node for names, node in choices if part in names]
        nodes = named or [inner for _, node in choices for inner in _members(node, part)] or nodes
    return [choice for node in nodes for _, choice in _alternatives(node)]


def _keys_at(location: _Location) -> list[str]:
    """The keys that an object of the configuration may have."""
    return list(dict.fromkeys(key for node in _nodes(location) for key in node.get("properties", ())))


def _alternatives(node: _Schema) -> Iterator[tuple[set[str], _Schema]]:
    """What a value may be, where its types are several: each with the names that pydantic's location has for it."""
    tags = {reference: tag for tag, reference in node.get("discriminator", {}).get("mapping", {}).items()}
    for choice in node.get("anyOf") or node.get("oneOf") or [node]:
        reference = choice.get("$ref", "")
        name = reference.rpartition("/")[2]
        yield {tags.get(reference, name), name}, _schema()["$defs"][name] if name else choice


def _members(node: _Schema, part: str) -> list[_Schema]:
    """What describes a member of an object or a list: the first that there is."""
    members = [node.get("properties", {}).get(part), *node.get("patternProperties", {}).values()]
    members += [node.get("additionalProperties"), node.get("items")]
    return [member for member in members if isinstance(member, Mapping)][:1]
