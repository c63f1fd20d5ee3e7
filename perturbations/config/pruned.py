"""A configuration without its wrong values: what is left of it can be checked further, in the same run."""

from __future__ import annotations

from typing import Any

from perturbations.config.line_numbers import Key

_LEFT_OUT = object()
"""In place of a value that is left out, so that the members of a list keep their numbers."""

_INSTEAD: dict[Key, Any] = {("datasets",): {"demo": {"adapter": "demo"}}, ("suites",): {"mlvp": {}}}
"""What replaces the wrong value of a key that every configuration needs."""


def without_left_out(values: Any) -> Any:
    """A copy without what is left out."""
    if isinstance(values, dict):
        return {name: without_left_out(value) for name, value in values.items() if value is not _LEFT_OUT}
    if isinstance(values, list):
        return [without_left_out(value) for value in values if value is not _LEFT_OUT]
    return values


def key_of(values: Any, key: Key) -> Key:
    """The key of a value in all `values`, where `key` is that in what is kept: they differ in the numbers of a list."""
    written: list[str] = []
    for part in key:
        if isinstance(values, list) and part.isdigit():
            places = [place for place, value in enumerate(values) if value is not _LEFT_OUT]
            written.append(str(places[int(part)]))
        else:
            written.append(part)
        values = value_at(values, (written[-1],))
    return tuple(written)


def value_at(values: Any, key: Key) -> Any:
    """What is at a key; None where nothing is."""
    for part in key:
        name = _name_in(values, part)
        values = None if name is None else values[name]
    return values


def put(values: Any, key: Key, value: Any) -> None:
    """Replace what is at a key."""
    inner = value_at(values, key[:-1])
    inner[_name_in(inner, key[-1])] = value


def leave_out(values: Any, key: Key) -> bool:
    """Leave out what is at a key, or the nearest value around it where nothing is; False where nothing would stay."""
    length, inner = 0, values
    while length < len(key) and (name := _name_in(inner, key[length])) is not None:
        if inner[name] is _LEFT_OUT:
            if length + 1 < len(key):
                return True
            break
        length, inner = length + 1, inner[name]
    written = key[: max(length, 1)]
    if written in _INSTEAD and isinstance(values, dict) and values.get(written[0]) is not _INSTEAD[written]:
        values[written[0]] = _INSTEAD[written]
        return True
    if length:
        put(values, written, _LEFT_OUT)
    return length > 0 and written not in _INSTEAD


def _name_in(values: Any, part: str) -> Any:
    """The name or number by which a dict or list has what a key calls `part`; None where it has nothing."""
    if isinstance(values, dict):
        return next((name for name in values if str(name) == part), None)
    return int(part) if isinstance(values, list) and part.isdigit() and int(part) < len(values) else None
