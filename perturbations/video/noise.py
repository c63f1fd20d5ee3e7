"""Noise: one pattern for all frames of a clip, or a fresh one per frame."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, lru_cache
from statistics import NormalDist

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.bounds import SHARE, Choice, Joint, Range
from perturbations.base.kernel import Apply, Kernel
from perturbations.video.blur import ALMOST_HALF

_RANKS = 1 << 16


# --- one pattern -----------------------------------------------------------------------------------------------------


def draw_normal(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float32]:
    """Unit normal noise, height x width x 3."""
    return rng.standard_normal((height, width, 3), dtype=np.float32)


def gaussian_noise(
    noise: NDArray[np.floating], num_frames: int, height: int, width: int, *, sigma: float, rounded: bool = False
) -> Apply:
    """Additive noise: `clip(x + sigma * noise, 0, 1)`, x = frame / 255 (MLVP, Tab. 37, App. E.1).

    Truncated to uint8, exactly: a frame's values f are whole numbers, so `floor(f + 255 n) = f + floor(255 n)`, which
    is one saturating addition and one saturating subtraction. Or `rounded`.
    """
    levels = np.multiply(noise, 255 * sigma, dtype=np.float64)
    (np.rint if rounded else np.floor)(levels, out=levels)
    brighter = _saturated(levels)
    darker = _saturated(np.negative(levels, out=levels))

    def apply(frame: Image, index: int) -> Image:
        output = np.empty(frame.shape, np.uint8)
        cv2.add(frame, brighter, dst=output)
        cv2.subtract(output, darker, dst=output)
        return output

    return apply


def draw_uniform(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), height x width: all channels of a pixel share one."""
    return rng.random((height, width))


def impulse_noise(uniform: NDArray[np.float64], num_frames: int, height: int, width: int, *, amount: float) -> Apply:
    """Salt and pepper: below amount / 2 a pixel turns 0, from 1 - amount / 2 on it turns 255 (MLVP, Tab. 37, App. E.1).

    A larger amount changes all pixels that a smaller one changes, and more.
    """
    return _masked(_three_channels(uniform >= amount / 2), _three_channels(uniform >= 1 - amount / 2))


def _masked(kept: Image, salt: Image) -> Apply:
    """0 outside of `kept`, 255 within `salt`."""

    def apply(frame: Image, index: int) -> Image:
        output = np.empty(frame.shape, np.uint8)
        cv2.bitwise_and(frame, kept, dst=output)
        cv2.bitwise_or(output, salt, dst=output)
        return output

    return apply


# --- from ranks ------------------------------------------------------------------------------------------------------


