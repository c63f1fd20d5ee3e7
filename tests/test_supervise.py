"""A task that hangs, crashes or fails costs one task."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from perturbations import progress, supervise
from perturbations.errors import ConfigError, ManifestError, MediaError, OutputError
from perturbations.supervise import Outcome, Tick

PATIENCE_S = 60.0
STALL_S = 0.5


def run(work: Callable[[Any, Tick], Any], tasks: list[Any], limit_s: float = PATIENCE_S) -> list[Outcome[Any, Any]]:
    return list(supervise.run(work, tasks, stall_limit_s=limit_s))


def doing(actions: dict[str, Callable[[Tick], Any]]) -> Callable[[str, Tick], Any]:
    """Work that does something at some tasks, and gives the others back."""
    return lambda task, tick: actions[task](tick) if task in actions else task.upper()


def wait_for(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        pause(0.01)


def pause(seconds: float) -> None:
    select.select([], [], [], seconds)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def raising(error: BaseException) -> Callable[[Tick], Any]:
    def fail(tick: Tick) -> None:
        raise error

    return fail


# --- results ---------------------------------------------------------------------------------------------------------


def test_results_come_in_order() -> None:
    tasks = list(range(50))
    outcomes = run(lambda task, tick: task * task, tasks)
    assert outcomes == [Outcome(task, task * task, None) for task in tasks]


def test_no_tasks_are_no_outcomes() -> None:
    assert run(lambda task, tick: task, []) == []


@pytest.mark.parametrize("nothing", [None, 0, "", []])
def test_an_empty_result_is_a_result(nothing: Any) -> None:
    assert run(lambda task, tick: nothing, ["a"]) == [Outcome("a", nothing, None)]


def test_large_results_pass() -> None:
    outcomes = run(lambda task, tick: np.full(3_000_000, task, np.uint8), [1, 2])
    assert [int(outcome.result.sum()) for outcome in outcomes] == [3_000_000, 6_000_000]


def test_one_child_does_all_tasks_when_none_fails() -> None:
    pids = {outcome.result for outcome in run(lambda task, tick: os.getpid(), [1, 2, 3])}
    assert len(pids) == 1
    assert pids != {os.getpid()}


def test_results_arrive_while_the_next_task_runs() -> None:
    outcomes = supervise.run(doing({"b": lambda tick: signal.pause()}), ["a", "b"], stall_limit_s=PATIENCE_S)
    assert next(outcomes).result == "A"
    outcomes.close()


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_media_error_is_the_tasks_own() -> None:
    outcomes = run(doing({"b": raising(MediaError("frame 7 is damaged"))}), ["a", "b", "c"])
    assert [(one.task, one.result, one.error) for one in outcomes] == [
        ("a", "A", None),
        ("b", None, "frame 7 is damaged"),
        ("c", "C", None),
    ]


def test_an_unforeseen_exception_says_where_in_one_line() -> None:
    outcomes = run(doing({"b": raising(ZeroDivisionError("one\ntwo"))}), ["a", "b", "c"])
    assert [one.error is None for one in outcomes] == [True, False, True]
    assert outcomes[1].error is not None
    assert outcomes[1].error.startswith("unforeseen ZeroDivisionError: one two (at test_supervise.py:")
    assert "\n" not in outcomes[1].error


def test_a_lack_of_memory_is_the_tasks_own() -> None:
    outcomes = run(doing({"a": raising(MemoryError())}), ["a", "b"])
    assert outcomes[0].error is not None
    assert "MemoryError" in outcomes[0].error
    assert outcomes[1].result == "B"


@pytest.mark.parametrize("error", [OutputError("the disk is full"), ConfigError("no"), ManifestError("no")])
def test_other_deliberate_errors_stop_at_once(error: Exception, tmp_path: Path) -> None:
    seen: list[str] = []
    work = doing({"b": raising(error), "c": lambda tick: (tmp_path / "c").touch()})
    with pytest.raises(type(error), match=str(error)):
        for outcome in supervise.run(work, ["a", "b", "c"], stall_limit_s=PATIENCE_S):
            seen.append(outcome.task)
    assert seen == ["a"]
    assert not (tmp_path / "c").exists()


def test_the_systems_refusal_stops_at_once(tmp_path: Path) -> None:
    work = doing({"b": lambda tick: (tmp_path / "no" / "such" / "folder").write_text("")})
    with pytest.raises(OutputError, match="the system refused: .*No such file"):
        run(work, ["a", "b", "c"])


# --- crashes and stalls ----------------------------------------------------------------------------------------------


def crash(number: int) -> Callable[[Tick], None]:
    def crashing(tick: Tick) -> None:
        faulthandler.disable()  # pytest's report would only be noise
        os.kill(os.getpid(), number)

    return crashing


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_crash_costs_one_task(number: signal.Signals) -> None:
    outcomes = run(doing({"b": crash(number), "d": crash(number)}), ["a", "b", "c", "d"])
    assert [one.result for one in outcomes] == ["A", None, "C", None]
    assert outcomes[1].error is not None
    assert number.name in outcomes[1].error
    assert ("memory" in outcomes[1].error) == (number == signal.SIGKILL)


def test_an_exit_costs_one_task() -> None:
    outcomes = run(doing({"a": lambda tick: os._exit(3), "c": lambda tick: sys.exit(4)}), ["a", "b", "c"])
    assert [one.error is None for one in outcomes] == [False, True, False]
    assert outcomes[0].error is not None
    assert "exit status 3" in outcomes[0].error


def read_forever(path: Path) -> Callable[[Tick], None]:
    os.mkfifo(path)
    return lambda tick: path.read_bytes() and None


@pytest.mark.parametrize("how", ["pause", "fifo", "ignoring"])
def test_a_hanging_task_is_killed_and_the_rest_goes_on(how: str, tmp_path: Path) -> None:
    def ignore(tick: Tick) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()

    hanging = {"pause": lambda tick: signal.pause(), "fifo": read_forever(tmp_path / "fifo"), "ignoring": ignore}[how]
    started = time.monotonic()
    outcomes = run(doing({"b": hanging}), ["a", "b", "c"], STALL_S)
    assert [one.result for one in outcomes] == ["A", None, "C"]
    assert outcomes[1].error == "no progress for 0.5 s: killed"
    assert STALL_S <= time.monotonic() - started < 20


def test_a_slow_task_that_makes_progress_is_not_killed() -> None:
    def slow(tick: Tick) -> str:
        until = time.monotonic() + 3 * STALL_S
        while time.monotonic() < until:
            pause(0.02)
            tick()
        return "done"

    assert run(doing({"a": slow}), ["a", "b"], STALL_S) == [Outcome("a", "done", None), Outcome("b", "B", None)]


def test_a_reader_that_takes_its_time_does_not_get_tasks_killed() -> None:
    outcomes = supervise.run(lambda task, tick: task, [1, 2, 3], stall_limit_s=STALL_S)
    seen = []
    for outcome in outcomes:
        seen.append(outcome.result)
        pause(2 * STALL_S if outcome.task == 1 else 0)
    assert seen == [1, 2, 3]


# --- what must not stay behind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["stall", "crash"])
def test_what_a_killed_task_had_started_is_killed_too(end: str, tmp_path: Path) -> None:
    def start(tick: Tick) -> None:
        helper = subprocess.Popen(["sleep", "1000"])
        (tmp_path / "pid").write_text(str(helper.pid))
        if end == "crash":
            crash(signal.SIGSEGV)(tick)
        signal.pause()

    outcomes = run(doing({"a": start}), ["a", "b"], STALL_S)
    assert [one.error is None for one in outcomes] == [False, True]
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: is_gone(pid))


def test_a_thread_left_behind_does_not_hold_up_the_end() -> None:
    def leave_a_thread(tick: Tick) -> int:
        threading.Thread(target=threading.Event().wait).start()
        return os.getpid()

    (outcome,) = run(doing({"a": leave_a_thread}), ["a"])
    assert is_gone(outcome.result)


def test_a_reader_that_stops_early_leaves_no_child(tmp_path: Path) -> None:
    def work(task: int, tick: Tick) -> int:
        if task == 2:
            signal.pause()
        return os.getpid()

    outcomes = supervise.run(work, [1, 2], stall_limit_s=PATIENCE_S)
    pid = next(outcomes).result
    assert pid is not None
    outcomes.close()
    assert is_gone(pid)


PARENT = """
import os, signal, sys
from perturbations import supervise

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored

def work(task, tick):
    print(os.getpid(), flush=True)
    signal.pause()

list(supervise.run(work, ["a"], stall_limit_s=1000))
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


def test_an_interrupt_from_the_keyboard_leaves_the_child_to_the_parent() -> None:
    def interrupted(tick: Tick) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "not interrupted"

    assert run(doing({"a": interrupted}), ["a"])[0].result == "not interrupted"


def test_a_model_that_thinks_for_long_counts_as_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", 0.001)
    ticked = threading.Event()
    with progress.ticking_on(ticked.set):
        assert ticked.wait(30)
    before = threading.active_count()
    ticked.clear()
    assert threading.active_count() == before
    assert not ticked.is_set()
