"""A pack of a stranger with an odd member is refused with its name, and ends no command in a traceback."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from perturbations.base.errors import ManifestError
from perturbations.store import packs


def pack_of(member: tarfile.TarInfo) -> io.BytesIO:
    """A pack with one member of four bytes."""
    member.size = 4
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member, io.BytesIO(b"clip"))
    stream.seek(0)
    return stream


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("corpora/d/a.mp4", 2**70),
        ("corpora/d/a.mp4", -(2**70)),
        ("corpora/d/a\0.mp4", 0),
        ("videos/a\0.mp4", 0),
        ("videos/" + "a" * 5000 + ".mp4", 0),
        ("corpora/" + "a" * 5000 + ".mp4", 0),
    ],
)
def test_an_odd_member_is_one_message(name: str, time: int, tmp_path: Path) -> None:
    member = tarfile.TarInfo(name)
    member.mtime = time
    if "\0" in name:
        member.name, member.pax_headers = "corpora/d/a.mp4", {"path": name}
    with pytest.raises(ManifestError):
        packs.unpack(pack_of(member), tmp_path, "shard.tar")
    assert not list(tmp_path.rglob("*.mp4"))
