"""A pack of a stranger with an odd member is refused with its name, and ends no command in a traceback."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from perturbations.base.errors import ConfigError, ManifestError
from perturbations.store import fetching, packs


def pack_of(member: tarfile.TarInfo) -> io.BytesIO:
    """A pack with one member of four bytes."""
    member.size = 4
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member, io.BytesIO(b"clip"))
    stream.seek(0)
    return stream


@pytest.mark.parametrize("planted", ["manifests", "manifests/d", "work/d/secret.txt", "work/d/shards"])
def test_a_link_in_a_store_brings_nothing(planted: str, tmp_path: Path) -> None:
    secret = tmp_path / "home"
    secret.mkdir()
    (secret / "secret.txt").write_text("mine")
    store = tmp_path / "store"
    for name in ("manifests/a.txt", "manifests/b/c.txt", "work/d/s1.txt"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).touch()
    link = store / planted
    if link.exists():
        link.rename(tmp_path / "aside")
    link.symlink_to(secret / "secret.txt" if link.suffix else secret)
    with pytest.raises(ConfigError, match="is a link"):
        fetching.fetch(str(store), tmp_path / "fetched")
    assert not list(tmp_path.glob("fetched/**/secret.txt"))


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_a_member_with_holes_is_not_unpacked(form: str, tmp_path: Path) -> None:
    """A few bytes of a pack would become gigabytes on the disk."""
    member = tarfile.TarInfo("corpora/d/a.mp4")
    if form == "gnu":
        member.type = tarfile.GNUTYPE_SPARSE
        head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
        for at, value in ((124, 512), (386, 3 << 30), (398, 512), (483, (3 << 30) + 512)):
            head[at : at + 12] = b"%011o\0" % value
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        pack = io.BytesIO(bytes(head) + b"x" * 512 + bytes(1024))
    else:
        member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(3 << 30)}
        member.pax_headers["GNU.sparse.name"] = member.name
        data = b"1\n%d\n4\n" % ((3 << 30) - 4)
        member.size = 516
        pack = io.BytesIO()
        with tarfile.open(fileobj=pack, mode="w", format=tarfile.PAX_FORMAT) as tar:
            tar.addfile(member, io.BytesIO(data.ljust(512, b"\0") + b"clip"))
        pack.seek(0)
    with tarfile.open(fileobj=io.BytesIO(pack.getvalue()), mode="r:") as tar:
        assert [each.size for each in tar] == [(3 << 30) + (512 if form == "gnu" else 0)], "a library would write it"
    with pytest.raises(ManifestError, match="one with holes"):
        packs.unpack(pack, tmp_path, "shard.tar")
    assert not list(tmp_path.rglob("*.mp4"))


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
