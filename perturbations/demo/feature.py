"""What `demo` brings to the configuration and the plan."""

from __future__ import annotations

from perturbations.demo.layout import PLACES
from perturbations.plan.extension import PlanFeature

FEATURE = PlanFeature(
    summary="clips that the package draws itself",
    places=PLACES,
    encoder="demo_encoder",
)
