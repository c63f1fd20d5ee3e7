"""Runs items one after another in a child process, so that a decoder that hangs or crashes costs one item.

A decoder stuck in C code cannot be interrupted from within its process. The child tells after every frame that it
is alive; when it has been silent for too long it is killed, and a new child goes on.

An item is quarantined for what it does again and again: an error, a crash, a hang. A child that is killed from
outside, or finds no memory, says nothing about its item: the item is tried again, and then the run stops.
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
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Generic, TypeVar

from perturbations.errors import CrashError, MediaError, OutputError, PerturbationError, ToolError
from perturbations.system import processes

log = logging.getLogger("perturbations")

Task = TypeVar("Task")
Result = TypeVar("Result")
Tick = Callable[[], None]

TRIES = {"killed": 3, "crash": 3, "hang": 2}
"""How often an item is tried in all when its worker is killed, crashes, or hangs."""

_POLL_S = 0.25
_COUNTED_S = 1.0
_LAST_S = 2.0

# What a child, or its end, says of an item. `result`, `data` (an error of the item) and `stop` (an error of the run)
# are final; the others are tried again by a new child.
_Reply = tuple[str, Any]


@dataclass(frozen=True)
class Outcome(Generic[Task, Result]):
    """What became of one task: its result, or the reason why there is none."""

    task: Task
    result: Result | None
    error: str | None


def run(
    work: Callable[[Task, Tick], Result],
    tasks: Sequence[Task],
    *,
    stall_limit_s: float,
    name: Callable[[Task], str] = repr,
) -> Iterator[Outcome[Task, Result]]:
    """Yield each task's outcome, in order.

    `work(task, tick)` runs in a forked child and calls `tick` whenever it has made progress. Its `MediaError`, any
    unforeseen exception, a crash that happens at every try, or `stall_limit_s` seconds of silence, twice, make the
    outcome an error. `name` says what a message calls a task.
    Raises `ToolError` when a task's child was killed, or found no memory, at every try, and every other deliberate
    error (`OutputError`, ...) at once: the next items would fare no better.
    """
    failures: Counter[str] = Counter()
    position = 0
    while position < len(tasks):
        with closing(_replies(work, tasks, position, stall_limit_s)) as replies:
            for kind, value in replies:
                task = tasks[position]
                if kind == "stop":
                    raise value
                if kind in TRIES:
                    failures[kind] += 1
                    if failures[kind] < TRIES[kind]:
                        log.warning("%s: %s; trying again", name(task), value)
                        break
                    value = f"{value}, {failures[kind]} times"
                    if kind == "killed":
                        raise ToolError(_stopped(name(task), value))
                failures.clear()
                position += 1
                yield Outcome(task, value, None) if kind == "result" else Outcome(task, None, value)


def _stopped(task: str, reason: str) -> str:
    return (
        f"{task}: {reason}. That is no fault of the item's: nothing is quarantined, finished items are kept. Give the "
        "job more memory, or look for what ends its processes (a scheduler's limit, the kernel's log); then run again"
    )


def _replies(
    work: Callable[[Task, Tick], Result], tasks: Sequence[Task], start: int, stall_limit_s: float
) -> Generator[_Reply, None, None]:
    """What one child says of each task from `start` on, until the first that a new child must try again."""
    context = multiprocessing.get_context("fork")
    try:
        receiver, sender = context.Pipe(duplex=False)
        alive = context.RawValue("Q", 0)
        child = context.Process(target=_serve, args=(work, tasks, start, sender, alive, os.getpid()), daemon=False)
        child.start()
    except OSError as error:
        raise ToolError(f"no worker process can be started: {error.strerror}. Finished items are kept") from error
    sender.close()
    awaited = len(tasks) - start
    try:
        while awaited:
            reply = _next_reply(receiver, child, alive, stall_limit_s)
            awaited -= 1
            yield reply
            if reply[0] in TRIES:
                return
    finally:
        if not awaited:
            child.join(_LAST_S)  # it has nothing left to do, but a library's thread may keep it
        _end(child)
        if child.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # what a child that crashed had started
        receiver.close()


def _next_reply(receiver: Connection, child: ForkProcess, alive: Any, stall_limit_s: float) -> _Reply:
    silent_s, seen = 0.0, alive.value
    while silent_s < stall_limit_s:
        before = time.monotonic()
        if receiver.poll(_POLL_S):
            try:
                reply: _Reply = pickle.loads(receiver.recv_bytes())
                return reply
            except (EOFError, OSError):  # nothing, or half a message
                _end(child, _LAST_S)
                return _death(child.exitcode)
        if not child.is_alive() and not receiver.poll(0):  # what it had started may keep the pipe open
            return _death(child.exitcode)
        # Time in which this process itself was stopped, or the machine asleep, is no silence.
        silent_s = silent_s + min(time.monotonic() - before, _COUNTED_S) if alive.value == seen else 0.0
        seen = alive.value
    _end(child)
    return "hang", f"no progress for {stall_limit_s:g} s"


def _serve(
    work: Callable[[Any, Tick], Any], tasks: Sequence[Any], start: int, sender: Connection, alive: Any, parent: int
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent's handlers are not the child's
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how an ffmpeg ended
    os.setpgid(0, 0)  # so that an ffmpeg it started can be killed with it
    processes.end_with(parent)

    def tick() -> None:
        alive.value += 1

    for task in tasks[start:]:
        tick()
        reply, data = _packed(_reply(work, task, tick))
        try:
            sender.send_bytes(data)
        except OSError:  # the parent is gone
            os._exit(1)
        if reply in TRIES or reply == "stop":
            return


def _reply(work: Callable[[Any, Tick], Any], task: Any, tick: Tick) -> _Reply:
    try:
        return "result", work(task, tick)
    except Exception as error:
        if isinstance(error, ToolError):
            return "killed", str(error)
        if reason := processes.tool_failure(error):
            return "killed", reason
        if isinstance(error, CrashError):
            return "crash", str(error)
        if isinstance(error, MediaError):
            return "data", str(error)
        if isinstance(error, PerturbationError):
            return "stop", error
        if isinstance(error, OSError):
            return "stop", OutputError(f"the system refused: {error}")
        return "data", _unforeseen(error)


def _packed(reply: _Reply) -> tuple[str, bytes]:
    """A reply's kind and its bytes, made before any of them is sent."""
    try:
        return reply[0], bytes(ForkingPickler.dumps(reply))
    except MemoryError:
        reply = ("killed", "memory ran out")
    except Exception as error:
        reply = ("data", _unforeseen(error))
    return reply[0], pickle.dumps(reply)


def _unforeseen(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    words = " ".join(str(error).split())
    return f"unforeseen {type(error).__name__}: {words} (at {Path(where.filename).name}:{where.lineno})"


def _end(child: ForkProcess, patience_s: float = 0.0) -> None:
    """Kill a child that has not ended within some seconds, and everything that it started."""
    if patience_s:
        child.join(patience_s)
    if child.is_alive() and child.pid is not None:
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                kill(child.pid, signal.SIGKILL)
    child.join()


def _death(exit_code: int | None) -> _Reply:
    if exit_code is None:
        return "killed", "its worker process vanished"
    if exit_code >= 0:
        return "crash", f"its worker process ended with exit status {exit_code}"
    name = processes.signal_name(-exit_code)
    if -exit_code in processes.CRASHES:
        return "crash", f"its decoder crashes: {name}"
    hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
    return "killed", f"its worker process was killed by {name}{hint}"
