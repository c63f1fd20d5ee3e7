"""Runs items one after another in a child process, so that a decoder that hangs or crashes costs one item only.

A decoder that is stuck in C code cannot be interrupted from within its process. So the child reports after every frame
that it is alive. A child that is silent for too long is killed, and a new child continues.

An item is quarantined for a failure that repeats: an error, a crash, a hang. A child that is killed from outside, or
runs out of memory, says nothing about its item: the item is tried again, and finally the run stops.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import mmap
import os
import pickle
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, NoReturn, TypeVar

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

_NO_FAULT_OF_THE_ITEM = (
    "{}: {}. The item is not the cause: nothing is quarantined, finished items are kept. Give the job more memory, or "
    "find out what kills its processes (a scheduler's limit, the kernel's log); then run again"
)
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}
"""Signals that a program causes itself."""

_REQUESTS = {signal.SIGINT, signal.SIGTERM}
_POLL_S = 0.25


def run(
    work: Callable[[_Task, Tick], _Result],
    tasks: Sequence[_Task],
    *,
    stall_limit_s: float,
    name: Callable[[_Task], str] = repr,
) -> Iterator[tuple[_Task, _Result | None, str | None]]:
    """Yield each task with its result, or with None and the reason why there is none, in order.

    `work(task, tick)` runs in a forked child and calls `tick` whenever it has made progress. There is a reason after a
    `MediaError`, an unforeseen exception, a crash at every try, or `stall_limit_s` seconds of silence at every try.
    `name` gives the name of a task in messages.
    Raises `ToolError` when a task's child was killed, or ran out of memory, at every try. Raises every other deliberate
    error (`OutputError`, ...) at once, because the next items would fail in the same way.
    """
    failures: Counter[str] = Counter()
    left = list(tasks)
    while left:
        # An interrupt between a child's start and the note to end it would leave it.
        held, child, kind = signal.pthread_sigmask(signal.SIG_BLOCK, _REQUESTS), None, ""
        try:
            child = _Child()
            if not child.pid:
                _serve(work, left, child)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            while left and kind not in _TRIES:
                kind, content = child.next_reply(stall_limit_s)
                if kind == "stop":
                    raise content
                if kind in _TRIES:
                    failures[kind] += 1
                    if failures[kind] < _TRIES[kind]:
                        _log.warning("%s: %s; trying again", name(left[0]), content)
                        continue
                    content = f"{content}, {failures[kind]} times"
                    if kind == "killed":
                        raise ToolError(_NO_FAULT_OF_THE_ITEM.format(name(left[0]), content))
                failures.clear()
                task = left.pop(0)
                yield (task, content, None) if kind == "result" else (task, None, content)
        finally:
            if child is not None:
                child.end()
            signal.pthread_sigmask(signal.SIG_SETMASK, held)


class _Child:
    """A forked process (`pid` is 0 within it), the pipe of its replies, and the count of its signs of life."""

    def __init__(self) -> None:
        self.alive = mmap.mmap(-1, 8)  # shared: a pipe would fill up while nobody reads
        self.parent = os.getpid()
        self._death: _Reply | None = None
        try:
            self._receiver, self.sender = Pipe(duplex=False)
            self.pid = os.fork()
        except OSError as error:
            raise ToolError(f"no worker process can be started: {error.strerror}. Finished items are kept") from error
        if self.pid:
            self.sender.close()

    def next_reply(self, stall_limit_s: float) -> _Reply:
        """Its reply about the next task, or how the process ended."""
        silent_s, seen = 0.0, self.alive[:]
        # Silence is counted in looks: time in which this process was stopped, or the machine slept, does not count.
        while silent_s < stall_limit_s:
            death = self._wait(os.WNOHANG)  # its own children may keep the pipe open
            if self._receiver.poll(0 if death else _POLL_S):
                try:
                    reply: _Reply = self._receiver.recv()
                    return reply
                except (EOFError, OSError):  # nothing, or half a message
                    death = self._wait()
            if death:
                return death
            silent_s = silent_s + _POLL_S if self.alive[:] == seen else 0.0
            seen = self.alive[:]
        return "hang", f"no progress for {stall_limit_s:g} s"

    def _wait(self, options: int = 0) -> _Reply | None:
        """How it ended; None where it need not be waited for, and has not."""
        if self._death is None:
            try:
                pid, status = os.waitpid(self.pid, options)
                self._death = _death(os.waitstatus_to_exitcode(status)) if pid else None
            except ChildProcessError:  # this process was started with SIGCHLD ignored
                self._death = "killed", "its worker process vanished"
        return self._death

    def end(self) -> None:
        """Kill it, and the processes that it started."""
        if self._death is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._wait()
        self._receiver.close()


def _death(exit_code: int) -> _Reply:
    if exit_code >= 0:
        return "crash", f"its worker process ended with exit status {exit_code}"
    name = signal_name(-exit_code)
    if -exit_code in CRASHES:
        return "crash", f"its decoder crashes: {name}"
    hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
    return "killed", f"its worker process was killed by {name}{hint}"


def signal_name(number: int) -> str:
    """`SIGKILL` of 9; `signal 35` where the number has no name."""
    return {known.value: known.name for known in signal.Signals}.get(number, f"signal {number}")


# --- in the child -----------------------------------------------------------------------------------------------------


def _serve(work: Callable[[_Task, Tick], _Result], tasks: Sequence[_Task], child: _Child) -> NoReturn:
    status, beats = 1, count(1)

    def tick() -> None:
        child.alive[:] = next(beats).to_bytes(8, "big")

    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent's handlers are not the child's
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it were ignored, the exit status of ffmpeg would be lost
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _REQUESTS)
        os.setpgid(0, 0)  # so that its ffmpeg can be killed with it
        end_with(child.parent)
        _keep_memory()
        for task in tasks:
            tick()
            try:
                reply: _Reply = "result", work(task, tick)
                data = pickle.dumps(reply)  # whole before its first byte is sent
            except Exception as error:
                reply = _failure(error)
                data = pickle.dumps(reply)
            child.sender.send_bytes(data)  # which fails where the parent has ended
            if reply[0] in _TRIES or reply[0] == "stop":
                break
        status = 0
    finally:
        os._exit(status)


def _failure(error: Exception) -> _Reply:
    if isinstance(error, ToolError):
        return "killed", str(error)
    if reason := tool_failure(error):
        return "killed", reason
    if isinstance(error, MediaError):
        return "crash" if isinstance(error, CrashError) else "data", str(error)
    if isinstance(error, PerturbationError):
        return "stop", error
    if isinstance(error, OSError):
        return "stop", OutputError(f"the system refused: {error}")
    where = traceback.extract_tb(error.__traceback__)[-1]
    # Only the kind of libav's errors: their words name temporary files, and a row's reason must not differ by run.
    words = " ".join((getattr(error, "strerror", None) or str(error)).split())
    return "data", f"unforeseen {type(error).__name__}: {words} (at {Path(where.filename).name}:{where.lineno})"


_PASSING = {errno.EAGAIN, errno.EPIPE, errno.ECONNRESET, errno.ECHILD}
_REFUSALS = ("can't allocate memory", "out of memory", "can't start new thread")
_ACCELERATOR = ("CUDA", "cuDNN", "CUBLAS", "HIP ")
_NO_MEMORY_IN_OPENCV = -4


def tool_failure(error: BaseException) -> str | None:
    """Why the machine and not the data caused an exception; None where the data may be the cause."""
    words = " ".join(str(error).split())[:300]
    cause: BaseException | None = error
    while cause is not None:
        of_opencv = type(cause).__module__ == "cv2" and getattr(cause, "code", 0) == _NO_MEMORY_IN_OPENCV
        of_system = isinstance(cause, OSError) and cause.errno == errno.ENOMEM
        if of_opencv or of_system or isinstance(cause, MemoryError) or type(cause).__name__ == "OutOfMemoryError":
            return f"memory ran out: {words}" if words else "memory ran out"
        cause = cause.__cause__
    if isinstance(error, ImportError):
        return f"a library cannot be loaded: {words}"
    if isinstance(error, OSError) and error.errno in _PASSING:
        return f"the system refused: {words}"
    refused = words.startswith(_ACCELERATOR) or any(refusal in words for refusal in _REFUSALS)
    return words if isinstance(error, RuntimeError) and refused else None


def memory_is_left() -> bool:
    """Whether this process still gets 256 MiB: if so, the refused request was too large by itself."""
    try:
        mmap.mmap(-1, _KEPT_BYTES).close()
    except OSError:
        return False
    return True


_PR_SET_PDEATHSIG = 1
# Looked up here, because little is safe between fork and exec.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies for any reason; exit at once if the parent is gone.

    Without it the child of a killed job would go on while the job already runs again. Linux only; elsewhere it
    does nothing.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
_KEPT_BYTES = 256 * 2**20
_LARGEST_BYTES = 32 * 2**20  # more is refused


def _keep_memory() -> None:
    """Let this process keep the memory of frames that it frees, for the next frames: glibc's alone.

    glibc returns it to the system, which clears it for each frame: that takes a seventh of the CPU time of motion blur
    at 640x480, and half of that of fog.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)
