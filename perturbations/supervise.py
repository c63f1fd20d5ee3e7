"""Runs items one after another in a child process, so that a decoder that hangs or crashes costs one item.

A decoder stuck in C code cannot be interrupted from within its process. The child tells after every frame that it
is alive; when it has been silent for too long it is killed, its item fails, and a new child goes on with the rest.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

from perturbations.errors import MediaError, OutputError, PerturbationError

Task = TypeVar("Task")
Result = TypeVar("Result")
Tick = Callable[[], None]

_POLL_S = 0.25
_LAST_S = 2.0


@dataclass(frozen=True)
class Outcome(Generic[Task, Result]):
    """What became of one task: its result, or the reason why there is none."""

    task: Task
    result: Result | None
    error: str | None


def run(
    work: Callable[[Task, Tick], Result], tasks: Sequence[Task], *, stall_limit_s: float
) -> Iterator[Outcome[Task, Result]]:
    """Yield each task's outcome, in order.

    `work(task, tick)` runs in a forked child and calls `tick` whenever it has made progress. Its `MediaError`, any
    unforeseen exception, a crash, or `stall_limit_s` seconds of silence make the outcome an error.
    Raises `OutputError` (and every other deliberate error) at once: the next items would fare no better.
    """
    done = 0
    while done < len(tasks):
        for outcome in _run_child(work, tasks, done, stall_limit_s):
            done += 1
            yield outcome


def _run_child(
    work: Callable[[Task, Tick], Result], tasks: Sequence[Task], start: int, stall_limit_s: float
) -> Iterator[Outcome[Task, Result]]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    alive = context.RawValue("d", time.monotonic())
    child = context.Process(target=_serve, args=(work, tasks, start, sender, alive, os.getpid()), daemon=False)
    child.start()
    sender.close()
    position = start
    try:
        while position < len(tasks):
            if not receiver.poll(_POLL_S):
                if time.monotonic() - alive.value < stall_limit_s:
                    continue
                _kill(child.pid)
                child.join()
                yield Outcome(tasks[position], None, f"no progress for {stall_limit_s:g} s: killed")
                return
            try:
                kind, value = receiver.recv()
            except EOFError:
                child.join()
                yield Outcome(tasks[position], None, _death(child.exitcode))
                return
            if kind == "fatal":
                raise value
            error = value if kind == "error" else None
            yield Outcome(tasks[position], None if error else value, error)
            position += 1
    finally:
        if position == len(tasks):
            child.join(_LAST_S)  # it has nothing left to do, but a library's thread may keep it
        if child.is_alive():
            _kill(child.pid)
        child.join()
        if child.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # what a child that crashed had started
        receiver.close()


def _serve(
    work: Callable[[Any, Tick], Any], tasks: Sequence[Any], start: int, sender: Connection, alive: Any, parent: int
) -> None:
    os.setpgid(0, 0)  # so that an ffmpeg it started can be killed with it
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides

    def tick() -> None:
        alive.value = time.monotonic()

    for task in tasks[start:]:
        tick()
        message: tuple[str, Any]
        try:
            message = ("result", work(task, tick))
        except MediaError as error:
            message = ("error", str(error))
        except PerturbationError as error:
            message = ("fatal", error)
        except OSError as error:
            message = ("fatal", OutputError(f"the system refused: {error}"))
        except Exception as error:
            message = ("error", _unforeseen(error))
        try:
            sender.send(message)
        except BrokenPipeError:
            os._exit(1)
        if message[0] == "fatal":
            return


def _die_with(parent: int) -> None:
    # Without it a killed job's child would go on with its item while the job is already being run again.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _unforeseen(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    return f"unforeseen {type(error).__name__}: {said} (at {Path(where.filename).name}:{where.lineno})"


def _kill(pid: int | None) -> None:
    if pid is None:
        return
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
        return f"the process that worked on it died of {name}{hint}"
    return f"the process that worked on it ended with exit status {exit_code}"
