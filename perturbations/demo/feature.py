"""What `demo` brings to the configuration and the plan."""

from __future__ import annotations

from perturbations.base.features import Feature

FEATURE = Feature(
    summary="clips that the package draws itself",
    places={"demo_encoder": "work/demo_encoder"},
    encoder="demo_encoder",
)
