"""MLVP's noise, fog, snow and elastic distortion, against slow code that follows the text."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from looping import each
from scipy import ndimage
from test_kernels import assert_close, bound, drawn, each_severity, each_size, perturbed, scene, truncated

from perturbations.suites import registry
from perturbations.suites.registry import Perturbation
from perturbations.video import digital, noise, weather

# --- noise -----------------------------------------------------------------------------------------------------------


@each_size
@each_severity
def test_gaussian_noise_is_exact(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("mlvp/gaussian_noise")
    frames = np.concatenate([scene(1, *size), np.zeros((1, *size, 3), np.uint8), np.full((1, *size, 3), 255, np.uint8)])
    n = entry.parameters(severity)["sigma"] * drawn(entry, 3, *size).astype(np.float64)
    exact = np.floor(np.clip(frames / 255 + n, 0, 1) * 255 + 1e-9)
    assert np.array_equal(perturbed(entry, severity, frames), exact)


@each_size
@each_severity
def test_impulse_noise_is_exact(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("mlvp/impulse_noise")
    frames = scene(2, *size)
    amount = entry.parameters(severity)["amount"]
    u = drawn(entry, 2, *size)
    exact = frames.copy()
    exact[:, u < amount / 2] = 0
    exact[:, u >= 1 - amount / 2] = 255
    assert np.array_equal(perturbed(entry, severity, frames), exact)


def test_impulse_masks_are_nested_and_of_the_published_size() -> None:
    entry = registry.get("mlvp/impulse_noise")
    frames = np.full((2, 200, 300, 3), 100, np.uint8)
    results = [perturbed(entry, severity, frames) for severity in entry.severities]
    for severity, result in zip(entry.severities, results, strict=True):
        assert np.array_equal(result[0], result[1])
        assert (result == result[..., :1]).all()
        for level in (0, 255):
            assert np.mean(result == level) == pytest.approx(entry.parameters(severity)["amount"] / 2, rel=0.1)
    for milder, stronger in itertools.pairwise(results):
        assert np.array_equal(stronger[milder != 100], milder[milder != 100])
    # Below a/2 is pepper and a/2 is not; 1 - a/2 is salt.
    u = np.array([[0.0, 0.249, 0.25, 0.5, 0.749, 0.75, 0.999]])
    result = noise.impulse_noise(u, 1, 1, 7, amount=0.5)(np.full((1, 7, 3), 9, np.uint8), 0)
    assert result[0, :, 0].tolist() == [0, 0, 9, 9, 9, 255, 255]


# --- fog -------------------------------------------------------------------------------------------------------------


def slow_plasma(uniform: np.ndarray, side: int, decay: float) -> np.ndarray:
    """Diamond-square, one point at a time, indices modulo the side."""
    surface = np.zeros((side, side))
    numbers = iter(uniform.tolist())
    step, wibble = side, 100.0

    def place(row: int, column: int, neighbours: list[tuple[int, int]]) -> None:
        mean = sum(surface[r % side, c % side] for r, c in neighbours) / 4
        surface[row, column] = mean + wibble * (wibble * next(numbers))

    while step >= 2:
        half = step // 2
        grid = range(0, side, step)
        for r in grid:
            for c in grid:
                place(r + half, c + half, [(r, c), (r + step, c), (r, c + step), (r + step, c + step)])
        for r in grid:
            for c in grid:
                place(r, c + half, [(r, c), (r, c + step), (r + half, c + half), (r - half, c + half)])
        for r in grid:
            for c in grid:
                place(r + half, c, [(r, c), (r + step, c), (r + half, c + half), (r + half, c - half)])
        step, wibble = half, wibble / decay
    assert next(numbers, None) is None
    surface -= surface.min()
    return surface / surface.max() if surface.max() else surface


@each_size
@each_severity
def test_fog(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("mlvp/fog")
    height, width = size
    frames = scene(3, height, width)
    frames[1] //= 3  # darker, so that the frame's own maximum counts
    frames[2] = 0
    intensity, decay = entry.parameters(severity).values()
    side = next(2**k for k in range(20) if 2**k >= max(size))
    uniform = drawn(entry, 3, *size)
    plasma = slow_plasma(uniform, side, decay)
    np.testing.assert_allclose(weather.plasma(uniform, side, decay), plasma, rtol=0, atol=1e-6)
    x = frames / 255
    m = x.max(axis=(1, 2, 3), keepdims=True)
    m[m == 0] = 1
    exact = truncated((x + intensity * plasma[:height, :width, None]) * m / (m + intensity))
    # A tiny plasma has extremes at a good part of its pixels, and there the exact result is a whole number.
    assert_close(perturbed(entry, severity, frames), exact, 0.999 if min(size) > 9 else 0)


@pytest.mark.parametrize(
    ("size", "side"), [((1, 1), 1), ((1, 2), 2), ((2, 3), 4), ((240, 320), 512), ((512, 9), 512), ((513, 9), 1024)]
)
def test_the_plasma_covers_the_frame(size: tuple[int, int], side: int) -> None:
    assert weather.plasma_side(*size) == side
    unit = weather.draw_plasma(np.random.default_rng(0), 1, *size)
    assert unit.shape == (side * side - 1,)
    assert (np.abs(unit) <= 1).all()


# --- snow ------------------------------------------------------------------------------------------------------------


def slow_blur(plane: np.ndarray, radius: int, sigma: float, angle: float) -> np.ndarray:
    """ImageMagick's motion blur, one tap at a time; a grey level is 257 of its own."""
    height, width = plane.shape
    weights = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(2 * radius + 1)]
    total = np.zeros(plane.shape)
    for i, weight in enumerate(weights):
        row = math.ceil(i * math.sin(math.radians(angle)) - 0.5)
        column = math.ceil(i * math.cos(math.radians(angle)) - 0.5)
        rows = np.clip(np.arange(height) + row, 0, height - 1)
        columns = np.clip(np.arange(width) + column, 0, width - 1)
        total += weight / sum(weights) * plane[rows][:, columns]
    return np.floor(np.floor(total * 257 + 0.5) / 257).astype(np.uint8)


