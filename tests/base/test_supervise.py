"""A task that fails, crashes or hangs again and again costs one task; a worker that is killed costs none."""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from waiting import PATIENCE_S, is_gone, pause, wait_for

from perturbations.base import progress, supervise
from perturbations.base.errors import ConfigError, CrashError, ManifestError, MediaError, OutputError, ToolError
from perturbations.base.progress import Tick

STALL_S = 1.5  # so long that a task which does something does it even on a busy machine


def run(
    work: Callable[[Any, Tick], Any], tasks: list[Any], limit_s: float = PATIENCE_S
) -> list[tuple[Any, Any, str | None]]:
    return list(supervise.run(work, tasks, stall_limit_s=limit_s))


def doing(actions: dict[str, Callable[[Tick], Any]]) -> Callable[[str, Tick], Any]:
    """Work that does something at some tasks, and gives the others back."""
    return lambda task, tick: actions[task](tick) if task in actions else task.upper()


def raising(error: BaseException) -> Callable[[Tick], Any]:
    def fail(tick: Tick) -> None:
        raise error

    return fail


# --- results ---------------------------------------------------------------------------------------------------------


def test_results_come_in_order_from_one_child_however_many_large_or_empty() -> None:
    tasks = list(range(50))
    outcomes = run(lambda task, tick: (task * task, os.getpid()), tasks)
    assert [(task, result[0]) for task, result, _ in outcomes] == [(task, task * task) for task in tasks]
    (pid,) = {result[1] for _, result, _ in outcomes}
    assert pid != os.getpid()
    assert run(lambda task, tick: task, []) == []
    outcomes = run(lambda task, tick: np.full(3_000_000, task, np.uint8), [1, 2])
    assert [int(result.sum()) for _, result, _ in outcomes] == [3_000_000, 6_000_000]
    empty = [None, 0, "", []]
    assert run(lambda task, tick: task, empty) == [(nothing, nothing, None) for nothing in empty]


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_job_on_videos_loads_what_it_needs_alone() -> None:
    """Neither a reader of pictures nor what only other jobs, commands and messages take."""
    unused = {"PIL", "argparse", "jinja2", "pandas", "perturbations.media.stills", "pyarrow.compute", "tarfile", "yaml"}
    code = f"""
import sys
from perturbations.cli import main
from perturbations.corpus.jobs import clip_jobs
print(*sys.modules.keys() & {unused})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "\n", done.stderr


def test_a_recipe_loads_its_suite_alone() -> None:
    code = """
import sys
from perturbations.corpus.plan import recipe, tiers
from perturbations.suites import suite_registry
recipe.parse(recipe.make(suite_registry.get("mlvp/fog"), 1, seed=0, storage=tiers.UNSTORED).text)
known = ("perturbations.suites.mlvp", "perturbations.suites.tampering")
print(*sys.modules.keys() & {*known})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "perturbations.suites.mlvp\n", done.stderr


def test_errors_of_a_task_are_its_own_and_say_where_in_one_line() -> None:
    outcomes = run(doing({"b": raising(MediaError("frame 7 is damaged"))}), ["a", "b", "c"])
    assert outcomes == [("a", "A", None), ("b", None, "frame 7 is damaged"), ("c", "C", None)]
    first, (_, nothing, reason), last = run(doing({"b": raising(ZeroDivisionError("one\ntwo"))}), ["a", "b", "c"])
    assert (first, nothing, last) == (("a", "A", None), None, ("c", "C", None))
    assert str(reason).startswith("unforeseen ZeroDivisionError: one two (at test_supervise.py:")
    assert "\n" not in str(reason)
    outcomes = run(doing({"b": raising(av.error.ArgumentError(22, "Invalid argument", "/tmp/.b.part-1.mp4"))}), ["b"])
    assert str(outcomes[0][2]).startswith("unforeseen ArgumentError: Invalid argument (at ")  # of every run
    (_, _, reason), after = run(doing({"a": lambda tick: threading.Lock()}), ["a", "b"])
    assert "cannot pickle" in str(reason)
    assert after == ("b", "B", None)


