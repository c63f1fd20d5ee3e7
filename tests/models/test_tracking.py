"""Tracks, ranks, and boxes between analysed frames (MLVP, Alg. 3)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturbations.models.analysis import tracking
from perturbations.models.analysis.tracking import Detection

UP, RIGHT = np.array([0, 1], np.float32), np.array([1, 0], np.float32)


def seen(
    embedding: np.ndarray, box: tuple[float, ...] = (0, 0, 1, 1), score: float = 0.5, label: str = ""
) -> Detection:
    return Detection(box, score, label, np.asarray(embedding, np.float32))  # type: ignore[arg-type]


def turned(degrees: float) -> np.ndarray:
    angle = np.radians(degrees)
    return np.array([np.cos(angle), np.sin(angle)], np.float32)


def test_alike_objects_of_other_frames_join_the_track_of_the_first() -> None:
    frames = [[seen(RIGHT), seen(UP)], [seen(turned(80))], [], [seen(turned(20))]]
    assert tracking.track(frames) == [[0, 1], [1], [], [0]]
    # Resemblance does not hand on: 0, 25 and 50 degrees are alike one by one (cos 25 = .906), the ends are not.
    assert tracking.track([[seen(turned(0))], [seen(turned(25))], [seen(turned(50))]]) == [[0], [0], [1]]
    just_alike, just_not = np.degrees(np.arccos([0.851, 0.849]))
    assert tracking.track([[seen(turned(0))], [seen(turned(just_alike))]]) == [[0], [0]]
    assert tracking.track([[seen(turned(0))], [seen(turned(just_not))]]) == [[0], [1]]
    assert tracking.track([[seen(UP), seen(UP)], [seen(UP), seen(UP)]]) == [[0, 1], [0, 1]]


def test_the_score_is_the_paper_s_and_persistence_outweighs_a_larger_box() -> None:
    frames = [
        [seen(UP, (0, 0, 10, 10), 0.9, "dog"), seen(RIGHT, (0, 0, 50, 40), 0.2, "man")],
        [seen(UP, (5, 5, 15, 15), 0.7, "dog")],
        [],
        [],
    ]
    (first, second, third, _) = tracking.rank(frames, 40, 100)
    by_label = {item["label"]: item for item in first}
    assert by_label["dog"]["score"] == pytest.approx(0.5 * 2 / 4 + 0.3 * 100 / 4000 + 0.2 * 0.9, abs=1e-4)
    assert by_label["man"]["score"] == pytest.approx(0.5 * 1 / 4 + 0.3 * 2000 / 4000 + 0.2 * 0.2, abs=1e-4)
    assert [item["label"] for item in first] == ["dog", "man"]
    assert second[0]["score"] == pytest.approx(0.5 * 2 / 4 + 0.3 * 100 / 4000 + 0.2 * 0.7, abs=1e-4)
    assert third == []
    lasting = [[seen(UP, (0, 0, 20, 20), 0.3)] for _ in range(4)]
    lasting[1].insert(0, seen(RIGHT, (0, 0, 100, 40), 0.6))
    ranked = tracking.rank(lasting, 40, 100)
    assert [item["track"] for item in ranked[1]] == [0, 1]


# --- interpolation ---------------------------------------------------------------------------------------------------


def test_boxes_are_interpolated_within_a_track_and_taken_from_the_nearer_frame() -> None:
    interpolated = tracking.interpolate([1, 5], [[0, 0, 4, 4], [8, 4, 16, 8]], [0, 0], 8)
    np.testing.assert_allclose(interpolated[:, 0], [0, 0, 2, 4, 6, 8, 8, 8])
    np.testing.assert_allclose(interpolated[3], [4, 2, 10, 6])
    interpolated = tracking.interpolate([0, 4], [[0, 0, 4, 4], [8, 8, 9, 9]], [0, 1], 5)
    assert interpolated[:, 0].tolist() == [0, 0, 0, 8, 8]
    interpolated = tracking.interpolate([0, 4, 8], [[0, 0, 4, 4], None, [8, 8, 9, 9]], [0, None, 0], 9)
    assert np.isnan(interpolated[:, 0]).tolist() == [False, False, False, True, True, True, True, False, False]
    assert np.isnan(tracking.interpolate([2], [None], [None], 5)).all()


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=12).map(sorted),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_analysed_frames_have_their_own_boxes(positions: list[int], seed: int, one_track: bool) -> None:
    """Also where a short clip's positions repeat."""
    generator = np.random.default_rng(seed)
    of_place = {place: sorted(generator.integers(0, 50, 4).tolist()) for place in positions}
    tracks = [0 if one_track else int(generator.integers(0, 3)) for _ in positions]
    track_of = dict(zip(positions, tracks, strict=True))
    interpolated = tracking.interpolate(
        positions, [of_place[place] for place in positions], [track_of[place] for place in positions], 61
    )
    assert interpolated.shape == (61, 4)
    for place, box in of_place.items():
        assert interpolated[place].tolist() == box
    low, high = min(min(box) for box in of_place.values()), max(max(box) for box in of_place.values())
    assert (interpolated >= low - 1e-9).all()
    assert (interpolated <= high + 1e-9).all()
