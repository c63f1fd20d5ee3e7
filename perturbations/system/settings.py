"""What records of settings share: pydantic's rules, and the types of common keys."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from perturbations.errors import short


class Strict(BaseModel):
    """A part of `config.yaml`: unknown keys are refused, and nothing changes after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Whole = Annotated[int, Field(strict=True)]
"""A whole number, and no value that only converts to one: no text, no bool, no 3.0."""

AnySeverity = Annotated[int, Field(ge=1, le=7)]

Value = TypeVar("Value")


def distinct(value: Value) -> Value:
    """A setting that lists nothing twice; other settings pass. Raises `ValueError`, for pydantic."""
    if isinstance(value, tuple) and len(set(value)) != len(value):
        raise ValueError(f"lists a value twice: {short(list(value))}")
    return value


MOST_ITEMS = 10**9
"""More items than any dataset has."""

Reader = Literal["pyav", "decord"]
"""What decodes the files of clips that are opened. Both give the same frames."""

READERS: tuple[Reader, ...] = get_args(Reader)
