"""Names are safe and distinct, and files are whole or absent, whatever happens to the disk or the process."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import needs
import pytest
from clips import HEIGHT, TIMING, WIDTH, cut, make, noise, timed
from hypothesis import example, given
from hypothesis import strategies as st

from perturbations.base import storage
from perturbations.base.errors import MediaError, OutputError
from perturbations.manifest import files
from perturbations.manifest.rows import CAPTIONS, CaptionRow
from perturbations.media import decoding, encoding, framefile, profiles
from perturbations.media.clip import Frame, MediaClip

# --- names -----------------------------------------------------------------------------------------------------------

ANY_ID = st.text(st.characters(exclude_categories=()), max_size=80)  # surrogates too: JSON can hold them
LONG_ID = st.text("ab/é.~%\N{GRINNING FACE}", min_size=190, max_size=400)
PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~%"


@given(st.lists(ANY_ID | LONG_ID, max_size=20))
def test_names_are_distinct_and_those_of_names_too(ids: list[str]) -> None:
    """An id may look like the name of another."""
    both = set(ids) | {storage.file_stem(name) for name in ids}
    assert len({storage.file_stem(name) for name in both}) == len(both)


@given(ANY_ID | LONG_ID)
@example("")
@example(".")
@example("..")
@example("../../etc/passwd")
@example(".part-0123456789ab")
@example("a b'c\"d;$(e)\n\t\\f\0g")
@example("-rf")
@example("100%")
@example("\N{GRINNING FACE}" * 100)
def test_names_are_safe(item_id: str) -> None:
    stem = storage.file_stem(item_id)
    assert stem
    assert set(stem) <= set(PLAIN)
    assert not stem.startswith(".")
    for suffix in (".mp4", ".npy.zst"):
        path = Path("folder") / f"{stem}{suffix}"
        assert path.parent == Path("folder")
        assert len(os.fsencode(path.name)) <= 255
        assert len(os.fsencode(storage.temporary_path(path).name)) <= 255


@given(st.text(max_size=20))
def test_short_names_tell_the_id(item_id: str) -> None:
    if item_id:
        assert unquote(storage.file_stem(item_id)) == item_id


# --- whole or absent -------------------------------------------------------------------------------------------------


def test_a_file_appears_when_it_is_finished(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "a.txt"
    with storage.atomic_path(target) as temporary:
        temporary.write_text("whole")
        assert not target.exists()
        assert temporary.parent == target.parent
        assert temporary.suffix == target.suffix
    assert target.read_text() == "whole"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(errno.ENOSPC, "full")])
def test_a_file_stays_as_it_was_after_an_error(error: BaseException, before: str | None, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    if before is not None:
        target.write_text(before)
    with pytest.raises((type(error), OutputError)), storage.atomic_path(target) as temporary:
        temporary.write_text("half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == (["a.txt"] if before else [])
    assert before is None or target.read_text() == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG, errno.EIO])
def test_a_refusal_to_write_names_the_file(code: int, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    free = ".* GB free there" if code in (errno.ENOSPC, errno.EDQUOT) else "$"
    message = f"cannot write .*a.txt: {os.strerror(code)}{free}"
    with pytest.raises(OutputError, match=message), storage.atomic_path(target):
        raise OSError(code, "said the system")


def test_other_system_errors_pass_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError), storage.atomic_path(tmp_path / "a.txt"):
        raise ConnectionResetError(errno.ECONNRESET, "said the system")


KILLED = """
import pathlib, signal, sys
from perturbations.base import storage

with storage.atomic_path(pathlib.Path(sys.argv[1])) as temporary:
    with temporary.open("w") as file:
        file.write("half")
        file.flush()
        print("writing", flush=True)
        signal.pause()
