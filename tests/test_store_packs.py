"""Packs of clips in an object store: what is packed is unpacked, and a stranger's leads nowhere."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from test_store import files_of

from perturbations.base import storage
from perturbations.base.errors import ConfigError, ManifestError
from perturbations.cli import common
from perturbations.store import fetching, packs

NAMES = ["corpora/demo/mlvp/fog/1/a b.mp4", "corpora/demo/mlvp/fog/1/%2Eü.mp4", "work/demo/videos/x.mp4"]


def packed(members: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> io.BytesIO:
    """A pack as a stranger may write it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(data), kind, "/etc/passwd"
            tar.addfile(member, io.BytesIO(data))
    content.seek(0)
    return content


# --- packs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    root = tmp_path / "made"
    for index, name in enumerate(NAMES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(bytes([index]) * (1000 + index))
        os.utime(root / name, (1e9 + index, 1e9 + index))
    return root


def test_what_is_packed_is_unpacked(clips: Path, tmp_path: Path) -> None:
    pack = tmp_path / "s0.tar"
    packs.write(pack, [*NAMES, "corpora/demo/mlvp/fog/1/quarantined.mp4"], clips)
    other = tmp_path / "other"
    with pack.open("rb") as file:
        assert packs.unpack(file, other, "s0.tar") == len(NAMES)
    assert files_of(other) == files_of(clips)
    written = {name: (other / name).stat().st_ino for name in NAMES}
    (other / NAMES[0]).write_bytes(b"changed")
    with pack.open("rb") as file:
        packs.unpack(file, other, "s0.tar")
    assert files_of(other) == files_of(clips)
    assert (other / NAMES[1]).stat().st_ino == written[NAMES[1]], "a file that is there already is not written again"


def test_the_same_files_give_the_same_pack(clips: Path, tmp_path: Path) -> None:
    packs.write(tmp_path / "one.tar", NAMES, clips)
    packs.write(tmp_path / "two.tar", [*reversed(NAMES), NAMES[0]], clips)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside.mp4", "videos/../../outside.mp4"])
def test_a_clip_outside_of_the_folder_is_not_packed(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not lie below"):
        packs.write(tmp_path / "s0.tar", [name], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    ["../outside.mp4", "/tmp/outside.mp4", "corpora/../../outside.mp4", "Snakefile", "config.yaml", ".git/hooks/x.mp4"],
)
def test_a_member_that_is_no_clip_of_the_corpus_is_refused(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(ManifestError):
        packs.unpack(packed({name: b"hostile"}), root, "s0.tar")
    assert not files_of(tmp_path)


def test_no_link_is_followed_and_no_video_of_the_user_replaced(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="is no file"):
        packs.unpack(packed({"corpora/x.mp4": b""}, tarfile.SYMTYPE), tmp_path, "s0.tar")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "corpora").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ManifestError, match="symbolic link"):
        packs.unpack(packed({"corpora/x.mp4": b"x"}), tmp_path / "root", "s0.tar")
    assert not files_of(tmp_path)
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "x.mp4").write_bytes(b"mine")
    (tmp_path / "videos").symlink_to(tmp_path / "disk")
    assert packs.unpack(packed({"videos/x.mp4": b"same"}), tmp_path, "s0.tar") == 1
    with pytest.raises(ManifestError, match="another file"):
        packs.unpack(packed({"videos/x.mp4": b"of another size"}), tmp_path, "s0.tar")
    assert (tmp_path / "disk" / "x.mp4").read_bytes() == b"mine"


@pytest.mark.parametrize("kept", [0, 700, 1500])
def test_a_damaged_pack_is_named_and_leaves_no_half_of_a_file(kept: int, clips: Path, tmp_path: Path) -> None:
    packs.write(tmp_path / "s0.tar", NAMES, clips)
    content = (tmp_path / "s0.tar").read_bytes()[:kept]
    with pytest.raises(ManifestError, match=r"s0\.tar is damaged"):
        packs.unpack(io.BytesIO(content), tmp_path / "other", "s0.tar")
    assert not files_of(tmp_path / "other")


def test_jobs_pack_only_in_a_store(clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clips)
    common.pack(Path("work/demo/s0.parquet"), NAMES)
    assert not Path("work/demo/s0.tar").exists()
    monkeypatch.setenv(storage.STORE_VARIABLE, str(tmp_path))
    common.pack(Path("work/demo/s0.parquet"), [*NAMES, None])
    before = files_of(clips)
    (clips / NAMES[0]).unlink()
    packs.unpack_brought()
    assert files_of(clips) == before


# --- A pack of a stranger with an odd member is refused with its name, and ends no command in a traceback ---


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
