"""Retries items: removes the parts that hold their rows, so that Snakemake makes those parts again.

The finished items of a shard stay in its journal, so only the quarantined items of such a part are processed again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from perturbations.base import storage
from perturbations.base.errors import ConfigError, ManifestError, did_you_mean
from perturbations.base.storage import nfc
from perturbations.manifest import files, manifest_paths

_RetriedRow = tuple[str, Path, Path]
"""A row that is retried, in words; its part, and the manifest that the part is merged into."""


def quarantined_rows(
    root: Path,
    *,
    datasets: Collection[str] = (),
    suites: Collection[str] = (),
    stages: Collection[str] = (),
    items: Collection[str] = (),
) -> list[_RetriedRow]:
    """The quarantined rows in the parts of the workflow that runs in `root`; an empty collection of names means all.

    The rows of a suite may fail because of sources and analyses, so these are searched even when suites are given.
    Raises `ConfigError` where the folder has no results, or none of a given dataset or suite.
    """
    if not (root / manifest_paths.WORK).is_dir():
        raise ConfigError(
            f"no folder {root / manifest_paths.WORK} here: run it in the folder in which the workflow runs"
        )
    parts, wanted = list(_parts(root)), set(map(nfc, items))
    _check_names("dataset", datasets, {dataset for *_, dataset, _ in parts})
    _check_names("suite", suites, {suite for *_, suite in parts if suite})
    lines = []
    for part, manifest, dataset, suite in parts:
        if (datasets and dataset not in datasets) or (suites and suite not in {"", *suites}):
            continue
        for item_id, stage, error in _failed(part):
            if (not stages or stage in stages) and (not wanted or nfc(item_id or "") in wanted):
                item = "all its items" if item_id is None else repr(item_id)
                lines.append((f"{part}: {item}: {stage}: {' '.join(error.split())}", part, manifest))
    return lines


def delete_parts(root: Path, rows: Collection[_RetriedRow]) -> None:
    """Delete the parts and their merged manifests: Snakemake makes no part again while its manifest exists.

    Raises `ConfigError` while Snakemake works in `root`, or was killed there and left its lock.
    """
    if any((root / ".snakemake/locks").glob("*.lock")):
        raise ConfigError("Snakemake is running here, or was killed: wait for it, or run `snakemake --unlock` first")
    for path in sorted({path for _, part, manifest in rows for path in (part, manifest)}):
        with storage.output_errors(path):
            path.unlink(missing_ok=True)


_MERGED = {"source_part": "sources", "analysis_part": "analyses", "video_part": "videos"}


def _parts(root: Path) -> Iterator[tuple[Path, Path, str, str]]:
    """The parts that may hold quarantined rows: each with its manifest, its dataset and its suite ("" for sources)."""
    for path in sorted((root / manifest_paths.WORK).glob(f"*/**/{manifest_paths.name('video_part', shard='s*')}")):
        place = manifest_paths.place_of(path.relative_to(root).as_posix())
        if place is not None and place[0] in _MERGED:
            kind, fields = place
            manifest = root / manifest_paths.at(_MERGED[kind], **fields)
            yield path, manifest, fields["dataset"].partition("/")[0], fields.get("suite", "")


def _check_names(kind: str, names: Collection[str], known: Collection[str]) -> None:
    if unknown := sorted(set(names) - set(known)):
        near = "".join(dict.fromkeys(did_you_mean(name, known) for name in unknown))
        raise ConfigError(f"no {kind} {', '.join(map(repr, unknown))} was made here; there are: {sorted(known)}{near}")


def _failed(part: Path) -> list[tuple[str | None, str, str]]:
    """The item, the stage and the reason of each quarantined row of a part; no item where it cannot be read."""
    try:
        return [(row["item_id"], row["stage"] or "", row["error"] or "") for row in files.failed_rows(part)]
    except ManifestError:
        return [(None, "part", "cannot be read")]
