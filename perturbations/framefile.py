"""Files of a few frames, lossless: NumPy arrays in a Zstandard stream.

The stream holds two arrays, one after the other, as `numpy.save` writes them: the name of a predictor, and its
residuals, N x H x W x 3 uint8, modulo 256. `left` is each pixel less the one to its left, for pictures; `previous` is
each frame less the one before it, for noise that stands still. A cumulative sum along that axis, in uint8, gives the
frames back.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa

from perturbations.errors import MediaError
from perturbations.media import Image

_AXES = {"left": 2, "previous": 0}
_TRIED_ROWS = slice(None, None, 8)


def write(path: Path, frames: Image) -> None:
    """Write N x H x W x 3 uint8, with the predictor that packs every eighth row better, and read the file back.

    Raises `MediaError` when the disk does not hold what was written.
    """
    name = min(_AXES, key=lambda one: len(_zstd().compress(_arrays(one, frames[:, _TRIED_ROWS]))))
    arrays = _arrays(name, frames)
    path.write_bytes(_zstd().compress(arrays, asbytes=True))
    if _zstd().decompress(path.read_bytes(), len(arrays), asbytes=True) != arrays:
        raise MediaError(f"{path} does not hold what was written to it")


def read(path: Path) -> Image:
    """Read what `write` wrote. Raises `MediaError` when it is damaged."""
    try:
        with pa.input_stream(str(path), compression="zstd") as stream:
            file = io.BytesIO(stream.read())
        name = str(np.lib.format.read_array(file, allow_pickle=False))
        residuals = np.lib.format.read_array(file, allow_pickle=False)
        axis = _AXES[name]
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise MediaError(f"{path} cannot be read: {error}") from error
    return np.cumsum(residuals, axis=axis, dtype=np.uint8)


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
