"""Clips of a manifest for an export: their rows and their frames, with one clip in memory at a time."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from perturbations.api.functions import open_clip
from perturbations.base import storage, tars
from perturbations.base.errors import ManifestError, MediaError, short
from perturbations.base.progress import Tick, logged
from perturbations.engine import supervise
from perturbations.manifest import files, locations
from perturbations.manifest.kinds import (
    COMPLETE,
    SOURCES,
    VIDEOS,
    ClipRow,
    CompleteSource,
    MixRow,
    RowKind,
    SourceRow,
)
from perturbations.manifest.row_groups import StoredRows, stored
from perturbations.media.clip import uniform_indices
from perturbations.verify.findings import Finding, name_of

ListedRow = ClipRow | SourceRow
UsableRow = ClipRow | CompleteSource


def read(path: Path, kinds: Sequence[RowKind[Any]] = (VIDEOS, SOURCES)) -> StoredRows[ListedRow]:
    """The rows of a manifest of clips, with the current paths of their files; those of a large one stay on the disk.

    Raises `ManifestError` for another kind of manifest than `kinds`.
    """
    kind = files.kind_of(path)
    if kind not in kinds:
        names = " or ".join(known.name for known in kinds)
        raise ManifestError(f"{path} is a manifest of {kind.name}; frames are exported from {names}")
    root = locations.root_of(path, files.read_metadata(path))
    return stored(files.read_rows(path, kind)).mapped(partial(locations.located, root=root))


@dataclass
class ClipsByScenario:
    """The rows of a manifest of clips by their scenarios, and what one pass over them tells.

    Attributes:
        scenarios: the complete rows of each, sorted by item.
        incomplete: the rows without a clip.
        recipes: the different ones of all rows.
        item_ids, suites, mixes, storages: the different ones of complete rows.
        folders: those of their files.
        bytes: of their files.
        has_pictures: whether one is a picture.
    """

    scenarios: dict[str, StoredRows[UsableRow]] = field(default_factory=dict)
    incomplete: list[ListedRow] = field(default_factory=list)
    recipes: set[str] = field(default_factory=set)
    item_ids: set[str] = field(default_factory=set)
    suites: set[str] = field(default_factory=set)
    mixes: set[str] = field(default_factory=set)
    storages: set[str] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)
    bytes: int = 0
    has_pictures: bool = False

    def add(self, path: Path, rows: StoredRows[ListedRow], name: Callable[[UsableRow], str]) -> None:
        """Add rows, whose scenario is their `name`. Raises `ManifestError` where a scenario has one id twice."""
        places: dict[str, array[int]] = defaultdict(lambda: array("q"))
        ids: dict[str, list[str]] = defaultdict(list)
        known: dict[str, str] = {}  # an id that repeats takes memory once
        folders: set[str] = set()
        for place, row in enumerate(rows):
            if isinstance(row, ClipRow) and row.recipe:
                self.recipes.add(row.recipe)
            if row.status != COMPLETE or not isinstance(row, ClipRow | CompleteSource):
                self.incomplete.append(row)
                continue
            scenario_of = name(row)
            places[scenario_of].append(place)
            ids[scenario_of].append(known.setdefault(row.item_id, row.item_id))
            folders.add(os.path.dirname(tars.file_of(row.path or "")))
            self.bytes += row.bytes or 0
            self.has_pictures = self.has_pictures or is_picture(row)
            if isinstance(row, ClipRow):
                self.suites.add(row.suite)
                self.storages.add(row.storage)
                self.mixes |= {row.mix} if isinstance(row, MixRow) else set()
        check_twice(path, ((scenario_of, item_id) for scenario_of in ids for item_id in sorted(ids[scenario_of])))
        self.folders |= {Path(folder) for folder in folders if folder}
        self.item_ids.update(known)
        for scenario_of, members in ids.items():
            in_order = sorted(range(len(members)), key=members.__getitem__)
            usable = cast("StoredRows[UsableRow]", rows)
            self.scenarios[scenario_of] = usable.taken(np.array(places[scenario_of], np.int64)[in_order])


def is_picture(row: UsableRow) -> bool:
    """Whether a clip is a picture."""
    return storage.is_picture(row.path or "" if isinstance(row, CompleteSource) else row.source_path)


def complete(rows: Iterable[ListedRow]) -> list[UsableRow]:
    """The rows whose clips can be exported."""
    return [row for row in rows if isinstance(row, ClipRow | CompleteSource) and row.status == COMPLETE]


def check_twice(path: Path, names: Iterable[tuple[str, str]]) -> None:
    """Raise `ManifestError` where a scenario has one id more than once; `names` are scenarios and ids, in order."""
    twice = [f"{short(item_id)} in {name}" for (name, item_id), same in groupby(names) if len([*same]) > 1]
    if twice:
        raise ManifestError(f"{path} has complete rows more than once: {', '.join(twice[:5])}")


def write_each(
    path: Path, rows: Sequence[UsableRow], write: Callable[[UsableRow], bool], *, stall_limit_s: float
) -> tuple[int, list[Finding]]:
    """Call `write` for every row, in a supervised process; it returns False when the file exists already.

    Returns the number of files that it wrote. A clip that cannot be read, or makes no progress for `stall_limit_s`
    seconds, becomes a finding, and the others continue.
    """

    def work(row: UsableRow, tick: Tick) -> bool:
        return write(row)

    written, failed = 0, []
    outcomes = supervise.run(work, rows, stall_limit_s=stall_limit_s, name=lambda row: repr(row.item_id))
    for outcome in logged(outcomes, len(rows), "videos exported"):
        written += bool(outcome.result)
        if outcome.error is not None:
            failed.append(finding(path, outcome.task, outcome.error))
    return written, failed


def finding(path: Path, row: ListedRow, problem: str) -> Finding:
    """A row's problem, without the folders of its files: it is published."""
    for file in filter(None, (row.path, row.source_path if isinstance(row, ClipRow) else None)):
        problem = problem.replace(os.path.join(os.path.dirname(file), ""), "") if "/" in file else problem
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
        digest = storage.sha256(stored) if tars.is_file(stored) else None
    except PermissionError as error:
        raise MediaError(f"the file cannot be read: {stored}: permission denied") from error
    if digest is None:
        raise MediaError(f"the file is missing: {stored}; `perturb verify --delete`, then snakemake, makes it again")
    if digest != row.sha256:
        again = "`perturb verify --delete`, then snakemake, makes it again"
        raise MediaError(f"{stored} changed since it was made; {again}")
