"""JSON that somebody else may have written. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def parse(text: str | bytes, object_pairs_hook: Callable[[list[tuple[str, Any]]], object] | None = None) -> object:
    """The value. Raises `ValueError` for text that is not JSON, and for JSON nested too deep to be read."""
    try:
        value: object = json.loads(text, object_pairs_hook=object_pairs_hook)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def mapping(text: str | bytes) -> dict[str, Any]:
    """An object's members. Raises `ValueError` as `parse` does, and for another value."""
    value = parse(text)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value
