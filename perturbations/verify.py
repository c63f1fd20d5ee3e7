"""Are the rows of a manifest still true? And making those true again that are not."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perturbations import api, framefile, manifest, media, pipeline, recipe, rendering, shards, storage, supervise
from perturbations.errors import ManifestError, MediaError

Row = dict[str, Any]

_SLICE = 16


@dataclass(frozen=True)
class Finding:
    """A row that does not check out, and why."""

    row: Row
    problem: str

    def __str__(self) -> str:
        name = (
            f"{self.row['suite']}/{self.row['perturbation']} {self.row['severity']}"
            if "suite" in self.row
            else "source"
        )
        return f"{self.row['dataset']} {self.row['item_id']!r} {name}: {self.problem}"


def find_manifests(paths: Sequence[Path]) -> list[Path]:
    """The `videos` and `sources` manifests among files and below folders. Raises `ManifestError` when there is none."""
    found: list[Path] = []
    for path in paths:
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        found += [file for file in files if not path.is_dir() or file.stem in ("videos", "sources")]
    if not found:
        raise ManifestError(f"no manifest in {', '.join(map(str, paths))}: make a corpus first, or name a Parquet file")
    return found


def verify(path: Path, *, jobs: int, stall_limit_s: float, repair: bool) -> tuple[int, int, list[Finding]]:
    """Check every complete row of a manifest: recipe, file hash, frame count, frame hash.

    With `repair`, a file that is missing or wrong is made again from the row's own recipe.
    Returns how many rows checked out, how many are quarantined (and were not looked at), and what was found.
    """
    kind = manifest.KINDS.get(manifest.read_metadata(path)["kind"])
    if kind not in (manifest.VIDEOS, manifest.SOURCES):
        raise ManifestError(f"{path} is not a manifest of videos or sources")
    root = manifest.manifest_root(path, manifest.read_metadata(path))
    rows = manifest.read_rows(path, kind)
    complete = [manifest.located(row, root) for row in rows if row["status"] == manifest.COMPLETE]
    findings = [found for found in _checked(complete, jobs, stall_limit_s, repair) if found is not None]
    return len(complete) - len(findings), len(rows) - len(complete), findings


def _checked(rows: Sequence[Row], jobs: int, stall_limit_s: float, repair: bool) -> Iterator[Finding | None]:
    slices = [rows[start : start + _SLICE] for start in range(0, len(rows), _SLICE)]
    if jobs == 1:
        for part in slices:
            yield from _check_slice(part, stall_limit_s, repair)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for found in pool.map(_check_slice, slices, [stall_limit_s] * len(slices), [repair] * len(slices)):
            yield from found


def _check_slice(rows: Sequence[Row], stall_limit_s: float, repair: bool) -> list[Finding | None]:
    work = _check_or_repair if repair else _check
    outcomes = supervise.run(work, rows, stall_limit_s=stall_limit_s, name=lambda row: repr(row["item_id"]))
    return [None if one.error is None else Finding(one.task, one.error) for one in outcomes]


def _check(row: Row, tick: supervise.Tick) -> None:
    """Raise `MediaError` with what is wrong with a row."""
    if "recipe" not in row:
        found = shards.source_row(row["dataset"], {**row, "bytes": None}, tick)
        _expect(row, {**found, "path": row["path"]}, tuple(manifest.SOURCES.schema.names))
        return
    _check_recipe(row)
    if row["storage"] == "recipe":
        frames = rendering.render(api.row_recipe(row), rendering.source_of(row), tick=tick)
        _check_frames(row, (frame.image for frame in frames), row["frame_count"], tick)
        return
    path = Path(row["path"])
    if not path.is_file():
        raise MediaError(f"the file is missing: {path}")
    _expect(row, {"bytes": path.stat().st_size, "sha256": storage.sha256(path)}, ("bytes", "sha256"))
    if row["storage"].startswith("frames/"):
        _check_frames(row, iter(framefile.read(path)), row["stored_frames"], tick)
    else:
        _check_frames(row, (frame.image for frame in media.decode(media.Clip(path))), row["frame_count"], tick)


def _check_recipe(row: Row) -> None:
    made = api.row_recipe(row)
    _expect(row, {"recipe_id": recipe.recipe_id(made, row["dataset"], row, row["guide"], row["cut"])}, ("recipe_id",))
    names = ("suite", "perturbation", "severity", "variant", "draw", "seed")
    _expect(row, {**made, "params": recipe.canonical(made["params"])}, (*names, "params"))
    _expect(row, {"storage": shards.storage_name(made)}, ("storage",))


def _check_frames(row: Row, images: Iterable[media.Image], expected: int, tick: supervise.Tick) -> None:
    digest = hashlib.sha256()
    count = 0
    for image in images:
        tick()
        digest.update(np.ascontiguousarray(image).data)
        count += 1
    if count != expected:
        raise MediaError(f"{count} frames where the row says {expected}")
    _expect(row, {"frames_sha256": digest.hexdigest()}, ("frames_sha256",))


def _expect(row: Row, found: Row, names: Sequence[str]) -> None:
    for name in names:
        if not _same(row[name], found.get(name)):
            raise MediaError(f"{name} is {_short(found.get(name))}, the row says {_short(row[name])}")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def _short(value: Any) -> str:
    return json.dumps(value, default=str)[:60]


def _check_or_repair(row: Row, tick: supervise.Tick) -> None:
    try:
        _check(row, tick)
        return
    except MediaError:
        if "recipe" not in row or row["path"] is None:
            raise
    _check_recipe(row)
    pipeline.produce(api.row_recipe(row), rendering.source_of(row), Path(row["path"]), tick)
    _check(row, tick)
