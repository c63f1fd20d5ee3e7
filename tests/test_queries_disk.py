"""A disk too small for the frames of an evaluation stops the job with a message, not with a signal."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import needs
import pytest

from perturbations.base import storage
from perturbations.base.errors import OutputError


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system reserves no space")
def test_the_space_of_a_file_is_taken_before_it_is_written(tmp_path: Path) -> None:
    storage.reserve(tmp_path / "frames", 3_000_000)
    status = (tmp_path / "frames").stat()
    assert status.st_size == 3_000_000
    assert status.st_blocks * 512 >= 3_000_000


def test_a_full_disk_is_an_error_with_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OutputError, match=r"cannot write .*frames: No space left on device"):
        storage.reserve(tmp_path / "frames", 3_000_000)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, None])
def test_a_file_system_that_reserves_nothing_is_no_error(
    number: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> None:
        raise OSError(number, "not supported")

    if number is None:  # as on macOS
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    else:
        monkeypatch.setattr(os, "posix_fallocate", refused, raising=False)
    storage.reserve(tmp_path / "frames", 3_000_000)
    assert (tmp_path / "frames").stat().st_size == 3_000_000


@needs.wings("evaluation")
def test_queries_reserve_their_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    import numpy as np

    from perturbations.evaluation import queries
    from perturbations.evaluation.processors import Images

    pixels = np.arange(2 * 8 * 8 * 3, dtype=np.uint8).reshape(2, 8, 8, 3)
    monkeypatch.setattr(queries, "sampled", lambda *_: pixels)
    reserved: list[int] = []
    monkeypatch.setattr(storage, "reserve", lambda path, size: reserved.append(size) or path.write_bytes(bytes(size)))
    clips = queries.Clips([None, None, None], 2, Images(4), tmp_path)  # type: ignore[list-item]
    assert reserved == [3 * 2 * 3 * 4 * 4]
    assert len(clips) == 3
    assert (clips.batch(slice(0, 3)).values[2].numpy() == Images(4).resized(pixels)).all()
