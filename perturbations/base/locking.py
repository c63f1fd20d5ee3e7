"""One job at a time on a shard, also when a killed run's orphan still works on it. Standard library only."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perturbations.base import storage

_log = logging.getLogger("perturbations")


@contextmanager
def one_job(journal: Path) -> Iterator[None]:
    """Hold the lock of the shard whose journal is `journal`; wait while another job holds it.

    After the wait the other job's finished items are in the journal. The lock is the kernel's, on a file beside the
    journal: it ends with the processes that hold it, however they end. Where a file system has no locks, the job goes
    on with a warning: two jobs then write the same files, each whole. Raises `OutputError`.
    """
    path = journal.with_suffix(".lock")
    with storage.output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.warning("another job works on this shard: waiting for it (%s)", path)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            _log.warning("%s cannot be locked (%s): going on; see that no other job works on this shard", path, error)
        yield
