"""Killed ffmpegs and workers cost no clip: each is tried again, and what cannot go on stops with a reason."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import clips
import psutil
import pytest
from clips import HEIGHT, TIMING, WIDTH, make, noise, source_row, timed
from looping import each
from waiting import PATIENCE_S, is_gone, wait_for

from perturbations.base import storage, supervise
from perturbations.base.errors import CrashError, MediaError, OutputError, PerturbationError, ToolError
from perturbations.corpus.plan import recipe, tiers
from perturbations.manifest.rows import CompleteSource, VideoRow
from perturbations.media import encoding, probing
from perturbations.media.clip import Frame
from perturbations.suites import suite_registry

H264 = {"vcodec": "libx264", "preset": "ultrafast", "pix_fmt": "yuv444p", "threads": 1, "fflags": "+bitexact"}


def own_ffmpegs() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "ffmpeg" in child.name()]


def encoded(path: Path, frames: Iterator[Frame]) -> bytes:
    encoding.encode_with_ffmpeg(frames, path, TIMING, (WIDTH, HEIGHT), "rgb24", H264)
    return path.read_bytes()


def hit(number: int, frames: Iterator[Frame], at: int) -> Iterator[Frame]:
    """Frames, and a signal to the ffmpeg that takes them."""
    for frame in frames:
        if frame.position == at:
            for process in own_ffmpegs():
                process.send_signal(number)
        yield frame


# --- what became of ffmpeg -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (signal.SIGKILL, ToolError, "killed by SIGKILL"),
        (signal.SIGUSR1, ToolError, "killed by SIGUSR1"),
        (signal.SIGSEGV, CrashError, "crashes: SIGSEGV"),
        (signal.SIGABRT, CrashError, "crashes: SIGABRT"),
        (signal.SIGXFSZ, OutputError, "too large"),
    ],
)
def test_a_signal_is_told_from_a_bad_clip(number: int, kind: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=words):
        encoded(tmp_path / "a.mp4", hit(number, timed(noise(40)), 20))


STATUSES = [
    (-signal.SIGTERM, "", ToolError),
    (-signal.SIGRTMIN, "", ToolError),
    (255, "", ToolError),  # ffmpeg's own, after SIGTERM
    (255, "Error writing trailer: Immediate exit requested", ToolError),
    (123, "Received > 3 system signals, hard exiting", ToolError),
    (137, "", ToolError),  # a script's, whose ffmpeg was killed
    (143, "", ToolError),
    (139, "", CrashError),
    (127, "error while loading shared libraries: libx264.so: cannot open shared object file", ToolError),
    (244, "Error opening output: Cannot allocate memory", ToolError),
    (183, "Error opening input: Invalid data found when processing input", CrashError),  # also after an early SIGTERM
    (1, "moov atom not found", CrashError),
    (255, "Error opening output: Operation not permitted", OutputError),
    (228, "No space left on device", OutputError),
]


@each(("status", "words", "kind"), STATUSES)
def test_an_exit_status_is_of_one_class(status: int, words: str, kind: type[PerturbationError]) -> None:
    assert type(encoding.failure_of(status, words, Path("a.mp4"))) is kind


def test_an_interrupted_ffmpeg_is_no_fault_of_the_clip(tmp_path: Path) -> None:
    """It catches SIGTERM, closes its file as if all were well, and tells by its exit status alone."""

    def interrupted() -> Iterator[Frame]:
        for frame in timed(noise(400)):
            if frame.position == 300:  # by then it runs
                (process,) = own_ffmpegs()
                process.terminate()
            yield frame

    with pytest.raises(ToolError, match="ffmpeg was (interrupted, exit status 255|killed by SIGTERM)"):
        encoded(tmp_path / "a.mp4", interrupted())


def test_an_ffmpeg_that_does_not_start_is_no_fault_of_a_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unreadable = tmp_path / "no-program"
    unreadable.write_text("no program")
    unreadable.chmod(0o644)
    for path in (str(tmp_path / "nowhere"), str(unreadable)):
        monkeypatch.setattr(encoding, "ffmpeg_program", lambda path=path: path)
        with pytest.raises(ToolError, match="ffmpeg cannot be started: .*no"):
            encoded(tmp_path / "a.mp4", timed(noise(2)))


def test_no_other_ffmpeg_is_taken_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import imageio_ffmpeg

    other = str(shutil.copy(encoding.ffmpeg_program(), tmp_path / "ffmpeg"))
    monkeypatch.delenv("IMAGEIO_FFMPEG_EXE", raising=False)
    find = encoding.ffmpeg_program.__wrapped__
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: other)
    with pytest.raises(ToolError, match="pip install --force-reinstall imageio-ffmpeg"):
        find()
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", other)
    assert find() == other


@pytest.mark.parametrize(
    ("script", "words"),
    [("exit 0", "has no encoder libx264"), ("echo broken; exit 3", "does not run, exit status 3: broken")],
)
def test_ffmpeg_is_checked_before_any_clip(
    script: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding.check_ffmpeg("libx264")
    rows = [source_row(make(tmp_path / "clip.mp4"))]
    path = tmp_path / "ffmpeg"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(encoding, "ffmpeg_program", lambda: str(path))
    with pytest.raises(ToolError, match=words):
        run(tmp_path, rows)
    assert not list((tmp_path / "corpus").rglob("*"))


def test_a_file_that_asks_for_much_memory_is_at_fault_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "clip.mp4")

    def refused(*arguments: Any, **options: Any) -> None:
        raise av.error.MemoryError(12, "Cannot allocate memory")

    monkeypatch.setattr(av, "open", refused)
    with pytest.raises(MediaError, match="cannot be decoded: Cannot allocate memory") as caught:
        probing.probe(path)
    assert supervise.tool_failure(caught.value) is None
    monkeypatch.setattr(supervise, "memory_is_left", lambda: False)
    with pytest.raises(MemoryError):
        probing.probe(path)


def run(root: Path, rows: list[CompleteSource], entry: str = "mlvp/h264_compression") -> list[VideoRow]:
    """A shard's job."""
    wanted = recipe.make(suite_registry.get(entry), 3, seed=0, storage=tiers.stored_video("high"))
    part = root / "work" / "s1.parquet"
    return clips.video_rows(wanted, rows, root=root, folder=root / "corpus", part=part, timeout_s=PATIENCE_S)