class OutOfMemoryError(RuntimeError):
    """As PyTorch calls its own."""


def caused_by(cause: Exception) -> Exception:
    error = MediaError("cannot be decoded")
    error.__cause__ = cause
    return error


NO_FAULT_OF_THE_DATA = {
    "memory": (MemoryError(), "memory ran out"),
    "memory of a library": (OutOfMemoryError("40 GiB"), "memory ran out: 40 GiB"),
    "memory, said otherwise": (caused_by(MemoryError()), "memory ran out"),
    "no process": (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "the system refused"),
    "no thread": (RuntimeError("can't start new thread"), "can't start new thread"),
    "accelerator": (RuntimeError("CUDA error: device-side assert"), "CUDA error"),
    "library": (ImportError("libGL.so.1: cannot open shared object file"), "a library cannot be loaded: libGL"),
    "ffmpeg": (ToolError("ffmpeg was killed by SIGTERM"), "ffmpeg was killed by SIGTERM"),
}


@pytest.mark.parametrize("name", NO_FAULT_OF_THE_DATA)
def test_what_is_no_fault_of_the_data_is_tried_again_and_then_stops_the_run(name: str, tmp_path: Path) -> None:
    error, reason = NO_FAULT_OF_THE_DATA[name]
    seen = []

    def fail(tick: Tick) -> None:
        with (tmp_path / "tries").open("a") as file:
            file.write("x")
        raise error

    outcomes = supervise.run(
        doing({"b": fail}), ["a", "b", "c"], stall_limit_s=PATIENCE_S, name=lambda task: f"<{task}>"
    )
    with pytest.raises(ToolError) as caught:
        seen += [task for task, _, _ in outcomes]
    assert str(caught.value).startswith(f"<b>: {reason}")
    assert "3 times. The item is not the cause" in str(caught.value)
    assert (tmp_path / "tries").read_text() == "xxx"


def test_an_opencv_without_memory_or_no_process_for_a_worker_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="memory ran out.*Insufficient memory"):
        run(doing({"a": lambda tick: cv2.resize(np.zeros((1, 1), np.uint8), (2**30, 2**30))}), ["a"])

    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(ToolError, match="no worker process can be started: Resource temporarily unavailable"):
        run(lambda task, tick: task, [1])


@pytest.mark.parametrize("error", [OutputError("the disk is full"), ConfigError("no"), ManifestError("no"), OSError(2)])
def test_other_deliberate_errors_and_the_systems_refusals_stop_at_once(error: Exception, tmp_path: Path) -> None:
    seen: list[str] = []
    work = doing({"b": raising(error), "c": lambda tick: (tmp_path / "c").touch()})
    kind = OutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(kind, match=str(error)):
        for task, _, _ in supervise.run(work, ["a", "b", "c"], stall_limit_s=PATIENCE_S):
            seen.append(task)
    assert seen == ["a"]
    assert not (tmp_path / "c").exists()


# --- crashes and stalls ----------------------------------------------------------------------------------------------


def crash(number: int) -> Callable[[Tick], None]:
    def crashing(tick: Tick) -> None:
        faulthandler.disable()  # pytest's report would only be noise
        os.kill(os.getpid(), number)

    return crashing


@dataclass(frozen=True)
class Counted:
    """Counts the tries of a task in a file, and does something at some of them."""

    folder: Path
    act: Callable[[Tick], Any]
    times: int = 1000

    def __call__(self, tick: Tick) -> str:
        tries = self.tries() + 1
        (self.folder / "tries").write_text(str(tries))
        if tries <= self.times:
            self.act(tick)
        return "in the end"

    def tries(self) -> int:
        path = self.folder / "tries"
        return int(path.read_text()) if path.exists() else 0


CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
ITS_OWN: dict[str, tuple[Callable[[Tick], Any], str]] = {
    **{number.name: (crash(number), f"its decoder crashes: {number.name}") for number in CRASHES},
    "program": (raising(CrashError("ffmpeg crashes: SIGSEGV")), "ffmpeg crashes: SIGSEGV"),
    "exit": (lambda tick: os._exit(3), "its worker process ended with exit status 3"),
}


@pytest.mark.parametrize("name", ITS_OWN)
def test_a_crash_at_every_try_is_the_tasks_own(name: str, tmp_path: Path) -> None:
    act, reason = ITS_OWN[name]
    crashing = Counted(tmp_path, act)
    outcomes = run(doing({"b": crashing, "d": crashing}), ["a", "b", "c"])
    assert outcomes == [("a", "A", None), ("b", None, f"{reason}, 3 times"), ("c", "C", None)]
    assert crashing.tries() == 3


def fork_and_die(tick: Tick) -> None:
    parent = os.getppid()
    if os.fork() == 0:  # holds the pipe's end open
        os.setpgid(0, 0)
        for _ in range(1000):
            if is_gone(parent):
                break
            pause(0.01)
        os._exit(0)
    crash(signal.SIGKILL)(tick)


KILLS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU, signal.SIGRTMIN, signal.SIGSEGV)
PASSING: dict[str, tuple[Callable[[Tick], Any], int, float]] = {
    **{f"signal {int(number)}": (crash(number), 2, PATIENCE_S) for number in KILLS},
    "memory": (raising(MemoryError()), 1, PATIENCE_S),
    "hang": (lambda tick: signal.pause(), 1, STALL_S),
    "a pipe that outlives the worker": (fork_and_die, 1, PATIENCE_S),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_failure_that_passes_costs_nothing(name: str, tmp_path: Path) -> None:
    act, times, limit_s = PASSING[name]
    outcomes = run(doing({"b": Counted(tmp_path, act, times)}), ["a", "b", "c"], limit_s)
    assert outcomes == [("a", "A", None), ("b", "in the end", None), ("c", "C", None)]


def test_a_worker_that_is_killed_at_every_try_stops_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    killed = Counted(tmp_path, crash(signal.SIGKILL))
    seen = []
    with pytest.raises(
        ToolError, match="'b': its worker process was killed by SIGKILL, perhaps because memory ran out, 3"
    ):
        for outcome in supervise.run(doing({"b": killed}), ["a", "b", "c"], stall_limit_s=PATIENCE_S):
            seen.append(outcome)
    assert seen == [("a", "A", None)]
    assert killed.tries() == 3
    assert [record.getMessage().endswith("trying again") for record in caplog.records] == [True, True]


def test_a_worker_killed_in_the_middle_of_its_answer_costs_nothing(tmp_path: Path) -> None:
    class Half:
        """Its bytes do not all fit into the pipe, and its sender dies."""

        def __reduce__(self) -> Any:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
            return bytes, (bytes(2**20),)

    def answer(tick: Tick) -> Any:
        if (tmp_path / "pid").exists():
            return "in the end"
        (tmp_path / "pid").write_text(str(os.getpid()))
        return Half()

    outcomes = supervise.run(doing({"b": answer}), ["a", "b"], stall_limit_s=PATIENCE_S)
    assert next(outcomes) == ("a", "A", None)
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: is_gone(pid))  # nobody reads meanwhile
    assert list(outcomes) == [("b", "in the end", None)]


def test_a_worker_killed_after_its_last_answer_costs_nothing() -> None:
    def work(task: str, tick: Tick) -> str:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return task

    assert run(work, ["a"]) == [("a", "a", None)]


