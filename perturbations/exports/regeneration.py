"""A corpus from an export of recipes and the clips: the hashes of the rows prove that its frames are the same."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from perturbations.base import storage, supervise
from perturbations.base.errors import ManifestError, MediaError, short
from perturbations.base.progress import Tick, logged
from perturbations.corpus import verification
from perturbations.corpus.plan.recipe import parse
from perturbations.corpus.render.clean_clips import source_of
from perturbations.corpus.row_checks import Finding, finding_of, name_of, values
from perturbations.corpus.store import clip_rows, stored_clip
from perturbations.exports import export_folder, recipe_export
from perturbations.exports.export_registry import DATA
from perturbations.manifest import files, locations, manifest_paths
from perturbations.manifest.rows import CAPTIONS, COMPLETE, SOURCES, VIDEOS, ClipRow, VideoRow
from perturbations.manifest.stored_rows import stored
from perturbations.media import sound

_log = logging.getLogger("perturbations")


def regenerate(
    published: Path, held: Path, output: Path, *, jobs: int = 1, stall_limit_s: float = 120.0, root: str = ""
) -> tuple[Path, Counter[str], list[Finding]]:
    """Make a corpus in `output` from an export in the format `recipe`, and the clips in the folder `held`.

    Returns the manifest of videos; the numbers of clips with the published frames, `made` now or `kept` from before;
    the number of other clips, `failed`; and the problems of these and of the manifests.

    The published hashes stay as they are: a clip whose frames differ from `frames_sha256`, or cannot be made, is a
    finding, and its row stays as published. Existing files with their row's hash are kept. The manifests are then
    checked as `perturb verify` does. `root` is the hash of the export's list that the publisher names.
    Raises `ManifestError` for another folder or root, a table that was lost or changed, and names that lead out of a
    folder, and `OutputError` when the disk refuses.
    """
    videos, tables = _published(published, root)
    dataset = videos.rsplit("/", 2)[0]
    for kind in (SOURCES, CAPTIONS):
        if f"{dataset}/{manifest_paths.name(kind.name)}" not in tables:
            _log.warning("%s has no %s: what follows from it is not proven", published, manifest_paths.name(kind.name))
    manifests = {name: locations.path_below(output, f"{manifest_paths.MANIFESTS}/{name}") for name in tables}
    here = partial(_located, held=held, dataset=dataset)
    located = {name: stored(rows).mapped(here) for name, (_, rows, _) in tables.items()}
    # Every row is read before the first file is written: a name that leads out of a folder stops the run.
    complete = np.flatnonzero([row.status == COMPLETE for row in located[videos]])
    for name, rows in located.items():
        deque(rows if name != videos else (), maxlen=0)
    with storage.output_errors(output):
        output.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    changed: dict[tuple[object, ...], dict[str, Any]] = {}
    findings: list[Finding] = []
    make = partial(_outcomes, root=output, stall_limit_s=stall_limit_s)
    outcomes = verification.in_parallel(make, located[videos].taken(complete), jobs)
    for row, (columns, is_new, problem) in logged(outcomes, len(complete), "videos regenerated"):
        if problem:
            findings.append(finding_of(published, problem, name_of(row, VIDEOS.key)))
        else:
            counts["made" if is_new else "kept"] += 1
            changed |= {values(row, VIDEOS.key): columns} if columns else {}
    for name, table in tables.items():
        level = "/".join([".."] * len(Path(manifest_paths.MANIFESTS, name).parent.parts))
        recipe_export.rewrite(table, manifests[name], (_remade(row, changed) for row in located[name]), level)
    counts["failed"] = len(findings)
    failed = {finding["row"] for finding in findings}
    for path in manifests.values():
        checked = verification.check_manifest(path, stall_limit_s=stall_limit_s)
        findings += [finding for finding in checked.findings if finding["row"] not in failed]
    return manifests[videos], counts, findings


_Outcome = tuple[dict[str, Any], bool, str | None]
"""The columns of a clip's row that differ from the published row, whether its file was made now, and the problem."""


def _outcomes(rows: Sequence[VideoRow], *, root: Path, stall_limit_s: float) -> list[_Outcome]:
    work = partial(_make, root=root)
    outcomes = supervise.run(work, rows, stall_limit_s=stall_limit_s, name=lambda row: repr(row.item_id))
    return [(*(result or ({}, False)), error) for _, result, error in outcomes]


