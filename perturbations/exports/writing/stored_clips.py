"""Clips of a manifest for an export: their rows and their frames, with one clip in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.api.functions import open_clip
from perturbations.base import storage
from perturbations.base.errors import ManifestError, MediaError, short
from perturbations.base.progress import Tick, logged
from perturbations.engine import supervise
from perturbations.exports.writing.filenames import scenario
from perturbations.exports.writing.requests import Exported
from perturbations.manifest import files, locations
from perturbations.manifest.kinds import COMPLETE, SOURCES, VIDEOS, ClipRow, CompleteSource, RowKind, SourceRow
from perturbations.media.clip import uniform_indices
from perturbations.verify.findings import Finding, name_of

ListedRow = ClipRow | SourceRow
UsableRow = ClipRow | CompleteSource


def read(path: Path, kinds: Sequence[RowKind[Any]] = (VIDEOS, SOURCES)) -> list[ListedRow]:
    """The rows of a manifest of clips, with the current paths of their files.

    Raises `ManifestError` for another kind of manifest than `kinds`.
    """
    kind = files.kind_of(path)
    if kind not in kinds:
        names = " or ".join(known.name for known in kinds)
        raise ManifestError(f"{path} is a manifest of {kind.name}; frames are exported from {names}")
    root = locations.root_of(path, files.read_metadata(path))
    return [locations.located(row, root) for row in files.read_rows(path, kind)]


def complete(rows: Iterable[ListedRow]) -> list[UsableRow]:
    """The rows whose clips can be exported."""
    return [row for row in rows if isinstance(row, ClipRow | CompleteSource) and row.status == COMPLETE]


def check_twice(path: Path, names: Iterable[tuple[str, str]]) -> None:
    """Raise `ManifestError` where a scenario has one id more than once; `names` are scenarios and ids."""
    twice = [f"{short(item_id)} in {name}" for (name, item_id), count in Counter(names).items() if count > 1]
    if twice:
        raise ManifestError(f"{path} has complete rows more than once: {', '.join(twice[:5])}")


def check_rows(path: Path, rows: Sequence[UsableRow], num_frames: int, names: Mapping[str, str]) -> None:
    """Raise `ManifestError` for two rows of one id and scenario, and for another number of stored frames."""
    check_twice(path, [(scenario(row, names), row.item_id) for row in rows])
    stored = {row.storage for row in rows if isinstance(row, ClipRow) and row.storage.startswith("frames/")}
    if other := stored - {f"frames/{num_frames}"}:
        raise ManifestError(f"{path} stores {', '.join(sorted(other))} only, not {num_frames} frames")


def write_each(
    path: Path, rows: Iterable[ListedRow], write: Callable[[UsableRow], bool], *, stall_limit_s: float
) -> Exported:
    """Call `write` for every complete row, in a supervised process; it returns False when the file exists already.

    A clip that cannot be read, or makes no progress for `stall_limit_s` seconds, becomes a finding, and the others
    continue.
    """
    rows = list(rows)
    tasks = complete(rows)

    def work(row: UsableRow, tick: Tick) -> bool:
        return write(row)

    written, failed = 0, []
    outcomes = supervise.run(work, tasks, stall_limit_s=stall_limit_s, name=lambda row: repr(row.item_id))
    for outcome in logged(outcomes, len(tasks), "videos exported"):
        written += bool(outcome.result)
        if outcome.error is not None:
            failed.append(finding(path, outcome.task, outcome.error))
    quarantined = incomplete_findings(path, (row for row in rows if row.status != COMPLETE))
    return Exported(written, len(tasks) - written - len(failed), tuple(failed), quarantined)


def finding(path: Path, row: ListedRow, problem: str) -> Finding:
    """A row's problem."""
    key = ("item_id", "perturbation", "severity") if isinstance(row, ClipRow) else ("item_id",)
    return Finding(path, name_of(row, key), problem)


def incomplete_findings(path: Path, rows: Iterable[ListedRow]) -> tuple[Finding, ...]:
    """The rows without a clip, with the reasons."""
    return tuple(finding(path, row, f"{row.status}: {row.stage}: {row.error}") for row in rows)


def sampled(row: UsableRow, num_frames: int) -> NDArray[np.uint8]:
    """A clip's frames as X-Pool samples them, N x H x W x 3 RGB uint8.

    Raises `MediaError` when the stored file is missing or was changed.
    """
    tier = row.storage.partition("/")[0] if isinstance(row, ClipRow) else ""
    if tier in ("video", "frames"):
        check_stored(row)
    if tier == "frames":
        return open_clip(row)
    return open_clip(row, uniform_indices(num_frames, row.frame_count))


def check_stored(row: UsableRow) -> None:
    """Raise `MediaError` when the file of a stored clip is missing, was changed, or may not be read."""
    stored = Path(row.path or "")
    try:
        digest = storage.sha256(stored) if stored.is_file() else None
    except PermissionError as error:
        raise MediaError(f"the file cannot be read: {stored}: permission denied") from error
    if digest is None:
        raise MediaError(f"the file is missing: {stored}; perturb verify --repair makes it again")
    if digest != row.sha256:
        raise MediaError(f"{stored} changed since it was made; perturb verify --repair makes it again")
