"""Values of `snakemake --config`: within braces and brackets Snakemake reads numbers, true and null as texts.

`--config 'evaluation={steps: 2}'` gives the text "2". Such a text is taken for what it is in a file, unless a text is
expected.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from perturbations.config.places import COMMAND_LINE, Key, Places
from perturbations.config.problems import key_of

if TYPE_CHECKING:
    from pydantic import ValidationError

_PLAIN = re.compile(r"[-+.\w~]{1,100}", re.ASCII)
"""What may be a number, a truth value, or null."""


def typed(raw: Any, places: Places, key: Key = ()) -> Any:
    """A configuration whose values of the command line have the types that they have in a file; `raw` is kept."""
    if isinstance(raw, dict):
        return {name: typed(value, places, (*key, str(name))) for name, value in raw.items()}
    if isinstance(raw, list):
        return [typed(value, places, (*key, str(index))) for index, value in enumerate(raw)]
    return _scalar(raw) if _is_within(key, places) else raw


def with_texts(changed: Any, raw: Any, error: ValidationError) -> Any:
    """`changed` with the texts of `raw` again where `error` says that a text is expected."""
    for item in error.errors(include_url=False):
        if item["type"] in _TEXTS:
            _restore(changed, raw, key_of(item))
    return changed


_TEXTS = ("string_type", "path_type", "literal_error")


def _is_within(key: Key, places: Places) -> bool:
    """Whether a value stands on the command line, and not at the top, whose types Snakemake tells."""
    place = places.by_key.get(key)
    return (len(key) > 1 or places.is_part) and place is not None and place.source == COMMAND_LINE


def _scalar(value: object) -> object:
    if not isinstance(value, str) or not _PLAIN.fullmatch(value):
        return value
    try:
        read = yaml.safe_load(value)
    except (ValueError, yaml.YAMLError):
        return value
    return read if read is None or isinstance(read, bool | int | float) else value


def _restore(changed: Any, raw: Any, key: Key) -> None:
    for part in key[:-1]:
        changed, raw = _member(changed, part), _member(raw, part)
    if isinstance(changed, dict) and isinstance(raw, dict):
        for name in [name for name in changed if str(name) == key[-1]]:
            changed[name] = raw[name]
    elif isinstance(changed, list) and isinstance(raw, list) and key[-1].isdecimal() and int(key[-1]) < len(changed):
        changed[int(key[-1])] = raw[int(key[-1])]


def _member(held: Any, part: str) -> Any:
    if isinstance(held, dict):
        return next((value for name, value in held.items() if str(name) == part), None)
    return held[int(part)] if isinstance(held, list) and part.isdecimal() and int(part) < len(held) else None
