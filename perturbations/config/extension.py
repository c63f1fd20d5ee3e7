"""What a feature brings beside its section of `config.yaml`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perturbations.base.features import Feature, nothing

if TYPE_CHECKING:
    from perturbations.config.problems import Problem
    from perturbations.config.sections import Config


@dataclass(frozen=True, kw_only=True)
class ConfigFeature(Feature):
    """A feature that reads the configuration.

    Attributes:
        problems: what is wrong with its section that types do not show.
        readiness: what its jobs would miss, a line each, given the names of rules whose jobs are to run, and whether
            they run on this machine.
    """

    problems: Callable[[Config], Iterable[Problem]] = nothing
    readiness: Callable[[Config, Collection[str], bool], Iterable[str]] = nothing
