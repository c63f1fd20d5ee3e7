"""Runs items one after another in a child process, so that a decoder that hangs or crashes costs one item only.

A decoder that is stuck in C code cannot be interrupted from within its process. So the child reports after every frame
that it is alive. A child that is silent for too long is killed, and a new child continues.

An item is quarantined for a failure that repeats: an error, a crash, a hang. A child that is killed from outside, or
runs out of memory, says nothing about its item: the item is tried again, and finally the run stops.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Generic, TypeVar

from perturbations.base import processes
from perturbations.base.errors import CrashError, MediaError, OutputError, PerturbationError, ToolError
from perturbations.base.progress import Tick

_log = logging.getLogger("perturbations")

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_Reply = tuple[str, Any]
"""A kind, and what belongs to it: of "result" the result, of "stop" (the run's error) the error, of others a reason.

"data" is the item's own error. After the kinds in `_TRIES` a new child tries again.
"""

_TRIES = {"killed": 3, "crash": 3, "hang": 2}
"""How often an item is tried in total when its worker is killed, crashes, or hangs."""

_POLL_S = 0.25
_COUNTED_S = 1.0
_LAST_S = 2.0


@dataclass(frozen=True)
class TaskOutcome(Generic[_Task, _Result]):
    """The outcome of one task: its result, or the reason why there is none."""

    task: _Task
    result: _Result | None
    error: str | None


def run(
    work: Callable[[_Task, Tick], _Result],
    tasks: Sequence[_Task],
    *,
    stall_limit_s: float,
    name: Callable[[_Task], str] = repr,
) -> Iterator[TaskOutcome[_Task, _Result]]:
    """Yield each task's outcome, in order.

    `work(task, tick)` runs in a forked child and calls `tick` whenever it has made progress. The outcome is an error
    after a `MediaError`, an unforeseen exception, a crash at every try, or `stall_limit_s` seconds of silence at every
    try. `name` gives the name of a task in messages.
    Raises `ToolError` when a task's child was killed, or ran out of memory, at every try. Raises every other deliberate
    error (`OutputError`, ...) at once, because the next items would fail in the same way.
    """
    failures: Counter[str] = Counter()
    position = 0
    while position < len(tasks):
        with _worker(work, tasks[position:]) as worker:
            for task in tasks[position:]:
                kind, content = _next_reply(*worker, stall_limit_s)
                if kind == "stop":
                    raise content
                if kind in _TRIES:
                    failures[kind] += 1
                    if failures[kind] < _TRIES[kind]:
                        _log.warning("%s: %s; trying again", name(task), content)
                        break
                    content = f"{content}, {failures[kind]} times"
                    if kind == "killed":
                        raise ToolError(_NO_FAULT_OF_THE_ITEM.format(name(task), content))
                failures.clear()
                position += 1
                yield TaskOutcome(task, content, None) if kind == "result" else TaskOutcome(task, None, content)
                if kind in _TRIES:
                    break
            else:
                worker[0].join(_LAST_S)  # it has nothing left to do, but a library's thread may keep it alive


_NO_FAULT_OF_THE_ITEM = (
    "{}: {}. The item is not the cause: nothing is quarantined, finished items are kept. Give the job more memory, or "
    "find out what kills its processes (a scheduler's limit, the kernel's log); then run again"
)


@contextmanager
def _worker(
    work: Callable[[_Task, Tick], _Result], tasks: Sequence[_Task]
) -> Iterator[tuple[ForkProcess, Connection, Any]]:
    """A child that works on the tasks, the connection on which it replies, and the count of its signs of life."""
    context = multiprocessing.get_context("fork")
    with ExitStack() as ends:
        with processes.signals_held():  # an interrupt between a child's start and the note to end it would leave it
            try:
                receiver, sender = context.Pipe(duplex=False)
                alive = context.RawValue("Q", 0)
                child = context.Process(target=_serve, args=(work, tasks, sender, alive, os.getpid()), daemon=False)
                child.start()
            except OSError as error:
                raise ToolError(
                    f"no worker process can be started: {error.strerror}. Finished items are kept"
                ) from error
            ends.callback(receiver.close)
            ends.callback(_end, child)
            sender.close()
        yield child, receiver, alive


def _end(child: ForkProcess) -> None:
    """Kill a child, and the processes that it started."""
    assert child.pid is not None
    if child.is_alive():
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.join()


def _next_reply(child: ForkProcess, receiver: Connection, alive: Any, stall_limit_s: float) -> _Reply:
    silent_s, seen = 0.0, alive.value
    while silent_s < stall_limit_s:
        before = time.monotonic()
        if receiver.poll(_POLL_S):
            try:
                reply: _Reply = receiver.recv()
                return reply
            except (EOFError, OSError):  # nothing, or half a message
                child.join(_LAST_S)
                _end(child)
                return _death(child.exitcode)
        if not child.is_alive() and not receiver.poll(0):  # its own children may keep the pipe open
            return _death(child.exitcode)
        # Time during which this process was stopped, or the machine slept, does not count as silence.
        silent_s = silent_s + min(time.monotonic() - before, _COUNTED_S) if alive.value == seen else 0.0
        seen = alive.value
    return "hang", f"no progress for {stall_limit_s:g} s"


def _death(exit_code: int | None) -> _Reply:
    if exit_code is None:  # the parent was started with SIGCHLD ignored
        return "killed", "its worker process vanished"
    if exit_code >= 0:
        return "crash", f"its worker process ended with exit status {exit_code}"
    name = processes.signal_name(-exit_code)
    if -exit_code in processes.CRASHES:
        return "crash", f"its decoder crashes: {name}"
    hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
    return "killed", f"its worker process was killed by {name}{hint}"


# --- in the child -----------------------------------------------------------------------------------------------------


def _serve(
    work: Callable[[_Task, Tick], _Result], tasks: Sequence[_Task], sender: Connection, alive: Any, parent: int
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent's handlers are not the child's
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it were ignored, the exit status of ffmpeg would be lost
    processes.release_signals()
    os.setpgid(0, 0)  # so that its ffmpeg can be killed with it
    processes.end_with(parent)
    processes.keep_memory()

    def tick() -> None:
        alive.value += 1

    for task in tasks:
        tick()
        try:
            reply: _Reply = "result", work(task, tick)
            data = ForkingPickler.dumps(reply)  # whole before its first byte is sent
        except Exception as error:
            reply = _failure(error)
            data = ForkingPickler.dumps(reply)
        try:
            sender.send_bytes(data)
        except OSError:  # the parent has ended
            os._exit(1)
        if reply[0] in _TRIES or reply[0] == "stop":
            return


def _failure(error: Exception) -> _Reply:
    if isinstance(error, ToolError):
        return "killed", str(error)
    if reason := processes.tool_failure(error):
        return "killed", reason
    if isinstance(error, MediaError):
        return "crash" if isinstance(error, CrashError) else "data", str(error)
    if isinstance(error, PerturbationError):
        return "stop", error
    if isinstance(error, OSError):
        return "stop", OutputError(f"the system refused: {error}")
    where = traceback.extract_tb(error.__traceback__)[-1]
    # Of libav's errors, only the kind: their words name temporary files, and a row's reason must not differ by run.
    words = " ".join((getattr(error, "strerror", None) or str(error)).split())
    return "data", f"unforeseen {type(error).__name__}: {words} (at {Path(where.filename).name}:{where.lineno})"
