"""Plans in time: what each keeps, against the definitions, on clips of any length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looping import each
from test_kernels import scene

import perturbations
from perturbations.base import rng
from perturbations.suites import registry
from perturbations.suites.registry import Perturbation
from perturbations.video import temporal

TEMPORAL = [entry for entry in registry.perturbations("msrvtt_p", "video") if entry.method == "temporal"]
each_entry = pytest.mark.parametrize("entry", TEMPORAL, ids=lambda entry: entry.key)
lengths = st.integers(1, 300)
seeds = st.integers(0, 2**32)
severities = st.integers(1, 5)
variants = st.sampled_from(registry.suite("msrvtt_p").variants)


def order_of(num_frames: int, seed: int) -> np.ndarray:
    return temporal.draw_order(np.random.default_rng(seed), num_frames, 2, 2)


def planned(entry: Perturbation, severity: int, num_frames: int, seed: int = 0, variant: str = "released") -> Any:
    generator = rng.generator(seed, "demo", "clip", entry.key)
    drawn = entry.realization and entry.realization(generator, num_frames, 48, 64)
    form = entry.in_variant(variant)
    return form.kernel(drawn, num_frames, **form.parameters(severity))


def length_of(entry: Perturbation, severity: int, num_frames: int, variant: str) -> int | None:
    """How many frames a plan has; None where that depends on the draw, or there is no plan."""
    form = entry.in_variant(variant)
    if variant != "paper" and "sampling" in entry.name:
        rate = form.parameters(severity)["rate"]
        assert isinstance(rate, int)
        return rate * -(-num_frames // rate)
    return None if entry.name == "freeze" and variant == "released" else num_frames


@each_entry
@given(num_frames=lengths, seed=seeds, severity=severities, variant=variants)
def test_a_plan_names_a_frame_of_the_clip_at_every_position(
    entry: Perturbation, num_frames: int, seed: int, severity: int, variant: str
) -> None:
    if entry.name == "freeze" and variant != "paper" and (severity, num_frames) == (4, 1):
        return
    plan = planned(entry, severity, num_frames, seed, variant)
    assert plan.dtype == np.int64
    expected = length_of(entry, severity, num_frames, variant)
    assert len(plan) <= num_frames if expected is None else len(plan) == expected
    assert plan.flags.c_contiguous
    assert all(plan >= 0)
    assert all(plan < num_frames)
    assert np.array_equal(planned(entry, severity, num_frames, seed, variant), plan)


@each_entry
@given(num_frames=st.integers(100, 300), seed=seeds)
def test_the_draw_is_the_keys_alone(entry: Perturbation, num_frames: int, seed: int) -> None:
    for severity in (1, 2, 3):
        changed = not np.array_equal(
            planned(entry, severity, num_frames, seed + 1), planned(entry, severity, num_frames)
        )
        assert changed == (entry.draw == "clip")


@each_entry
def test_no_plan_leaves_a_clip_as_it_is(entry: Perturbation) -> None:
    for variant in registry.suite("msrvtt_p").variants:
        for severity in entry.severities:
            assert not np.array_equal(planned(entry, severity, 200, variant=variant), np.arange(200))


@each("name", ["jumble", "sampling"])
@each("seed", range(5))
def test_frames_stand_farther_from_their_place_at_every_severity(name: str, seed: int) -> None:
    entry = registry.get(f"msrvtt_p/{name}")
    assert entry.monotonic
    moved = [np.abs(planned(entry, severity, 288, seed) - np.arange(288)).mean() for severity in entry.severities]
    assert moved == sorted(moved)
    assert moved[0] > 0


@given(num_frames=lengths, seed=seeds, length=st.integers(1, 80))
def test_jumble_shuffles_inside_segments(num_frames: int, seed: int, length: int) -> None:
    plan = temporal.jumble(order_of(num_frames, seed), num_frames, length=length)
    assert sorted(plan) == list(range(num_frames))
    assert np.array_equal(plan // length, np.arange(num_frames) // length)


def test_jumble_can_put_every_frame_everywhere_in_its_segment() -> None:
    orders = [order_of(8, seed) for seed in range(200)]
    plans = np.stack([temporal.jumble(order, 8, length=4) for order in orders])
    for position in range(8):
        assert set(plans[:, position]) == set(range(4)) if position < 4 else set(range(4, 8))
        share = np.mean(plans[:, position] == position)
        assert share == pytest.approx(0.25, abs=0.12)


@given(num_frames=lengths, seed=seeds, length=st.integers(1, 80))
def test_box_jumble_moves_whole_segments(num_frames: int, seed: int, length: int) -> None:
    plan = temporal.box_jumble(order_of(num_frames, seed), num_frames, length=length)
    segments = [list(range(start, min(start + length, num_frames))) for start in range(0, num_frames, length)]
    blocks, rest = [], plan.tolist()
    while rest:
        segment = segments[rest[0] // length]
        assert rest[: len(segment)] == segment
        blocks.append(segment)
        rest = rest[len(segment) :]
    assert sorted(blocks) == segments


def test_box_jumble_can_put_every_segment_everywhere() -> None:
    plans = np.stack([temporal.box_jumble(order_of(9, seed), 9, length=3) for seed in range(200)])
    for position in (0, 3, 6):
        assert set(plans[:, position]) == {0, 3, 6}
        assert np.mean(plans[:, position] == position) == pytest.approx(1 / 3, abs=0.12)


@given(num_frames=lengths, rate=st.integers(1, 40))
def test_sampling_holds_every_rth_frame(num_frames: int, rate: int) -> None:
    plan = temporal.sampling(None, num_frames, rate=rate)
    kept = [frame for frame in range(0, num_frames, rate) for _ in range(rate)]
    assert plan.tolist() == kept[:num_frames]
    backwards = temporal.sampling(None, num_frames, rate=rate, backwards=True)
    assert backwards.tolist() == kept[:num_frames][::-1]


@given(num_frames=lengths, seed=seeds, kept=st.sampled_from([0.4, 0.2, 0.1, 0.05, 0.025]))
def test_freeze_holds_each_kept_frame_until_the_next(num_frames: int, seed: int, kept: float) -> None:
    order = order_of(num_frames, seed)
    plan = temporal.freeze(order, num_frames, kept=kept)
    shown = sorted(set(plan.tolist()))
    assert shown[0] == 0
    # The first frame, and the share; it may be in it.
    assert len(shown) - int(kept * num_frames) in (0, 1)
    for position, frame in enumerate(plan.tolist()):
        assert frame == max(index for index in shown if index <= position)
    # What is kept of a share is kept of a larger one.
    assert set(shown) <= set(temporal.freeze(order, num_frames, kept=0.5).tolist())


def test_freeze_keeps_as_many_frames_as_the_released_writer_each_as_likely() -> None:
    entry = registry.get("msrvtt_p/freeze")
    for severity, share in enumerate((0.4, 0.2, 0.1, 0.05, 0.1), start=1):
        kept = len(set(planned(entry, severity, 288).tolist()))
        assert kept == int(share * 288)
    assert np.array_equal(planned(entry, 3, 288), planned(entry, 5, 288))
    assert len(set(planned(entry, 5, 288, variant="paper").tolist())) in (7, 8)
    plans = [temporal.freeze(order_of(40, seed), 40, kept=0.4) for seed in range(400)]
    shown = np.zeros(40)
    for plan in plans:
        shown[np.unique(plan)] += 1
    assert shown[0] == 400
    assert np.abs(shown[1:] / 400 - 0.4).max() < 0.12


GROWING = [entry for entry in registry.perturbations(kind="video") if entry.monotonic]
ORDERS = {"msrvtt_p/jumble", "msrvtt_p/sampling"}
"""They move frames farther, which on a clip that repeats itself need not look worse."""
ENCODED = [entry for entry in GROWING if entry.method == "codec"]
CUT = [entry for entry in GROWING if entry.method == "temporal" and entry.key not in ORDERS]
# Grainy, so that no rate is enough.
GRAIN = np.random.default_rng(0).normal(0, 25, (30, 64, 96, 3))
FRAMES = np.clip(scene(30, 64, 96) + GRAIN, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("entry", [*ENCODED, *CUT], ids=lambda entry: entry.key)
def test_distortion_never_falls(entry: Perturbation) -> None:
    donors = [255 - FRAMES] if entry.guide is not None else []
    results = [
        perturbations.perturb(FRAMES, entry.key, severity, seed=0, item_id="it", fps=25, donors=donors)
        for severity in entry.severities
    ]
    errors = [np.square(result.astype(int) - FRAMES).mean() for result in results]
    assert errors == sorted(errors)
    assert 0 < errors[0] < errors[-1]
