"""Where and with what the jobs of a run work: what never changes a result, and so is no param of a rule.

It is kept in an environment variable, which the workflow sets, so that a user who overrides the resources of a rule
need not repeat it. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from perturbations.base import jsontext
from perturbations.base.errors import ConfigError
from perturbations.base.readers import Reader

_VARIABLE = "PERTURB_JOBS"


@dataclass(frozen=True)
class JobEnvironment:
    """What the jobs of a run read.

    Attributes:
        timeout_s: seconds without progress after which a clip is given up.
        reader: what decodes clips for models.
        devices: key of a model -> the device on which it runs; that of "" runs all others.
    """

    timeout_s: float = 120.0
    reader: Reader = "pyav"
    devices: Mapping[str, str] = field(default_factory=dict)

    def device(self, model: str = "") -> str:
        """The device of a model."""
        return self.devices.get(model, self.devices.get("", "cpu"))


def current() -> JobEnvironment:
    """The environment of this process's jobs. Raises `ConfigError` where the variable is not valid."""
    text = os.environ.get(_VARIABLE, "{}")
    try:
        return JobEnvironment(**jsontext.mapping(text))
    except (ValueError, TypeError):
        raise ConfigError(f"{_VARIABLE}: unset it, the workflow sets it itself, not {text[:100]!r}") from None


def use(**changes: Any) -> None:
    """Change the environment of this process's jobs; what is not named stays."""
    os.environ[_VARIABLE] = json.dumps(asdict(replace(current(), **changes)))