JOB = """
import os
from pathlib import Path
from perturbations.base import supervise
from perturbations.media import encoding

def work(task, tick):
    # It reads nothing from us, and what it writes to is gone.
    command = ["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-re", "-t", "1000", "-f", "null", "-"]
    output = type("Graph", (), {})()
    output.global_args = lambda *a: output
    output.overwrite_output = lambda: output
    output.compile = lambda cmd: [cmd, "-nostdin", "-v", "error", *command]
    with encoding.running_ffmpeg(output, Path("none")) as process:
        print(os.getpid(), process.pid, flush=True)
        process.wait()

list(supervise.run(work, ["a"], stall_limit_s=1000))
"""


@pytest.mark.parametrize("victim", ["job", "worker"])
def test_no_ffmpeg_outlives_its_job_or_its_worker(victim: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", JOB], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as job:
        assert job.stdout is not None
        worker, ffmpeg = map(int, job.stdout.readline().split())
        os.kill(job.pid if victim == "job" else worker, signal.SIGKILL)
        wait_for(lambda: is_gone(ffmpeg))
        wait_for(lambda: is_gone(worker))
        job.kill()


# --- two jobs on one shard -------------------------------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from perturbations.base import storage

with storage.one_job(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
    Path(sys.argv[1]).write_text("finished by the other job")
"""


def holder(journal: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDER, str(journal)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("end", ["finished", "killed"])
def test_a_second_job_waits_for_the_first(end: str, tmp_path: Path) -> None:
    journal = tmp_path / "work" / "s1.jsonl"
    with holder(journal) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        waiting = holder(journal)
        assert waiting.stdout is not None
        assert "another job works on this shard: waiting for it" in waiting.stdout.readline()
        assert waiting.poll() is None
        if end == "killed":
            first.kill()
        else:
            first.communicate("\n")
        assert waiting.stdout.readline() == "held\n"
        assert journal.exists() == (end == "finished")
        waiting.communicate("\n")


def test_nobody_waits_where_nothing_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(file: Any, how: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(storage.fcntl, "flock", refuse)
    with storage.one_job(tmp_path / "s1.jsonl"):
        pass
    assert "cannot be locked ([Errno 38] Function not implemented): going on" in caplog.text


def test_two_jobs_on_one_shard_make_each_clip_once(tmp_path: Path) -> None:
    """The second, after the first, finds its clips in the journal."""
    rows = [source_row(make(tmp_path / f"{name}.mp4"), name) for name in "abc"]
    done = run(tmp_path, rows, "mlvp/gaussian_noise")
    inodes = {path: path.stat().st_ino for path in (tmp_path / "corpus").glob("*.mp4")}
    assert run(tmp_path, rows, "mlvp/gaussian_noise") == done
    assert {path: path.stat().st_ino for path in (tmp_path / "corpus").glob("*.mp4")} == inodes
