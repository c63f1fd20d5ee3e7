"""`perturb verify --delete`: deletes what is wrong, so that Snakemake makes these clips and manifests again.

For a clip, caption or analysis it deletes the file, the line in the journals of finished items, and the part of the
shard. The part's job then runs again, and keeps the other items of the shard, which are finished. A manifest is merged
again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from perturbations.base import storage, tars
from perturbations.base.errors import ManifestError, cut
from perturbations.corpus.row_checks import Checked, MadeRow
from perturbations.corpus.store import journal
from perturbations.manifest import files, locations, manifest_paths
from perturbations.manifest.rows import AnalysisRow, SourceRow, VideoRow
from perturbations.models.guides import guide_registry as guides


def delete(checked: Checked) -> list[Path]:
    """Delete what is wrong with a manifest, with clips or with parts; returns the files that were deleted.

    What no job makes is never deleted: sources, files of others, and manifests outside a run's folders. Raises
    `ManifestError` where the folder has no `work`: there is nothing that could make it again.
    """
    root, wrong = checked.root, list[Path]()
    is_made = checked.kind in manifest_paths.MANIFEST_FILES and checked.fields.get("analysis") in (
        None,
        *guides.ANALYSES,
    )
    if checked.wrong or (is_made and checked.is_edited):
        if not (root / manifest_paths.WORK).is_dir():
            raise ManifestError(f"nothing is deleted: beside {checked.path} there is no run with its folder `work`")
        stored = [row.path for row in checked.wrong if isinstance(row, VideoRow | AnalysisRow) and row.path is not None]
        wrong += [_stored_file(root, path) for path in stored if tars.named(path) is None]
        # No job makes a part of sources or of an analysis again while there is the manifest that it is merged into.
        is_merged = any(isinstance(row, SourceRow | AnalysisRow) for row in checked.wrong)
        wrong += [checked.path] if checked.is_edited or is_merged else []
        rows: dict[tuple[str, str], list[MadeRow | SourceRow]] = defaultdict(list)
        for row in checked.wrong:
            rows[_parts_of(row, checked.fields["dataset"])].append(row)
        for (parts, markers), members in rows.items():
            _forget(root, parts, markers, members)
    left = [path for file in checked.left for path in _with_markers(root, file)]
    return [path for path in [*wrong, *left] if _delete(path)]


_MARKERS = {"video_part": "clip_marker", "text_part": "text_marker"}
"""The marker that a job writes beside a part."""


def _with_markers(root: Path, file: Path) -> Iterator[Path]:
    """A useless file, and the markers that say that its job has finished: without these markers, the job runs again.

    A journal stays; only the lines that no job wrote are removed.
    """
    if file.suffix == ".jsonl" and not storage.is_leftover(file):
        journal.forget(file, ())
        return
    yield file
    kind, fields = manifest_paths.place_of(file.relative_to(root).as_posix()) or ("", {})
    if kind in _MARKERS:
        yield root / manifest_paths.at(_MARKERS[kind], **fields)
    for path in file.parent.glob(manifest_paths.name("clip_marker", shard="*")):
        try:
            names = {tars.file_of(str(path.parent / name)) for name in json.loads(path.read_bytes())}
        except (OSError, ValueError):
            names = {str(file)}
        if str(file) in names:
            yield path


def _stored_file(root: Path, path: str) -> Path:
    """The place of a clip's file, which may be a link. Raises `ManifestError` for one that no job writes."""
    folder, _, name = path.rpartition("/")
    top = folder.partition("/")[0]
    if top not in (manifest_paths.CORPORA, manifest_paths.WORK) or name in ("", ".", ".."):
        raise ManifestError(f"nothing is deleted: no job writes {cut(path)}")
    place = locations.path_below(root, folder)
    # The top folder may be a link of the user to another disk; a link below it came with the corpus.
    if not place.resolve().is_relative_to((root / top).resolve()):
        raise ManifestError(f"nothing is deleted: {cut(path)} lies behind a symbolic link")
    return place / name


def _parts_of(row: MadeRow | SourceRow, dataset: str) -> tuple[str, str]:
    """The parts that a row may come from, and the markers of their jobs: paths with `{shard}`; "" without markers.

    Raises `ManifestError` for a row that no job writes.
    """
    kind, fields = "source_part", {"dataset": dataset}
    if isinstance(row, AnalysisRow):
        kind, fields["analysis"] = "analysis_part", row.analysis
    elif not isinstance(row, SourceRow):
        kind = "video_part" if isinstance(row, VideoRow) else "text_part"
        fields |= {"suite": row.suite, "perturbation": row.perturbation, "severity": str(row.severity)}
    parts = manifest_paths.at(kind, shard="{shard}", **fields)
    place = manifest_paths.place_of(parts.format(shard="s0"))
    if place is None or place[0] != kind:  # the row may be a stranger's
        raise ManifestError(f"nothing is deleted: no job writes {cut(parts)}")
    return parts, manifest_paths.at(_MARKERS[kind], shard="{shard}", **fields) if kind in _MARKERS else ""


def _forget(root: Path, parts: str, markers: str, rows: Collection[MadeRow | SourceRow]) -> None:
    """Delete the parts that hold some rows, with their markers, and the rows' lines in the journals beside them."""
    column = "item_id" if any(isinstance(row, SourceRow) for row in rows) else "recipe_id"
    names = {getattr(row, column) for row in rows}
    folder = (root / parts).parent
    for part in manifest_paths.manifests_below(folder):
        try:
            held = {*files.read_columns(part, column)[column].to_pylist()}
        except ManifestError:
            held = names  # it is damaged, and made again too
        if not held.isdisjoint(names):
            _delete(part)
            _delete(root / markers.format(shard=part.stem))
    for path in manifest_paths.journals_in(folder):
        journal.forget(path, names)


def _delete(path: Path) -> bool:
    """Delete a file or a link, never what a link leads to; returns whether it was there. Raises `OutputError`."""
    if not (path.is_file() or path.is_symlink()):
        return False
    with storage.output_errors(path):
        path.unlink()
    return True
