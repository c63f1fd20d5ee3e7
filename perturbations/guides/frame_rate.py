"""The frame rate: kernels that count in seconds, and change a clip's length, take it."""

from __future__ import annotations

from typing import Literal

from perturbations.guides.registry import ClipShape, Facts, Guide, GuideRecipe


class _FrameRateGuide(GuideRecipe):
    """The kernel gets the clip's frame rate."""

    kind: Literal["frame_rate"] = "frame_rate"


def _make(recipe: GuideRecipe, facts: Facts, shape: ClipShape) -> float:
    """The clip's frames per second."""
    return shape.fps


GUIDE = Guide(
    name="frame_rate",
    summary="the clip's frame rate",
    recipe=_FrameRateGuide,
    settle=lambda settings: _FrameRateGuide(),
    make=_make,
)
