"""What the wing `calibration` brings to the spine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.calibration.layout import PLACES
from perturbations.plan.extension import CaptionShards, Plans, PlanWing, Target

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands
    from perturbations.config.extension import Solved
    from perturbations.config.sections import Config
    from perturbations.suites.registry import Perturbation


def _jobs(commands: Commands) -> None:
    from perturbations.calibration import jobs

    jobs.add(commands)


def _targets(config: Config, plans: Plans, caption_shards: CaptionShards) -> Iterable[Target]:
    from perturbations.calibration import targets

    return targets.menu(config, plans, caption_shards)


def _solved(path: Path, entry: Perturbation, severity: int) -> Solved:
    from perturbations.calibration import table

    return table.parameters(path, entry, severity)


WING = PlanWing(
    summary="severities of even distortion",
    rules=("calibration",),
    files=("docs/how-to/calibrate.md",),
    places=PLACES,
    declare_jobs=_jobs,
    targets=_targets,
    solved=_solved,
)
