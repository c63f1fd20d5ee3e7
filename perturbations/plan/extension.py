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


ClipScenario = tuple[str, str, str, int]
"""Of perturbed clips: collection, suite, perturbation and severity."""


@dataclass(frozen=True)
class TargetWork:
    """What a target makes.

    Attributes:
        files: its files.
        sizes: lines that say how much work they are.
        corpora: the corpora whose clips it makes, each a collection and a suite.
        clips: the other clips that it needs: collection, suite, perturbation, severity.
        captions: the perturbed captions that it needs, each a collection and a suite.
        rules: rules of wings that it runs and whose models are looked for before a run.
    """

    files: list[str]
    sizes: tuple[str, ...] = ()
    corpora: tuple[tuple[str, str], ...] = ()
    clips: tuple[ClipScenario, ...] = ()
    captions: tuple[tuple[str, str], ...] = ()
    rules: tuple[str, ...] = ()


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
