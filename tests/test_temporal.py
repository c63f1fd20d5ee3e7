"""Plans: which frame stands where."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looping import each

from perturbations.suites import registry
from perturbations.video import tampering, temporal

SCRAMBLING = registry.get("mlvp/temporal_scrambling")
INSERTION = registry.get("mlvp/event_insertion", "paper")

seeds = st.integers(0, 2**32)
lengths = st.integers(1, 400)
severities = st.integers(1, 5)
variants = st.sampled_from(["released", "paper"])


def scrambled(num_frames: int, severity: int, variant: str = "released", seed: int = 0) -> np.ndarray:
    drawn = temporal.draw_scrambling(np.random.default_rng(seed), num_frames, 4, 4)
    return temporal.temporal_scrambling(drawn, num_frames, **SCRAMBLING.in_variant(variant).parameters(severity))


def chunks(plan: np.ndarray) -> list[list[int]]:
    """Stretches of frames that follow each other in the clip."""
    cuts = np.flatnonzero(np.diff(plan) != 1) + 1
    return [part.tolist() for part in np.split(plan, cuts)]


# --- temporal scrambling ---------------------------------------------------------------------------------------------


@given(lengths, severities, variants, seeds)
def test_scrambling_keeps_one_stretch_of_the_clip(num_frames: int, severity: int, variant: str, seed: int) -> None:
    plan = scrambled(num_frames, severity, variant, seed)
    trimmed = SCRAMBLING.in_variant(variant).parameters(severity)["trimmed"]
    assert len(plan) == max(1, num_frames - round(trimmed * num_frames))
    kept = np.sort(plan)
    assert np.array_equal(kept, np.arange(kept[0], kept[0] + len(kept)))
    assert kept[0] >= 0
    assert kept[-1] < num_frames


@given(seeds)
def test_severity_1_swaps_one_adjacent_pair(seed: int) -> None:
    plan = scrambled(3000, 1, seed=seed)  # keeps 1200: chunks of 100
    order = [int(chunk[0] - plan.min()) // 100 for chunk in np.split(plan, 12)]
    moved = [place for place, index in enumerate(order) if place != index]
    assert len(moved) == 2
    assert moved[1] == moved[0] + 1
    assert [order[place] for place in moved] == moved[::-1]


@given(st.integers(2, 4), seeds)
def test_severities_2_to_4_swap_as_many_disjoint_pairs(severity: int, seed: int) -> None:
    plan = scrambled(12_000, severity, seed=seed)
    parts = np.split(plan, 12)
    assert all(np.array_equal(part, np.arange(part[0], part[0] + len(part))) for part in parts)
    order = np.argsort(np.argsort([part[0] for part in parts]))
    moved = {place: int(index) for place, index in enumerate(order) if place != index}
    assert len(moved) == 2 * severity
    assert all(moved[other] == place for place, other in moved.items())


def test_severities_swap_nested_pairs_or_shuffle_all_and_the_trim_is_split_at_random() -> None:
    orders = {tuple(np.argsort([part[0] for part in np.split(scrambled(2400, 5, seed=s), 12)])) for s in range(50)}
    assert len(orders) == 50
    # What severity 2 exchanges, 3 and 4 exchange too.
    drawn = temporal.draw_scrambling(np.random.default_rng(3), 120, 4, 4)
    moved = []
    for pairs in (2, 3, 4):
        plan = temporal.temporal_scrambling(drawn, 120, trimmed=0.0, order="pairs", pairs=pairs)
        moved.append(set(np.flatnonzero(plan != np.arange(120))))
    assert moved[0] < moved[1] < moved[2]
    starts = [int(scrambled(1000, 1, seed=seed).min()) for seed in range(200)]
    assert min(starts) < 30
    assert max(starts) > 570
    assert np.mean(starts) == pytest.approx(300, abs=40)


@each("num_frames", range(1, 13))
def test_a_clip_shorter_than_its_chunks(num_frames: int) -> None:
    """A chunk is a frame at least, and swaps go on as long as there are two."""
    drawn = temporal.draw_scrambling(np.random.default_rng(1), num_frames, 4, 4)
    for order, pairs in (("adjacent", 1), ("pairs", 2), ("pairs", 4), ("shuffled", 0)):
        plan = temporal.temporal_scrambling(drawn, num_frames, trimmed=0.0, order=order, pairs=pairs)
        assert sorted(plan) == list(range(num_frames))
        if order != "shuffled":
            expected = 2 * min(pairs, num_frames // 2)
            assert int((plan != np.arange(num_frames)).sum()) == expected


# --- event insertion -------------------------------------------------------------------------------------------------


places = st.sampled_from(["end", "middle"])


@given(lengths, st.integers(1, 400), st.floats(0.1, 4), severities, places, st.floats(0, 1, exclude_max=True))
def test_insertion_keeps_the_length_and_plays_forward(
    num_frames: int, donor_frames: int, step: float, severity: int, place: str, start: float
) -> None:
    parameters = {**INSERTION.parameters(severity), "place": place}
    plan = temporal.event_insertion(start, (donor_frames, step), num_frames, **parameters)
    assert len(plan) == num_frames
    own, donor = plan[plan >= 0], ~plan[plan < 0]
    assert len(own) >= 1
    assert np.array_equal(own, np.unique(own))
    assert (donor < donor_frames).all()
    # Own frames stay where they are in time.
    places = np.flatnonzero(plan >= 0)
    assert np.array_equal(places, own)
    if num_frames > 1:
        expected = min(max(1, round(parameters["share"] * num_frames)), num_frames - 1)
        assert len(donor) == expected
    if len(donor) and int((len(donor) - 1) * step) < donor_frames:
        assert all(before <= after for before, after in itertools.pairwise(donor.tolist()))


def test_a_donor_s_segment_is_placed_starts_and_plays_as_told() -> None:
    for place, own in (("end", [*range(5)]), ("middle", [0, 1, 2, 8, 9])):
        plan = temporal.event_insertion(0.0, (100, 1.0), 10, share=0.5, place=place, donors=9)
        assert plan[plan >= 0].tolist() == own
        assert (~plan[plan < 0]).tolist() == [0, 1, 2, 3, 4]
    twice = temporal.event_insertion(0.0, (100, 2.0), 10, share=0.5, place="end", donors=9)
    half = temporal.event_insertion(0.0, (100, 0.5), 10, share=0.5, place="end", donors=9)
    assert (~twice[5:]).tolist() == [0, 2, 4, 6, 8]
    assert (~half[5:]).tolist() == [0, 0, 1, 1, 2]
    starts = {
        int(~temporal.event_insertion(start, (20, 1.0), 10, share=0.5, place="end", donors=9)[5])
        for start in np.linspace(0, 1, 500, endpoint=False)
    }
    assert starts == set(range(16))
    plan = temporal.event_insertion(0.7, (3, 1.0), 10, share=0.7, place="end", donors=9)
    assert (~plan[3:]).tolist() == [0, 1, 2, 0, 1, 2, 0]


# --- One stretch of a clip is tampered with: where it lies, and what becomes of it ---


PLACES = st.floats(0, 1, exclude_max=True)
LENGTHS = st.integers(1, 300)
SHARES = st.floats(0, 1)


@given(PLACES, LENGTHS, SHARES, SHARES)
def test_longer_stretches_contain_shorter_ones(place: float, num_frames: int, shorter: float, other: float) -> None:
    start, end = tampering.stretch(place, num_frames, min(shorter, other))
    outer_start, outer_end = tampering.stretch(place, num_frames, max(shorter, other))
    assert 0 <= outer_start <= start < end <= outer_end <= num_frames


@pytest.mark.parametrize("name", ["mask", "rotate"])
def test_frames_outside_of_the_stretch_stay(name: str) -> None:
    frames = np.random.default_rng(0).integers(1, 256, (20, 6, 8, 3), dtype=np.uint8)
    apply = getattr(tampering, name)(0.5, 20, 6, 8, share=0.3)
    result = np.stack([apply(frame, index) for index, frame in enumerate(frames)])
    start, end = tampering.stretch(0.5, 20, 0.3)
    expected = frames.copy()
    expected[start:end] = 0 if name == "mask" else frames[start:end, ::-1, ::-1]
    assert end - start == 6
    assert np.array_equal(result, expected)


def test_plans_of_one_stretch_anywhere_in_the_clip() -> None:
    """Of ten frames, 4, 5 and 6."""
    assert tampering.stretch(0.5, 10, 0.3) == (4, 7)
    assert tampering.repeat(0.5, 10, share=0.3).tolist() == [0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8, 9]
    assert tampering.drop(0.5, 10, share=0.3).tolist() == [0, 1, 2, 3, 7, 8, 9]
    assert tampering.reverse(0.5, 10, share=0.3).tolist() == [0, 1, 2, 3, 6, 5, 4, 7, 8, 9]
    plan = tampering.substitute((0.5, 0.75), (8, 2.0), 10, share=0.3, donors=1)
    # From frame 6 on, two frames per frame of the clip: at place 4 it is frame 14, which is the 6th again.
    assert plan.tolist() == [0, 1, 2, 3, ~6, ~0, ~2, 7, 8, 9]
    stretches = {tampering.stretch(place, 10, 0.3) for place in np.linspace(0, 0.999, 50)}
    assert stretches == {(start, start + 3) for start in range(8)}


@given(PLACES, PLACES, LENGTHS, st.integers(1, 50), st.floats(0.1, 5))
def test_severities_show_the_same_of_the_other_clip(
    place: float, offset: float, num_frames: int, donor_frames: int, step: float
) -> None:
    plans = [
        tampering.substitute((place, offset), (donor_frames, step), num_frames, donors=1, **_share(severity))
        for severity in registry.get("tampering/substitute").severities
    ]
    for milder, stronger in itertools.pairwise(plans):
        assert np.array_equal(milder[milder < 0], stronger[milder < 0])
    assert all((~plan[plan < 0] < donor_frames).all() for plan in plans)
    assert all((plan >= 0).any() for plan in plans)


def _share(severity: int) -> dict[str, float]:
    share = registry.get("tampering/mask").parameters(severity)["share"]
    assert isinstance(share, float)
    return {"share": share}


@pytest.mark.parametrize(("place", "start"), [("start", 0), ("middle", 3), ("end", 6)])
def test_the_released_stretch_is_a_second_of_whole_frames_at_one_place(place: str, start: int) -> None:
    """Of ten frames at 4.9 frames per second, four."""
    second = {"seconds": 1.0, "place": place}
    own, inside = list(range(10)), list(range(start, start + 4))
    rest = [frame for frame in own if frame not in inside]
    assert tampering.drop_released(None, 4.9, 10, **second).tolist() == rest
    assert tampering.repeat_released(None, 4.9, 10, **second).tolist() == own[: start + 4] + own[start:]
    for drawn, first in ((0.0, 0), (0.999, 2)):  # the last place where four of six frames are left
        plan = tampering.substitute_released((0.5, drawn), (6, 4.9), 10, **second)
        assert plan[inside].tolist() == [~frame for frame in range(first, first + 4)]
        assert plan[rest].tolist() == rest
    frames = np.random.default_rng(0).integers(1, 256, (10, 6, 8, 3), dtype=np.uint8)
    for kernel, changed in (
        (tampering.mask_released, np.zeros_like(frames)),
        (tampering.rotate_released, frames[:, ::-1, ::-1]),
    ):
        apply = kernel(None, 4.9, 10, 6, 8, **second)
        for index, frame in enumerate(frames):
            assert np.array_equal(apply(frame, index), changed[index] if index in inside else frame)


def test_a_released_second_of_a_shorter_clip() -> None:
    assert tampering.drop_released(None, 25.0, 10, seconds=1.0, place="middle").tolist() == [0]
    assert tampering.repeat_released(None, 25.0, 10, seconds=1.0, place="middle").tolist() == list(range(10))
