"""The clock: when each frame of the clip is shown. The perturbed frames are shown at the same times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from perturbations.guides.registry import ClipShape, Facts, Guide, GuideRecipe

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class _ClockGuide(GuideRecipe):
    """The kernel gets the times of the clip's frames."""

    kind: Literal["clock"] = "clock"


def _make(recipe: GuideRecipe, facts: Facts, shape: ClipShape) -> npt.NDArray[np.float64]:
    """The time of each frame, in seconds, ascending; evenly spaced where a clip has no file."""
    import numpy as np

    return np.asarray(shape.times(), np.float64)


GUIDE = Guide(
    name="clock",
    summary="the times of the clip's frames",
    recipe=_ClockGuide,
    settle=lambda settings: _ClockGuide(),
    make=_make,
    keeps_times=True,
)