def slow_curtain(snow: weather.Snow, rows: int, columns: int, parameters: dict[str, Any]) -> np.ndarray:
    """The curtain from a whole canvas, of which our flakes are the middle."""
    canvas = np.full((rows, columns), np.nan, np.float32)
    top, left = ((full - part) // 2 for full, part in zip(canvas.shape, snow.flakes.shape, strict=True))
    canvas[top : top + snow.flakes.shape[0], left : left + snow.flakes.shape[1]] = snow.flakes
    zoom = parameters["zoom"]
    height, width = math.ceil(rows / zoom), math.ceil(columns / zoom)
    top, left = (rows - height) // 2, (columns - width) // 2
    zoomed = ndimage.zoom(canvas[top : top + height, left : left + width], zoom, order=1)
    top, left = (zoomed.shape[0] - rows) // 2, (zoomed.shape[1] - columns) // 2
    zoomed = zoomed[top : top + rows, left : left + columns]
    layer = zoomed * np.float32(parameters["scale"]) + np.float32(parameters["loc"])
    layer = np.clip(np.where(layer < parameters["threshold"], 0, layer), 0, 1)
    flakes = (layer * 255).astype(np.uint8)
    return slow_blur(flakes, parameters["radius"], parameters["sigma"], snow.angle)


def of_flakes(entry: Perturbation, severity: int) -> dict[str, Any]:
    return {name: value for name, value in entry.parameters(severity).items() if name != "blend"}


@each_size
@each_severity
def test_snow_curtain(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("mlvp/snow")
    height, width = size
    num_frames = 12
    rows = height + 3 * (num_frames - 1)
    flakes = drawn(entry, num_frames, height, width)
    parameters = of_flakes(entry, severity)
    curtain = weather.snow_curtain(flakes, rows, width, **parameters)
    assert curtain.shape == (rows, width)
    assert_close(curtain, slow_curtain(flakes, rows, width, parameters), 0.999)


@each_size
@each_severity
def test_snow(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("mlvp/snow")
    height, width = size
    frames = np.concatenate([scene(4, *size), np.full((1, *size, 3), (0, 0, 255), np.uint8)])
    frames = np.concatenate([frames, np.random.default_rng(0).integers(0, 256, (3, *size, 3), dtype=np.uint8)])
    flakes = drawn(entry, len(frames), height, width)
    curtain = weather.snow_curtain(flakes, height + 3 * (len(frames) - 1), width, **of_flakes(entry, severity))
    x = frames / 255
    grey = (x @ [0.299, 0.587, 0.114])[..., None]
    s = np.stack([curtain[3 * i : 3 * i + height] for i in range(len(frames))])[..., None] / 255
    blend = entry.parameters(severity)["blend"]
    y = blend * x + (1 - blend) * np.maximum(x, 1.5 * grey + 0.5) + s + s[:, ::-1, ::-1]
    ours = perturbed(entry, severity, frames)
    assert_close(ours, truncated(y), 0.95)
    if height * width > 100:  # off by one in either direction, without a drift
        assert abs(np.mean(ours - truncated(y))) < 0.03


@each_severity
def test_snow_is_made_in_bands_that_leave_no_seam(severity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.get("mlvp/snow", "paper")
    parameters = of_flakes(entry, severity)
    flakes = drawn(entry, 200, 24, 40)
    rows = weather.curtain_rows(200, 24)
    assert rows > 2 * weather._BAND
    curtain = weather.snow_curtain(flakes, rows, 40, **parameters)
    assert_close(curtain, slow_curtain(flakes, rows, 40, parameters), 0.999)
    for band in (7, 10_000):
        monkeypatch.setattr(weather, "_BAND", band)
        assert np.array_equal(weather.snow_curtain(flakes, rows, 40, **parameters), curtain)


def test_all_severities_see_the_middle_of_one_canvas() -> None:
    """At the middle of the canvas every zoom shows the same flake."""
    rows, columns = 121, 81
    flakes = np.zeros((61, 41), np.float32)
    flakes[30, 20] = 1
    for severity in range(1, 6):
        zoom = registry.get("mlvp/snow").parameters(severity)["zoom"]
        zoomed = weather.zoomed_canvas(flakes, rows, columns, zoom, 0, rows)
        brightest = np.unravel_index(zoomed.argmax(), zoomed.shape)
        assert np.abs(np.subtract(brightest, (60, 40))).max() <= zoom


def test_snow_draws_angles_of_falling_and_no_more_than_the_smallest_zoom_shows() -> None:
    angles = [weather.draw_snow(np.random.default_rng(seed), 1, 2, 2).angle for seed in range(400)]
    assert -135 <= min(angles) < -133
    assert -47 < max(angles) <= -45
    zooms = [registry.get("mlvp/snow").parameters(severity)["zoom"] for severity in range(1, 6)]
    assert min(zooms) == 2
    flakes = weather.draw_snow(np.random.default_rng(0), 100, 36, 63).flakes
    assert (flakes.shape, flakes.dtype) == ((math.ceil((36 + 3 * 99) / 2), 32), np.float32)
    assert flakes.std() == pytest.approx(1, abs=0.05)


def test_snow_holds_a_byte_a_pixel_of_a_long_clip() -> None:
    entry = registry.get("mlvp/snow")
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


# --- elastic distortion ----------------------------------------------------------------------------------------------


def slow_affine(jitter: np.ndarray, height: int, width: int) -> np.ndarray:
    """Where the three points go, solved; its centre is (height, width) / 2 taken as (x, y)."""
    a, b, reach = height // 2, width // 2, min(height, width) // 3
    points = np.array([[a + reach, b + reach], [a + reach, b - reach], [a - reach, b - reach]], float)
    if reach == 0:
        return np.eye(2, 3)
    return np.linalg.solve(np.column_stack([points, np.ones(3)]), points + jitter).T


@each_size
@each_severity
def test_elastic_distortion(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("mlvp/elastic_distortion")
    height, width = size
    frames = scene(2, height, width)
    alpha, sigma, affine = entry.parameters(severity).values()
    jitter, across, down = drawn(entry, 2, height, width)
    matrix = slow_affine(affine * jitter, height, width)
    back = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    if np.abs(back).max() > 1000:
        return  # a nearly singular transform magnifies rounding without end
    rows, columns = np.mgrid[:height, :width].astype(float)
    tilt = back[1, 0] * columns + back[1, 1] * rows + back[1, 2], back[0, 0] * columns + back[0, 1] * rows + back[0, 2]
    wobble = [
        places + alpha * ndimage.gaussian_filter(field.astype(float), sigma, mode="reflect", truncate=3)
        for places, field in ((rows, down), (columns, across))
    ]
    exact = np.empty(frames.shape, int)
    for frame, out in zip(frames, exact, strict=True):
        for channel in range(3):
            tilted = ndimage.map_coordinates(frame[..., channel].astype(float), tilt, order=1, mode="mirror")
            moved = ndimage.map_coordinates(tilted, wobble, order=1, mode="reflect")
            out[..., channel] = np.floor(moved + 1e-7)
    assert_close(perturbed(entry, severity, frames), exact, 0.98)


@each("sigma", [0.4, 2.44, 19.52, 170.8])
@each_size
def test_smoothing_is_a_gaussian_with_mirrored_borders(size: tuple[int, int], sigma: float) -> None:
    field = np.random.default_rng(0).uniform(-1, 1, size)
    expected = ndimage.gaussian_filter(field, sigma, mode="reflect", truncate=3)
    np.testing.assert_allclose(digital.smooth(field, sigma), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("edge", "mode"), [(0.0, "reflect"), (0.5, "symmetric")])
@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_mirroring(size: int, edge: float, mode: Any) -> None:
    whole = np.arange(-25.0, size + 25)
    expected = np.pad(np.arange(size), 25, mode=mode)
    assert np.array_equal(digital.reflected(whole, size, edge=edge), expected)
    # Between two pixels, the same pair as at the mirror image.
    values = np.random.default_rng(0).uniform(0, 255, size)
    between = np.linspace(-20, size + 20, 997)
    place = digital.reflected(between, size, edge=edge)
    assert (place.min(), place.max()) >= (0, 0)
    assert place.max() <= size - 1
    padded = np.pad(values, 25, mode=mode)
    expected = np.interp(between, np.arange(-25, size + 25), padded)
    np.testing.assert_allclose(np.interp(place, np.arange(size), values), expected, rtol=0, atol=0.01)


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
