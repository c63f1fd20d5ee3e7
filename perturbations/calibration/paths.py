"""One way from mild to strong through the parameters of every visual perturbation. Data; standard library only.

A published table is five points that lie where they lie. To put a severity at a chosen distortion, a kernel needs one
number, its strength from 0 (mild) to 1 (strong), that decides all of its parameters. A new perturbation needs its line
here; the tests say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perturbations.suites.registry import Perturbation

_DIGITS = 4  # of a number with a fraction: people read the tables, and more would not be seen in a frame


@dataclass(frozen=True)
class Axis:
    """A number that goes from `mild` to `strong`.

    Geometrically, in whole steps of `step`, and no farther than `most`, where that is said.
    """

    mild: float
    strong: float
    geometric: bool = False
    step: int | None = None
    most: float | None = None

    def at(self, strength: float) -> float | int:
        """The number at a strength in [0, 1]."""
        value = self.mild + strength * (self.strong - self.mild)
        if self.geometric:
            value = math.exp((1 - strength) * math.log(self.mild) + strength * math.log(self.strong))
        if self.most is not None:
            value = min(value, self.most)
        if self.step is not None:
            return round(self.mild + self.step * round((value - self.mild) / self.step))
        return float(f"{value:.{_DIGITS}g}")


@dataclass(frozen=True)
class Choice:
    """One of several values, each for an equal part of the strengths."""

    values: tuple[Any, ...]

    def at(self, strength: float) -> Any:
        """The value at a strength in [0, 1]."""
        return self.values[min(int(strength * len(self.values)), len(self.values) - 1)]


Path = Mapping[str, Axis | Choice | float | int]
"""Parameter -> how it moves, or the number that it keeps. One that is not named is the same in the whole published
table, and keeps that."""


def _geometric(mild: float, strong: float) -> Axis:
    return Axis(mild, strong, geometric=True)


def _whole(mild: int, strong: int, step: int = 1) -> Axis:
    return Axis(mild, strong, step=step)


def _whole_geometric(mild: int, strong: int) -> Axis:
    return Axis(mild, strong, geometric=True, step=1)


# The mild end is never the clean clip itself: the first severity must change something.
_SIGMA = _geometric(0.004, 1.5)
_AMOUNT = _geometric(0.0005, 0.95)
_SPECKLE = _geometric(0.008, 4.0)
_PHOTONS = _geometric(20_000.0, 0.5)
# The roughness of the middle severity, and ever more fog.
_FOG: Path = {"intensity": _geometric(0.02, 20.0), "decay": 1.7}
# Small flakes that every published set from the third on has; ever more of them fall, and the picture whitens.
_SNOW: Path = {
    "loc": Axis(0.0, 1.1),
    "scale": 0.3,
    "zoom": 4.0,
    "threshold": 0.9,
    "radius": 12,
    "sigma": 8.0,
    "blend": Axis(0.97, 0.3),
}
# Published severities 1 and 2 tilt much, 3 to 5 wobble: here one field, of the width of 3 to 5, tilts and wobbles more
# and more, so that the table cannot be inverted.
_ELASTIC: Path = {"alpha": Axis(0.2, 100.0), "sigma": 2.44, "affine": Axis(0.05, 25.0)}
# As published, longer streaks also fade later: from a third of their length to all of it.
_STREAK: Path = {"radius": _whole_geometric(1, 48), "sigma": _geometric(0.3, 48.0)}
# A disk of more than 12 pixels does not fit the kernel's 16-bit sums.
_DISK: Path = {"radius": _whole(0, 12), "alias": 0.5}
# Eleven views, as in the published severity 1, ever farther apart.
_ZOOM: Path = {"stop": Axis(1.021, 3.1), "step": Axis(0.002, 0.2)}
_QUALITY = _whole(98, 1)
# Blocks are quantized with 31 at most, and from there on bits are only weighed more.
_MPEG: Path = {
    "qscale": _whole_geometric(2, 400),
    "quantizer": Axis(2, 400, geometric=True, step=1, most=31),
}
_RATE = _whole_geometric(2, 256)

PATHS: dict[str, Path] = {
    # --- mlvp --------------------------------------------------------------------------------------------------------
    "mlvp/gaussian_noise": {"sigma": _SIGMA},
    "mlvp/impulse_noise": {"amount": _AMOUNT},
    "mlvp/fog": _FOG,
    "mlvp/snow": _SNOW,
    "mlvp/elastic_distortion": _ELASTIC,
    "mlvp/h264_compression": {"bitrate": _whole_geometric(8_000_000, 4_000)},
    # Odd lengths, as published: twice as long, less one, where most moves.
    "mlvp/motion_blur": {"low": _whole(3, 61, 2), "high": _whole(5, 121, 4)},
    "mlvp/video_defocus": {"radius": _whole(1, 32)},
    "mlvp/main_object_occlusion": {"ratio": Axis(0.02, 1.0)},
    "mlvp/style_transfer": {"alpha": Axis(0.02, 1.0)},
    "mlvp/event_insertion": {"share": Axis(0.02, 1.0)},
    # The published orders in turn, and an ever larger trim.
    "mlvp/temporal_scrambling": {
        "trimmed": Axis(0.0, 0.95),
        "order": Choice(("adjacent", "pairs", "pairs", "pairs", "shuffled")),
        "pairs": Choice((1, 2, 3, 4, 0)),
    },
    # --- msrvtt_p ----------------------------------------------------------------------------------------------------
    "msrvtt_p/gaussian_noise": {"sigma": _SIGMA},
    "msrvtt_p/impulse_noise": {"amount": _AMOUNT},
    "msrvtt_p/shot_noise": {"strength": _PHOTONS},
    "msrvtt_p/speckle_noise": {"scale": _SPECKLE},
    "msrvtt_p/motion_blur": _STREAK,
    "msrvtt_p/defocus_blur": _DISK,
    "msrvtt_p/zoom_blur": _ZOOM,
    # Up to half a right angle: beyond, lines come to lie on lines again.
    "msrvtt_p/static_rotate": {"degrees": _geometric(0.1, 45.0)},
    "msrvtt_p/rotate": {"most_degrees": _whole_geometric(1, 90)},
    "msrvtt_p/translate": {"reach": _whole(1, 64)},
    "msrvtt_p/jpeg": {"quality": _QUALITY},
    "msrvtt_p/mpeg1": _MPEG,
    "msrvtt_p/mpeg2": _MPEG,
    # Longer segments let frames stray farther,
    "msrvtt_p/jumble": {"length": _whole_geometric(2, 1024)},
    # and shorter ones keep fewer of them together.
    "msrvtt_p/box_jumble": {"length": _whole_geometric(512, 1)},
    "msrvtt_p/sampling": {"rate": _RATE},
    "msrvtt_p/reverse_sampling": {"rate": _RATE},
    "msrvtt_p/freeze": {"kept": _geometric(0.95, 0.003)},
    # --- mm_robustness -----------------------------------------------------------------------------------------------
    "mm_robustness/gaussian_noise": {"sigma": _SIGMA},
    "mm_robustness/shot_noise": {"rate": _PHOTONS},
    "mm_robustness/impulse_noise": {"amount": _AMOUNT},
    "mm_robustness/speckle_noise": {"scale": _SPECKLE},
    "mm_robustness/defocus_blur": _DISK,
    # One pass over the pixels, as the more of them there are, the less does one step of `delta` decide.
    "mm_robustness/glass_blur": {"sigma": _geometric(0.2, 4.0), "delta": _whole_geometric(1, 12), "iterations": 1},
    "mm_robustness/motion_blur": _STREAK,
    "mm_robustness/zoom_blur": _ZOOM,
    "mm_robustness/snow": _SNOW,
    # From a bare pane to ice that hides the picture.
    "mm_robustness/frost": {"kept": Axis(1.0, 0.2), "added": Axis(0.01, 0.8)},
    "mm_robustness/fog": _FOG,
    "mm_robustness/brightness": {"added": Axis(0.01, 1.0)},
    "mm_robustness/contrast": {"factor": _geometric(0.98, 0.01)},
    "mm_robustness/elastic_transform": _ELASTIC,
    "mm_robustness/pixelate": {"scale": _geometric(0.98, 0.02)},
    "mm_robustness/jpeg_compression": {"quality": _QUALITY},
    "mm_robustness/stylize": {"alpha": Axis(0.02, 1.0)},
}

PAPER: dict[str, Path] = {
    # As printed it is salt and pepper.
    "msrvtt_p/shot_noise": {"strength": _AMOUNT},
}
"""Where a path depends on the variant."""


def path_of(entry: Perturbation, variant: str) -> Path:
    """The path of a visual perturbation. Raises `KeyError` for one without."""
    return PAPER[entry.key] if variant == "paper" and entry.key in PAPER else PATHS[entry.key]


def parameters(entry: Perturbation, variant: str, strength: float) -> dict[str, Any]:
    """A kernel's parameters at a strength in [0, 1]."""
    moved = {
        name: rule.at(strength) if isinstance(rule, Axis | Choice) else rule
        for name, rule in path_of(entry, variant).items()
    }
    return {**entry.parameters(1, variant), **moved}
