"""What a calibration requests: its time, from the clips of its sample and the perturbations that it measures."""

from __future__ import annotations

from collections.abc import Iterable

from perturbations.plan import costs
from perturbations.plan.sharding import DatasetPlan
from perturbations.suites import registry

_STRENGTHS = 28
"""Of a perturbation: those of the first round, and up to five in each of three rounds that refine it."""

_PASSES = 4
"""In which a perturbation that rearranges frames decodes a clip: one per round."""


def minutes(plan: DatasetPlan, perturbations: Iterable[str]) -> int:
    """The time that the calibration of some perturbations on a dataset requests, as `runtime`.

    A clip's sampled frames are perturbed at each strength; perturbations that are encodings take all of its frames.
    """
    from perturbations.calibration.solver import CLIPS  # with NumPy: only where a calibration is planned
    from perturbations.engine.render_clip import MEASURED_FRAMES

    size = plan.size
    clip = size.megapixels / max(1, size.clips)
    sampled = min(clip, MEASURED_FRAMES * size.frame_pixels / 1e6)
    seconds = clip * costs.SOURCES
    for entry in map(registry.get, perturbations):
        if entry.moves_frames:
            seconds += _PASSES * clip * costs.SOURCES
        else:
            seconds += _STRENGTHS * (clip if entry.encodes else sampled) * costs.VIDEOS
    return costs.requested_minutes(min(CLIPS, size.clips) * seconds)
