"""Kernels against slow renditions of their definitions, on frames of any shape.

What imagecorruptions or the papers' code made of a frame stands in the tests called golden.
"""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest
from kernel_scenes import (
    SIZES,
    assert_close,
    bound,
    drawn,
    each_severity,
    each_size,
    frames_of,
    motion_of,
    perturbed,
    scene,
    truncated,
)
from looping import each
from scipy import ndimage, stats
from skimage import filters

from perturbations.suites import suite_registry
from perturbations.video import camera, digital, frost, noise, weather

PIL = pytest.importorskip("PIL.Image")


# --- one formula each ------------------------------------------------------------------------------------------------


def gaussian_noise(x: np.ndarray, unit: np.ndarray, sigma: float) -> np.ndarray:
    return x + sigma * (unit if unit.dtype != np.uint16 else noise.normal_quantiles()[unit]).astype(float)


def speckle_noise(x: np.ndarray, ranks: np.ndarray, scale: float) -> np.ndarray:
    return x + x * scale * noise.normal_quantiles()[ranks]


def shot_noise(x: np.ndarray, ranks: np.ndarray, rate: float) -> np.ndarray:
    """The Poisson number of each rank."""
    return stats.poisson.ppf((ranks // 4 + 0.5) / 16384, rate * x) / rate


def impulse_noise(x: np.ndarray, u: np.ndarray, amount: float) -> np.ndarray:
    return np.where((u < amount / 2)[..., None], 0, np.where((u >= 1 - amount / 2)[..., None], 1, x))


def salt_and_pepper(x: np.ndarray, ranks: np.ndarray, amount: float) -> np.ndarray:
    return np.where(ranks < amount * 32768, 0, np.where(ranks >= (1 - amount / 2) * 65536, 1, x))


def fog(x: np.ndarray, uniform: np.ndarray, intensity: float, decay: float) -> np.ndarray:
    height, width = x.shape[1:3]
    plasma = weather.plasma(uniform, weather.plasma_side(height, width), decay)
    m = x.max(axis=(1, 2, 3), keepdims=True)
    m[m == 0] = 1
    return (x + intensity * plasma[:height, :width, None]) * m / (m + intensity)


def snow(x: np.ndarray, flakes: weather.Snow, blend: float, **of_flakes: float) -> np.ndarray:
    height, width = x.shape[1:3]
    curtain = weather.snow_curtain(flakes, height + 3 * (len(x) - 1), width, **of_flakes)  # type: ignore[arg-type]
    grey = (x @ [0.299, 0.587, 0.114])[..., None]
    s = np.stack([curtain[3 * i : 3 * i + height] for i in range(len(x))])[..., None] / 255
    return blend * x + (1 - blend) * np.maximum(x, 1.5 * grey + 0.5) + s + s[:, ::-1, ::-1]


def still_snow(x: np.ndarray, flakes: weather.Snow, **parameters: float) -> np.ndarray:
    return np.concatenate([snow(frame[None], flakes, **parameters) for frame in x])


def frosted(x: np.ndarray, pane: frost.Pane, kept: float, added: float) -> np.ndarray:
    return kept * x + added * pane.ice / 255


def contrast(x: np.ndarray, _: None, factor: float) -> np.ndarray:
    means = x.mean(axis=(1, 2), keepdims=True)
    return (x - means) * factor + means


def defocus_blur(x: np.ndarray, _: None, radius: int, alias: float) -> np.ndarray:
    """The disk on ImageNet-C's grid, smoothed by a Gaussian of few taps that mirrors at the grid's end."""
    reach = max(8, radius)
    down, across = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disk = (across**2 + down**2 <= radius**2).astype(float)
    disk /= disk.sum()
    taps = np.arange(-1, 2) if radius <= 8 else np.arange(-2, 3)
    weights = np.exp(-(taps**2) / (2 * alias**2))
    for axis in (0, 1):
        disk = ndimage.correlate1d(disk, weights / weights.sum(), axis=axis, mode="mirror")
    return np.stack([ndimage.correlate(frame, disk[..., None], mode="mirror") for frame in x])


def elastic_distortion(x: np.ndarray, fields: digital.Elastic, alpha: float, sigma: float, affine: float) -> np.ndarray:
    """Both steps truncate nothing: their values are levels already."""
    jitter, across, down = fields
    height, width = x.shape[1:3]
    matrix = digital.affine_matrix(affine * jitter, height, width)
    back = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    if np.abs(back).max() > 1000:
        pytest.skip("a nearly singular transform magnifies rounding without end")
    rows, columns = np.mgrid[:height, :width].astype(float)
    tilt = back[1, 0] * columns + back[1, 1] * rows + back[1, 2], back[0, 0] * columns + back[0, 1] * rows + back[0, 2]
    wobble = [
        places + alpha * ndimage.gaussian_filter(field.astype(float), sigma, mode="reflect", truncate=3)
        for places, field in ((rows, down), (columns, across))
    ]
    moved = np.empty(x.shape)
    for frame, channel in itertools.product(range(len(x)), range(3)):
        tilted = ndimage.map_coordinates(255 * x[frame, ..., channel], tilt, order=1, mode="mirror")
        moved[frame, ..., channel] = ndimage.map_coordinates(tilted, wobble, order=1, mode="reflect") / 255
    return moved


def glass_blur(x: np.ndarray, steps: np.ndarray, sigma: float, delta: int, iterations: int) -> np.ndarray:
    """The reference's loop, in which the swap of two views copies one of them."""

    def soft(picture: np.ndarray) -> np.ndarray:
        return truncated(filters.gaussian(picture, sigma, mode="nearest", truncate=4.0, channel_axis=-1)) / 255

    height, width = x.shape[1:3]
    places = np.arange(height * width).reshape(height, width)
    for drawn_steps in steps[:iterations]:
        for h in range(height - delta, delta, -1):
            for w in range(width - delta, delta, -1):
                dy, dx = (int(offsets[h, w]) * 2 * delta // 65536 - delta for offsets in drawn_steps)
                places[h, w] = places[h + dy, w + dx]
    return np.stack([soft(soft(frame).reshape(-1, 3)[places]) for frame in x])


def streak_blur(x: np.ndarray, angle: float, radius: int, sigma: float) -> np.ndarray:
    """ImageMagick's motion blur, one tap at a time; a grey level is 257 of its own."""
    height, width = x.shape[1:3]
    weights = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(2 * radius + 1)]
    total = np.zeros(x.shape)
    for i, weight in enumerate(weights):
        row = math.ceil(i * math.sin(math.radians(angle)) - 0.5)
        column = math.ceil(i * math.cos(math.radians(angle)) - 0.5)
        rows = np.clip(np.arange(height) + row, 0, height - 1)
        columns = np.clip(np.arange(width) + column, 0, width - 1)
        total += 255 * weight / sum(weights) * x[:, rows][:, :, columns]
    return np.floor(total * 257 + 0.5) / 257 / 255


def moving_blur(x: np.ndarray, kernels: Callable[[float], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Where a frame moves, the second kernel of its angle, elsewhere the first: plain correlations, rounded."""
    levels = np.empty(x.shape)
    for index, frame in enumerate(x):
        mask, angle, _ = motion_of(*x.shape[:3])(index)
        slow, fast = (
            cv2.filter2D(255 * frame, -1, kernel, borderType=cv2.BORDER_REFLECT_101) for kernel in kernels(angle)
        )
        levels[index] = (np.where(mask[..., None], fast, slow) + 0.5) / 255
    return levels


def motion_blur(x: np.ndarray, _: None, low: int, high: int, still: str) -> np.ndarray:
    def line(length: int, angle: float) -> np.ndarray:
        grid = np.zeros((length, length), np.float32)
        grid[length // 2] = 1
        grid = cv2.warpAffine(grid, cv2.getRotationMatrix2D((length / 2, length / 2), angle, 1), (length, length))
        return (grid / grid.sum()).astype(float)

    return moving_blur(x, lambda angle: (line(low, angle), line(high, angle)))


def video_defocus(x: np.ndarray, _: None, radius: int, still: str) -> np.ndarray:
    def disk(radius: int) -> np.ndarray:
        down, across = np.mgrid[-radius : radius + 1, -radius : radius + 1]
        inside = (across**2 + down**2 <= radius**2).astype(float)
        return inside / inside.sum()

    return moving_blur(x, lambda _: (disk(radius), disk(2 * radius)))


class Rendition(NamedTuple):
    """What a kernel computes: `levels` of 0 to 1, T x H x W x 3, from such frames, the realization and parameters.

    `equal` is the share of values that must be equal, the others may be one level apart: of frames, and of tiny ones,
    of which a good part may be whole numbers, which floats reach from below or above.
    """

    levels: Callable[..., np.ndarray]
    equal: float = 1.0
    equal_if_tiny: float = 1.0


RENDITIONS = {
    "mlvp/gaussian_noise": Rendition(gaussian_noise),
    "mlvp/impulse_noise": Rendition(impulse_noise),
    "mlvp/fog": Rendition(fog, 0.999, 0),
    "mlvp/snow": Rendition(snow, 0.95, 0.9),
    "mlvp/elastic_distortion": Rendition(elastic_distortion, 0.98, 0.98),
    "mlvp/motion_blur": Rendition(motion_blur, 0.98, 0.98),
    "mlvp/video_defocus": Rendition(video_defocus, 0.98, 0.9),
    "msrvtt_p/gaussian_noise": Rendition(gaussian_noise),
    "msrvtt_p/speckle_noise": Rendition(speckle_noise, 0.99, 0.99),
    "msrvtt_p/impulse_noise": Rendition(salt_and_pepper),
    "msrvtt_p/defocus_blur": Rendition(defocus_blur, 0.95, 0.9),
    "msrvtt_p/motion_blur": Rendition(streak_blur, 0.95, 0.9),
    "mm_robustness/speckle_noise": Rendition(speckle_noise, 0.99, 0.99),
    "mm_robustness/shot_noise": Rendition(shot_noise),
    "mm_robustness/glass_blur": Rendition(glass_blur, 0.98, 0.98),
    "mm_robustness/snow": Rendition(still_snow, 0.95, 0.9),
    "mm_robustness/frost": Rendition(frosted, 0.99, 0.99),
    "mm_robustness/contrast": Rendition(contrast, 0.99, 0),
}


@pytest.mark.parametrize("key", RENDITIONS)
@each_size
@each_severity
def test_a_kernel_computes_its_formula(severity: int, size: tuple[int, int], key: str) -> None:
    entry, rendition = suite_registry.get(key), RENDITIONS[key]
    frames = frames_of(size)
    levels = rendition.levels(frames / 255, drawn(entry, len(frames), *size), **entry.parameters(severity))
    ours, exact = perturbed(entry, severity, frames), truncated(levels)
    assert_close(ours, exact, rendition.equal if min(size) > 9 else rendition.equal_if_tiny)
    if min(size) > 9:  # off by one in either direction, without a drift
        assert abs(np.mean(ours - exact)) < 0.05


def test_quantiles_are_normal() -> None:
    expected = stats.norm.ppf((np.arange(65536) + 0.5) / 65536)
    np.testing.assert_allclose(noise.normal_quantiles(), expected, rtol=0, atol=1e-9)


# --- camera ----------------------------------------------------------------------------------------------------------


@each("size", [*SIZES, (72, 96), (240, 320)])
@each("degrees", [-31, -13, -1, 0, 7.5, 15, 30, 45, 90, 180])
def test_rotation_is_pillows(degrees: float, size: tuple[int, int]) -> None:
    frame = np.random.default_rng(0).integers(1, 256, (*size, 3), dtype=np.uint8)
    ours = camera.static_rotate(None, 1, *size, degrees=degrees)(frame, 0)
    equal = (ours == np.asarray(PIL.fromarray(frame).rotate(degrees))).all(axis=-1)
    assert equal.all() if size != (240, 320) else equal.mean() > 0.9999


@each("origin", [(0.0, 0.0), (0.999, 0.0), (0.3, 0.7), (0.999, 0.999)])
@each("size", [(64, 48), (240, 320), (37, 53)])
@each_severity
def test_translate_shows_the_window_of_the_reference(severity: int, size: tuple[int, int], origin: Any) -> None:
    """With 256 pixels on the shorter side: from the crop's origin on, 7/8 of the frame."""
    height, width = size
    reach = suite_registry.get("msrvtt_p/translate").parameters(severity)["reach"]
    frame = scene(1, *size)[0]
    corner = np.array([math.floor(unit * reach) for unit in origin]) * min(size) / 256
    y, x = np.mgrid[:height, :width]
    places = (y + 0.5) * 7 / 8 + corner[1] - 0.5, (x + 0.5) * 7 / 8 + corner[0] - 0.5
    moved = [
        ndimage.map_coordinates(frame[..., channel].astype(float), places, order=1, mode="nearest")
        for channel in range(3)
    ]
    ours = camera.translate(origin, 1, *size, reach=reach)(frame, 0)
    assert_close(ours, np.rint(np.dstack(moved)).astype(int), 0.95)


# --- weather ---------------------------------------------------------------------------------------------------------


@each_severity
def test_snow_is_made_in_bands_that_leave_no_seam(severity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = suite_registry.get("mlvp/snow", "paper")
    parameters = {name: value for name, value in entry.parameters(severity).items() if name != "blend"}
    flakes = drawn(entry, 200, 24, 40)
    rows = weather.curtain_rows(200, 24)
    assert rows > 2 * weather._BAND
    curtain = weather.snow_curtain(flakes, rows, 40, **parameters)
    for band in (7, 10_000):
        monkeypatch.setattr(weather, "_BAND", band)
        assert np.array_equal(weather.snow_curtain(flakes, rows, 40, **parameters), curtain)


def test_snow_holds_a_byte_a_pixel_of_a_long_clip() -> None:
    entry = suite_registry.get("mlvp/snow")
    shape = (20_000, 30, 100)
    curtain_bytes = (30 + 3 * 19_999) * 100
    tracemalloc.start()
    try:
        apply = bound(entry, 5, drawn(entry, *shape), shape)
        held, peak = tracemalloc.get_traced_memory()
        apply(np.zeros((30, 100, 3), np.uint8), 19_999)
    finally:
        tracemalloc.stop()
    assert held < 1.5 * curtain_bytes
    # A quarter of the canvas in single precision, the curtain, and a few bands.
    assert peak < 3 * curtain_bytes


@pytest.mark.parametrize("shape", [(40, 60), (400, 900), (30, 2000)], ids=str)
def test_a_photograph_of_frost_covers_the_frame(shape: tuple[int, int]) -> None:
    """The part that the place says, of the photograph at a fifth of its size or as small as covers the frame."""
    down, right = np.mgrid[: shape[0], : shape[1]]
    photograph = np.dstack([255 * down / shape[0], 255 * right / shape[1], 0 * down]).astype(np.uint8)
    first = frost.frost_part(photograph, (0.0, 0.0), 48, 64)
    last = frost.frost_part(photograph, (0.999, 0.999), 48, 64)
    assert first.shape == last.shape == (48, 64, 3)
    assert first[0, 0, :2].max() < 20
    assert last[-1, -1, :2].min() > 230
    frame = frames_of((48, 64))[0]
    pane = frost.Pane((0.5, 0.5), np.zeros((48, 64, 3), np.uint8))
    drawn_ice, photographed = (
        frost.frost(pane, ice, 1, 48, 64, kept=0.5, added=1.0)(frame, 0) for ice in (None, photograph)
    )
    assert np.array_equal(drawn_ice, frame // 2)
    assert not np.array_equal(drawn_ice, photographed)


# --- digital ---------------------------------------------------------------------------------------------------------


def test_contrast_that_is_raised_is_clipped() -> None:
    """No published factor raises it, but a configuration may."""
    frame = frames_of((37, 53))[:1]
    ours = digital.contrast(None, 1, 37, 53, factor=3.0)(frame[0], 0)
    assert {0, 255} <= set(np.unique(ours))
    assert_close(ours[None], truncated(contrast(frame / 255, None, 3.0)), 0.99)


def test_a_singular_transform_ends() -> None:
    """The three points fall on a line: OpenCV's own mirroring would take steps for hours."""
    height, width = 9, 12
    reach, x, y = 3, 4, 6
    points = np.array([[x + reach, y + reach], [x + reach, y - reach], [x - reach, y - reach]])
    for nearly in (0.0, 1e-6):
        line = np.array([[0, 0], [5, 5], [9, 9 + nearly]])
        fields = np.zeros((height, width), np.float32)
        realization = digital.Elastic(line - points, fields, fields)
        frame = scene(1, height, width)[0]
        apply = digital.elastic_distortion(realization, 1, height, width, alpha=1.0, sigma=1.0, affine=1.0)
        assert apply(frame, 0).shape == frame.shape


@each_severity
def test_pixelate_is_pillows(severity: int) -> None:
    """Sizes decide where a pixel's centre lies between two blocks."""
    scale = suite_registry.get("mm_robustness/pixelate").parameters(severity)["scale"]
    for height, width in [*SIZES, *((8 + width % 9, width) for width in range(8, 800, 15))]:
        frame = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
        coarse = max(1, int(width * scale)), max(1, int(height * scale))
        exact = PIL.fromarray(frame).resize(coarse, PIL.Resampling.BOX).resize((width, height), PIL.Resampling.BOX)
        assert np.array_equal(digital.pixelate(None, 1, height, width, scale=scale)(frame, 0), np.asarray(exact))
