"""MM-Robustness, and MLVP's snow, as released: what holds of them on clips of any shape and length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_scenes import GUIDES, SIZES, assert_close, bound, drawn, each_severity, frames_of, perturbed, scene
from looping import each

from perturbations.base.arrays import uniform_indices
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation
from perturbations.video import frost, released_mm_robustness, style, weather

ROUNDED = ["gaussian_noise", "shot_noise", "speckle_noise", "defocus_blur", "zoom_blur", "brightness", "contrast"]
ROUNDED += ["elastic_transform"]


def released(name: str) -> Perturbation:
    return suite_registry.get(f"mm_robustness/{name}", "released")


@each_severity
@each("name", ROUNDED)
def test_rounding_is_half_a_level(name: str, severity: int) -> None:
    """The formula on the same draws, a level brighter in half of the values and nowhere else."""
    frames = scene(1, 60, 80)
    realization = drawn(released(name), 1, 60, 80)
    up = bound(released(name), severity, realization, frames.shape)(frames[0], 0).astype(int)
    down = bound(suite_registry.get(f"mm_robustness/{name}"), severity, realization, frames.shape)(frames[0], 0)
    assert set(np.unique(up - down)) <= {0, 1}
    changing = (down > 0) & (down < 255) & (down != frames[0])
    # A fifth and a third of white are whole levels.
    share = 0 if name == "shot_noise" and severity > 3 else 0.5
    assert (up - down)[changing].mean() == pytest.approx(share, abs=0.2 * (share > 0))


# --- glass -----------------------------------------------------------------------------------------------------------


@each("size", [*SIZES, (230, 40), (40, 300)])
@each_severity
def test_glass_is_the_loops_that_overwrite_their_bounds(severity: int, size: tuple[int, int]) -> None:
    """The loops themselves, on a picture of places."""
    height, width = size
    _, delta, iterations = released("glass_blur").parameters(severity).values()
    steps = drawn(released("glass_blur"), 1, height, width)
    places = np.arange(height * width).reshape(height, width)
    moved = places.copy()
    bounds = [height, width]
    for _ in range(int(iterations)):
        for h in range(min(bounds[0], 224) - delta, delta, -1):
            for w in range(min(bounds[1], 224) - delta, delta, -1):
                bounds[:] = h, w
                dy, dx = (int(offsets[h, w]) * 2 * delta // 65536 - delta for offsets in steps[0])
                moved[h, w] = moved[h + dy, w + dx]
    row, rows, columns = released_mm_robustness.glass_row(steps[0], height, width, delta)
    ours = places.copy()
    ours[row] = places[rows, columns]
    assert np.array_equal(ours, moved)
    assert len(np.unique(np.nonzero(ours != places)[0])) == int(min(height, width) > 2 * delta)


# --- weather ---------------------------------------------------------------------------------------------------------


def test_fog_of_a_side_is_one_map_whatever_the_frame() -> None:
    """A small frame sees the corner of what a large one sees; a frame beyond the side gets a map that covers it."""
    grey = [np.full((1, *size, 3), 100, np.uint8) for size in ((30, 40), (200, 60), (3, 1030))]
    small, tall, long = (perturbed(released("fog"), 4, frames)[0] for frames in grey)
    assert np.array_equal(tall[:30, :40], small)
    assert long.shape == (3, 1030, 3)
    assert len(drawn(released("fog"), 1, 3, 1030)) == 2048**2 - 1
    covering = released("fog").parameters(4) | {"side": 64}
    fog = released("fog").kernel(drawn(released("fog"), 1, 30, 40), 1, 30, 40, **covering)
    paper = suite_registry.get("mm_robustness/fog").kernel
    del covering["side"]
    same = paper(drawn(released("fog"), 1, 30, 40), 1, 30, 40, **covering)
    assert_close(fog(grey[0][0], 0), same(grey[0][0], 0).astype(int), 0.2)
    problems = suite_registry.parameter_problems(released("fog"), released("fog").parameters(1) | {"side": 1000})
    assert problems == ["side: must be a power of two, not 1000"]


def test_frost_is_the_corner_of_a_photograph_with_red_and_blue_exchanged() -> None:
    photograph = np.random.default_rng(0).integers(0, 256, (90, 130, 3), dtype=np.uint8)
    frame = frames_of((48, 64))[0]
    pane = frost.Pane((0.7, 0.7), np.zeros((48, 64, 3), np.uint8))
    iced = released_mm_robustness.frost_on_lens(pane, photograph, 1, 48, 64, kept=0.5, added=0.25)(frame, 0)
    exact = np.clip(np.rint(0.5 * frame + 0.25 * photograph[:48, :64, ::-1]), 0, 255)
    assert np.array_equal(iced, exact)
    bare = released_mm_robustness.frost_on_lens(pane, None, 1, 48, 64, kept=0.5, added=0.25)(frame, 0)
    assert np.array_equal(bare, np.rint(0.5 * frame))


@pytest.mark.parametrize("shape", [(20, 30), (48, 10), (100, 63), (1, 1)], ids=str)
def test_a_small_photograph_of_frost_is_enlarged(shape: tuple[int, int]) -> None:
    down, right = np.mgrid[: shape[0], : shape[1]]
    photograph = np.dstack([255 * (down + 0.5) / shape[0], 255 * (right + 0.5) / shape[1], 0 * down]).astype(np.uint8)
    corner = released_mm_robustness.frost_corner(photograph, 48, 64)
    assert corner.shape == (48, 64, 3)
    if shape == (20, 30):  # 2.4 times as large: all rows, and most columns
        assert corner[-1, 0, 0] > 240
        assert 215 < corner[0, -1, 1] < 235


# --- style, pixels --------------------------------------------------------------------------------------------------


def test_a_style_keeps_its_size() -> None:
    picture = scene(1, 40, 90)[0]
    frame = scene(1, 48, 64, seed=1)[0]
    own, resized = style.filter_bank(picture, own_size=True), style.filter_bank(picture)
    painter = style.Painter(resized, as_released=lambda: style.Painter(own))
    kernel: Any = released_mm_robustness.style_transfer(None, painter, 1, 48, 64, alpha=1.0)
    assert np.array_equal(kernel(frame, 0), own(frame, 1.0))
    assert not np.array_equal(kernel(frame, 0), resized(frame, 1.0))
    drawn_style = GUIDES["style"](1, 48, 64)
    assert drawn_style.as_released() is drawn_style.as_released()  # the style's statistics are computed once


@each("size", [*SIZES, (224, 224), (30, 700)])
@each_severity
def test_pixelate_exchanges_the_sides(severity: int, size: tuple[int, int]) -> None:
    height, width = size
    scale = released("pixelate").parameters(severity)["scale"]
    pixelate = bound(released("pixelate"), severity, None, (1, *size))
    shape = released_mm_robustness.shape_of_pixelate([None], 1, height, width, scale=float(scale))
    assert (shape.height, shape.width, shape.kept) == (width, height, None)
    frame = scene(1, *size)[0]
    result = pixelate(frame, 0)
    assert (result.shape, result.dtype) == ((width, height, 3), np.uint8)
    assert len(np.unique(pixelate(np.full((*size, 3), 7, np.uint8), 0))) == 1
    # Stretched, not turned: what is on the left stays there.
    halves = np.zeros_like(frame)
    halves[:, width // 2 :] = 255
    if min(size) > 2:
        assert pixelate(halves, 0)[:, 0].max() < 60
        assert pixelate(halves, 0)[:, -1].min() > 195


# --- snow ------------------------------------------------------------------------------------------------------------


def snowfall(num_frames: int, height: int = 20, width: int = 16) -> np.ndarray:
    """Snow on black frames."""
    entry = suite_registry.get("mlvp/snow")
    drawn = weather.draw_sampled_snow(np.random.default_rng(0), num_frames, height, width)
    apply = weather.sampled_snow(drawn, num_frames, height, width, **entry.parameters(1))
    black = np.zeros((height, width, 3), np.uint8)
    return np.stack([apply(black, index) for index in range(num_frames)])


@pytest.mark.parametrize("num_frames", [1, 2, 5, 11, 12, 13, 24, 100, 301])
def test_the_12_sampled_frames_of_any_clip_see_the_snow_of_12_frames(num_frames: int) -> None:
    sampled = min(12, num_frames)
    drawn = weather.draw_snow(np.random.default_rng(0), sampled, 20, 16)
    apply = weather.snow(drawn, sampled, 20, 16, **suite_registry.get("mlvp/snow").parameters(1))
    expected = np.stack([apply(np.zeros((20, 16, 3), np.uint8), index) for index in range(sampled)])
    assert np.array_equal(snowfall(num_frames)[uniform_indices(sampled, num_frames)], expected)


def test_snow_falls_row_by_row_between_sampled_frames() -> None:
    frames = snowfall(288, 60, 50)
    changes = [index for index in range(1, 288) if not np.array_equal(frames[index - 1], frames[index])]
    assert len(changes) == 33
    assert set(np.diff(changes)) <= {7, 8, 9}
