"""Files of a few frames, lossless: NumPy arrays in a Zstandard stream.

The stream holds two arrays, one after the other, as `numpy.save` writes them: the name of a predictor, and its
residuals, N x H x W x 3 uint8, modulo 256. `left` subtracts from each pixel its left neighbour, for pictures;
`previous` subtracts from each frame the one before it, for noise that stands still. A cumulative sum along that axis,
in uint8, restores the frames.
"""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pyarrow as pa

from perturbations.base import limits, tars
from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError

_AXES = {"left": 2, "previous": 0}
_TRIED_ROWS = slice(None, None, 8)
_LONGEST_NAME_BYTES = 4 * max(map(len, _AXES))
_PIECE_BYTES = 1 << 20


def write(path: Path, frames: Image) -> None:
    """Write N x H x W x 3 uint8, with the predictor that compresses every eighth row better, and check the file.

    Raises `MediaError` when the file does not hold the frames.
    """
    name = min(_AXES, key=lambda axis: len(_zstd().compress(_arrays(axis, frames[:, _TRIED_ROWS]))))
    arrays = _arrays(name, frames)
    path.write_bytes(_zstd().compress(arrays, asbytes=True))
    if _zstd().decompress(path.read_bytes(), len(arrays), asbytes=True) != arrays:
        raise MediaError(f"{path} does not hold what was written to it")


def read(path: Path, shape: tuple[int, int, int] | None = None) -> Image:
    """Read a file that `write` wrote; `shape` is the required N, H and W, if they are known.

    Raises `MediaError` when the file is damaged, has another shape, or needs more than `limits` allows.
    """
    try:
        with tars.opened(path) as file, pa.input_stream(file, compression="zstd") as stream:
            no_shape, dtype = _read_header(stream)
            if no_shape != () or dtype.kind != "U" or dtype.itemsize > _LONGEST_NAME_BYTES:
                raise ValueError("it does not begin with the name of a predictor")
            axis = _AXES[str(np.frombuffer(stream.read(dtype.itemsize), dtype)[0])]
            residuals = _read_residuals(stream, shape)
            if stream.read(1):
                raise ValueError("something follows the frames")
    except (OSError, ValueError, EOFError, LookupError) as error:
        raise MediaError(f"{path} cannot be read: {error}") from error
    # In place: a second array would double the memory.
    return np.cumsum(residuals, axis=axis, dtype=np.uint8, out=residuals)


def _read_residuals(stream: pa.NativeFile, wanted: tuple[int, int, int] | None) -> Image:
    shape, dtype = _read_header(stream)
    if dtype != np.uint8 or len(shape) != 4 or shape[-1] != 3 or min(shape) < 1:
        raise ValueError(f"frames are N x H x W x 3 uint8, not {dtype} of shape {shape}")
    if wanted is not None and shape != (*wanted, 3):
        raise ValueError(f"{' x '.join(map(str, wanted))} frames are expected, not {' x '.join(map(str, shape[:3]))}")
    limits.check_size(shape[2], shape[1])
    limits.check_bytes(math.prod(shape), f"its {shape[0]} frames of {shape[2]}x{shape[1]}")
    residuals = np.empty(shape, np.uint8)  # takes memory only as it is filled
    flat = residuals.reshape(-1)
    filled = 0
    while filled < len(flat):
        data = stream.read(min(len(flat) - filled, _PIECE_BYTES))
        if not data:
            raise EOFError("the file ends early")
        flat[filled : filled + len(data)] = np.frombuffer(data, np.uint8)
        filled += len(data)
    return residuals


def _read_header(stream: pa.NativeFile) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """An array's shape and type, from the header that `numpy.save` writes before it."""
    if np.lib.format.read_magic(stream) != (1, 0):  # later versions are for headers of 64 KiB and more
        raise ValueError("not the frames that this program writes")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if fortran or dtype.hasobject:
        raise ValueError("not the frames that this program writes")
    return shape, dtype


def _arrays(name: str, frames: Image) -> bytes:
    axis = _AXES[name]
    residuals = frames.copy()
    later, earlier = [slice(None)] * 4, [slice(None)] * 4
    later[axis], earlier[axis] = slice(1, None), slice(None, -1)
    residuals[tuple(later)] -= frames[tuple(earlier)]
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array(name), allow_pickle=False)
    np.lib.format.write_array(file, residuals, allow_pickle=False)
    return file.getvalue()


def _zstd() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)
