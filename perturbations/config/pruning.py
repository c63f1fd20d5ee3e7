"""A configuration without its values of wrong types, so that what else is wrong can be told with them."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from perturbations.base.settings import RepetitionError
from perturbations.config.places import Key
from perturbations.config.problems import OF_SOME_ADAPTERS, key_of

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_STAND_INS: dict[str, Any] = {"datasets": {"stand_in": {"adapter": "demo"}}, "suites": {"mlvp": {}}}
"""What a configuration must have."""


class Rest:
    """What is left of a configuration. `raw` is its own copy."""

    def __init__(self, raw: object) -> None:
        self.raw: dict[str, Any] = copy.deepcopy(raw) if isinstance(raw, dict) else {}
        self._left_out: set[Key] = set() if isinstance(raw, dict) else {()}

    def leave_out(self, error: ValidationError) -> None:
        """Leave out each value that pydantic refuses; what must be there is replaced."""
        errors = error.errors(include_url=False)
        repeating = {key_of(item) for item in errors if _is_repetition(item)}
        for key in repeating:  # their other members are looked at
            _remove_repetitions(self.raw, key)
        keys = {key_of(item) for item in errors} - repeating
        # The last members of a list first, so that the others keep their places.
        for key in sorted(keys, key=lambda key: [(len(part), part) for part in key], reverse=True):
            self._left_out.add(key)
            if key[:1] == ("datasets",) and key[2:] == ("adapter",):
                self._left_out |= {(*key[:2], name) for name in OF_SOME_ADAPTERS}
            while key and not _remove(self.raw, key):
                key = key[:-1]  # something is missing there: its object cannot stay without
                self._left_out.add(key)
        for name, stand_in in _STAND_INS.items():
            if not self.raw.get(name) or not isinstance(self.raw[name], dict):
                self._left_out.add((name,))
                self.raw[name] = copy.deepcopy(stand_in)

    def concerns(self, key: Key) -> bool:
        """Whether a mistake at `key` may come of what was left out: it is that, or within it, or a value around it."""
        return any(
            key[: len(out)] == out or (len(key) > _SUITE_OR_DATASET and out[: len(key)] == key)
            for out in self._left_out
        )


_SUITE_OR_DATASET = 2
"""Parts of their keys. A wrong value in one does not make its name right."""


def _is_repetition(item: ErrorDetails) -> bool:
    return isinstance(item.get("ctx", {}).get("error"), RepetitionError)


def _remove_repetitions(raw: Any, key: Key) -> None:
    """Let the list at `key` name each value once."""
    for part in key:
        raw = _member(raw, part)
    if isinstance(raw, list):
        raw[:] = list(dict.fromkeys(raw))


def _remove(raw: Any, key: Key) -> bool:
    """Remove a value; whether it was there."""
    *outer, last = key
    for part in outer:
        raw = _member(raw, part)
    if isinstance(raw, dict):
        names = [name for name in raw if str(name) == last]
        for name in names:
            if outer[:1] == ["datasets"] and len(outer) == 2 and last == "adapter" and raw[name] != "demo":
                raw[name] = "demo"
            elif outer == ["datasets"] and re.fullmatch("[a-z][a-z0-9_]*", last):
                raw[name] = {"adapter": "demo"}  # other keys may name it
            elif outer == ["suites"]:
                raw[name] = {}
            else:
                del raw[name]
        return bool(names)
    if isinstance(raw, list) and last.isdecimal() and int(last) < len(raw):
        del raw[int(last)]
        return True
    return False


def _member(raw: Any, part: str) -> Any:
    if isinstance(raw, dict):
        return next((value for name, value in raw.items() if str(name) == part), None)
    if isinstance(raw, list) and part.isdecimal() and int(part) < len(raw):
        return raw[int(part)]
    return None
