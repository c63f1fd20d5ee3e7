"""What the wing `demo` brings to the spine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.plan.extension import PlanWing

if TYPE_CHECKING:
    from perturbations.plan.listed import ListedClip


def _draw(listed: ListedClip) -> None:
    from perturbations.demo import drawing

    drawing.draw(listed)


WING = PlanWing(
    summary="clips that the package draws itself",
    files=("perturbations/datasets/demo.py",),
    draw=_draw,
)
