"""`perturb verify --delete`: deletes what is wrong, so that Snakemake makes these clips and manifests again.

Of a clip, caption or analysis these are its file, its line in the journals of finished items, and the part of its
shard: the job of the part runs again, and finds the others of the shard finished. A manifest is merged again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from perturbations.base import storage, tars
from perturbations.base.errors import ManifestError, cut
from perturbations.base.records import DIGEST_LENGTH
from perturbations.corpus.checking import LEFTOVER, Checked, MadeRow
from perturbations.manifest import files, layout, locations
from perturbations.manifest.kinds import AnalysisRow, TextRow, VideoRow
from perturbations.manifest.registry import FILES
from perturbations.models.guides import registry as guides


def delete(checked: Checked) -> list[Path]:
    """Delete what is wrong with a manifest; returns the files of clips and the manifests that were deleted.

    Nothing is deleted that no job makes: sources, files that no row names, and manifests of no place in a run.
    Raises `ManifestError` where the folder has no `work`: there is nothing that could make it again.
    """
    wrong = [Path(finding["file"]) for finding in checked.findings if finding["problem"] == LEFTOVER]
    tree = layout.in_tree(locations.lying(checked.path))
    place = None if tree is None else layout.place_of(tree[1].as_posix())
    is_made = place is not None and place[0] in FILES and place[1].get("analysis") in (None, *guides.ANALYSES)
    if tree is not None and place is not None and is_made and (checked.is_edited or checked.wrong):
        root = tree[0]
        if not (root / layout.WORK).is_dir():
            raise ManifestError(f"nothing is deleted: beside {checked.path} there is no run with its folder `work`")
        stored = [row.path for row in checked.wrong if not isinstance(row, TextRow) and row.path is not None]
        wrong += [_stored_file(root, path) for path in stored if tars.named(path) is None]
        wrong += [checked.path] if checked.is_edited else []
        rows: dict[tuple[str, str], list[MadeRow]] = defaultdict(list)
        for row in checked.wrong:
            rows[_parts_and_markers(row, place[1]["dataset"])].append(row)
        for (parts, markers), members in rows.items():
            _forget(root, parts, markers, members)
    return [path for path in wrong if _delete(path)]


def _stored_file(root: Path, path: str) -> Path:
    """The place of a clip's file, which may be a link. Raises `ManifestError` for one that no job writes."""
    folder, _, name = path.rpartition("/")
    top = folder.partition("/")[0]
    if top not in (layout.CORPORA, layout.WORK) or name in ("", ".", ".."):
        raise ManifestError(f"nothing is deleted: no job writes {cut(path)}")
    place = locations.confined(root, folder)
    # The top folder may be a link of the user to another disk; a link below it came with the corpus.
    if not place.resolve().is_relative_to((root / top).resolve()):
        raise ManifestError(f"nothing is deleted: {cut(path)} lies behind a symbolic link")
    return place / name


def _parts_and_markers(row: MadeRow, dataset: str) -> tuple[str, str]:
    """The parts that a row may come from, and the markers of their jobs: paths with `{shard}`; "" without markers.

    Raises `ManifestError` for a row that no job writes.
    """
    if isinstance(row, AnalysisRow):
        kind, marker, fields = "analysis_part", "", {"dataset": dataset, "analysis": row.analysis}
    else:
        kind, marker = ("video_part", "clip_marker") if isinstance(row, VideoRow) else ("text_part", "text_marker")
        scenario = {"perturbation": row.perturbation, "severity": str(row.severity)}
        fields = {"dataset": dataset, "suite": row.suite, **scenario}
    parts = layout.at(kind, shard="{shard}", **fields)
    place = layout.place_of(parts.format(shard="s0"))
    if place is None or place[0] != kind:  # the row may be a stranger's
        raise ManifestError(f"nothing is deleted: no job writes {cut(parts)}")
    return parts, layout.at(marker, shard="{shard}", **fields) if marker else ""


def _forget(root: Path, parts: str, markers: str, rows: Collection[MadeRow]) -> None:
    """Delete the parts that hold some rows, with their markers, and the rows' lines in the journals beside them."""
    recipe_ids = {row.recipe_id for row in rows}
    folder = (root / parts).parent
    for part in layout.manifests_below(folder):
        try:
            held = {*files.read_columns(part, "recipe_id")["recipe_id"].to_pylist()}
        except ManifestError:
            held = recipe_ids  # it is damaged, and made again too
        if not held.isdisjoint(recipe_ids):
            _delete(part)
            _delete(root / markers.format(shard=part.stem))
    for journal in layout.journals_in(folder):
        lines = journal.read_text("utf-8", errors="surrogateescape").splitlines(keepends=True)
        kept = [line for line in lines if line[:DIGEST_LENGTH] not in recipe_ids]
        if kept != lines:
            storage.write_text(journal, "".join(kept))


def _delete(path: Path) -> bool:
    """Delete a file or a link, never what a link leads to; returns whether it was there. Raises `OutputError`."""
    if not (path.is_file() or path.is_symlink()):
        return False
    with storage.output_errors(path):
        path.unlink()
    return True
