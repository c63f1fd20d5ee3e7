"""The kernels of the variant `released` against what the authors' own programs made of the same frames and draws.

Any recorded set of the same form will do: other clips, other lengths, boxes missing elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from kernel_scenes import AT_45_DB, assert_close, each_severity, mean_square, occlusion_places
from looping import each

from perturbations.base.errors import MediaError
from perturbations.corpus.render.frame_orders import fitted
from perturbations.models.analysis import neighbours
from perturbations.suites import suite_registry
from perturbations.video import camera, digital, occlusion, temporal, weather

Golden = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def golden(reference: Path) -> Golden:
    with np.load(reference / "golden" / "released" / "golden.npz") as held:
        return {name: held[name] for name in held.files}


def matching(golden: Golden, pattern: str) -> list[tuple[str, list[str]]]:
    """The names that match a pattern, each match once, with its groups; at least one."""
    matches = {match[0]: match for name in golden if (match := re.match(pattern, name))}
    assert matches, pattern
    return [(name, [*match.groups()]) for name, match in matches.items()]


# --- MLVP ------------------------------------------------------------------------------------------------------------


def scrambling(golden: Golden, name: str, kept: int) -> temporal.Scrambling:
    """The draws that give a recorded order."""
    head, trimmed = golden[f"{name}head_of_trim"]
    chunks = min(12, kept)
    first = golden.get(f"{name}pairs", golden.get(f"{name}chunk_order", np.zeros(0, int))).ravel().tolist()
    keys = np.empty(12)
    keys[[*first, *(chunk for chunk in range(12) if chunk not in first)]] = np.arange(12) / 12
    adjacent = golden.get(f"{name}adjacent", np.zeros(1))[0]
    places = golden.get(f"{name}choice_positions", np.zeros(12))
    pair = (adjacent + 0.5) / max(1, chunks - 1)
    return temporal.Scrambling((head + 0.5) / (trimmed + 1), pair, keys, (places + 0.5) / kept)


@each_severity
def test_scrambling_gives_a_model_the_same_12_frames(golden: Golden, severity: int) -> None:
    parameters = suite_registry.get("mlvp/temporal_scrambling").parameters(severity)
    for name, (frames,) in matching(golden, rf"mlvp/temporal_scrambling/T(\d+)/{severity}/"):
        num_frames = int(frames)
        kept = num_frames - int(golden[f"{name}head_of_trim"][1])
        drawn = scrambling(golden, name, kept)
        assert len(temporal.scrambling_released(drawn, num_frames, **parameters)) == kept, name
        plan = temporal.scrambling_sampled(drawn, num_frames, **parameters)
        assert plan.tolist() == golden[f"{name}frames12"].tolist(), name


@each_severity
def test_insertion_gives_a_model_the_same_12_frames(golden: Golden, severity: int) -> None:
    share = suite_registry.get("mlvp/event_insertion").parameters(severity)["share"]
    for name, groups in matching(golden, rf"mlvp/event_insertion/T(\d+)_donor(\d+)/{severity}/"):
        num_frames, donor = map(int, groups)
        plan = temporal.insertion_sampled(None, (donor, 1.0), num_frames, share=share, donors=2000)
        assert plan.tolist() == golden[f"{name}plan12"].tolist(), name


def test_the_donor_is_the_largest_product_and_its_frames_are_interpolated(golden: Golden) -> None:
    query, vectors = golden["mlvp/event_insertion/caption_embedding"], golden["mlvp/event_insertion/base_embeddings"]
    donor = neighbours.largest_product(query, vectors, np.zeros(len(vectors), bool))
    assert donor is not None
    position, similarity = donor
    assert position == golden["mlvp/event_insertion/argmax"]
    assert similarity == pytest.approx(float(vectors[position].astype(float) @ query.astype(float)))
    expected = golden["mlvp/event_insertion/resize_out"].astype(float)
    height, width, _ = expected.shape
    resized = fitted(golden["mlvp/event_insertion/resize_in"], (width, height), antialiased=False)
    assert np.abs(resized - expected).max() < 1  # half a level of rounding, and the recorded halves' own


@each_severity
def test_rectangles_are_cut_off_at_borders(golden: Golden, severity: int) -> None:
    boxes = golden["mlvp/main_object_occlusion/boxes"].astype(float)
    width, height = golden["mlvp/main_object_occlusion/size_wh"].tolist()
    ratio = suite_registry.get("mlvp/main_object_occlusion").parameters(severity)["ratio"]
    draws = golden[f"mlvp/main_object_occlusion/{severity}/draws"]
    places, ranges = occlusion_places(draws[:, 0], boxes, height, width, ratio)
    assert ranges == [tuple(draw) for draw in draws.tolist()]
    apply = occlusion.occlusion_released(places, boxes, len(boxes), height, width, ratio=ratio)
    white = np.full((height, width, 3), 255, np.uint8)
    for index, (x0, y0, x1, y1) in enumerate(golden[f"mlvp/main_object_occlusion/{severity}/rectangles"]):
        expected = white.copy()
        expected[y0:y1, x0:x1] = 0
        assert np.array_equal(apply(white, index), expected)


# --- MM-Robustness ---------------------------------------------------------------------------------------------------


def parameters_of(name: str, severity: int) -> dict[str, Any]:
    return dict(suite_registry.get(f"mm_robustness/{name}", "released").parameters(severity))


def perturbed(name: str, severity: int, frame: np.ndarray, *drawn: Any, **changed: Any) -> np.ndarray:
    """`drawn` is the realization, None by default, and the guide, if there is one."""
    kernel = suite_registry.get(f"mm_robustness/{name}", "released").kernel
    parameters = parameters_of(name, severity) | changed
    result: np.ndarray = kernel(*(drawn or (None,)), 1, *frame.shape[:2], **parameters)(frame, 0)
    return result


def steps_of(dxdy: np.ndarray, height: int, width: int, delta: int) -> np.ndarray:
    """The drawn steps, which belong to the pixels of one row from the right to the left; zeros elsewhere."""
    steps = np.zeros((3, 2, height, width), np.uint16)
    row, last = min(height, 224) - delta, min(width, 224) - delta
    for column, pair in zip(range(last, last - len(dxdy), -1), dxdy.tolist(), strict=True):
        steps[0, :, row, column] = [int((step + delta + 0.5) * 65536 / (2 * delta)) for step in reversed(pair)]
    return steps


def recorded(golden: Golden, name: str) -> list[tuple[str, np.ndarray, int]]:
    """Each recorded result of a perturbation: its path, the frame that it was made of, and its severity."""
    paths = matching(golden, rf"(\w+)/{name}/(\d)(?=/out$)")
    return [(path, golden[f"{size}/frame"], int(severity)) for path, (size, severity) in paths]


# Of glass, what does not move is blurred twice.
GLASS = 0.985


def test_glass_blur(golden: Golden) -> None:
    for path, frame, severity in recorded(golden, "glass_blur"):
        steps = steps_of(golden[f"{path}/dxdy"], *frame.shape[:2], parameters_of("glass_blur", severity)["delta"])
        assert_close(perturbed("glass_blur", severity, frame, steps), golden[f"{path}/out"], GLASS)


def test_glass_blur_of_a_frame_beyond_224_pixels(golden: Golden) -> None:
    """Its lowest rows are recorded, and of the result those that the blur does not bring from elsewhere."""
    width, height = golden["large/glass_blur/4/size_wh"].tolist()
    band, expected = golden["large/glass_blur/4/in_band"], golden["large/glass_blur/4/out_band"]
    frame = np.zeros((height, width, 3), np.uint8)
    frame[height - len(band) :] = band
    steps = steps_of(golden["large/glass_blur/4/dxdy"], height, width, parameters_of("glass_blur", 4)["delta"])
    ours = perturbed("glass_blur", 4, frame, steps)
    first = height - len(band) + (len(band) - len(expected)) // 2
    assert_close(ours[first : first + len(expected)], expected, GLASS)


@pytest.mark.parametrize("name", ["pixelate", "contrast", "brightness"])
def test_without_draws(golden: Golden, name: str) -> None:
    for path, frame, severity in recorded(golden, name):
        assert_close(perturbed(name, severity, frame), golden[f"{path}/out"])


def test_weather_and_jpeg(golden: Golden) -> None:
    for path, frame, severity in recorded(golden, "frost"):
        photograph = golden["frost/photographs"][int(golden[f"{path}/which"])]
        assert_close(perturbed("frost", severity, frame, None, photograph), golden[f"{path}/out"])
    for path, frame, severity in recorded(golden, "fog"):
        side, seed = (int(golden[f"{path}/{name}"]) for name in ("mapsize", "randomstate_seed"))
        uniform = np.random.RandomState(seed).uniform(-1, 1, side**2 - 1)
        assert_close(perturbed("fog", severity, frame, uniform), golden[f"{path}/out"])
        assert golden["mm/plasma_side_of_script"][0, 1] == parameters_of("fog", severity)["side"] == side
    for path, frame, severity in recorded(golden, "snow"):
        parameters = parameters_of("snow", severity)
        flakes = (golden[f"{path}/normal"] - parameters["loc"]) / parameters["scale"]
        drawn = weather.Snow(flakes, float(golden[f"{path}/angle"]))
        assert_close(perturbed("snow", severity, frame, drawn), golden[f"{path}/out"])
    for path, frame, severity in recorded(golden, "jpeg_compression"):
        assert mean_square(perturbed("jpeg_compression", severity, frame), golden[f"{path}/out"]) < AT_45_DB


# --- MSRVTT-P, whose authors have two programs -----------------------------------------------------------------------

RATES = (2, 4, 8, 16, 32)
CHOSEN = ((0.4, 0), (0.2, 0), (0.1, 0), (0.05, 2), (0.1, 1))
REACHES = (8, 16, 24, 32, 40)


def plans(golden: Golden, name: str, severity: int) -> list[tuple[str, int]]:
    """The recorded plans of a program's perturbation at a severity, and the length of each one's clip."""
    places = matching(golden, rf"{name}/T(\d+)/{severity}(?=/plan$)")
    return [(path, int(length)) for path, (length,) in places]


@each_severity
@each(
    ("name", "backwards"),
    [
        ("writer/sample", False),
        ("online/sampling", False),
        ("writer/reverse_sample", True),
        ("online/reverse_sampling", True),
    ],
)
def test_sampling(golden: Golden, severity: int, name: str, backwards: bool) -> None:
    for path, length in plans(golden, name, severity):
        plan = temporal.sampling_released(None, length, rate=RATES[severity - 1], backwards=backwards)
        assert np.array_equal(plan, golden[f"{path}/plan"]), path


@each_severity
@each(("program", "opening"), [("writer", "lost"), ("online", "first")])
def test_freeze(golden: Golden, severity: int, program: str, opening: str) -> None:
    kept, least = CHOSEN[severity - 1]
    for path, length in plans(golden, f"{program}/freeze", severity):
        order = np.ones(length)
        order[golden[f"{path}/chosen"]] = 0
        theirs = golden[f"{path}/plan"]
        if -1 in theirs:
            with pytest.raises(MediaError, match=f"frames are to be chosen of {length}"):
                temporal.freeze_released(order, length, kept=kept, least=least, opening=opening)
        else:
            ours = temporal.freeze_released(order, length, kept=kept, least=least, opening=opening)
            assert np.array_equal(ours, theirs), path


@each_severity
@each("program", ["writer", "online"])
def test_jumble(golden: Golden, severity: int, program: str) -> None:
    segments = {
        "writer": (2 ** (1 + severity), 2**severity),
        "online": (64 // 2**severity, (severity + 1) ** 2),
    }[program]
    for name, kernel, segment in zip(
        ("jumble", "box_jumble"), (temporal.jumble, temporal.box_jumble), segments, strict=True
    ):
        for path, length in plans(golden, f"{program}/{name}", severity):
            ours = kernel(golden[f"{path}/order"], length, length=segment)
            assert np.array_equal(ours, golden[f"{path}/plan"]), path


@each_severity
@each("size", ["size_a", "size_b"])
def test_translate(golden: Golden, severity: int, size: str) -> None:
    frame, name = golden[f"{size}/frame"], f"writer/translate/{size}/{severity}"
    height, width = frame.shape[:2]
    reach = REACHES[severity - 1]
    origins = [((x + 0.5) / reach, (y + 0.5) / reach) for x, y in golden[f"{name}/xy"].tolist()]
    shape = camera.shape_of_translation(origins, len(origins), height, width, reach=reach, window="lost")
    kept = range(len(origins)) if shape.kept is None else shape.kept
    assert list(kept) == np.flatnonzero(golden[f"{name}/written"]).tolist()
    assert (shape.height, shape.width) == (224, 224)
    if f"{name}/first_every_4th" in golden:
        apply = camera.translate_released(origins[0], len(origins), height, width, reach=reach, window="lost")
        assert_close(apply(frame, 0)[::4, ::4], golden[f"{name}/first_every_4th"])


@pytest.mark.parametrize("severity", [1, 5])
def test_jpeg_exchanges_red_and_blue(golden: Golden, severity: int) -> None:
    frame, theirs = golden["size_a/frame"], golden[f"writer/jpeg/{severity}/out"]
    apply = digital.jpeg(None, 1, *frame.shape[:2], quality=(25, 18, 15, 10, 7)[severity - 1], exchanged=True)
    assert cv2.PSNR(apply(frame, 0), theirs) >= 45


# --- any clip ---------------------------------------------------------------------------------------------------------


@each("size", [(1, 1), (3, 11), (37, 53), (240, 320), (320, 240), (225, 5000), (360, 288)])
@each("origin", [(0.0, 0.0), (0.5, 0.9), (0.999, 0.999)])
def test_translate_cuts_the_window_out_of_the_scaled_frame(size: tuple[int, int], origin: tuple[float, float]) -> None:
    height, width = size
    frame = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    short = min(size)
    wide, high = (256 if side == short else int(side * 256 / short) for side in (width, height))
    scaled = cv2.resize(frame, (wide, high), interpolation=cv2.INTER_LINEAR)
    row, column = (int(unit * 40) for unit in origin)
    for window in ("lost", "filled"):
        side = 256 if (window, width) == ("filled", 288) else 224
        padded = np.zeros((40 + 256, 40 + 256, 3), np.uint8)
        part = scaled[: len(padded), : len(padded)]
        padded[: part.shape[0], : part.shape[1]] = part
        ours = camera.translate_released(origin, 1, height, width, reach=40, window=window)(frame, 0)
        assert np.array_equal(ours, padded[row : row + side, column : column + side])
        kept = camera.shape_of_translation([origin], 1, height, width, reach=40, window=window).kept
        fits = row + side <= high and column + side <= wide
        assert kept == (None if window == "filled" else (0,) if fits else ())
