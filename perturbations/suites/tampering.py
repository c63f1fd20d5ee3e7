"""Tampering: one stretch of a clip is masked, turned, repeated, dropped, reversed, or taken from another clip.

What is done is MVTamperBench's (arXiv 2412.19794), which tampers with one second in the middle of each clip, and
REVEAL's reversal (arXiv 2602.11244). Neither has severities: the shares, and the drawn place, are ours.
"""

from __future__ import annotations

from dataclasses import replace

from perturbations.base.bounds import SHARE, whole
from perturbations.suites.kernels import Kernel
from perturbations.suites.registry import Paper, Suite, table
from perturbations.suites.strengths import Axis

_PAPER = Paper(
    suite="tampering", video_source="MVTamperBench, arXiv 2412.19794; severities and place: ours", variants=("paper",)
)
_REVEAL = Paper(
    suite="tampering", video_source="REVEAL, arXiv 2602.11244; severities and place: ours", variants=("paper",)
)

_SHARES = table("share", 0.1, 0.2, 0.3, 0.5, 0.7)

_MASK = Kernel(
    kernel="tampering:mask",
    realization="kernel:draw_unit",
    bounds={"share": SHARE},
    # Less than a tenth is not seen where 12 frames are sampled.
    path={"share": Axis(0.1, 0.95)},
)
_ROTATE = replace(_MASK, kernel="tampering:rotate")
_REPEAT = replace(_MASK, kernel="tampering:repeat", method="temporal")
_DROP = replace(_REPEAT, kernel="tampering:drop")
_REVERSE = replace(_REPEAT, kernel="tampering:reverse")
_SUBSTITUTE = replace(
    _REPEAT,
    kernel="tampering:substitute",
    realization="tampering:draw_places",
    guide="donor",
    bounds={"share": SHARE, "donors": whole(1, 1_000_000)},
)

SUITE = Suite(
    name="tampering",
    title="Tampering: one stretch of a clip, masked, turned, repeated, dropped, reversed or substituted",
    reference="Agarwal et al., MVTamperBench: Evaluating Robustness of Vision-Language Models; "
    "Sethuraman T V et al., Stress Tests REVEAL Fragile Temporal and Visual Grounding in Video-Language Models",
    perturbations=(
        _PAPER.video("mask", "frames", _MASK, _SHARES, "a stretch of black frames"),
        _PAPER.video("rotate", "frames", _ROTATE, _SHARES, "a stretch turned by 180 degrees"),
        _PAPER.video(
            "substitute",
            "frames",
            _SUBSTITUTE,
            table("share donors", *((row["share"], 2000) for row in _SHARES)),
            "a stretch of the most similar other clip",
        ),
        # Of the next three the whole clip shifts, or the frames of a stretch change places, and how much two frames of
        # a clip differ does not depend on the share: on six real clips in four places each, the mean absolute error of
        # 12 sampled frames (repeat 22 28 31 36 39, drop 23 30 34 40 41, reverse 2 7 9 20 31 grey levels on average)
        # fell in 8, 4 and 3 of 96 steps. Of mask, rotate and substitute it fell in none.
        _PAPER.video("repeat", "time", _REPEAT, _SHARES, "a stretch played twice", monotonic=False),
        _PAPER.video("drop", "time", _DROP, _SHARES, "a stretch cut out", monotonic=False),
        _REVEAL.video("reverse", "time", _REVERSE, _SHARES, "a stretch played backwards", monotonic=False),
    ),
    variants=("paper",),
)
