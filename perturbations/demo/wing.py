"""What the wing `demo` brings to the spine."""

from __future__ import annotations

from perturbations.demo.layout import PLACES
from perturbations.plan.extension import PlanWing

WING = PlanWing(
    summary="clips that the package draws itself",
    things={"perturbations.datasets": {"demo": "adapter"}},
    places=PLACES,
    encoder="demo_encoder",
)
