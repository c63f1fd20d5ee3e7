"""MLVP's kernels of the variant `released` against what the authors' code computed, bugs included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perturbations.analysis import neighbours
from perturbations.engine.temporal import fitted
from perturbations.suites import registry
from perturbations.video import occlusion, temporal

each_severity = pytest.mark.parametrize("severity", range(1, 6))


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


@pytest.mark.parametrize("num_frames", [5, 12, 23, 59, 100, 288, 431])
@each_severity
def test_scrambling_gives_a_model_the_same_12_frames(
    golden: dict[str, np.ndarray], num_frames: int, severity: int
) -> None:
    name = f"temporal_scrambling/T{num_frames}/{severity}"
    parameters = registry.get("mlvp/temporal_scrambling").parameters(severity)
    kept = num_frames - int(golden[f"{name}/head_of_trim"][1])
    drawn = scrambling(golden, name, kept)
    assert len(temporal.scrambling_released(drawn, num_frames, **parameters)) == kept
    plan = temporal.scrambling_sampled(drawn, num_frames, **parameters)
    assert plan.tolist() == golden[f"{name}/frames12"].tolist()


@pytest.mark.parametrize(("num_frames", "donor"), [(288, 300), (431, 97), (60, 1000), (100, 5), (7, 50)])
@each_severity
def test_insertion_gives_a_model_the_same_12_frames(
    golden: dict[str, np.ndarray], num_frames: int, donor: int, severity: int
) -> None:
    share = registry.get("mlvp/event_insertion").parameters(severity)["share"]
    plan = temporal.insertion_sampled(None, (donor, 1.0), num_frames, share=share, donors=2000)
    assert plan.tolist() == golden[f"event_insertion/T{num_frames}_donor{donor}/{severity}/plan12"].tolist()


def test_the_donor_is_the_largest_product(golden: dict[str, np.ndarray]) -> None:
    query, vectors = golden["event_insertion/caption_embedding"], golden["event_insertion/base_embeddings"]
    donor = neighbours.largest_product(query, vectors)
    assert donor is not None
    assert donor.position == golden["event_insertion/argmax"]
    assert donor.similarity == pytest.approx(float(vectors[donor.position].astype(float) @ query.astype(float)))


def test_donors_frames_are_interpolated_only(golden: dict[str, np.ndarray]) -> None:
    expected = golden["event_insertion/resize_out"].astype(float)
    height, width, _ = expected.shape
    resized = fitted(golden["event_insertion/resize_in"], (width, height), antialiased=False)
    assert np.abs(resized - expected).max() < 1  # half a level of rounding, and the recorded halves' own


@each_severity
def test_rectangles_are_cut_off_at_borders(golden: dict[str, np.ndarray], severity: int) -> None:
    boxes = golden["main_object_occlusion/boxes"].astype(float)
    width, height = golden["main_object_occlusion/size_wh"].tolist()
    value, low, high = golden[f"main_object_occlusion/{severity}/draws"].T.astype(float)
    uniform = ((value - low + 0.5) / (high - low)).reshape(-1, 2)
    # The first frame has no box, and its rectangle is in the middle; the ninth's box has no area, and nothing is drawn.
    by_frame = np.insert(uniform[1:], [0, 7], 0, axis=0)
    ratio = registry.get("mlvp/main_object_occlusion").parameters(severity)["ratio"]
    places = occlusion.Places(by_frame, uniform[0])
    apply = occlusion.occlusion_released(places, boxes, len(boxes), height, width, ratio=ratio)
    white = np.full((height, width, 3), 255, np.uint8)
    for index, (x0, y0, x1, y1) in enumerate(golden[f"main_object_occlusion/{severity}/rectangles"]):
        expected = white.copy()
        expected[y0:y1, x0:x1] = 0
        assert np.array_equal(apply(white, index), expected)
