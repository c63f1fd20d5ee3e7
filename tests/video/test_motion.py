"""Motion analysis, its files, and the blurs that follow it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from looping import each

from perturbations.models.analysis import motion_field
from perturbations.models.analysis.motion_field import FrameMotion
from perturbations.suites import suite_registry

SIZES = [(48, 64), (37, 53), (1, 1), (1, 9), (9, 1), (2, 3), (90, 20)]


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(0, 256, (height + 16, width + 16, 3), dtype=np.uint8)
    smooth = cv2.GaussianBlur(noise, (0, 0), 2).astype(float)
    return np.clip((smooth - 128) * 3 + 128, 0, 255).astype(np.uint8)


def moved(height: int, width: int, across: int, down: int) -> tuple[np.ndarray, np.ndarray]:
    large = picture(height, width)
    return large[8 : 8 + height, 8 : 8 + width], large[8 - down : 8 - down + height, 8 - across : 8 - across + width]


# --- analysis --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("across", "down", "angle"), [(4, 0, 0), (0, 4, 90), (-4, 0, 180), (0, -4, -90), (3, 3, 45)])
def test_the_angle_is_where_things_go(across: int, down: int, angle: float) -> None:
    before, after = (np.ascontiguousarray(frame) for frame in moved(96, 128, across, down))
    movement = motion_field.frame_motion(motion_field.optical_flow(before, after))
    assert abs((movement.angle - angle + 180) % 360 - 180) < 6
    assert not movement.still
    assert movement.mask.mean() == pytest.approx(0.25, abs=0.01)


def test_the_mask_is_where_most_moves_and_a_still_frame_has_none() -> None:
    flow = np.zeros((20, 40, 2), np.float32)
    flow[:, 30:] = (3, 4)
    flow[:, :30, 0] = 1
    movement = motion_field.frame_motion(flow)
    assert np.array_equal(movement.mask, np.broadcast_to(np.arange(40) >= 30, (20, 40)))
    assert movement.angle == pytest.approx(np.degrees(np.arctan2(1, 1.5)))
    still = motion_field.frame_motion(np.zeros((6, 8, 2), np.float32))
    assert (still.mask.any(), still.still, still.angle) == (False, True, 0)
    few = np.zeros((10, 10, 2), np.float32)
    few[0, :5] = 2
    movement = motion_field.frame_motion(few)
    assert (movement.mask.sum(), movement.still) == (5, True)


def test_a_follower_needs_the_frame_before_and_the_first_has_no_motion() -> None:
    follower = motion_field.Follower()
    follower.show(picture(8, 8), 0)
    mask, _, still = follower(0)
    assert (mask.any(), still) == (False, True)
    follower = motion_field.Follower()
    follower.show(picture(8, 8), 3)
    with pytest.raises(AssertionError, match="the frame before was not shown"):
        follower(3)
    assert motion_field.Follower.needed({0, 5, 6}) == {0, 4, 5, 6}
    assert motion_field.Follower.needed(None) is None


@each("size", SIZES)
@each("count", [1, 64, 65, 150])
def test_a_file_holds_what_was_written(size: tuple[int, int], count: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(count)
    held = [
        FrameMotion(generator.random(size) < 0.25, float(generator.uniform(-180, 180)), bool(index % 2))
        for index in range(count)
    ]
    path = tmp_path / "motion.parquet"
    motion_field.write(path, enumerate(held), {})
    read = motion_field.reader(path, *size)
    for index in (*range(count), 0, count - 1):
        mask, angle, still = read(index)
        assert np.array_equal(mask, held[index].mask)
        assert (angle, still) == (held[index].angle, held[index].still)
    with pytest.raises(KeyError, match=f"does not hold frame {count}"):
        read(count)


def test_a_file_of_sampled_frames_and_its_size(tmp_path: Path) -> None:
    held = {position: FrameMotion(np.full((3, 3), position % 2 == 0), 1.0, False) for position in (2, 7, 40)}
    motion_field.write(tmp_path / "motion.parquet", held.items(), {})
    read = motion_field.reader(tmp_path / "motion.parquet", 3, 3)
    assert [read(position).mask.all() for position in (40, 2, 7)] == [True, True, False]
    with pytest.raises(KeyError):
        read(3)
    # Bits, not flow fields: 8 bytes per pixel become less than a tenth of a bit.
    mask = np.zeros((240, 320), bool)
    mask[60:180, 80:240] = True
    motion_field.write(
        tmp_path / "motion.parquet", ((index, FrameMotion(mask, 0.0, False)) for index in range(100)), {}
    )
    assert (tmp_path / "motion.parquet").stat().st_size < 100 * 240 * 320 / 80


# --- blurs -----------------------------------------------------------------------------------------------------------


def blurred(
    name: str,
    frame: np.ndarray,
    moving: tuple[np.ndarray, float, bool],
    variant: str = "released",
) -> np.ndarray:
    entry = suite_registry.get(f"mlvp/{name}", variant)
    kernel = entry.kernel
    result: np.ndarray = kernel(None, lambda _: moving, 1, *frame.shape[:2], **entry.parameters(5))(frame, 0)
    return result


each_blur = pytest.mark.parametrize("name", ["motion_blur", "video_defocus"])


@each_blur
def test_a_large_white_frame_stays_white(name: str) -> None:
    """The sums of a tall frame are the largest numbers that occur."""
    frame = np.full((1080, 200, 3), 255, np.uint8)
    frame[540:] = 0
    result = blurred(name, frame, (np.ones((1080, 200), bool), 0.0, False))
    assert (result[:500] == 255).all()
    assert (result[580:] == 0).all()


@each_blur
def test_a_still_frame_counts_as_moving_as_released_and_not_in_the_paper(name: str) -> None:
    frame = picture(60, 80)
    nothing, everything = np.zeros(frame.shape[:2], bool), np.ones(frame.shape[:2], bool)
    released, paper = (blurred(name, frame, (nothing, 0.0, True), variant=variant) for variant in ("released", "paper"))
    assert np.array_equal(released, blurred(name, frame, (everything, 0.0, False)))
    assert np.array_equal(paper, blurred(name, frame, (nothing, 0.0, False), variant="paper"))
    assert not np.array_equal(paper, released)
