"""AdaIN on a filter bank, and the styles that the package draws."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perturbations.base.kernel import Batched
from perturbations.demo import film
from perturbations.video import procedural_styles, style

sizes = st.tuples(st.integers(1, 70), st.integers(1, 70))


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


PAINT = style.filter_bank(noise(40, 90, 1))


@given(sizes, st.integers(0, 99))
@settings(max_examples=40)
def test_alpha_0_gives_the_frame_back_exactly(size: tuple[int, int], seed: int) -> None:
    frame = noise(*size, seed)
    painted = PAINT(frame, 0.0)
    assert np.array_equal(painted, frame)
    assert painted is not frame


@given(sizes, st.integers(0, 99))
@settings(max_examples=40)
def test_the_bands_add_up_to_the_frame(size: tuple[int, int], seed: int) -> None:
    frame = noise(*size, seed)
    assert np.array_equal(style.rgb(style.joined(style.bands(style.opponent(frame)))), frame)


def test_alpha_1_matches_the_style_s_statistics_and_colours() -> None:
    picture = procedural_styles.image("waves")
    wanted = [style.moments(band) for band in style.bands(style.opponent(picture))]
    bands = style.bands(style.opponent(next(film.frames(0))))
    for band, target in zip(bands, wanted, strict=True):
        half, whole = band.copy(), band.copy()
        style.move(half, 0.5, target)
        style.move(whole, 1.0, target)
        moved = style.moments(whole)
        np.testing.assert_allclose(moved.mean, target.mean, atol=2e-2)
        np.testing.assert_allclose(moved.deviation, target.deviation, rtol=2e-3)
        np.testing.assert_allclose(half, (band + whole) / 2, atol=1e-2)
    # Beyond single bands: the whole frame's mean, clipping aside.
    for name in ("waves", "strokes", "cubes"):
        picture = procedural_styles.image(name)
        painted = style.filter_bank(picture)(next(film.frames(3)), 1.0)
        np.testing.assert_allclose(painted.mean(axis=(0, 1)), picture.mean(axis=(0, 1)), atol=8)


def test_a_style_is_looked_at_512_pixels_wide_and_seen_in_small_frames_too() -> None:
    picture = procedural_styles.image("mosaic")
    large = np.repeat(np.repeat(picture, 2, axis=0), 2, axis=1)
    frame = next(film.frames(1))
    assert np.array_equal(style.filter_bank(large)(frame, 1.0), style.filter_bank(picture)(frame, 1.0))
    # It has fewer bands, and its last one stands for all that are missing.
    frame = np.clip(noise(12, 12) // 4 + 90, 0, 255).astype(np.uint8)
    painted = style.filter_bank(procedural_styles.image("poster"))(frame, 1.0)
    assert painted.std() > 40


def test_frames_painted_together() -> None:
    """A painter of batches hands its batches on."""

    painter = style.Painter(
        frame=lambda frame, alpha: frame,
        batch=lambda frames, alpha: frames + 1,
        batch_size=lambda height, width: height * width,
    )
    kernel = style.style_transfer(None, painter, 9, 2, 3, alpha=0.5)
    assert isinstance(kernel, Batched)
    assert kernel.size == 6
    assert np.array_equal(kernel.apply(np.zeros((2, 2, 3, 3), np.uint8)), np.ones((2, 2, 3, 3)))
