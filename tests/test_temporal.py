"""Plans: which frame stands where."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturbations.suites import registry
from perturbations.video import temporal

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


def test_severity_5_shuffles_all_chunks() -> None:
    orders = {tuple(np.argsort([part[0] for part in np.split(scrambled(2400, 5, seed=s), 12)])) for s in range(50)}
    assert len(orders) == 50


def test_the_severities_swap_nested_pairs_from_one_draw() -> None:
    """What severity 2 exchanges, 3 and 4 exchange too."""
    drawn = temporal.draw_scrambling(np.random.default_rng(3), 120, 4, 4)
    moved = []
    for pairs in (2, 3, 4):
        plan = temporal.temporal_scrambling(drawn, 120, trimmed=0.0, order="pairs", pairs=pairs)
        moved.append(set(np.flatnonzero(plan != np.arange(120))))
    assert moved[0] < moved[1] < moved[2]


def test_the_trim_is_split_at_random() -> None:
    starts = [int(scrambled(1000, 1, seed=seed).min()) for seed in range(200)]
    assert min(starts) < 30
    assert max(starts) > 570
    assert np.mean(starts) == pytest.approx(300, abs=40)


@pytest.mark.parametrize("num_frames", range(1, 13))
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


def test_a_segment_is_appended_or_spliced_into_the_middle() -> None:
    for place, own in (("end", [*range(5)]), ("middle", [0, 1, 2, 8, 9])):
        plan = temporal.event_insertion(0.0, (100, 1.0), 10, share=0.5, place=place, donors=9)
        assert plan[plan >= 0].tolist() == own
        assert (~plan[plan < 0]).tolist() == [0, 1, 2, 3, 4]


def test_the_donor_plays_at_its_own_speed() -> None:
    twice = temporal.event_insertion(0.0, (100, 2.0), 10, share=0.5, place="end", donors=9)
    half = temporal.event_insertion(0.0, (100, 0.5), 10, share=0.5, place="end", donors=9)
    assert (~twice[5:]).tolist() == [0, 2, 4, 6, 8]
    assert (~half[5:]).tolist() == [0, 0, 1, 1, 2]


def test_the_segment_starts_anywhere_it_fits() -> None:
    starts = {
        int(~temporal.event_insertion(start, (20, 1.0), 10, share=0.5, place="end", donors=9)[5])
        for start in np.linspace(0, 1, 500, endpoint=False)
    }
    assert starts == set(range(16))


def test_a_donor_that_is_too_short_plays_again() -> None:
    plan = temporal.event_insertion(0.7, (3, 1.0), 10, share=0.7, place="end", donors=9)
    assert (~plan[3:]).tolist() == [0, 1, 2, 0, 1, 2, 0]