def test_a_hanging_task_is_killed_with_what_it_started_and_the_rest_goes_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    def hang(tick: Tick) -> None:
        start_helper(tmp_path / "pid")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (tmp_path / "fifo").read_bytes()

    started = time.monotonic()
    outcomes = run(doing({"b": hang}), ["a", "b", "c"], STALL_S)
    assert outcomes == [("a", "A", None), ("b", None, f"no progress for {STALL_S:g} s, 2 times"), ("c", "C", None)]
    assert time.monotonic() - started >= 2 * STALL_S
    assert_helper_is_gone(tmp_path / "pid")


def start_helper(path: Path) -> None:
    path.write_text(str(subprocess.Popen(["sleep", "1000"]).pid))


def assert_helper_is_gone(path: Path) -> None:
    pid = int(path.read_text())
    wait_for(lambda: is_gone(pid))


def test_neither_a_slow_task_that_makes_progress_nor_a_slow_reader_gets_a_task_killed() -> None:
    def slow(tick: Tick) -> str:
        until = time.monotonic() + 1.5 * STALL_S
        while time.monotonic() < until:
            pause(0.02)
            tick()
        return "done"

    seen = []
    for task, result, _ in supervise.run(doing({"a": slow}), ["a", "b", "c"], stall_limit_s=STALL_S):
        seen.append(result)
        pause(1.5 * STALL_S if task == "a" else 0)
    assert seen == ["done", "B", "C"]


# --- what must not stay behind ---------------------------------------------------------------------------------------


def test_what_a_crashed_task_had_started_is_killed_too(tmp_path: Path) -> None:
    def start(tick: Tick) -> None:
        start_helper(tmp_path / "pid")
        crash(signal.SIGSEGV)(tick)

    outcomes = run(doing({"a": start}), ["a", "b"])
    assert [error is None for _, _, error in outcomes] == [False, True]
    assert_helper_is_gone(tmp_path / "pid")


def test_neither_a_thread_left_behind_nor_a_reader_that_stops_early_leaves_a_child(tmp_path: Path) -> None:
    def leave_a_thread(tick: Tick) -> int:
        threading.Thread(target=threading.Event().wait).start()
        return os.getpid()

    ((_, pid, _),) = run(doing({"a": leave_a_thread}), ["a"])
    assert is_gone(pid)

    def work(task: int, tick: Tick) -> int:
        if task == 2:
            signal.pause()
        return os.getpid()

    outcomes = supervise.run(work, [1, 2], stall_limit_s=PATIENCE_S)
    _, pid, _ = next(outcomes)
    assert pid is not None
    outcomes.close()
    assert is_gone(pid)


PARENT = """
import os, signal, sys
from perturbations.base import supervise

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored

def work(task, tick):
    print(os.getpid(), flush=True)
    signal.pause()

list(supervise.run(work, ["a"], stall_limit_s=30))
"""

INTERRUPTED_WHILE_IT_FORKS = """
import os, signal

os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGINT))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_parent_takes_its_child_along(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not is_gone(child)
        parent.send_signal(number)
        parent.wait(20)
    wait_for(lambda: is_gone(child))


def test_an_interrupt_while_the_child_starts_is_not_lost() -> None:
    command = [sys.executable, "-c", INTERRUPTED_WHILE_IT_FORKS + PARENT]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.endswith("KeyboardInterrupt\n")
    if ended.stdout:  # it may have been killed before it had begun
        wait_for(lambda: is_gone(int(ended.stdout)))


def test_an_interrupt_from_the_keyboard_leaves_the_child_to_the_parent() -> None:
    def interrupted(tick: Tick) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "not interrupted"

    assert run(doing({"a": interrupted}), ["a"]) == [("a", "not interrupted", None)]


def test_a_model_that_thinks_for_long_counts_as_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", 0.001)
    ticked = threading.Event()
    with progress.ticking_on(ticked.set):
        assert ticked.wait(30)
    before = threading.active_count()
    ticked.clear()
    assert threading.active_count() == before
    assert not ticked.is_set()
