"""MSRVTT-P as its authors' two programs make it: recorded results, and what holds for clips of any length and size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looping import each
from test_kernels import assert_close, each_severity

from perturbations.base.errors import MediaError
from perturbations.video import camera, digital, temporal

RATES = (2, 4, 8, 16, 32)
CHOSEN = ((0.4, 0), (0.2, 0), (0.1, 0), (0.05, 2), (0.1, 1))
REACHES = (8, 16, 24, 32, 40)


@pytest.fixture(scope="module")
def golden(reference: Path) -> Any:
    return np.load(reference / "golden" / "released" / "golden.npz")


def plans(golden: Any, name: str, severity: int) -> list[tuple[str, int]]:
    """The recorded plans of a program's perturbation at a severity, and the length of each one's clip."""
    names = [path.removesuffix("/plan") for path in golden.files if path.startswith(f"{name}/T")]
    places = [(path, int(path.split("/")[2][1:])) for path in names if path.endswith(f"/{severity}")]
    assert places, name
    return places


@each_severity
@each(
    ("name", "kernel"),
    [
        ("writer/sample", temporal.sampling_released),
        ("online/sampling", temporal.sampling_released),
        ("writer/reverse_sample", temporal.reverse_sampling_released),
        ("online/reverse_sampling", temporal.reverse_sampling_released),
    ],
)
def test_sampling(golden: Any, severity: int, name: str, kernel: Callable[..., np.ndarray]) -> None:
    for path, length in plans(golden, name, severity):
        assert np.array_equal(kernel(None, length, rate=RATES[severity - 1]), golden[f"{path}/plan"]), path


@each_severity
@each(("program", "opening"), [("writer", "lost"), ("online", "first")])
def test_freeze(golden: Any, severity: int, program: str, opening: str) -> None:
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
def test_jumble(golden: Any, severity: int, program: str) -> None:
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
def test_translate(golden: Any, severity: int, size: str) -> None:
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
def test_jpeg_exchanges_red_and_blue(golden: Any, severity: int) -> None:
    frame, theirs = golden["size_a/frame"], golden[f"writer/jpeg/{severity}/out"]
    apply = digital.jpeg_of_bgr(None, 1, *frame.shape[:2], quality=(25, 18, 15, 10, 7)[severity - 1])
    assert cv2.PSNR(apply(frame, 0), theirs) >= 45


# --- any clip ---------------------------------------------------------------------------------------------------------


@given(length=st.integers(1, 80), rate=st.integers(1, 40))
def test_sampling_holds_every_frame_for_its_whole_rate(length: int, rate: int) -> None:
    plan = temporal.sampling_released(None, length, rate=rate)
    assert len(plan) == rate * -(-length // rate)
    assert np.array_equal(plan[:length], temporal.sampling(None, length, rate=rate))
    assert np.array_equal(temporal.reverse_sampling_released(None, length, rate=rate), plan[::-1])


@each_severity
@each("length", [1, 2, 3, 11, 60])
def test_freeze_of_any_length(severity: int, length: int) -> None:
    order = np.random.default_rng(length).random(length)
    kept, least = CHOSEN[severity - 1]
    count = max(int(kept * length), least)
    if count > length:
        with pytest.raises(MediaError):
            temporal.freeze_released(order, length, kept=kept, least=least, opening="lost")
        return
    late = temporal.freeze_released(order, length, kept=kept, least=least, opening="lost")
    whole = temporal.freeze_released(order, length, kept=kept, least=least, opening="first")
    assert len(np.unique(late)) == count
    assert len(whole) == length
    assert np.array_equal(whole[length - len(late) :], late)
    assert not whole[: length - len(late)].any()
    if not least:
        assert np.array_equal(whole, temporal.freeze(order, length, kept=kept))


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
