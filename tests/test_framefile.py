"""Files of a few frames."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perturbations.base.errors import MediaError
from perturbations.media import framefile

shapes = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.just(3))


@given(frames=arrays(np.uint8, shapes))
def test_what_is_read_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, frames: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("f") / "x.npy.zst"
    framefile.write(path, frames)
    again = framefile.read(path)
    assert again.dtype == np.uint8
    assert np.array_equal(again, frames)


def test_both_predictors_pack_what_they_are_for(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 255, (1, 64, 64, 3), dtype=np.uint8)
    still = noise + generator.integers(0, 2, (4, 64, 64, 3), dtype=np.uint8)
    smooth = np.arange(4 * 64 * 64 * 3).reshape(4, 64, 64, 3).astype(np.uint8) // 2
    for frames, name in (
        (still, "previous"),
        (smooth * generator.integers(1, 3, (4, 1, 1, 1), dtype=np.uint8), "left"),
    ):
        path = tmp_path / f"{name}.npy.zst"
        framefile.write(path, frames)
        with pa.input_stream(str(path), compression="zstd") as stream:
            file = io.BytesIO(stream.read())
        assert str(np.load(file)) == name
        axis = {"left": 2, "previous": 0}[name]
        assert np.array_equal(np.cumsum(np.load(file), axis=axis, dtype=np.uint8), frames)
        assert path.stat().st_size < frames.nbytes / 2


@pytest.mark.parametrize(
    "content", [b"", b"no zstd", b"\x28\xb5\x2f\xfd" + bytes(50), pa.compress(b"no arrays", "zstd", asbytes=True)]
)
def test_a_damaged_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npy.zst"
    path.write_bytes(content)
    with pytest.raises(MediaError, match=r"x\.npy\.zst cannot be read"):
        framefile.read(path)
