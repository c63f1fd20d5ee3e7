"""Which pixels of each frame move most, and in which direction: for motion blurs (MLVP, App. E, Alg. 2)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image

_PERCENTILE = 75
_ANGLE_DECIMALS = 6
_GROUP = 64  # frames; a reader holds one group in memory


class FrameMotion(NamedTuple):
    """The motion in one frame, from its optical flow.

    Attributes:
        mask: bool, H x W: pixels that move, at or above the 75th percentile of the frame's flow magnitudes.
        angle: direction of the mean flow vector, degrees, in (-180, 180], x to the right and y down.
        still: whether this percentile is zero: then every pixel is at or above it.
    """

    mask: npt.NDArray[np.bool_]
    angle: float
    still: bool


def optical_flow(before: Image, frame: Image) -> npt.NDArray[np.float32]:
    """Dense Farneback flow between two RGB frames, H x W x 2 (x, y) in pixels, at the parameters of MLVP, App. E."""
    first, second = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (before, frame))
    flow = cv2.calcOpticalFlowFarneback(first, second, cast(Image, None), 0.5, 3, 15, 3, 5, 1.2, 0)
    return np.asarray(flow, np.float32)


def frame_motion(flow: npt.NDArray[np.float32]) -> FrameMotion:
    """Reduce a flow field, float32 H x W x 2, to the mask and the angle that blurs need."""
    x, y = flow[..., 0], flow[..., 1]
    magnitude = np.sqrt(x * x + y * y)
    threshold = np.percentile(magnitude, _PERCENTILE)
    # The last bits of NumPy's arctangent differ on processors with AVX-512, those of the C library's without FMA.
    down, across = (float(part.mean(dtype=np.float64)) for part in (y, x))
    angle = round(math.degrees(math.atan2(down, across)), _ANGLE_DECIMALS)
    return FrameMotion((magnitude >= threshold) & (magnitude > 0), angle, bool(threshold == 0))


class Follower:
    """Motion frame by frame. Frames must be shown in order, and the frame before each wanted frame too."""

    def __init__(self) -> None:
        self._image: Image | None = None
        self._position = -1

    @staticmethod
    def needed(positions: Collection[int] | None) -> set[int] | None:
        """The frames to show for the motion at these positions: each frame and the frame before it. None means all."""
        return None if positions is None else {near for at in positions for near in (at - 1, at) if near >= 0}

    def show(self, image: Image, position: int) -> None:
        """Take the frame at `position`."""
        self._before = self._image if position == self._position + 1 else None
        self._image, self._position = image, position

    def __call__(self, position: int) -> FrameMotion:
        """The motion of the frame shown last."""
        assert self._image is not None
        assert position == self._position
        if position == 0:
            return FrameMotion(np.zeros(self._image.shape[:2], bool), 0.0, True)  # no frame is before it
        assert self._before is not None, "the frame before was not shown"
        return frame_motion(optical_flow(self._before, self._image))


def write(path: Path, motions: Iterable[tuple[int, FrameMotion]], about: Mapping[str, object]) -> None:
    """Write (position, motion) pairs, in constant memory: one row per frame, masks as bits."""
    import pyarrow as pa  # not at the top of the file: perturbing arrays works without it
    from pyarrow import parquet

    types = {"position": pa.int64(), "angle": pa.float64(), "still": pa.bool_(), "mask": pa.binary()}
    schema = pa.schema(types).with_metadata({"about": json.dumps(about, sort_keys=True)})
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    with parquet.ParquetWriter(path, schema, **options) as writer:
        rows = (
            {**motion._asdict(), "position": position, "mask": np.packbits(motion.mask).tobytes()}
            for position, motion in motions
        )
        while group := list(islice(rows, _GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema))


def reader(path: Path, height: int, width: int) -> Callable[[int], FrameMotion]:
    """A function position -> motion, from a file that `write` wrote; fast where positions ascend."""
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    positions = np.array(file.read(columns=["position"])["position"].to_pylist(), np.int64)
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
        stored = rows[row % _GROUP]
        bits = np.unpackbits(np.frombuffer(stored["mask"], np.uint8), count=height * width)
        return FrameMotion(bits.view(np.bool_).reshape(height, width), stored["angle"], stored["still"])

    return read
