"""The kernels of MSRVTT-P and MM-Robustness against slow renditions of their definitions, on frames of any shape."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from looping import each
from scipy import ndimage, stats
from skimage import filters
from test_kernels import SIZES, assert_close, drawn, each_severity, each_size, perturbed, scene, truncated
from test_mlvp_kernels import slow_blur

from perturbations.suites import registry
from perturbations.video import blur, camera, digital, frost, noise, weather

PIL = pytest.importorskip("PIL.Image")


def frames_of(size: tuple[int, int]) -> np.ndarray:
    """Three pictures, noise among them, a black one and a white one."""
    noisy = np.random.default_rng(1).integers(0, 256, (1, *size, 3), dtype=np.uint8)
    return np.concatenate(
        [scene(2, *size), noisy, np.zeros((1, *size, 3), np.uint8), np.full((1, *size, 3), 255, np.uint8)]
    )


# --- noise -----------------------------------------------------------------------------------------------------------


def test_ranks_are_uniform_and_quantiles_normal() -> None:
    ranks = noise.draw_ranks(np.random.default_rng(0), 9, 120, 161)
    assert (ranks.shape, ranks.dtype) == ((120, 161, 3), np.uint16)
    assert stats.kstest(ranks.ravel() / 65536, "uniform").pvalue > 0.01
    assert np.abs(np.corrcoef(ranks.reshape(-1, 3).T) - np.eye(3)).max() < 0.03
    assert abs(np.corrcoef(ranks[:, 1:].ravel(), ranks[:, :-1].ravel())[0, 1]) < 0.02
    quantiles = noise.normal_quantiles()
    expected = stats.norm.ppf((np.arange(65536) + 0.5) / 65536)
    np.testing.assert_allclose(quantiles, expected, rtol=0, atol=1e-9)
    assert quantiles.std() == pytest.approx(1, abs=2e-4)


@each_size
@each_severity
def test_fresh_gaussian_noise_is_exact(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("msrvtt_p/gaussian_noise")
    frames = frames_of(size)
    n = entry.parameters(severity)["sigma"] * noise.normal_quantiles()[drawn(entry, len(frames), *size)]
    exact = np.floor(np.clip(frames / 255 + n, 0, 1) * 255 + 1e-9)
    assert np.array_equal(perturbed(entry, severity, frames), exact)


@each_size
@each_severity
@each("suite", ["msrvtt_p", "mm_robustness"])
def test_speckle_noise(suite: str, severity: int, size: tuple[int, int]) -> None:
    entry = registry.get(f"{suite}/speckle_noise")
    frames = frames_of(size)
    x = frames / 255
    n = entry.parameters(severity)["scale"] * noise.normal_quantiles()[drawn(entry, len(frames), *size)]
    assert_close(perturbed(entry, severity, frames), truncated(x + x * n), 0.99)


@each_size
@each_severity
def test_shot_noise_has_the_poisson_number_of_its_rank(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("mm_robustness/shot_noise")
    frames = frames_of(size)
    rate = entry.parameters(severity)["rate"]
    ranks = drawn(entry, len(frames), *size)
    counts = stats.poisson.ppf((ranks // 4 + 0.5) / 16384, rate * frames / 255)
    exact = (np.clip(counts / rate, 0, 1) * 255).astype(np.uint8)
    assert np.array_equal(perturbed(entry, severity, frames), exact)


@each_severity
@each("suite", ["msrvtt_p", "mm_robustness"])
def test_salt_and_pepper_hits_single_colour_values(suite: str, severity: int) -> None:
    entry = registry.get(f"{suite}/impulse_noise")
    frame = np.full((1, 150, 200, 3), 100, np.uint8)
    result = perturbed(entry, severity, frame)[0]
    for level in (0, 255):
        assert np.mean(result == level) == pytest.approx(entry.parameters(severity)["amount"] / 2, rel=0.1)
    hit = result != 100
    assert np.abs(np.corrcoef(hit.reshape(-1, 3).T) - np.eye(3)).max() < 0.05
    if severity > 1:
        milder = perturbed(entry, severity - 1, frame)[0]
        assert np.array_equal(result[milder != 100], milder[milder != 100])


def test_the_text_of_shot_noise_is_impulse_noise() -> None:
    shot, impulse = registry.get("msrvtt_p/shot_noise"), registry.get("msrvtt_p/impulse_noise")
    frame, ranks = scene(1, 30, 40)[0], drawn(impulse, 1, 30, 40)
    for severity in shot.severities:
        first, second = (
            entry.kernel(ranks, 1, 30, 40, **entry.in_variant("paper").parameters(severity))(frame, 0)
            for entry in (shot, impulse)
        )
        assert np.array_equal(first, second)


# --- blur ------------------------------------------------------------------------------------------------------------


def slow_disk(radius: int, alias: float) -> np.ndarray:
    """The disk on ImageNet-C's grid, smoothed by a Gaussian of few taps that mirrors at the grid's end."""
    reach = max(8, radius)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disk = (x**2 + y**2 <= radius**2).astype(float)
    taps = np.arange(-1, 2) if radius <= 8 else np.arange(-2, 3)
    weights = np.exp(-(taps**2) / (2 * alias**2))
    weights /= weights.sum()
    disk /= disk.sum()
    for axis in (0, 1):
        disk = ndimage.correlate1d(disk, weights, axis=axis, mode="mirror")
    return disk


@each_size
@each_severity
def test_defocus_blur(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("msrvtt_p/defocus_blur")
    frames = frames_of(size)
    kernel = slow_disk(**entry.parameters(severity))
    blurred = np.stack([ndimage.correlate(x, kernel[..., None], mode="mirror") for x in frames / 255])
    assert_close(perturbed(entry, severity, frames), truncated(blurred), 0.95 if min(size) > 9 else 0.9)


@each_size
@each_severity
@each("angle", [-45.0, -30.2, 0.0, 17.0, 44.9])
def test_motion_blur(angle: float, severity: int, size: tuple[int, int]) -> None:
    parameters = registry.get("msrvtt_p/motion_blur").parameters(severity)
    frame = frames_of(size)[2]
    exact = np.dstack([slow_blur(channel, **parameters, angle=angle) for channel in np.moveaxis(frame, 2, 0)])
    assert_close(blur.motion_blur(angle, 1, *size, **parameters)(frame, 0), exact, 0.995 if min(size) > 9 else 0.9)


def test_the_angles_of_motion_blur() -> None:
    angles = [blur.draw_angle(np.random.default_rng(seed), 1, 2, 2) for seed in range(400)]
    assert -45 <= min(angles) < -44
    assert 44 < max(angles) < 45


@each("size", [(37, 53), (64, 48), (5, 31)])
@each_severity
@each("suite", ["msrvtt_p", "mm_robustness"])
def test_zoom_blur(suite: str, severity: int, size: tuple[int, int]) -> None:
    entry = registry.get(f"{suite}/zoom_blur")
    frame = scene(1, *size)[0]
    stop, step = entry.parameters(severity).values()
    layers = [frame / 255]
    for factor in np.arange(1, stop, step):
        parts = [math.ceil(side / factor) for side in size]
        top, left = ((side - part) // 2 for side, part in zip(size, parts, strict=True))
        zoomed = ndimage.zoom(layers[0][top : top + parts[0], left : left + parts[1]], (factor, factor, 1), order=1)
        trim = [(length - side) // 2 for length, side in zip(zoomed.shape, size, strict=False)]
        layers.append(zoomed[trim[0] : trim[0] + size[0], trim[1] : trim[1] + size[1]])
    assert_close(perturbed(entry, severity, frame[None])[0], truncated(np.mean(layers, axis=0)), 0.85)


@each_size
@each("delta", [1, 2, 4])
def test_frosted_glass_takes_from_its_own_array(delta: int, size: tuple[int, int]) -> None:
    """The reference's loop, in which the swap of two views copies one of them."""
    height, width = size
    steps = blur.draw_glass(np.random.default_rng(0), 1, height, width)
    picture = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    x = picture.copy()
    for drawn_steps in steps:
        for h in range(height - delta, delta, -1):
            for w in range(width - delta, delta, -1):
                dy, dx = (int(offsets[h, w]) * 2 * delta // 65536 - delta for offsets in drawn_steps)
                x[h, w], x[h + dy, w + dx] = x[h + dy, w + dx], x[h, w]
    sources = blur.glass_sources(steps, height, width, delta)
    assert np.array_equal(picture.reshape(-1, 3)[sources], x)


@each("size", [(37, 53), (9, 31), (1, 9)])
@each_severity
def test_glass_blur(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("mm_robustness/glass_blur")
    frame = scene(1, *size)[0]
    sigma, delta, iterations = entry.parameters(severity).values()

    def blurred(picture: np.ndarray) -> np.ndarray:
        soft = filters.gaussian(picture / 255, sigma, mode="nearest", truncate=4.0, channel_axis=-1)
        return truncated(soft).astype(np.uint8)

    sources = blur.glass_sources(drawn(entry, 1, *size)[:iterations], *size, delta)
    exact = blurred(blurred(frame).reshape(-1, 3)[sources])
    assert_close(perturbed(entry, severity, frame[None])[0], exact, 0.98)


# --- camera ----------------------------------------------------------------------------------------------------------


@each("size", [*SIZES, (72, 96), (240, 320)])
@each("degrees", [-31, -13, -1, 0, 7.5, 15, 30, 45, 90, 180])
def test_rotation_is_pillows(degrees: float, size: tuple[int, int]) -> None:
    frame = np.random.default_rng(0).integers(1, 256, (*size, 3), dtype=np.uint8)
    ours = camera.static_rotate(None, 1, *size, degrees=degrees)(frame, 0)
    equal = (ours == np.asarray(PIL.fromarray(frame).rotate(degrees))).all(axis=-1)
    assert equal.all() if size != (240, 320) else equal.mean() > 0.9999


def test_rotate_turns_by_every_whole_angle_alike() -> None:
    size = 100, 140
    frame = scene(1, *size)[0]
    turned = {
        camera.static_rotate(None, 1, *size, degrees=float(degrees))(frame, 0).tobytes(): degrees
        for degrees in range(-7, 8)
    }
    units = (np.arange(60) + 0.5) / 60
    angles = [turned[camera.rotate(float(unit), 1, *size, most_degrees=7)(frame, 0).tobytes()] for unit in units]
    assert angles == sorted(angles)
    assert np.bincount(np.array(angles) + 7).tolist() == [4] * 15


@each("origin", [(0.0, 0.0), (0.999, 0.0), (0.3, 0.7), (0.999, 0.999)])
@each("size", [(64, 48), (240, 320), (37, 53)])
@each_severity
def test_translate_shows_the_window_of_the_reference(severity: int, size: tuple[int, int], origin: Any) -> None:
    """With 256 pixels on the shorter side: from the crop's origin on, 7/8 of the frame."""
    height, width = size
    reach = registry.get("msrvtt_p/translate").parameters(severity)["reach"]
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
def test_still_snow_is_the_first_moment_of_snow(severity: int) -> None:
    still, falling = registry.get("mm_robustness/snow"), registry.get("mlvp/snow")
    frames = np.repeat(scene(1, 37, 53), 3, axis=0)
    flakes = drawn(still, 3, 37, 53)
    parameters = still.parameters(severity)
    ours = [weather.still_snow(flakes, 3, 37, 53, **parameters)(frame, i) for i, frame in enumerate(frames)]
    assert all(np.array_equal(picture, ours[0]) for picture in ours)
    once = falling.kernel(flakes, 1, 37, 53, **parameters)(frames[0], 0)
    assert np.array_equal(ours[0], once)


@each_size
@each_severity
def test_frost(severity: int, size: tuple[int, int]) -> None:
    entry = registry.get("mm_robustness/frost")
    frames = frames_of(size)
    kept, added = entry.parameters(severity).values()
    exact = np.floor(np.clip(kept * frames + added * drawn(entry, len(frames), *size).ice.astype(float), 0, 255) + 1e-6)
    assert_close(perturbed(entry, severity, frames), exact, 0.99)


def test_the_ice_is_a_picture() -> None:
    ice = frost.draw_frost(np.random.default_rng(0), 1, 120, 160).ice
    assert (ice.shape, ice.dtype) == ((120, 160, 3), np.uint8)
    assert 90 < ice.mean() < 200
    assert ice.std() > 25
    assert not np.array_equal(ice, frost.draw_frost(np.random.default_rng(1), 1, 120, 160).ice)


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


@each_size
@each_severity
def test_contrast(severity: int, size: tuple[int, int]) -> None:
    frames = frames_of(size)
    factor = registry.get("mm_robustness/contrast").parameters(severity)["factor"]
    x = frames / 255
    means = x.mean(axis=(1, 2), keepdims=True)
    ours = perturbed(registry.get("mm_robustness/contrast"), severity, frames)
    assert_close(ours, truncated((x - means) * factor + means), 0.99 if min(size) > 9 else 0)


@each_severity
def test_pixelate_is_pillows(severity: int) -> None:
    """Sizes decide where a pixel's centre lies between two blocks."""
    scale = registry.get("mm_robustness/pixelate").parameters(severity)["scale"]
    for height, width in [*SIZES, *((8 + width % 9, width) for width in range(8, 800, 5))]:
        frame = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
        coarse = max(1, int(width * scale)), max(1, int(height * scale))
        exact = PIL.fromarray(frame).resize(coarse, PIL.Resampling.BOX).resize((width, height), PIL.Resampling.BOX)
        assert np.array_equal(digital.pixelate(None, 1, height, width, scale=scale)(frame, 0), np.asarray(exact))


@pytest.mark.parametrize("name", ["mpeg1", "mpeg2"])
def test_naming_the_quantizer_changes_nothing(name: str, tmp_path: Path) -> None:
    """The stream of the published scale alone is ours: the recorded quantizer is ffmpeg's own limit."""
    entry = registry.get(f"msrvtt_p/{name}")
    frames = scene(8, 48, 64).tobytes()

    def encoded(options: dict[str, Any]) -> bytes:
        path = tmp_path / "clip.mkv"
        given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "64x48", "-r", "25", "-i", "-"]
        wanted = [word for option, value in options.items() for word in (f"-{option}", str(value))]
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *given, *wanted, "-f", "rawvideo"]
        subprocess.run([*command, str(path)], input=frames, check=True)
        return path.read_bytes()

    streams = []
    for severity in entry.severities:
        ours = entry.kernel(**entry.parameters(severity))
        streams.append(encoded(ours))
        assert encoded({option: value for option, value in ours.items() if option != "qmax"}) == streams[-1]
    # A real limit: severity 5 is hardly smaller than the first severity that reaches it, not half of it.
    first = [entry.parameters(severity)["quantizer"] for severity in entry.severities].index(31)
    assert len(streams[0]) > len(streams[first])
    assert len(streams[4]) > 0.8 * len(streams[first])
