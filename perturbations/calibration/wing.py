"""What the wing `calibration` brings to the spine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.calibration.layout import PLACES
from perturbations.manifest import layout
from perturbations.plan.extension import CaptionShards, Plans, PlanWing, Target, TargetWork

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands
    from perturbations.config.extension import Solved
    from perturbations.config.sections import Config
    from perturbations.suites.registry import Perturbation


def _jobs(commands: Commands) -> None:
    from perturbations.calibration import jobs

    jobs.add(commands)


def _targets(config: Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    for dataset in config.datasets:
        text = f"severities of even distortion, solved on clips of `{dataset}`"
        yield Target(f"calibrate_{dataset}", text, partial(_table, dataset, plans))


def _table(dataset: str, plans: Plans) -> TargetWork:
    """A dataset's calibration table, with its report."""
    plans(dataset)
    return TargetWork([layout.at(f"calibration_{kind}", dataset=dataset) for kind in ("table", "page")])


def _solved(path: Path, entry: Perturbation, severity: int) -> Solved:
    from perturbations.calibration import table

    return table.parameters(path, entry, severity)


WING = PlanWing(
    summary="severities of even distortion",
    rules=("calibration",),
    places=PLACES,
    declare_jobs=_jobs,
    targets=_targets,
    solved=_solved,
)
