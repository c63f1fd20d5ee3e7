"""Why a process or a call failed: killed from outside, crashed by itself, short of memory. Standard library only.

A process that was killed from outside, or that got no memory, tells nothing about its clip. A process that crashes by
itself may have crashed because of the clip's bytes: a second try of the same clip shows whether it did.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}
"""Signals that a program causes itself."""

_REQUESTS = {signal.SIGINT, signal.SIGTERM}
_PASSING = {errno.EAGAIN, errno.EPIPE, errno.ECONNRESET, errno.ECHILD}
_ACCELERATOR = ("CUDA", "cuDNN", "CUBLAS", "HIP ")
_REFUSALS = ("can't allocate memory", "out of memory", "can't start new thread")
_NO_MEMORY_IN_OPENCV = -4
_PROBE_BYTES = 256 * 2**20
_PR_SET_PDEATHSIG = 1
# Looked up here, because little is safe between fork and exec.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def signal_name(number: int) -> str:
    """`SIGKILL` of 9; `signal 35` where the number has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def tool_failure(error: BaseException) -> str | None:
    """Why the machine and not the data caused an exception; None where the data may be the cause."""
    words = " ".join(str(error).split())[:300]
    if _is_short_of_memory(error):
        return f"memory ran out: {words}" if words else "memory ran out"
    if isinstance(error, ImportError):
        return f"a library cannot be loaded: {words}"
    if isinstance(error, OSError) and error.errno in _PASSING:
        return f"the system refused: {words}"
    if isinstance(error, RuntimeError) and (
        words.startswith(_ACCELERATOR) or any(refusal in words for refusal in _REFUSALS)
    ):
        return words
    return None


def _is_short_of_memory(error: BaseException | None) -> bool:
    """Whether the error, or one of the errors that caused it, means that there was no memory."""
    while error is not None:
        of_opencv = type(error).__module__ == "cv2" and getattr(error, "code", 0) == _NO_MEMORY_IN_OPENCV
        of_system = isinstance(error, OSError) and error.errno == errno.ENOMEM
        of_torch = type(error).__name__ == "OutOfMemoryError"
        if isinstance(error, MemoryError) or of_opencv or of_system or of_torch:
            return True
        error = error.__cause__
    return False


def memory_is_left() -> bool:
    """Whether this process still gets 256 MiB: if so, the refused request was too large by itself."""
    try:
        mmap.mmap(-1, _PROBE_BYTES).close()
    except OSError:
        return False
    return True


@contextmanager
def signals_held() -> Iterator[None]:
    """Let an interrupt or a request to end that arrives in this block wait for the block's end.

    For a fork: Python runs functions of libraries right after it and ignores what they raise, so that a Ctrl-C at that
    moment would be lost. A child that is forked in the block has them held too, until it calls `release_signals`.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _REQUESTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def release_signals() -> None:
    """Let signals through that `signals_held` holds, in a child that was forked meanwhile."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _REQUESTS)


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


def keep_memory() -> None:
    """Let this process keep the memory of frames that it frees, for the next frames: glibc's alone.

    glibc returns it to the system, which clears it for each frame: that takes a seventh of the CPU time of motion blur
    at 640x480, and half of that of fog.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)