def _make(row: VideoRow, tick: Tick, *, root: Path) -> tuple[dict[str, Any], bool]:
    target = locations.path_below(root, row.path) if row.path else root
    if row.path and target.is_file() and storage.sha256(target) == row.sha256:
        return {}, False
    wanted = row.audio not in (None, sound.UNWANTED)
    measured = stored_clip.make_clip(parse(row.recipe), source_of(row), target, tick, with_sound=wanted)
    if measured["frames_sha256"] != row.frames_sha256:
        raise MediaError("its frames are not the published ones: perturb verify tells what may differ")
    current = clip_rows.complete(row, measured)
    return {own.name: getattr(current, own.name) for own in fields(current)} if current != row else {}, True


def _located(row: Any, held: Path, dataset: str) -> Any:
    """A row with the paths of its clips here: files lie as in the workflow, whatever the published paths are."""
    row = recipe_export.renamed(row, partial(_below, held))
    if not isinstance(row, ClipRow) or row.recipe is None:
        return row
    try:
        wanted = parse(row.recipe)
    except ManifestError as error:
        raise ManifestError(f"{manifest_paths.name(VIDEOS.name)}: {name_of(row, VIDEOS.key)}: {error}") from None
    if row.status != COMPLETE or row.path is None:
        return replace(row, path=None)
    place = manifest_paths.at(
        "clips", dataset=dataset, suite=wanted.suite, perturbation=wanted.perturbation, severity=wanted.severity
    )
    target = stored_clip.target_of(wanted, Path(place), row.item_id)
    return replace(row, path=target.as_posix() if target else None)


def _below(held: Path, name: str) -> str:
    plain = PurePosixPath(name)
    if plain.is_absolute() or ".." in plain.parts or "\0" in name:
        raise ManifestError(f"the clip's name {short(name)} leads out of {held}")
    return str(held.resolve() / plain)


def _remade(row: Any, changed: Mapping[tuple[object, ...], Mapping[str, Any]]) -> Any:
    """A row of videos, mixes or pairs with the columns of the file that was made; other rows are unchanged."""
    return replace(row, **changed.get(values(row, VIDEOS.key), {})) if isinstance(row, ClipRow) else row


# --- an export that somebody else wrote -------------------------------------------------------------------------------


def _published(export: Path, root: str = "") -> tuple[str, dict[str, recipe_export.Table]]:
    """The tables of an export, whose names are a stranger's, by the path of their manifest below `manifests`.

    The returned text is the path of the videos manifest. `root` is the hash that the publisher names, or empty. Raises
    `ManifestError` for another folder, another root, and a table that was lost or changed, or that no run writes.
    """
    if export_folder.read_marker(export).get("format") != recipe_export.FORMAT:
        raise ManifestError(f"{export} is no folder that `perturb export --format {recipe_export.FORMAT}` wrote")
    listing, data = export / export_folder.SUMS, export / DATA
    hashes = export_folder.read_sums(listing)
    if root and (digest := storage.sha256(listing)) != root:
        raise ManifestError(f"{listing} is not the published list: its root is {digest}, not {root}")
    there = {path.relative_to(export).as_posix() for path in manifest_paths.manifests_below(data)}
    for name in sorted({*hashes, *there}):
        if name not in there:
            raise ManifestError(f"{export / name} is missing: {listing} lists it; get the export again")
        if name not in hashes or storage.sha256(export / name) != hashes[name]:
            raise ManifestError(f"{export / name} is not the file that {listing} lists; get the export again")
    videos = sorted(data.glob(f"*/{manifest_paths.name(VIDEOS.name)}"))
    if len(videos) != 1:
        raise ManifestError(f"{export} has {len(videos)} manifests of videos, not one")
    about, suite = files.read_metadata(videos[0]), videos[0].parent.name
    dataset = str(about.get("dataset"))
    place = manifest_paths.place_of(manifest_paths.at(VIDEOS.name, dataset=dataset, suite=suite))
    if place is None or place[0] != VIDEOS.name or about.get("suite") != suite:
        raise ManifestError(f"{videos[0]} names no dataset and suite that can be folders: {short(dataset)}, {suite}")
    tables = {}
    for path in manifest_paths.manifests_below(data):
        below = f"{dataset}/{path.relative_to(data).as_posix()}"
        place = manifest_paths.place_of(f"{manifest_paths.MANIFESTS}/{below}")
        if place is None or place[0] not in manifest_paths.MANIFEST_FILES:
            raise ManifestError(f"{path} is no table of an export of recipes")
        tables[below] = recipe_export.read_table(path)
    return f"{dataset}/{suite}/{manifest_paths.name(VIDEOS.name)}", tables
