"""Which pixels of each frame move most, and where to: for blurs that follow the motion (MLVP, App. E, Alg. 2)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.arrays import Image

_PERCENTILE = 75
_ANGLE_DECIMALS = 6
_GROUP = 64  # frames; what a reader holds at once

_COLUMNS: dict[str, pa.DataType] = {
    "position": pa.int64(),
    "angle": pa.float64(),
    "still": pa.bool_(),
    "mask": pa.binary(),
}
_SCHEMA = pa.schema([pa.field(name, kind) for name, kind in _COLUMNS.items()])


class FrameMotion(NamedTuple):
    """What one frame's optical flow says.

    Attributes:
        mask: bool, H x W: pixels that move, at or above the 75th percentile of the frame's flow magnitudes.
        angle: direction of the mean flow vector, degrees, in (-180, 180], x to the right and y down.
        still: whether that percentile is zero, so that every pixel is at or above it.
    """

    mask: npt.NDArray[np.bool_]
    angle: float
    still: bool


def optical_flow(before: Image, frame: Image) -> npt.NDArray[np.float32]:
    """Dense Farneback flow between two RGB frames, H x W x 2 (x, y) in pixels, at the parameters of MLVP, App. E."""
    first, second = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (before, frame))
    flow = cv2.calcOpticalFlowFarneback(first, second, cast(Any, None), 0.5, 3, 15, 3, 5, 1.2, 0)
    return np.asarray(flow, np.float32)


def frame_motion(flow: npt.NDArray[np.float32]) -> FrameMotion:
    """Reduce a flow field to what blurs need."""
    x, y = flow[..., 0], flow[..., 1]
    magnitude = np.sqrt(x * x + y * y)
    threshold = np.percentile(magnitude, _PERCENTILE)
    # NumPy's own arctangent has other last bits on processors with AVX-512, the C library's on those without FMA.
    down, across = (float(part.mean(dtype=np.float64)) for part in (y, x))
    angle = round(math.degrees(math.atan2(down, across)), _ANGLE_DECIMALS)
    return FrameMotion((magnitude >= threshold) & (magnitude > 0), angle, bool(threshold == 0))


def no_motion(height: int, width: int) -> FrameMotion:
    """The first frame's: there is none before it."""
    return FrameMotion(np.zeros((height, width), bool), 0.0, True)


class Follower:
    """Motion frame by frame. Frames must be shown in order, and each that is asked for after the one before it."""

    def __init__(self) -> None:
        self._image: Image | None = None
        self._position = -1

    def needed(self, positions: Collection[int] | None) -> set[int] | None:
        """The frames to show for the motion at these positions: each of them and the one before it. None means all."""
        return needed(positions)

    def show(self, image: Image, position: int) -> None:
        """See the frame at `position`."""
        self._before = self._image if position == self._position + 1 else None
        self._image, self._position = image, position

    def __call__(self, position: int) -> FrameMotion:
        """The motion of the frame shown last."""
        assert self._image is not None
        assert position == self._position
        if position == 0:
            return no_motion(*self._image.shape[:2])
        assert self._before is not None, "the frame before was not shown"
        return frame_motion(optical_flow(self._before, self._image))


def needed(positions: Collection[int] | None) -> set[int] | None:
    """The frames to show for the motion at these positions: each of them and the one before it. None means all."""
    return None if positions is None else {near for one in positions for near in (one - 1, one) if near >= 0}


def write(path: Path, motions: Iterable[tuple[int, FrameMotion]], about: Mapping[str, Any]) -> None:
    """Write (position, motion) pairs, in constant memory: a row a frame, masks as bits."""
    schema = _SCHEMA.with_metadata({"about": json.dumps(about, sort_keys=True)})
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False, write_statistics=False) as writer:
        for group in _grouped(motions):
            rows = [
                {"position": position, "angle": one.angle, "still": one.still, "mask": np.packbits(one.mask).tobytes()}
                for position, one in group
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema))


def _grouped(motions: Iterable[tuple[int, FrameMotion]]) -> Iterator[list[tuple[int, FrameMotion]]]:
    group: list[tuple[int, FrameMotion]] = []
    for one in motions:
        group.append(one)
        if len(group) == _GROUP:
            yield group
            group = []
    if group:
        yield group


def reader(path: Path, height: int, width: int) -> Callable[[int], FrameMotion]:
    """A function position -> motion over a file that `write` made; cheap where positions ascend."""
    file = pq.ParquetFile(path)
    positions = file.read(columns=["position"])["position"].to_numpy()
    group: int | None = None
    rows: list[dict[str, Any]] = []

    def read(position: int) -> FrameMotion:
        nonlocal group, rows
        row = int(np.searchsorted(positions, position))
        if row == len(positions) or positions[row] != position:
            raise KeyError(f"{path} does not hold frame {position}")
        if row // _GROUP != group:
            group = row // _GROUP
            rows = file.read_row_group(group).to_pylist()
        found = rows[row % _GROUP]
        bits = np.unpackbits(np.frombuffer(found["mask"], np.uint8), count=height * width)
        return FrameMotion(bits.view(np.bool_).reshape(height, width), found["angle"], found["still"])

    return read
