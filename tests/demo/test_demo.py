"""The drawn dataset: its captions tell the truth, and its frames never change."""

from __future__ import annotations

import hashlib
import math
from functools import cache

import numpy as np
import pytest
import scenes
from numpy.typing import NDArray

from perturbations.demo import film

INDICES = {film.scene(index)[2]: index for index in range(199, -1, -1)}  # one scene a motion
EXAMPLES = sorted(set(INDICES.values()) | {0, 1, 2, 3, 4, 5, 6})  # and one a place

DIGESTS = (
    "51c93c3bf03fa89c283c9af7484d9b5cfc20430f484198ff84f374484c90bb6e",
    "fce8abfa19e649333a64484609896ed8f3befa08bae2753fb8fb202ba6a1c268",
    "9c7822a3baa0fc93bb64f516b7128685725181ba16cf66d11d6d8c964a6a6eed",
    "4e89d3d8d6d8969750b5d17c4a9c6d4c6dc1eb089a3545d892c5966f2bf70290",
)


@cache
def _video(index: int) -> NDArray[np.uint8]:
    return np.stack(list(film.frames(index)))


def _centres(index: int) -> NDArray[np.float64]:
    edges = np.array(scenes.boxes(index), float)
    return np.asarray((edges[:, :2] + edges[:, 2:]) / 2)


def test_items_do_not_depend_on_how_many_there_are_and_differ() -> None:
    assert film.items(0) == []
    assert film.items(40)[:7] == film.items(7)
    assert [item for item, _ in film.items(3)] == ["demo-0000", "demo-0001", "demo-0002"]
    captions = [caption for _, caption in film.items(10_000)]
    assert len(set(captions[:1000])) == 1000
    assert len(set(captions)) == 10_000
    assert {len(caption.split()) for caption in captions} <= set(range(6, 16))
    assert all(caption.startswith("a ") and caption == caption.strip().lower() for caption in captions)
    sizes, colours, motions, places, things = zip(*(film.scene(index) for index in range(8)), strict=True)
    assert (len({*sizes}), len({*things})) == (2, 8)
    assert min(len({*names}) for names in (colours, motions, places)) >= 7


def test_frames_are_independent_arrays() -> None:
    first, second = (frame for t, frame in enumerate(film.frames(2)) if t < 2)
    assert first.flags.c_contiguous
    assert first.flags.writeable
    before = second.copy()
    first[:] = 0
    assert np.array_equal(second, before)


@pytest.mark.parametrize(("index", "digest"), list(enumerate(DIGESTS)))
def test_frames_are_the_same_on_every_machine(index: int, digest: str) -> None:
    """The same with vector extensions and IPP switched off. A new OpenCV may draw differently; then renew these."""
    video = _video(index)
    assert (video.shape, video.dtype) == ((film.NUM_FRAMES, film.HEIGHT, film.WIDTH, 3), np.uint8)
    assert hashlib.sha256(video.tobytes()).hexdigest() == digest


def test_the_main_object_never_leaves_the_frame() -> None:
    for index in range(0, 600, 9):
        for left, top, right, bottom in scenes.boxes(index):
            assert 0 < left < right < film.WIDTH, index
            assert 0 < top < bottom < film.HEIGHT, index


@pytest.mark.parametrize(
    ("motion", "axis", "sign"),
    [("moves to the right", 0, 1), ("moves to the left", 0, -1), ("falls slowly", 1, 1), ("rises slowly", 1, -1)],
)
def test_the_object_goes_where_the_caption_says(motion: str, axis: int, sign: int) -> None:
    index = INDICES[motion]
    assert motion in film.items(index + 1)[-1][1]
    path = _centres(index)[::6, axis] * sign
    assert path[-1] - path[0] > 90
    assert np.all(np.diff(path) > 0)


def test_other_motions_are_what_the_caption_says() -> None:
    edges = np.array(scenes.boxes(INDICES["comes closer"]))
    areas = (edges[:, 2] - edges[:, 0]) * (edges[:, 3] - edges[:, 1])
    assert areas[-1] > 3 * areas[0]

    turns = np.diff(np.sign(np.diff(_centres(INDICES["bounces along"])[::4, 1])))
    assert np.count_nonzero(turns) >= 4

    turns = np.diff(np.sign(np.diff(_centres(INDICES["zigzags along"])[::4, 1])))
    assert np.count_nonzero(turns) >= 4

    circle = _centres(INDICES["moves in circles"])
    arms = circle - circle.mean(axis=0)
    angles = np.unwrap(np.arctan2(arms[:, 1], arms[:, 0]))
    assert abs(angles[-1] - angles[0]) > 3 * math.pi


@pytest.mark.parametrize("index", EXAMPLES)
def test_the_object_has_its_colour(index: int) -> None:
    left, top, right, bottom = scenes.boxes(index)[-1]
    last = _video(index)[-1][top:bottom, left:right]
    named = (last == film.COLOURS[film.scene(index)[1]]).all(axis=2)
    assert named.mean() > 0.06


@pytest.mark.parametrize("index", EXAMPLES)
def test_the_background_moves_and_is_textured(index: int) -> None:
    video, boxes = _video(index), scenes.boxes(index)
    elsewhere = np.ones(video.shape[1:3], bool)
    for left, top, right, bottom in (boxes[0], boxes[-1]):
        elsewhere[top:bottom, left:right] = False
    assert (video[0] != video[-1]).any(axis=2)[elsewhere].mean() > 0.5
    assert np.abs(np.diff(video[0].astype(int), axis=1)).mean() > 1
