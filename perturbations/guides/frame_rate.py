"""The frame rate: kernels that count in seconds, and change a clip's length, take it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from perturbations.guides.guide import Facts, GuideRecipe

if TYPE_CHECKING:
    from perturbations.media.footage import CleanClip


class FrameRateGuide(GuideRecipe):
    """The kernel gets the clip's frame rate."""

    summary: ClassVar = "the clip's frame rate"

    kind: Literal["frame_rate"] = "frame_rate"

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> float:
        """The clip's frames per second."""
        return clip.fps
