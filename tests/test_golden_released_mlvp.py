"""MLVP's kernels of the variant `released` against what the authors' code computed, bugs included.

Any recorded set of the same form will do: other clips, other lengths, boxes missing elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from test_golden_mlvp import occlusion_places
from test_kernels import each_severity

from perturbations.analysis import neighbours
from perturbations.engine.frame_orders import fitted
from perturbations.suites import registry
from perturbations.video import occlusion, temporal


@pytest.fixture(scope="module")
def golden(reference: Path) -> dict[str, np.ndarray]:
    with np.load(reference / "golden" / "released" / "golden.npz") as arrays:
        return {name.removeprefix("mlvp/"): arrays[name] for name in arrays if name.startswith("mlvp/")}


def scrambling(golden: dict[str, np.ndarray], name: str, kept: int) -> temporal.Scrambling:
    """The draws that give a recorded order."""
    head, trimmed = golden[f"{name}/head_of_trim"]
    chunks = min(12, kept)
    first = golden.get(f"{name}/pairs", golden.get(f"{name}/chunk_order", np.zeros(0, int))).ravel().tolist()
    keys = np.empty(12)
    keys[[*first, *(chunk for chunk in range(12) if chunk not in first)]] = np.arange(12) / 12
    adjacent = golden.get(f"{name}/adjacent", np.zeros(1))[0]
    places = golden.get(f"{name}/choice_positions", np.zeros(12))
    pair = (adjacent + 0.5) / max(1, chunks - 1)
    return temporal.Scrambling((head + 0.5) / (trimmed + 1), pair, keys, (places + 0.5) / kept)


def recorded(golden: dict[str, np.ndarray], pattern: str) -> list[tuple[str, list[int]]]:
    """The names that match a whole pattern, each once, with the numbers in it; at least one."""
    matches = {match[0]: match for name in golden if (match := re.match(pattern, name))}
    assert matches, pattern
    return [(name, [int(number) for number in match.groups()]) for name, match in matches.items()]


@each_severity
def test_scrambling_gives_a_model_the_same_12_frames(golden: dict[str, np.ndarray], severity: int) -> None:
    parameters = registry.get("mlvp/temporal_scrambling").parameters(severity)
    for name, (num_frames,) in recorded(golden, rf"temporal_scrambling/T(\d+)/{severity}"):
        kept = num_frames - int(golden[f"{name}/head_of_trim"][1])
        drawn = scrambling(golden, name, kept)
        assert len(temporal.scrambling_released(drawn, num_frames, **parameters)) == kept, name
        plan = temporal.scrambling_sampled(drawn, num_frames, **parameters)
        assert plan.tolist() == golden[f"{name}/frames12"].tolist(), name


@each_severity
def test_insertion_gives_a_model_the_same_12_frames(golden: dict[str, np.ndarray], severity: int) -> None:
    share = registry.get("mlvp/event_insertion").parameters(severity)["share"]
    for name, (num_frames, donor) in recorded(golden, rf"event_insertion/T(\d+)_donor(\d+)/{severity}"):
        plan = temporal.insertion_sampled(None, (donor, 1.0), num_frames, share=share, donors=2000)
        assert plan.tolist() == golden[f"{name}/plan12"].tolist(), name


def test_the_donor_is_the_largest_product_and_its_frames_are_interpolated(golden: dict[str, np.ndarray]) -> None:
    query, vectors = golden["event_insertion/caption_embedding"], golden["event_insertion/base_embeddings"]
    donor = neighbours.largest_product(query, vectors)
    assert donor is not None
    assert donor.position == golden["event_insertion/argmax"]
    assert donor.similarity == pytest.approx(float(vectors[donor.position].astype(float) @ query.astype(float)))
    expected = golden["event_insertion/resize_out"].astype(float)
    height, width, _ = expected.shape
    resized = fitted(golden["event_insertion/resize_in"], (width, height), antialiased=False)
    assert np.abs(resized - expected).max() < 1  # half a level of rounding, and the recorded halves' own


@each_severity
def test_rectangles_are_cut_off_at_borders(golden: dict[str, np.ndarray], severity: int) -> None:
    boxes = golden["main_object_occlusion/boxes"].astype(float)
    width, height = golden["main_object_occlusion/size_wh"].tolist()
    ratio = registry.get("mlvp/main_object_occlusion").parameters(severity)["ratio"]
    draws = golden[f"main_object_occlusion/{severity}/draws"]
    places, ranges = occlusion_places(draws[:, 0], boxes, height, width, ratio)
    assert ranges == [tuple(draw) for draw in draws.tolist()]
    apply = occlusion.occlusion_released(places, boxes, len(boxes), height, width, ratio=ratio)
    white = np.full((height, width, 3), 255, np.uint8)
    for index, (x0, y0, x1, y1) in enumerate(golden[f"main_object_occlusion/{severity}/rectangles"]):
        expected = white.copy()
        expected[y0:y1, x0:x1] = 0
        assert np.array_equal(apply(white, index), expected)
