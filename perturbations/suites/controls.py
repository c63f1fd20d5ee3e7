"""Controls: what a drop of answers must be read against. They have no severities, and are ours.

A model that answers a grey clip as well as the clean one does not look. One that answers shuffled frames as well does
not need their order, and the first frame alone shows what needs no motion.
"""

from __future__ import annotations

from dataclasses import replace

from perturbations.base.bounds import whole
from perturbations.base.kernel import Kernel, draw_unit
from perturbations.suites.suite_registry import KernelParameters, Paper, Suite, table
from perturbations.video import control_frames as kernels

_VARIANTS = ("paper",)
_OURS = Paper(suite="controls", video_source="ours", variants=_VARIANTS)
_ONE: tuple[KernelParameters, ...] = ({},)

_BLANK = Kernel(kernel=kernels.blank, bounds={"grey": whole(0, 255)})
_FIRST = Kernel(kernel=kernels.first_frame, method="temporal")
_SHUFFLED = replace(_FIRST, kernel=kernels.shuffled, realization=kernels.draw_order)
_OTHER = replace(_FIRST, kernel=kernels.other_video, realization=draw_unit, guide="random_donor")

SUITE = Suite(
    name="controls",
    title="Controls: a grey clip, its first frame, its frames shuffled, another clip",
    reference="controls of this package; they are of no paper",
    videos=(
        _OURS.video("blank", "content", _BLANK, table("grey", 128), "grey frames"),
        _OURS.video("other_video", "content", _OTHER, _ONE, "another clip of the dataset, resized"),
        _OURS.video("first_frame", "time", _FIRST, _ONE, "the first frame, standing still"),
        _OURS.video("shuffled", "time", _SHUFFLED, _ONE, "all frames in another order"),
    ),
    variants=_VARIANTS,
)
