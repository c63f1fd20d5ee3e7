"""What a mistyped key or value may have meant, and which keys there are: from the configuration's own schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from perturbations.errors import cut, nearest

Schema = Mapping[str, Any]
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


def quoted(expected: str) -> list[str]:
    """The values that a message of pydantic lists: 'video', 'frames' or 'recipe'."""
    return re.findall(r"'([^']*)'", expected)


def known_keys(schema: Schema, location: Sequence[object]) -> list[str]:
    """The keys that an object of the configuration may have; `location` is pydantic's, with its tags of unions."""
    parts = [str(part) for part in location]
    keys: dict[str, None] = {}
    for node in _nodes(schema, schema, parts):
        keys.update(dict.fromkeys(node.get("properties", {})))
    return list(keys)


def listed(keys: Sequence[str]) -> str:
    """`; known: a, b`, or nothing where there are none."""
    return f"; known: {cut(', '.join(keys), 1000)}" if keys else ""


def _nodes(root: Schema, node: Schema, parts: Sequence[str]) -> Iterator[Schema]:
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


def _tagged(node: Schema, alternatives: Sequence[Schema], part: str) -> Schema | None:
    """The alternative of a union that a part of pydantic's location names: by its tag, or by its type's name."""
    mapping = node.get("discriminator", {}).get("mapping", {})
    if part in mapping:
        return {"$ref": mapping[part]}
    return next((entry for entry in alternatives if entry.get("$ref", "").rpartition("/")[2] == part), None)
