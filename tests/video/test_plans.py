"""Plans, which say which frame stands where: what each keeps, against the definitions, on clips of any length."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_scenes import GUIDES, drawn, scene
from looping import each

import perturbations
from perturbations.base.arrays import uniform_indices
from perturbations.base.errors import MediaError
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation
from perturbations.video import tampered_frames, temporal

VIDEO = suite_registry.perturbations(kind="video")
PLANS = [form for entry in VIDEO if entry.method == "temporal" for form in entry.forms()]
SCRAMBLING = suite_registry.get("mlvp/temporal_scrambling")
SHARES = [0.3, 0.4, 0.5, 0.6, 0.7]

seeds = st.integers(0, 2**32)
lengths = st.integers(1, 400)
units = st.floats(0, 1, exclude_max=True)


def planned(form: Perturbation, severity: int, num_frames: int, seed: int = 0) -> Any:
    guide = () if form.guide is None else (GUIDES[form.guide](num_frames, 4, 4),)
    return form.kernel(drawn(form, num_frames, 4, 4, seed), *guide, num_frames, **form.parameters(severity))


def scrambled(num_frames: int, severity: int, seed: int = 0, variant: str = "paper") -> np.ndarray:
    return planned(SCRAMBLING.in_variant(variant), severity, num_frames, seed)


def order_of(num_frames: int, seed: int) -> np.ndarray:
    return temporal.draw_order(np.random.default_rng(seed), num_frames, 2, 2)


# --- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", PLANS, ids=lambda form: f"{form.key}-{form.variant}")
@settings(max_examples=30)
@given(num_frames=lengths, seed=seeds, severity=st.integers(1, 5))
def test_a_plan_names_a_frame_at_every_position_and_its_key_decides(
    form: Perturbation, num_frames: int, seed: int, severity: int
) -> None:
    severity = min(severity, form.severities[-1])
    if form.parameters(severity).get("least", 0) > num_frames:
        with pytest.raises(MediaError, match=f"frames are to be chosen of {num_frames}"):
            planned(form, severity, num_frames, seed)
        return
    plan = planned(form, severity, num_frames, seed)
    assert (plan.dtype, plan.flags.c_contiguous) == (np.int64, True)
    assert all(plan < num_frames)
    assert np.array_equal(planned(form, severity, num_frames, seed), plan)


@pytest.mark.parametrize("form", PLANS, ids=lambda form: f"{form.key}-{form.variant}")
def test_no_plan_leaves_a_clip_as_it_is_and_what_is_drawn_differs(form: Perturbation) -> None:
    for severity in form.severities:
        plans = {planned(form, severity, 200, seed).tobytes() for seed in range(3)}
        assert np.arange(200).tobytes() not in plans
        is_drawn = form.draw == "clip" and "insertion_released" not in form.kernel.__name__
        assert len(plans) == (3 if is_drawn else 1)


@each("name", ["jumble", "sampling"])
@each("seed", range(5))
def test_frames_stand_farther_from_their_place_at_every_severity(name: str, seed: int) -> None:
    entry = suite_registry.get(f"msrvtt_p/{name}")
    moved = [np.abs(planned(entry, severity, 288, seed) - np.arange(288)).mean() for severity in entry.severities]
    assert entry.monotonic
    assert moved == sorted(moved)
    assert moved[0] > 0


GROWING = [
    entry for entry in VIDEO if entry.monotonic and entry.severities[1:] and entry.method in ("codec", "temporal")
]
# Grainy, so that no rate is enough.
GRAIN = np.random.default_rng(0).normal(0, 25, (20, 48, 64, 3))
FRAMES = np.clip(scene(20, 48, 64) + GRAIN, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    "entry", [entry for entry in GROWING if entry.name not in ("jumble", "sampling")], ids=lambda entry: entry.key
)
def test_distortion_never_falls(entry: Perturbation) -> None:
    """Jumbled and sampled frames stand farther away, which on a clip that repeats itself need not look worse."""
    donors = [255 - FRAMES] if entry.guide is not None else []
    results = [
        perturbations.perturb(FRAMES, entry.key, severity, seed=0, item_id="it", fps=25, donors=donors)
        for severity in entry.severities
    ]
    errors = [np.square(result.astype(int) - FRAMES).mean() for result in results]
    assert errors == sorted(errors)
    assert 0 < errors[0] < errors[-1]


# --- examples ---------------------------------------------------------------------------------------------------------

# Of ten frames; negative numbers are frames of another clip, ~0 the first.
TEN = {
    "insertion at the end": (
        temporal.event_insertion(0.0, (100, 1.0), 10, share=0.5, place="end", donors=9),
        [*range(5), ~0, ~1, ~2, ~3, ~4],
    ),
    "insertion in the middle": (
        temporal.event_insertion(0.0, (100, 1.0), 10, share=0.5, place="middle", donors=9),
        [0, 1, 2, ~0, ~1, ~2, ~3, ~4, 8, 9],
    ),
    "a donor of twice the rate": (
        temporal.event_insertion(0.0, (100, 2.0), 10, share=0.5, place="end", donors=9),
        [*range(5), ~0, ~2, ~4, ~6, ~8],
    ),
    "a donor of half the rate": (
        temporal.event_insertion(0.0, (100, 0.5), 10, share=0.5, place="end", donors=9),
        [*range(5), ~0, ~0, ~1, ~1, ~2],
    ),
    "a donor that ends": (
        temporal.event_insertion(0.7, (3, 1.0), 10, share=0.7, place="end", donors=9),
        [0, 1, 2, ~0, ~1, ~2, ~0, ~1, ~2, ~0],
    ),
    "its last start": (
        temporal.event_insertion(0.999, (20, 1.0), 10, share=0.5, place="end", donors=9),
        [*range(5), ~15, ~16, ~17, ~18, ~19],
    ),
    # Frames 4, 5 and 6 are tampered with.
    "repeat": (tampered_frames.repeat(0.5, 10, share=0.3), [0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8, 9]),
    "drop": (tampered_frames.drop(0.5, 10, share=0.3), [0, 1, 2, 3, 7, 8, 9]),
    "reverse": (tampered_frames.reverse(0.5, 10, share=0.3), [0, 1, 2, 3, 6, 5, 4, 7, 8, 9]),
    # From frame 6 on, two frames per frame of the clip: at place 4 it is frame 14, which is the 6th again.
    "substitute": (
        tampered_frames.substitute((0.5, 0.75), (8, 2.0), 10, share=0.3, donors=1),
        [0, 1, 2, 3, ~6, ~0, ~2, 7, 8, 9],
    ),
    "drop a second of more frames": (tampered_frames.drop_released(None, 25.0, 10, seconds=1.0, place="middle"), [0]),
    "repeat such a second": (
        tampered_frames.repeat_released(None, 25.0, 10, seconds=1.0, place="middle"),
        [*range(10)],
    ),
}


@pytest.mark.parametrize("name", TEN)
def test_a_plan_of_ten_frames(name: str) -> None:
    plan, expected = TEN[name]
    assert plan.tolist() == expected


@pytest.mark.parametrize(("place", "start"), [("start", 0), ("middle", 3), ("end", 6)])
def test_the_released_stretch_is_a_second_of_whole_frames_at_one_place(place: str, start: int) -> None:
    """Of ten frames at 4.9 frames per second, four."""
    second: dict[str, Any] = {"seconds": 1.0, "place": place}
    own, inside = list(range(10)), list(range(start, start + 4))
    rest = [frame for frame in own if frame not in inside]
    assert tampered_frames.drop_released(None, 4.9, 10, **second).tolist() == rest
    assert tampered_frames.repeat_released(None, 4.9, 10, **second).tolist() == own[: start + 4] + own[start:]
    for unit, first in ((0.0, 0), (0.999, 2)):  # the last place where four of six frames are left
        plan = tampered_frames.substitute_released((0.5, unit), (6, 4.9), 10, **second)
        assert plan[inside].tolist() == [~frame for frame in range(first, first + 4)]
        assert plan[rest].tolist() == rest


@each("variant", ["paper", "released"])
@each("name", ["mask", "rotate"])
def test_frames_outside_of_the_stretch_stay(name: str, variant: str) -> None:
    frames = np.random.default_rng(0).integers(1, 256, (20, 6, 8, 3), dtype=np.uint8)
    kernel = suite_registry.get(f"tampering/{name}", variant).kernel
    where: dict[str, Any] = {"share": 0.3} if variant == "paper" else {"seconds": 1.2, "place": "middle"}
    apply = kernel(0.5, *([] if variant == "paper" else [5.0]), 20, 6, 8, **where)
    expected = frames.copy()
    expected[7:13] = 0 if name == "mask" else frames[7:13, ::-1, ::-1]
    assert np.array_equal([apply(frame, index) for index, frame in enumerate(frames)], expected)


# --- scrambling -------------------------------------------------------------------------------------------------------


@given(lengths, st.integers(1, 5), st.sampled_from(["paper", "released"]), seeds)
def test_scrambling_keeps_one_stretch_of_the_clip(num_frames: int, severity: int, variant: str, seed: int) -> None:
    form = SCRAMBLING.in_variant(variant)
    plan, trimmed = scrambled(num_frames, severity, seed, variant), form.parameters(severity)["trimmed"] * num_frames
    assert len(plan) == max(1, num_frames - (round(trimmed) if variant == "paper" else int(trimmed)))
    kept = np.sort(plan)
    assert np.array_equal(kept, np.arange(kept[0], kept[0] + len(kept)))
    assert kept[0] >= 0
    read = (
        None
        if form.sampled is None
        else form.sampled(drawn(form, num_frames, 4, 4, seed), num_frames, **form.parameters(severity))
    )
    if read is not None:  # a model's 12 frames, first and last included; of fewer, random ones
        assert len(read) == 12
        assert set(read) <= set(plan)
        if len(plan) >= 12:
            assert (read[0], read[-1], len(set(read))) == (plan[0], plan[-1], 12)


@given(st.integers(1, 4), seeds)
def test_milder_severities_swap_as_many_pairs_of_chunks_as_their_number(severity: int, seed: int) -> None:
    parts = np.split(scrambled(12_000, severity, seed), 12)
    assert all(np.array_equal(part, np.arange(part[0], part[0] + len(part))) for part in parts)
    order = np.argsort(np.argsort([part[0] for part in parts]))
    moved = {place: int(index) for place, index in enumerate(order) if place != index}
    assert len(moved) == 2 * severity
    assert all(moved[other] == place for place, other in moved.items())
    if severity == 1:
        assert abs(np.subtract(*moved)) == 1


def test_severities_swap_nested_pairs_or_shuffle_all() -> None:
    orders = {tuple(np.argsort([part[0] for part in np.split(scrambled(2400, 5, seed=s), 12)])) for s in range(50)}
    assert len(orders) == 50
    disorder = temporal.draw_scrambling(np.random.default_rng(3), 120, 4, 4)
    moved = []
    for pairs in (2, 3, 4):
        plan = temporal.temporal_scrambling(disorder, 120, trimmed=0.0, order="pairs", pairs=pairs)
        moved.append(set(np.flatnonzero(plan != np.arange(120))))
    assert moved[0] < moved[1] < moved[2]


@each("num_frames", range(1, 13))
def test_a_clip_shorter_than_its_chunks(num_frames: int) -> None:
    """A chunk is a frame at least, and swaps go on as long as there are two."""
    disorder = temporal.draw_scrambling(np.random.default_rng(1), num_frames, 4, 4)
    for order, pairs in (("adjacent", 1), ("pairs", 2), ("pairs", 4), ("shuffled", 0)):
        plan = temporal.temporal_scrambling(disorder, num_frames, trimmed=0.0, order=order, pairs=pairs)
        assert sorted(plan) == list(range(num_frames))
        if order != "shuffled":
            assert int((plan != np.arange(num_frames)).sum()) == 2 * min(pairs, num_frames // 2)


# --- another clip -----------------------------------------------------------------------------------------------------


@given(lengths, lengths, st.floats(0.1, 4), st.sampled_from(SHARES), st.sampled_from(["end", "middle"]), units)
def test_insertion_keeps_the_length_and_plays_forward(
    num_frames: int, donor_frames: int, step: float, share: float, place: str, start: float
) -> None:
    plan = temporal.event_insertion(start, (donor_frames, step), num_frames, share=share, place=place, donors=9)
    assert len(plan) == num_frames
    donor = ~plan[plan < 0]
    assert np.array_equal(plan[plan >= 0], np.flatnonzero(plan >= 0)), "own frames stay where they are in time"
    assert (donor < donor_frames).all()
    if num_frames > 1:
        assert len(donor) == min(max(1, round(share * num_frames)), num_frames - 1)
    if len(donor) and int((len(donor) - 1) * step) < donor_frames:
        assert (np.diff(donor) >= 0).all()


@each("num_frames", [1, 2, 5, 11, 12, 13, 100, 600])
@each("donor", [1, 3, 7, 8, 13, 300])
@each("share", SHARES)
def test_the_whole_donor_follows_the_head(num_frames: int, donor: int, share: float) -> None:
    given_donor, count = (donor, 1.0), round(12 * share)
    plan = temporal.insertion_released(None, given_donor, num_frames, share=share, donors=9)
    own, inserted = plan[plan >= 0], ~plan[plan < 0]
    assert len(plan) == num_frames
    assert own.tolist() == list(range(max(1, len(own))))
    assert (np.diff(inserted) >= 0).all()
    if len(inserted):  # as much of the donor before the first of its frames as after the last
        assert abs(inserted[0] - (donor - 1 - inserted[-1])) <= 1
    read = temporal.insertion_sampled(None, given_donor, num_frames, share=share, donors=9)
    assert read[: 12 - count].tolist() == uniform_indices(12, num_frames)[: 12 - count]
    assert (~read[12 - count :]).tolist() == uniform_indices(count, donor)
    if num_frames >= 12:  # 12 samples of a whole clip are close to what a model reads
        sampled = plan[uniform_indices(12, num_frames)]
        assert np.array_equal(sampled < 0, read < 0)
        assert np.array_equal(sampled[sampled >= 0], read[read >= 0])
        # A frame of the clip's time is donor / inserted frames of the donor's; the middles of spans are whole numbers.
        assert np.abs(sampled - read).max() <= 1.5 * donor / max(1, len(inserted)) + 2


@given(units, lengths, st.floats(0, 1), st.floats(0, 1))
def test_longer_stretches_contain_shorter_ones(place: float, num_frames: int, shorter: float, other: float) -> None:
    start, end = tampered_frames.stretch(place, num_frames, min(shorter, other))
    outer_start, outer_end = tampered_frames.stretch(place, num_frames, max(shorter, other))
    assert 0 <= outer_start <= start < end <= outer_end <= num_frames


@given(units, units, lengths, st.integers(1, 50), st.floats(0.1, 5))
def test_severities_show_the_same_of_the_other_clip(
    place: float, offset: float, num_frames: int, donor_frames: int, step: float
) -> None:
    plans = [
        tampered_frames.substitute((place, offset), (donor_frames, step), num_frames, share=share, donors=1)
        for share in (0.1, 0.3, 0.7)
    ]
    for milder, stronger in itertools.pairwise(plans):
        assert np.array_equal(milder[milder < 0], stronger[milder < 0])
    assert all((~plan[plan < 0] < donor_frames).all() for plan in plans)
    assert all((plan >= 0).any() for plan in plans)


# --- segments, samples, frozen frames ---------------------------------------------------------------------------------


@given(num_frames=lengths, seed=seeds, length=st.integers(1, 80))
def test_jumble_shuffles_inside_segments_and_box_jumble_moves_whole_ones(
    num_frames: int, seed: int, length: int
) -> None:
    plan = temporal.jumble(order_of(num_frames, seed), num_frames, length=length)
    assert sorted(plan) == list(range(num_frames))
    assert np.array_equal(plan // length, np.arange(num_frames) // length)
    rest = temporal.box_jumble(order_of(num_frames, seed), num_frames, length=length).tolist()
    assert sorted(rest) == list(range(num_frames))
    while rest:
        first = rest[0]
        segment = list(range(first, min(first + length, num_frames)))
        assert (first % length, rest[: len(segment)]) == (0, segment)
        rest = rest[len(segment) :]


@given(num_frames=lengths, rate=st.integers(1, 40))
def test_sampling_holds_every_rth_frame(num_frames: int, rate: int) -> None:
    """As released, for its whole rate."""
    kept = [frame for frame in range(0, num_frames, rate) for _ in range(rate)]
    for kernel, expected in ((temporal.sampling, kept[:num_frames]), (temporal.sampling_released, kept)):
        assert kernel(None, num_frames, rate=rate).tolist() == expected
        assert kernel(None, num_frames, rate=rate, backwards=True).tolist() == expected[::-1]


@given(num_frames=lengths, seed=seeds, kept=st.sampled_from([0.4, 0.2, 0.1, 0.05, 0.025]), least=st.integers(0, 2))
def test_freeze_holds_each_kept_frame_until_the_next(num_frames: int, seed: int, kept: float, least: int) -> None:
    order = order_of(num_frames, seed)
    plan = temporal.freeze(order, num_frames, kept=kept)
    shown = sorted(set(plan.tolist()))
    # The first frame, and the share; it may be in it.
    assert (shown[0], len(shown) - int(kept * num_frames)) in ((0, 0), (0, 1))
    assert plan.tolist() == [max(index for index in shown if index <= position) for position in range(num_frames)]
    assert set(shown) <= set(temporal.freeze(order, num_frames, kept=0.5).tolist()), "of a larger share"
    if (count := max(int(kept * num_frames), least)) > num_frames:
        return
    late, whole = (
        temporal.freeze_released(order, num_frames, kept=kept, least=least, opening=opening)
        for opening in ("lost", "first")
    )
    assert (len(np.unique(late)), len(whole)) == (count, num_frames)
    assert np.array_equal(whole[num_frames - len(late) :], late)
    assert not whole[: num_frames - len(late)].any()
    if count == int(kept * num_frames):
        assert np.array_equal(whole, plan)


@given(rate=st.integers(1, 40), num_frames=st.integers(1, 200), fps=st.sampled_from([15, 24000 / 1001, 30000 / 1001]))
def test_even_frames_of_a_lower_rate_are_every_rth(rate: int, num_frames: int, fps: float) -> None:
    times = np.round(np.arange(num_frames) / fps, 3)  # as Matroska has them
    plan = temporal.lowered_rate(None, times, num_frames, rate=rate)
    assert np.array_equal(plan, np.arange(num_frames) // rate * rate)
    assert np.array_equal(temporal.frame_rate(None, times, num_frames, fps=40), np.arange(num_frames))
