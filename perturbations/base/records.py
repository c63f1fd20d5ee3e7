"""Records that are kept as JSON and may come from a stranger: canonical text, hashes, checked reading.

A job makes its records itself, so pydantic, which takes a quarter of a job's start, is loaded where a text is checked.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, ClassVar, TypeVar, cast

from perturbations.base.errors import ManifestError

DIGEST_LENGTH = 32


@dataclass(frozen=True)
class Record:
    """A record that is kept as JSON. `parse_record` checks a text strictly, by the types of a record's fields."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    @cached_property
    def text(self) -> str:
        """The canonical JSON; fields that are None are left out."""
        return canonical(self)


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_fields_of
    )


def _fields_of(record: Any) -> dict[str, object]:
    """What a record's JSON holds."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {name: value for name, value in values.items() if value is not None}


def digest(value: object) -> str:
    """32 hex digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_LENGTH]


_Parsed = TypeVar("_Parsed", bound=Record)


def parse_record(record: type[_Parsed], text: str, name: str) -> _Parsed:
    """A record from its canonical JSON; `name` is what messages call it. Raises `ManifestError`."""
    from pydantic import ValidationError

    try:
        parsed: _Parsed = _checker(cast("Any", record)).validate_json(text)
    except (ValidationError, RecursionError) as error:
        problems = error.errors() if isinstance(error, ValidationError) else []
        lines = [f"{'.'.join(map(str, problem['loc']))[:80]}: {problem['msg']}" for problem in problems[:5]]
        raise ManifestError(f"not {name}: {text[:60]!r}: {'; '.join(lines) or 'too deep'}") from None
    if parsed.text != text:
        raise ManifestError(f"not the canonical JSON of {name}: {text[:60]!r}")
    return parsed


@cache
def _checker(record: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(record)
