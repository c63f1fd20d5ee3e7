"""Records that are kept as JSON and may come from a stranger: canonical text, hashes, checked reading."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from perturbations.base.errors import ManifestError

DIGEST_LENGTH = 32


class Record(BaseModel):
    """A record that is kept as JSON. The text may come from a stranger, so reading checks it strictly."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)

    @cached_property
    def text(self) -> str:
        """The canonical JSON; fields that are None are left out."""
        return canonical(self.model_dump(mode="json", exclude_none=True))


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: object) -> str:
    """32 hex digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_LENGTH]


_Parsed = TypeVar("_Parsed", bound=Record)


def parse_record(record: type[_Parsed], text: str, name: str) -> _Parsed:
    """A record from its canonical JSON; `name` is what messages call it. Raises `ManifestError`."""
    try:
        parsed = record.model_validate_json(text)
    except (ValidationError, RecursionError) as error:
        problems = error.errors() if isinstance(error, ValidationError) else []
        lines = [f"{'.'.join(map(str, problem['loc']))[:80]}: {problem['msg']}" for problem in problems[:5]]
        raise ManifestError(f"not {name}: {text[:60]!r}: {'; '.join(lines) or 'too deep'}") from None
    if parsed.text != text:
        raise ManifestError(f"not the canonical JSON of {name}: {text[:60]!r}")
    return parsed
