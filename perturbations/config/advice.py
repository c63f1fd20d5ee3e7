"""What a mistyped key or value may have meant, and which keys there are: from the configuration's own schema."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from perturbations.base.errors import cut, nearest, short

_Schema = Mapping[str, Any]
"""A part of a JSON schema."""

_SYNONYMS = {"gpu": "cuda", "nvidia": "cuda", "metal": "mps", "apple": "mps", "png": "frames", "mp4": "video"}


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """`; did you mean 'fog'?`, or nothing where no known name resembles what is given."""
    if not isinstance(word, str):
        return ""
    names = list(known)
    folded = word.strip().lower().replace("-", "_").replace(" ", "_")
    near = [_SYNONYMS[folded]] if _SYNONYMS.get(folded) in names else []
    near += nearest(folded, names, most=1)
    return f"; did you mean {near[0]!r}?" if near and near[0] != word else ""


def as_list(value: str | int) -> str:
    """How a value that stands alone is written as a list: `[5]`, `[fog, snow]`; `1-5` is spelled out."""
    words = [word.strip() for word in str(value).split(",")]
    span = re.fullmatch(r"\s*([0-9])\s*(?:-|\.\.|to|:)\s*([0-9])\s*", str(value))
    if span and int(span[1]) <= int(span[2]):
        words = [str(number) for number in range(int(span[1]), int(span[2]) + 1)]
    elif value == "all":
        return "; a list names each"
    shown = ", ".join(words) if isinstance(value, int) or all(map(_PLAIN.fullmatch, words)) else short(value)
    return f"; a list has brackets: [{cut(shown)}]"


_PLAIN = re.compile(r"[A-Za-z0-9][\w/.+-]*", re.ASCII)


def as_type(kind: str, value: object) -> str:
    """How a number is written that YAML took for a text, and a text that it took for a number; else nothing."""
    if kind == "string_type" and isinstance(value, int | float) and not isinstance(value, bool):
        return "; a text that looks like a number has quotes"
    if not isinstance(value, str) or kind == "string_type":
        return ""
    return number_of(value)


def number_of(text: str) -> str:
    """How the number in a text is written, where YAML takes it for a text: 1e3 has no point; else nothing."""
    try:
        number = float(text) if len(text) < 40 else float("nan")
    except ValueError:
        return ""
    if not math.isfinite(number):
        return ""
    return f"; write {int(number) if number.is_integer() and abs(number) < 1e15 else number} without quotes"


def quoted(expected: str) -> list[str]:
    """The values that a message of pydantic lists: 'video', 'frames' or 'recipe'."""
    return re.findall(r"'([^']*)'", expected)


def known_keys(schema: _Schema, location: Sequence[object]) -> list[str]:
    """The keys that an object of the configuration may have; `location` is pydantic's, with its tags of unions."""
    parts = [str(part) for part in location]
    keys: dict[str, None] = {}
    for node in _nodes(schema, schema, parts):
        keys.update(dict.fromkeys(node.get("properties", {})))
    return list(keys)


def listed(keys: Sequence[str]) -> str:
    """`; known: a, b`, or nothing where there are none."""
    return f"; known: {cut(', '.join(keys), 1000)}" if keys else ""


def _nodes(root: _Schema, node: _Schema, parts: Sequence[str]) -> Iterator[_Schema]:
    if reference := node.get("$ref"):
        yield from _nodes(root, root["$defs"][reference.rpartition("/")[2]], parts)
        return
    alternatives = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    if parts and (chosen := _tagged(node, alternatives, parts[0])):
        yield from _nodes(root, chosen, parts[1:])
        return
    for alternative in alternatives:
        yield from _nodes(root, alternative, parts)
    if not parts:
        yield node
        return
    named = [*node.get("patternProperties", {}).values(), node.get("additionalProperties"), node.get("items")]
    inner = node.get("properties", {}).get(parts[0]) or next((value for value in named if value), None)
    if isinstance(inner, Mapping):
        yield from _nodes(root, inner, parts[1:])


def _tagged(node: _Schema, alternatives: Sequence[_Schema], part: str) -> _Schema | None:
    """The alternative of a union that a part of pydantic's location names: by its tag, or by its type's name."""
    mapping = node.get("discriminator", {}).get("mapping", {})
    if part in mapping:
        return {"$ref": mapping[part]}
    return next((entry for entry in alternatives if entry.get("$ref", "").rpartition("/")[2] == part), None)
