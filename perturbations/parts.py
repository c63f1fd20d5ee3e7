"""The parts of a manifest that cannot be read: put out of the way, so that the workflow makes them again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.errors import ManifestError


@contextmanager
def mended(parts: Sequence[Path]) -> Iterator[None]:
    """For what reads parts: where that fails, those that are no Parquet files are deleted.

    Snakemake takes a part that is there for a finished job; one that a full disk or a stranger damaged would stop every
    run until somebody deletes it. What it was made of is kept in the shard's journal.
    Raises `ManifestError` that names the deleted parts and says to run again.
    """
    try:
        yield
    except ManifestError as error:
        damaged = [part for part in parts if os.access(part, os.R_OK) and not _is_parquet(part)]
        if not damaged:
            raise
        for part in damaged:
            part.unlink()
        names = ", ".join(map(str, damaged[:5])) + (" ..." if len(damaged) > 5 else "")
        raise ManifestError(
            f"{len(damaged)} of {len(parts)} parts could not be read and were deleted: {names}. Run the same command "
            f"again: their shards are made anew, finished items are kept. The first: {error}"
        ) from error


def _is_parquet(part: Path) -> bool:
    try:
        pq.read_table(part, page_checksum_verification=True)
    except (OSError, ValueError, pa.ArrowException):
        return False
    return True
