"""Retries items: removes the parts that hold their rows, so that Snakemake makes those parts again.

The finished items of a shard stay in its journal, so only the quarantined items of such a part are processed again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from perturbations.base import storage
from perturbations.base.errors import ConfigError, ManifestError, did_you_mean
from perturbations.manifest import layout, stored_columns
from perturbations.plan import runs


@dataclass(frozen=True)
class _Part:
    """A shard's part of a manifest: its file, the manifest that it is merged into, its dataset and its suite.

    Sources and analyses have no suite: an empty string.
    """

    path: Path
    manifest: Path
    dataset: str
    suite: str


@dataclass(frozen=True)
class _RetriedRow:
    """A row that is retried: the part that holds it, the item, the stage that failed, and the reason.

    The item is None where a part cannot be read: then the whole part is made again.
    """

    part: _Part
    item_id: str | None
    stage: str
    error: str

    def __str__(self) -> str:
        item = "all its items" if self.item_id is None else repr(self.item_id)
        return f"{self.part.path}: {item}: {self.stage}: {' '.join(self.error.split())}"


def find(
    root: Path,
    *,
    datasets: Collection[str] = (),
    suites: Collection[str] = (),
    stages: Collection[str] = (),
    items: Collection[str] = (),
) -> list[_RetriedRow]:
    """The quarantined rows in the parts of the workflow that runs in the folder `root`; of names, none means all.

    The rows of a suite may fail because of sources and analyses, so these are searched even when suites are given.
    Raises `ConfigError` where the folder has no results, or none of a given dataset or suite.
    """
    return [
        row
        for part in _parts(root, datasets, suites)
        for row in _rows(part)
        if (not stages or row.stage in stages) and (not items or row.item_id in items)
    ]


def _parts(root: Path, datasets: Collection[str], suites: Collection[str]) -> list[_Part]:
    work = root / layout.WORK
    if not work.is_dir():
        raise ConfigError(f"no folder {work} here: run it in the folder in which the workflow runs")
    parts = [
        part
        for path in sorted(work.glob(f"*/**/{layout.name('video_part', shard='s*')}"))
        if (part := _part(root, path)) is not None
    ]
    _check_names("dataset", datasets, {part.dataset for part in parts})
    _check_names("suite", suites, {part.suite for part in parts if part.suite})
    return [
        part
        for part in parts
        if (not datasets or part.dataset in datasets) and (not suites or part.suite in {"", *suites})
    ]


def forget(root: Path, rows: Collection[_RetriedRow]) -> None:
    """Delete the parts and their merged manifests: Snakemake makes no part again while its manifest exists.

    Raises `ConfigError` while Snakemake works in `root`, or was killed there and left its lock.
    """
    if runs.locks(root):
        raise ConfigError("Snakemake is running here, or was killed: wait for it, or run `snakemake --unlock` first")
    for path in sorted({path for row in rows for path in (row.part.path, row.part.manifest)}):
        with storage.output_errors(path):
            path.unlink(missing_ok=True)


_MERGED = {"source_part": "sources", "analysis_part": "analyses", "video_part": "videos"}


def _part(root: Path, path: Path) -> _Part | None:
    """A part as its path describes it; None for parts that never hold quarantined rows."""
    place = layout.place_of(path.relative_to(root).as_posix())
    if place is None or place.kind not in _MERGED:
        return None
    manifest = root / layout.at(_MERGED[place.kind], **place.fields)
    return _Part(path, manifest, place.fields["dataset"].partition("/")[0], place.fields.get("suite", ""))


def _check_names(kind: str, names: Collection[str], known: Collection[str]) -> None:
    if unknown := sorted(set(names) - set(known)):
        near = "".join(dict.fromkeys(did_you_mean(name, known) for name in unknown))
        raise ConfigError(f"no {kind} {', '.join(map(repr, unknown))} was made here; there are: {sorted(known)}{near}")


def _rows(part: _Part) -> list[_RetriedRow]:
    """The rows of a part that are retried; all of it where it cannot be read."""
    try:
        rows = stored_columns.failed_rows(part.path)
        return [_RetriedRow(part, row["item_id"], row["stage"] or "", row["error"] or "") for row in rows]
    except ManifestError:
        return [_RetriedRow(part, None, "part", "cannot be read")]
