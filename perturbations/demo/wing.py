"""What the wing `demo` brings to the spine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.demo.layout import PLACES
from perturbations.plan.extension import PlanWing

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands
    from perturbations.plan.listed import ListedClip


def _draw(listed: ListedClip) -> None:
    from perturbations.demo import drawing

    drawing.draw(listed)


def _jobs(commands: Commands) -> None:
    from perturbations.demo import jobs

    jobs.add(commands)


WING = PlanWing(
    summary="clips that the package draws itself",
    rules=("demo",),
    things={"perturbations.datasets": {"demo": "adapter"}},
    places=PLACES,
    declare_jobs=_jobs,
    draw=_draw,
    encoder="demo_encoder",
)
