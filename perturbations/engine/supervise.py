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
import pickle
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from perturbations.base import processes
from perturbations.base.errors import CrashError, MediaError, OutputError, PerturbationError, ToolError
from perturbations.base.progress import Tick

_log = logging.getLogger("perturbations")

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_TRIES = {"killed": 3, "crash": 3, "hang": 2}
"""How often an item is tried in total when its worker is killed, crashes, or hangs."""

_POLL_S = 0.25
_COUNTED_S = 1.0
_LAST_S = 2.0


@dataclass(frozen=True)
class _Reply(Generic[_Result]):
    """What a child, or its death, reports about an item.

    `result`, `data` (an error of the item: the reason) and `stop` (an error of the run) are final. After the others, a
    new child tries again.
    """

    kind: Literal["result", "data", "stop", "killed", "crash", "hang"]
    result: _Result | None = None
    reason: str = ""
    error: PerturbationError | None = None


class _Counter(Protocol):
    """A number in memory that the parent and the child share."""

    value: int


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
        with closing(_replies(work, tasks, position, stall_limit_s)) as replies:
            for reply in replies:
                task, kind, reason = tasks[position], reply.kind, reply.reason
                if reply.error is not None:
                    raise reply.error
                if kind in _TRIES:
                    failures[kind] += 1
                    if failures[kind] < _TRIES[kind]:
                        _log.warning("%s: %s; trying again", name(task), reason)
                        break
                    reason = f"{reason}, {failures[kind]} times"
                    if kind == "killed":
                        raise ToolError(_stopped(name(task), reason))
                failures.clear()
                position += 1
                yield TaskOutcome(task, reply.result, None) if kind == "result" else TaskOutcome(task, None, reason)


def _stopped(task: str, reason: str) -> str:
    return (
        f"{task}: {reason}. The item is not the cause: nothing is quarantined, finished items are kept. Give the job "
        "more memory, or find out what kills its processes (a scheduler's limit, the kernel's log); then run again"
    )


def _replies(
    work: Callable[[_Task, Tick], _Result], tasks: Sequence[_Task], start: int, stall_limit_s: float
) -> Generator[_Reply[_Result], None, None]:
    """One child's reply to each task from `start` on, until the first task that a new child must try again."""
    with ExitStack() as ends:
        with processes.signals_held():  # an interrupt between a child's start and the note to end it would leave it
            child, receiver, alive = _start(work, tasks, start)
            ends.callback(receiver.close)
            ends.callback(_end_all, child)
        for _ in tasks[start:]:
            reply: _Reply[_Result] = _next_reply(receiver, child, alive, stall_limit_s)
            yield reply
            if reply.kind in _TRIES:
                return
        child.join(_LAST_S)  # it has nothing left to do, but a library's thread may keep it alive


def _start(
    work: Callable[[_Task, Tick], _Result], tasks: Sequence[_Task], start: int
) -> tuple[ForkProcess, Connection, _Counter]:
    context = multiprocessing.get_context("fork")
    try:
        receiver, sender = context.Pipe(duplex=False)
        alive = context.RawValue("Q", 0)
        child = context.Process(target=_serve, args=(work, tasks, start, sender, alive, os.getpid()), daemon=False)
        child.start()
    except OSError as error:
        raise ToolError(f"no worker process can be started: {error.strerror}. Finished items are kept") from error
    sender.close()
    return child, receiver, alive


def _next_reply(receiver: Connection, child: ForkProcess, alive: _Counter, stall_limit_s: float) -> _Reply[_Result]:
    silent_s, seen = 0.0, alive.value
    while silent_s < stall_limit_s:
        before = time.monotonic()
        if receiver.poll(_POLL_S):
            try:
                reply: _Reply[_Result] = pickle.loads(receiver.recv_bytes())
                return reply
            except (EOFError, OSError):  # nothing, or half a message
                _end(child, _LAST_S)
                return _death(child.exitcode)
        if not child.is_alive() and not receiver.poll(0):  # its own children may keep the pipe open
            return _death(child.exitcode)
        # Time during which this process was stopped, or the machine slept, does not count as silence.
        silent_s = silent_s + min(time.monotonic() - before, _COUNTED_S) if alive.value == seen else 0.0
        seen = alive.value
    _end(child)
    return _Reply("hang", reason=f"no progress for {stall_limit_s:g} s")


def _serve(
    work: Callable[[_Task, Tick], _Result],
    tasks: Sequence[_Task],
    start: int,
    sender: Connection,
    alive: _Counter,
    parent: int,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent's handlers are not the child's
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it were ignored, the exit status of ffmpeg would be lost
    os.setpgid(0, 0)  # so that its ffmpeg can be killed with it
    processes.end_with(parent)
    processes.keep_memory()

    def tick() -> None:
        alive.value += 1

    for task in tasks[start:]:
        tick()
        kind, data = _packed(_reply(work, task, tick))
        try:
            sender.send_bytes(data)
        except OSError:  # the parent has ended
            os._exit(1)
        if kind in _TRIES or kind == "stop":
            return


def _reply(work: Callable[[_Task, Tick], _Result], task: _Task, tick: Tick) -> _Reply[_Result]:
    try:
        return _Reply("result", work(task, tick))
    except Exception as error:
        if isinstance(error, ToolError):
            return _Reply("killed", reason=str(error))
        if reason := processes.tool_failure(error):
            return _Reply("killed", reason=reason)
        if isinstance(error, CrashError):
            return _Reply("crash", reason=str(error))
        if isinstance(error, MediaError):
            return _Reply("data", reason=str(error))
        if isinstance(error, PerturbationError):
            return _Reply("stop", error=error)
        if isinstance(error, OSError):
            return _Reply("stop", error=OutputError(f"the system refused: {error}"))
        return _Reply("data", reason=_unforeseen(error))


def _packed(reply: _Reply[_Result]) -> tuple[str, bytes]:
    """A reply's kind and its bytes. All bytes are ready before the first is sent."""
    try:
        return reply.kind, bytes(ForkingPickler.dumps(reply))
    except MemoryError:
        reply = _Reply("killed", reason="memory ran out")
    except Exception as error:
        reply = _Reply("data", reason=_unforeseen(error))
    return reply.kind, pickle.dumps(reply)


def _unforeseen(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    # Of libav's errors, only the kind: their words name temporary files, and a row's reason must not differ by run.
    words = " ".join((getattr(error, "strerror", None) or str(error)).split())
    return f"unforeseen {type(error).__name__}: {words} (at {Path(where.filename).name}:{where.lineno})"


def _end(child: ForkProcess, patience_s: float = 0.0) -> None:
    """Kill a child that has not ended within `patience_s` seconds, and all its processes."""
    if patience_s:
        child.join(patience_s)
    if child.is_alive() and child.pid is not None:
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                kill(child.pid, signal.SIGKILL)
    child.join()


def _end_all(child: ForkProcess) -> None:
    """Kill a child, and the processes that it left when it crashed."""
    _end(child)
    if child.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def _death(exit_code: int | None) -> _Reply[_Result]:
    if exit_code is None:
        return _Reply("killed", reason="its worker process vanished")
    if exit_code >= 0:
        return _Reply("crash", reason=f"its worker process ended with exit status {exit_code}")
    name = processes.signal_name(-exit_code)
    if -exit_code in processes.CRASHES:
        return _Reply("crash", reason=f"its decoder crashes: {name}")
    hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
    return _Reply("killed", reason=f"its worker process was killed by {name}{hint}")
