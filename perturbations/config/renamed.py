"""Keys that earlier versions called otherwise: they are still read, and named once at the start of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from perturbations.config.line_numbers import Key, LinesOfKeys
from perturbations.config.problems import Problem

_RENAMED: dict[Key, str] = {
    ("max_quarantine",): "max_failed_items",
    ("datasets", "*", "max_quarantine"): "max_failed_items",
    ("stall_limit_s",): "timeout_s",
}
"""The path of an old key, `*` for any name -> its new name."""


def with_new_names(raw: Any, places: LinesOfKeys) -> tuple[Any, LinesOfKeys, list[Problem], str]:
    """A configuration and its lines with today's keys, old keys beside their new ones as mistakes, and a message.

    The message names all old keys, and is empty without any. The given mapping stays as it is.
    """
    mistakes, lines = [], []
    for old, name in [(old, name) for path, name in _RENAMED.items() for old in _written(raw, path)]:
        new = (*old[:-1], name)
        raw, both = _moved(raw, old, name)
        if both:
            mistakes.append(Problem(old, f"the old name of `{name}`, which is given too; leave one of them out"))
            continue
        lines.append(places.before(".".join(old), f"{'.'.join(old)} is now {name}"))
        by_key = {new if key == old else key: line for key, line in places.by_key.items()}
        misread = {new if key == old else key: numbers for key, numbers in places.misread.items()}
        places = replace(places, by_key=by_key, misread=misread)
    return (
        raw,
        places,
        mistakes,
        "\n  ".join(["keys have new names; the old ones still work:", *lines]) if lines else "",
    )


def _written(raw: object, path: Key, before: Key = ()) -> Iterator[Key]:
    """The paths of a configuration that a pattern stands for."""
    if not path:
        yield before
    elif isinstance(raw, dict):
        for name in raw if path[0] == "*" else {path[0]} & raw.keys():
            yield from _written(raw[name], path[1:], (*before, name))


def _moved(raw: dict[str, Any], old: Key, name: str) -> tuple[dict[str, Any], bool]:
    """A copy in which an old key has its new name, in its place; and whether the new one is there already."""
    if len(old) > 1:
        inner, both = _moved(raw[old[0]], old[1:], name)
        return {**raw, old[0]: inner}, both
    both = name in raw
    return {name if key == old[0] else key: value for key, value in raw.items() if not (both and key == old[0])}, both
