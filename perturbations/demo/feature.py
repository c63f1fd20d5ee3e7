"""What `demo` brings to the configuration and the plan."""

from __future__ import annotations

from perturbations.base.features import Feature
from perturbations.demo.layout import PLACES

FEATURE = Feature(
    summary="clips that the package draws itself",
    places=PLACES,
    encoder="demo_encoder",
)
