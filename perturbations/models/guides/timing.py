"""Times: when each frame of the clip is shown, and how many there are per second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from perturbations.media.clean_clip import CleanClip, times_of
from perturbations.models.guides.guide_registry import Facts, GuideRecipe


@dataclass(frozen=True, kw_only=True)
class ClockGuide(GuideRecipe):
    """The kernel gets the times of the clip's frames; the perturbed frames are shown at the same times."""

    summary: ClassVar = "the times of the clip's frames"
    keeps_times: ClassVar = True

    kind: Literal["clock"] = "clock"

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> npt.NDArray[np.float64]:
        """The time of each frame, in seconds, ascending; evenly spaced where a clip has no file."""
        return np.asarray(times_of(clip), np.float64)


@dataclass(frozen=True, kw_only=True)
class FrameRateGuide(GuideRecipe):
    """The kernel gets the clip's frame rate, because it counts in seconds or changes the clip's length."""

    summary: ClassVar = "the clip's frame rate"

    kind: Literal["frame_rate"] = "frame_rate"

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> float:
        """The clip's frames per second."""
        return clip.fps


GUIDES = {"clock": ClockGuide, "frame_rate": FrameRateGuide}