"""


@pytest.mark.parametrize(("name", "before"), [("a.mp4", None), ("a.b.npy.zst", "old"), ("%2E[x]*.mp4", "old")])
def test_a_kill_leaves_the_file_as_it_was(name: str, before: str | None, tmp_path: Path) -> None:
    target = tmp_path / name
    if before is not None:
        target.write_text(before)
    with subprocess.Popen([sys.executable, "-c", KILLED, str(target)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.kill()
    assert target.exists() == (before is not None)
    assert before is None or target.read_text() == before
    left = [path for path in tmp_path.iterdir() if path != target]
    assert [path.read_text() for path in left] == ["half"]
    storage.remove_leftovers([target])
    assert list(tmp_path.iterdir()) == ([target] if before else [])


def test_only_a_files_own_leftovers_are_removed(tmp_path: Path) -> None:
    target = tmp_path / "a.mp4"
    others = ["a.mp4", "b.mp4", "a.part-x.mp4", ".a.mp4", ".hidden", ".ab.part-0123456789ab.mp4"]
    others += [storage.temporary_path(tmp_path / name).name for name in ("b.mp4", "a.part-1.mp4", "a.txt", "aa.mp4")]
    for name in others:
        (tmp_path / name).touch()
    for _ in range(3):
        storage.temporary_path(target).touch()
    storage.remove_leftovers([target, tmp_path / "no" / "folder" / "a.mp4"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


# --- texts and hashes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "a\nb\n", "line\r\nends\r", "é\N{GRINNING FACE}\u2028"])
def test_an_unchanged_text_keeps_its_time_and_one_of_other_bytes_is_written(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert storage.write_text_if_changed(path, text)
    assert path.read_bytes() == text.encode()
    os.utime(path, (1, 1))
    assert not storage.write_text_if_changed(path, text)
    assert path.stat().st_mtime == 1
    assert storage.write_text_if_changed(path, text + "x")
    assert path.stat().st_mtime > 1
    assert path.read_bytes() == (text + "x").encode()
    for other in (text.encode() + b"\r", b"\xff\xfe", text.encode() + b"\n"):
        path.write_bytes(other)
        assert storage.write_text_if_changed(path, text)
        assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("before", [None, "", "one", "onetwo", "onetwothree", "one2three", "onetwothreefour"])
def test_a_text_in_pieces_is_written_as_a_whole_one(before: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    if before is not None:
        path.write_text(before)
    assert storage.write_text_if_changed(path, iter(("one", "two", "three"))) == (before != "onetwothree")
    assert path.read_text() == "onetwothree"
    assert list(tmp_path.iterdir()) == [path]


def test_sha256_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert storage.sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


# --- places that cannot be written -----------------------------------------------------------------------------------


def encode(profile: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        with storage.atomic_path(folder / "a.mp4") as temporary:
            encoding.encode(timed(noise(60)), temporary, profiles.PROFILES[profile], TIMING)

    return write


def encode_with_ffmpeg(folder: Path) -> None:
    arguments = {"vcodec": "libx264rgb", "qp": 0, "preset": "ultrafast"}
    with storage.atomic_path(folder / "a.mp4") as temporary:
        encoding.encode_with_ffmpeg(timed(noise(60)), temporary, TIMING, (WIDTH, HEIGHT), "rgb24", arguments)


def write_manifest(folder: Path) -> None:
    rows = [
        CaptionRow(dataset="d", caption_id=str(index), item_id="i", text=image.tobytes().hex())
        for index, image in enumerate(noise(8))
    ]
    files.write(folder / "a.parquet", CAPTIONS, rows)


def write_frames(folder: Path) -> None:
    with storage.atomic_path(folder / "a.npy.zst") as temporary:
        framefile.write(temporary, noise(60))


def write_text(folder: Path) -> None:
    storage.write_text(folder / "a.txt", "x" * 100_000)


WRITERS: dict[str, Callable[[Path], None]] = {
    **{profile: encode(profile) for profile in profiles.PROFILES},
    "ffmpeg": encode_with_ffmpeg,
    "manifest": write_manifest,
    "frames": write_frames,
    "text": write_text,
}


NAMES = ("a.mp4", "a.parquet", "a.npy.zst", "a.txt")


def limited(action: Callable[[], None]) -> str:
    """What an action raises in a process that may not write more than 20 KB into a file."""

    def child() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            action()
            sender.send("nothing")
        except BaseException as error:
            sender.send(f"{type(error).__name__}: {error}")

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child)
    process.start()
    answer: str = receiver.recv()
    process.join()
    return answer


@pytest.mark.parametrize("writer", WRITERS)
def test_what_cannot_be_written_is_an_output_error_and_leaves_what_was_there(writer: str, tmp_path: Path) -> None:
    """A file that is too large, and a file or a folder in the way."""
    WRITERS[writer](tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size > 32 * 1024, "otherwise the rest would show nothing"
    for name in NAMES:
        (tmp_path / "old" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "old" / name).write_text("old")
        (tmp_path / "folders" / name).mkdir(parents=True)
    assert limited(lambda: WRITERS[writer](tmp_path / "old")).startswith("OutputError: cannot write ")
    assert {path.name: path.read_text() for path in (tmp_path / "old").iterdir()} == dict.fromkeys(NAMES, "old")
    with pytest.raises(OutputError, match="cannot write .*Is a directory"):
        WRITERS[writer](tmp_path / "folders")
    assert len(list((tmp_path / "folders").iterdir())) == 4
    for folder in (file, file / "folder"):
        with pytest.raises(OutputError, match="cannot write "):
            WRITERS[writer](folder)


@pytest.mark.skipif(os.geteuid() == 0, reason=needs.REASON + needs.NO_ROOT)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_folder_without_permission_is_an_output_error(writer: str, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(OutputError, match="cannot write .*Permission denied"):
        WRITERS[writer](tmp_path / "closed")


def test_ffmpeg_is_not_fed_on_after_it_gave_up(tmp_path: Path) -> None:
    """A full disk must not cost the rest of a long video."""
    given = 0
    still = noise(1)[0]

    def endless() -> Iterator[Frame]:
        nonlocal given
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            yield Frame(still, given, given)
            given += 1

    with pytest.raises(OutputError, match="No such file or directory"):
        encoding.encode_with_ffmpeg(
            endless(), tmp_path / "no" / "a.mp4", TIMING, (WIDTH, HEIGHT), "rgb24", {"vcodec": "libx264"}
        )
    assert given < 10_000


def test_reading_troubles_are_not_the_disks(tmp_path: Path) -> None:
    """A source that cannot be read must not stop the run."""
    damaged = cut(make(tmp_path / "source.mp4"), tmp_path / "damaged.mp4", 0.5)
    for source in (damaged, tmp_path / "missing.mp4"):
        with pytest.raises(MediaError), storage.atomic_path(tmp_path / "a.mp4") as temporary:
            encoding.encode(decoding.decode(MediaClip(source)), temporary, profiles.PROFILES["high"], TIMING)
