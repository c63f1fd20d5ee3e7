"""A disk too small for the frames of an evaluation stops the job with a message, not with a signal."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from perturbations.base import storage
from perturbations.base.errors import OutputError


@pytest.mark.parametrize("number", [0, errno.EOPNOTSUPP, errno.EINVAL, None, errno.ENOSPC])
def test_the_space_of_a_file_is_taken_before_it_is_written_where_that_can_be(
    number: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> None:
        assert number is not None
        raise OSError(number, os.strerror(number))

    if number is None:  # as on macOS
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    elif number:
        monkeypatch.setattr(os, "posix_fallocate", refused, raising=False)
    if number == errno.ENOSPC:
        with pytest.raises(OutputError, match=r"cannot write .*frames: No space left on device"):
            storage.reserve(tmp_path / "frames", 3_000_000)
        return
    storage.reserve(tmp_path / "frames", 3_000_000)
    status = (tmp_path / "frames").stat()
    assert status.st_size == 3_000_000
    assert number != 0 or not hasattr(os, "posix_fallocate") or status.st_blocks * 512 >= 3_000_000


def test_queries_reserve_their_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    import numpy as np

    from perturbations.evaluation.models.preprocessing import Images
    from perturbations.evaluation.run import query_encoding

    pixels = np.arange(2 * 8 * 8 * 3, dtype=np.uint8).reshape(2, 8, 8, 3)
    monkeypatch.setattr(query_encoding.Clip, "sampled", lambda *_: pixels)
    reserved: list[int] = []
    monkeypatch.setattr(storage, "reserve", lambda path, size: reserved.append(size) or path.write_bytes(bytes(size)))
    clips = query_encoding.Clips([None, None, None], 2, Images(4), tmp_path)  # type: ignore[list-item]
    assert reserved == [3 * 2 * 3 * 4 * 4]
    assert len(clips) == 3
    assert (clips.batch(slice(0, 3)).values[2].numpy() == Images(4).resized(pixels)).all()
