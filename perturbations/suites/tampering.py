"""Tampering: one stretch of a clip is masked, turned, repeated, dropped, reversed, or taken from another clip.

What is done is MVTamperBench's (arXiv 2412.19794) and REVEAL's reversal (arXiv 2602.11244). Neither has severities: in
`paper`, the default, the shares, the drawn place and the most similar donor are ours. `released` does what
MVTamperBench's code does: one second in the middle of each clip, as published; with `place` also at the start or the
end, as it was published too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from perturbations.base.bounds import SHARE, Choice, Range, whole
from perturbations.base.kernel import Function, Kernel, draw_unit
from perturbations.suites.suite_registry import Form, Paper, Suite, table
from perturbations.video import tampered_frames as kernels

_VARIANTS = ("paper", "released")
_OURS = "severities and place: ours"
_PAPER = Paper(suite="tampering", video_source=f"MVTamperBench, arXiv 2412.19794; {_OURS}", variants=_VARIANTS)
_tampered = partial(_PAPER.video, differences="has severities, and draws the place")
_REVEAL = Paper(suite="tampering", video_source=f"REVEAL, arXiv 2602.11244; {_OURS}", variants=_VARIANTS)

_SHARES = table("share", 0.1, 0.2, 0.3, 0.5, 0.7)

_MASK = Kernel(
    kernel=kernels.mask,
    realization=draw_unit,
    bounds={"share": SHARE},
    # Less than a tenth is not seen where 12 frames are sampled.
)
_ROTATE = replace(_MASK, kernel=kernels.rotate)
_REPEAT = replace(_MASK, kernel=kernels.repeat, method="temporal")
_DROP = replace(_REPEAT, kernel=kernels.drop)
_REVERSE = replace(_REPEAT, kernel=kernels.reverse)
_SUBSTITUTE = replace(
    _REPEAT,
    kernel=kernels.substitute,
    realization=kernels.draw_places,
    guide="donor",
    bounds={"share": SHARE, "donors": whole(1, 1_000_000)},
)


def _released(kernel: Kernel, function: Function, differences: str = "") -> dict[str, Form]:
    """What MVTamperBench's code does, at its one severity."""
    drawn = kernel.guide is not None
    released = replace(
        kernel,
        kernel=function,
        realization=kernel.realization if drawn else None,
        guide="random_donor" if drawn else "frame_rate",
        bounds={"seconds": Range(0.1, 3600), "place": Choice(("middle", "start", "end"))},
    )
    differences = f"tampers with one second in the middle of each clip{differences}"
    return {"released": Form(kernel=released, table=table("seconds place", (1.0, "middle")), differences=differences)}


SUITE = Suite(
    name="tampering",
    title="Tampering: one stretch of a clip, masked, turned, repeated, dropped, reversed or substituted",
    reference="MVTamperBench: Evaluating Robustness of Vision-Language Models (Agarwal and others); "
    "Stress Tests REVEAL Fragile Temporal and Visual Grounding in Video-Language Models (Sethuraman T V and others)",
    videos=(
        _tampered(
            "mask",
            "frames",
            _MASK,
            _SHARES,
            "a stretch of black frames",
            variants=_released(_MASK, kernels.mask_released),
        ),
        _tampered(
            "rotate",
            "frames",
            _ROTATE,
            _SHARES,
            "a stretch turned by 180 degrees",
            variants=_released(_ROTATE, kernels.rotate_released),
        ),
        _tampered(
            "substitute",
            "frames",
            _SUBSTITUTE,
            table("share donors", *((row["share"], 2000) for row in _SHARES)),
            "a stretch of another clip, the most similar one",
            differences="has severities, draws the place, and takes the most similar clip at the clip's speed",
            variants=_released(
                _SUBSTITUTE,
                kernels.substitute_released,
                "; the other clip is any one that is long enough, from any frame on, and resized: the authors' files "
                "lack the frames of another size, which OpenCV does not write",
            ),
        ),
        # Of the next three the whole clip shifts, or the frames of a stretch change places, and how much two frames of
        # a clip differ does not depend on the share: on six real clips in four places each, the mean absolute error of
        # 12 sampled frames (repeat 22 28 31 36 39, drop 23 30 34 40 41, reverse 2 7 9 20 31 grey levels on average)
        # fell in 8, 4 and 3 of 96 steps. Of mask, rotate and substitute it fell in none.
        _tampered(
            "repeat",
            "time",
            _REPEAT,
            _SHARES,
            "a stretch played twice",
            variants=_released(_REPEAT, kernels.repeat_released),
            monotonic=False,
        ),
        _tampered(
            "drop",
            "time",
            _DROP,
            _SHARES,
            "a stretch cut out",
            variants=_released(_DROP, kernels.drop_released),
            monotonic=False,
        ),
        _REVEAL.video("reverse", "time", _REVERSE, _SHARES, "a stretch played backwards", monotonic=False),
    ),
    variants=_VARIANTS,
)
