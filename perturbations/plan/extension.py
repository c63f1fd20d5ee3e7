"""What a feature brings to planning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perturbations.base.features import nothing
from perturbations.config.extension import ConfigFeature

if TYPE_CHECKING:
    from perturbations.config.sections import Config
    from perturbations.plan.sharding import DatasetPlan

Plans = Callable[[str], "DatasetPlan"]
"""The plan of a collection. It is a function, so that only the datasets of the requested targets are planned."""

CaptionShards = Callable[[str], Sequence[str]]
"""The shards of a dataset's captions."""


@dataclass(frozen=True)
class TargetWork:
    """The files that a target makes, lines that say how much work they are, and the corpora whose clips it makes.

    A corpus is a collection and a suite.
    """

    files: list[str]
    sizes: tuple[str, ...] = ()
    corpora: tuple[tuple[str, str], ...] = ()


WorkRequest = Callable[[], TargetWork]
"""Plans the work of a target. Raises `PerturbationError` for a mistake that the user must correct."""


@dataclass(frozen=True)
class Target:
    """A target of Snakemake: its name, and its line in `snakemake --list-target-rules`."""

    name: str
    text: str
    request: WorkRequest  # called only when the target is requested, so that other targets cost nothing


@dataclass(frozen=True, kw_only=True)
class PlanFeature(ConfigFeature):
    """A feature whose work is planned.

    Attributes:
        targets: its targets.
        instructions: the (perturbation, severity) pairs of a suite that the texts of a dataset's composed queries take.
    """

    targets: Callable[[Config, Plans, CaptionShards], Iterable[Target]] = nothing
    instructions: Callable[[Config, str, str], list[tuple[str, int]]] | None = None
