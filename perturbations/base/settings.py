"""What records of settings share: pydantic's rules, and the types of common keys."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from perturbations.base import limits
from perturbations.base.bounds import SEEDS
from perturbations.base.errors import ConfigError, cut, short

ABSOLUTE = {"paths": "absolute"}
"""The context of a validation that makes relative paths absolute, because jobs work in another folder."""


class Strict(BaseModel):
    """A part of `config.yaml`: unknown keys are refused, and nothing changes after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, raw: object) -> object:
        """What holds keys, and is named and left empty, has its defaults: YAML reads `backends:` as null."""
        if not isinstance(raw, dict):
            return raw
        return {name: value for name, value in raw.items() if value is not None or not cls._holds_keys(name)}

    @classmethod
    def _holds_keys(cls, name: object) -> bool:
        field = cls.model_fields.get(name) if isinstance(name, str) else None
        return field is not None and isinstance(field.get_default(call_default_factory=True), BaseModel | dict)

    @field_validator("*")
    @classmethod
    def _expand(cls, value: Any, info: ValidationInfo) -> Any:
        """Paths may begin with `~` and hold variables."""
        if isinstance(value, tuple) and all(isinstance(path, Path) for path in value):
            return tuple(cls._expand(path, info) for path in value)
        if not isinstance(value, Path):
            return value
        path = Path(expanded(str(value)))
        return path.absolute() if info.context == ABSOLUTE else path


def expanded(path: str) -> str:
    """A path with `~`, `$VAR` and `${VAR}` replaced, unless it exists as it is written.

    Raises `ValueError`, for pydantic, naming a variable that is not defined.
    """
    if "\0" in path or os.path.lexists(path):
        return path
    missing = [name for name in re.findall(r"\$\{?([A-Za-z_]\w*)", path, re.ASCII) if name not in os.environ]
    if missing:
        listed = ", ".join(f"${name}" for name in dict.fromkeys(missing))
        plural = "variables are" if len(set(missing)) > 1 else "variable is"
        raise ValueError(f"{short(path)}: the environment {plural} not defined: {cut(listed)}")
    return os.path.expanduser(os.path.expandvars(path))


def _model(name: str, info: ValidationInfo) -> str:
    path = expanded(name)
    return os.path.abspath(path) if info.context == ABSOLUTE and os.path.isdir(path) else path


ModelName = Annotated[str, AfterValidator(_model)]
"""A model of a hub, or a folder, whose path may begin with `~` and hold variables."""


Whole = Annotated[int, Field(strict=True)]
"""A whole number, and no value that only converts to one: no text, no bool, no 3.0."""

_DEVICE = "(cpu|mps|cuda(:[0-9]{1,3})?)"


def _device(name: str) -> str:
    if not re.fullmatch(_DEVICE, name):
        raise ValueError(f"must be cpu, mps, cuda or, of several, cuda:1, not {short(name)}")
    return name


Device = Annotated[str, AfterValidator(_device), Field(json_schema_extra={"pattern": f"^{_DEVICE}$"})]
Seed = Annotated[int, Field(strict=True, ge=SEEDS.low, le=SEEDS.high)]

AnySeverity = Annotated[Whole, Field(ge=1, le=7)]


def _no_truth(key: object) -> object:
    if isinstance(key, bool):
        raise ValueError("a severity is a whole number; YAML reads yes and on as true, no and off as false")
    return key


KeySeverity = Annotated[int, BeforeValidator(_no_truth), Field(ge=1, le=7)]
"""A severity as a key: in JSON, keys are texts."""

_Value = TypeVar("_Value")


def distinct(value: _Value) -> _Value:
    """A setting that lists nothing twice; other settings pass. Raises `ValueError`, for pydantic."""
    if isinstance(value, tuple) and len(set(value)) != len(value):
        repeated = next(each for place, each in enumerate(value) if each in value[:place])
        which = f": {short(repeated)}" if len(value) > 3 else ""
        raise ValueError(f"lists a value twice{which}: {short(list(value))}")
    return value


class Limits(Strict):
    """What one file may ask for before its item is refused. Limits change no result and cause no rerun."""

    frame_pixels: Whole = Field(
        limits.DEFAULTS["frame_pixels"],
        ge=1,
        description="width x height of a frame, or of an image of a style or of frost",
    )
    frames: Whole = Field(limits.DEFAULTS["frames"], ge=1, description="frames of a video file, whole or cut from")
    seconds: Whole = Field(
        limits.DEFAULTS["seconds"], ge=1, description="length of a video file, whole or cut from, in s"
    )
    decode_mib: Whole = Field(
        limits.DEFAULTS["decode_mib"],
        ge=1,
        description="memory that decoding a file takes, in MiB, computed before the first frame is decoded",
    )


def parse_limits(document: str) -> dict[str, int]:
    """Limits from JSON. Raises `ConfigError` naming the key."""
    try:
        return Limits.model_validate_json(document).model_dump()
    except ValidationError as error:
        lines = [".".join(("limits", *map(str, line["loc"]))) + f": {line['msg']}" for line in error.errors()]
        raise ConfigError(f"{cut('; '.join(lines), 500)}; known: {', '.join(limits.DEFAULTS)}") from None


MOST_ITEMS = 10**9
"""More items than any dataset has."""