def draw_ranks(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.uint16]:
    """Uniform whole numbers below 65,536, height x width x 3.

    A rank r means the quantile (r + 1/2) / 65,536 of any distribution, so a draw takes the generator's raw bits
    and one table look-up: a tenth of the time of drawing normal or Poisson numbers. Severities share the ranks.
    """
    count = height * width * 3
    words = rng.bit_generator.random_raw(-(-count // 4))
    return words.astype("<u8", copy=False).view("<u2")[:count].reshape(height, width, 3)


@cache
def normal_quantiles() -> NDArray[np.float64]:
    """The standard normal quantiles of all 65,536 ranks, ascending."""
    inverse = NormalDist().inv_cdf
    lower = np.array([inverse((rank + 0.5) / _RANKS) for rank in range(_RANKS // 2)])
    quantiles = np.concatenate([lower, -lower[::-1]])
    quantiles.flags.writeable = False
    return quantiles


def gaussian_noise_of_ranks(
    ranks: NDArray[np.uint16], num_frames: int, height: int, width: int, *, sigma: float
) -> Apply:
    """`gaussian_noise` of the ranks' normal quantiles, for a draw per frame (MSRVTT-P, App. A.1)."""
    levels = np.empty(ranks.shape, np.int16)
    cv2.LUT(ranks, _gaussian_levels(sigma), dst=levels)

    def apply(frame: Image, index: int) -> Image:
        output = np.empty(frame.shape, np.uint8)
        cv2.add(frame, levels, dst=output, dtype=cv2.CV_8U)
        return output

    return apply


def speckle_noise(
    ranks: NDArray[np.uint16], num_frames: int, height: int, width: int, *, scale: float, rounded: bool = False
) -> Apply:
    """Noise that grows with brightness: `clip(x + x * scale * n, 0, 1)`, n normal (MSRVTT-P, App. A.1; ImageNet-C).

    Truncated to uint8, or `rounded`. Each colour value has its own noise, as in all kernels of this section.
    """
    factors, values = np.empty((2, *ranks.shape), np.float32)
    cv2.LUT(ranks, _speckle_factors(scale), dst=factors)
    lowered = np.zeros(4) if rounded else np.array([ALMOST_HALF, ALMOST_HALF, ALMOST_HALF, 0])

    def apply(frame: Image, index: int) -> Image:
        output = np.empty(frame.shape, np.uint8)
        cv2.multiply(frame, factors, dst=values, dtype=cv2.CV_32F)
        cv2.subtract(values, lowered, dst=output, dtype=cv2.CV_8U)
        return output

    return apply


def shot_noise(
    ranks: NDArray[np.uint16], num_frames: int, height: int, width: int, *, rate: float, rounded: bool = False
) -> Apply:
    """`clip(Poisson(rate * x) / rate, 0, 1)`, x = frame / 255: fewer photons, more noise (ImageNet-C).

    Truncated to uint8, or `rounded`. A pixel's rank is the quantile of its Poisson number, so that a still picture has
    still noise when the frames share the ranks. Only 14 of the ranks' 16 bits are used, so that the table stays in the
    cache.
    """
    table = _shot_table(rate, rounded).ravel()
    columns = ranks >> (16 - _SHOT_BITS)
    places = np.empty(ranks.shape, np.intp)

    def apply(frame: Image, index: int) -> Image:
        np.left_shift(frame, _SHOT_BITS, out=places, dtype=np.intp)
        np.bitwise_or(places, columns, out=places)
        return np.take(table, places, mode="wrap")  # no place is outside; this mode is the fastest

    return apply


def salt_and_pepper(ranks: NDArray[np.uint16], num_frames: int, height: int, width: int, *, amount: float) -> Apply:
    """`impulse_noise` for each colour value separately (MSRVTT-P, App. A.1; ImageNet-C)."""
    half = round(amount / 2 * _RANKS)
    kept, salt = (np.multiply((ranks >= least).view(np.uint8), np.uint8(255)) for least in (half, _RANKS - half))
    return _masked(kept, salt)


def shot_or_impulse_noise(
    ranks: NDArray[np.uint16], num_frames: int, height: int, width: int, *, model: str, strength: float
) -> Apply:
    """MSRVTT-P's shot noise: "poisson" with a rate in the code, "salt_and_pepper" with an amount in the text."""
    if model == "poisson":
        return shot_noise(ranks, num_frames, height, width, rate=strength)
    return salt_and_pepper(ranks, num_frames, height, width, amount=strength)


def shot_levels(counts: NDArray[np.integer | np.floating], rate: float, rounded: bool = False) -> Image:
    """The uint8 levels of Poisson numbers, truncated or `rounded`."""
    levels = np.clip(counts / rate, 0, 1) * 255
    whole: Image = (np.rint(levels) if rounded else levels).astype(np.uint8)
    return whole


@lru_cache(maxsize=8)
def _gaussian_levels(sigma: float) -> NDArray[np.int16]:
    return np.floor(255 * sigma * normal_quantiles()).astype(np.int16)


@lru_cache(maxsize=8)
def _speckle_factors(scale: float) -> NDArray[np.float32]:
    return (1 + scale * normal_quantiles()).astype(np.float32)


_SHOT_BITS = 14


@lru_cache(maxsize=1)  # 4 MiB
def _shot_table(rate: float, rounded: bool) -> Image:
    """The output level of each of the 256 levels (rows) at each of 16,384 quantiles (columns)."""
    columns = 1 << _SHOT_BITS
    counts = np.arange(math.ceil(rate + 12 * math.sqrt(rate) + 24))
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    levels = shot_levels(counts, rate, rounded)
    table = np.zeros((256, columns), np.uint8)
    for level in range(1, 256):
        mean = rate * level / 255
        # Of other counts there are none.
        reach = 12 * math.sqrt(mean) + 24
        seen = slice(max(0, int(mean - reach)), int(mean + reach) + 1)
        below = np.cumsum(np.exp(counts[seen] * math.log(mean) - mean - log_factorials[seen]))
        # Column c has the smallest count whose probability reaches (c + 1/2) / columns.
        ends = np.clip(np.floor(below * columns + 0.5), 0, columns).astype(np.int64)
        ends[-1] = columns
        table[level] = np.repeat(levels[seen], np.diff(ends, prepend=0))
    table.flags.writeable = False
    return table


def _saturated(levels: NDArray[np.float64]) -> Image:
    output = np.empty(levels.shape, np.uint8)
    np.clip(levels, 0, 255, out=output, casting="unsafe")
    return output


def _three_channels(mask: NDArray[np.bool_]) -> Image:
    """255 where the height x width mask is true, 0 elsewhere, in each of three channels."""
    return np.repeat(mask[:, :, None] * np.uint8(255), 3, axis=2)


# --- declarations ----------------------------------------------------------------------------------------------------

GAUSSIAN_NOISE = Kernel(
    kernel=gaussian_noise,
    realization=draw_normal,
    bounds={"sigma": Range(0, 10)},  # of colour values in [0, 1]; from 29 on, levels leave 16 bits
)
GAUSSIAN_NOISE_OF_RANKS = replace(GAUSSIAN_NOISE, kernel=gaussian_noise_of_ranks, realization=draw_ranks)
IMPULSE_NOISE = Kernel(kernel=impulse_noise, realization=draw_uniform, bounds={"amount": SHARE})
SALT_AND_PEPPER = replace(IMPULSE_NOISE, kernel=salt_and_pepper, realization=draw_ranks)

_PHOTONS = Range(0.01, 100_000)
"""Photons of a white pixel. The table of Poisson numbers grows with them."""
SHOT_NOISE = Kernel(kernel=shot_noise, realization=draw_ranks, bounds={"rate": _PHOTONS})
SHOT_OR_IMPULSE_NOISE = Kernel(
    kernel=shot_or_impulse_noise,
    realization=draw_ranks,
    # A rate, or an amount.
    bounds={"model": Choice(("poisson", "salt_and_pepper")), "strength": Range(0, _PHOTONS.high)},
    joint=(
        Joint(
            "strength",
            lambda noise: (_PHOTONS if noise["model"] == "poisson" else SHARE).allows(noise["strength"]),
            f"must be {_PHOTONS} where `model` is poisson, {SHARE} where it is salt_and_pepper",
        ),
    ),
)
SPECKLE_NOISE = Kernel(kernel=speckle_noise, realization=draw_ranks, bounds={"scale": Range(0, 10)})
