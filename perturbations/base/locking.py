"""One job at a time on a shard, also when a killed run's orphan still works on it. Standard library only."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from perturbations.base import layout, processes, storage
from perturbations.base.errors import ToolError

_log = logging.getLogger("perturbations")


@contextmanager
def one_job(journal: Path) -> Iterator[None]:
    """Hold the lock of the shard whose journal is `journal`; wait while another job holds it, and log which.

    After the wait the other job's finished items are in the journal. The lock is the kernel's, on a file beside the
    journal: it ends with the processes that hold it, however they end. On NFS it works between machines if the mount
    supports locks. If not, the job goes on with a warning: two jobs then write the same files, each whole.
    Raises `ToolError` when this very process holds the shard, `OutputError` when the file cannot be written.
    """
    path = layout.lock_of(journal)
    with storage.output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if path.lstat().st_nlink > 1:  # of a tree that was copied by hard links, or planted
                path.unlink()
    with storage.opened(path, "a+", encoding="utf-8", errors="replace") as file:
        _acquire(file, path)
        try:
            yield
        finally:
            file.truncate(0)  # closing gives the lock back


def _acquire(file: IO[str], path: Path) -> None:
    own = processes.identity()
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(200).strip()
            if holder == own:
                raise ToolError(f"this process already works on the shard of {path}") from None
            name = processes.named(holder)
            _log.warning("another job works on this shard, process %s: waiting for it (%s)", name, path)
            fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        _log.warning("%s cannot be locked (%s): going on; see that no other job works on this shard", path, error)
        return
    with storage.output_errors(path):
        file.truncate(0)
        file.write(own)
        file.flush()
