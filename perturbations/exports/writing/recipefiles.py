"""A corpus without its pixels: its manifests with names instead of paths, and how the same frames are made from them.

Whoever has the clips makes the frames again; the hashes of the rows prove that they are the same. Nothing of the
source dataset is in it but ids, captions and hashes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from perturbations.base import jsontext, storage
from perturbations.base.errors import ManifestError, MediaError, short
from perturbations.base.progress import Tick, logged
from perturbations.engine import clip_rows, render_clip, shards, supervise
from perturbations.engine.source import source_of
from perturbations.exports.writing import (
    croissantfile,
    dataset_card,
    export_rows,
    output_folder,
    publication,
    stored_clips,
)
from perturbations.exports.writing.requests import Exported, Request
from perturbations.manifest import files, layout, locations
from perturbations.manifest.kinds import (
    COMPLETE,
    FILES,
    SOURCE_STORAGE,
    VIDEOS,
    ClipRow,
    RowKind,
    SourceRow,
    VideoRow,
)
from perturbations.media import sound
from perturbations.plan.recipe import parse
from perturbations.verify.findings import Finding

_FORMAT = "recipe"
_VIDEOS = layout.name(VIDEOS.name)
_SLICE = 64  # clips that one process makes, after which another one may take over


@dataclass(frozen=True)
class _Table:
    """A manifest: its kind, its rows as stored, and its metadata."""

    kind: RowKind[Any]
    rows: Sequence[Any]
    about: Mapping[str, Any]

    def write(self, path: Path, rows_of: Sequence[Any], root: str) -> None:
        kept = {name: value for name, value in self.about.items() if name not in files.COUNTS}
        files.write(path, self.kind, rows_of, {**kept, "root": root})


def _tables(videos: Path) -> dict[str, _Table]:
    """The published manifests near a manifest of videos, by their path from the dataset's folder."""
    paths = [layout.beside(videos, VIDEOS.name, name) for name, file in FILES.items() if file.exported]
    top = videos.parents[1]
    return {path.relative_to(top).as_posix(): _table(path) for path in paths if path.is_file()}


def _table(path: Path) -> _Table:
    kind = files.kind_of(path)
    return _Table(kind, files.rows_as_stored(path, kind), files.read_metadata(path))


def write(request: Request) -> Exported:
    """Write the manifests of a suite's videos and of its dataset, with names of clips instead of paths.

    A clip's name is its path below the folder that holds all of them. Raises `ManifestError` for another manifest than
    of videos, and as `corpus.read` and `folder.claim` do.
    """
    kind = files.kind_of(request.manifest)
    if kind != VIDEOS:
        raise ManifestError(f"{request.manifest} is a manifest of {kind.name}; recipes are exported from videos")
    listed = stored_clips.read(request.manifest, (VIDEOS,))
    exported = export_rows.recipes_of(request, listed)
    output_folder.claim(request.output, _FORMAT, request.manifest, export_rows.identity(exported), ())
    root = locations.root_of(request.manifest, files.read_metadata(request.manifest))
    tables = _tables(locations.lying(request.manifest).absolute())
    every = [path for table in tables.values() for row in table.rows for path in _sources(row)]
    top = os.path.commonpath([os.path.dirname(os.path.normpath(root / path)) for path in every]) if every else root

    def named(path: str) -> str:
        return PurePosixPath(os.path.relpath(os.path.normpath(root / path), top)).as_posix()

    records: dict[str, list[Path]] = {}
    for name, table in tables.items():
        path = request.output / output_folder.DATA / name
        table.write(path, [_renamed(row, named) for row in table.rows], ".")
        records[PurePosixPath(name).with_suffix("").as_posix().replace("/", "_")] = [path]
    output_folder.prune(request.output, [path for paths in records.values() for path in paths])
    quarantined = export_rows.incomplete_findings(request.manifest, exported.incomplete)
    output_folder.write_left_out(request.output, quarantined)
    described = publication.of(exported, request, len(exported.clips), quarantined, has_videos=False)
    configs = [
        dataset_card.Config(name, (path.relative_to(request.output).as_posix(),), is_default=path.name == _VIDEOS)
        for name, (path,) in records.items()
    ]
    dataset_card.write(described, configs, [_ABOUT.format(command=_COMMAND)])
    croissantfile.write(described, records)
    return Exported(0, len(exported.clips), (), quarantined)


_COMMAND = "perturb regenerate THIS_FOLDER --clips FOLDER_OF_CLIPS -o NEW_FOLDER"
_ABOUT = (
    "The recipe and the hashes of every clip of a perturbed corpus, and no pixels. Whoever has the clips of the source "
    "dataset makes the same corpus, with `pip install perturbations` and\n\n```\n{command}\n```\n\nwhich compares each "
    "clip's frames with `frames_sha256` and ends with an error where one differs. `source_path` is a clip's path below "
    "`FOLDER_OF_CLIPS`; only a file with the hash `source_sha256` is used."
)


def _sources(row: object) -> list[str]:
    """The paths of a row's clean clips."""
    if isinstance(row, SourceRow):
        return [row.path] if row.path else []
    if not isinstance(row, ClipRow):
        return []
    donor = _guide_files(row).get("donor")
    return [row.source_path, *([str(donor)] if donor else [])]


def _guide_files(row: ClipRow) -> dict[str, Any]:
    facts = jsontext.mapping(row.guide) if row.guide else {}
    held = facts.get("files")
    return held if isinstance(held, dict) else {}


def _renamed(row: Any, named: Callable[[str], str]) -> Any:
    """A row whose paths of clean clips are changed; of other files of the publisher's, only the names are kept."""
    if isinstance(row, SourceRow):
        return replace(row, path=row.path and named(row.path))
    if not isinstance(row, ClipRow):
        return row
    guide = row.guide
    if held := _guide_files(row):
        kept = {
            name: path and (named(str(path)) if name == "donor" else Path(str(path)).name)
            for name, path in held.items()
        }
        facts = jsontext.mapping(str(guide)) | {"files": kept}
        guide = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path = named(row.path) if row.path and row.storage == SOURCE_STORAGE else row.path
    return replace(row, path=path, source_path=named(row.source_path), guide=guide)


# --- the way back -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Regenerated:
    """The numbers of clips with the published frames, made now or before, and the problems of the others."""

    videos: Path
    made: int
    kept: int
    findings: tuple[Finding, ...]


def regenerate(
    published: Path, held: Path, output: Path, *, jobs: int = 1, stall_limit_s: float = 120.0
) -> _Regenerated:
    """Make a corpus in `output` from an export in the format `recipe`, and the clips in the folder `held`.

    The published hashes stay as they are: a clip whose frames differ from `frames_sha256`, or cannot be made, is a
    finding, and its row is the published one. Files that are there and have their row's hash are kept.
    Raises `ManifestError` for another folder, or names that lead out of a folder, and `OutputError` of the disk.
    """
    place, tables = _published(published)
    (suite,) = {Path(name).parent.name for name in tables} - {""}
    videos = tables[f"{suite}/{_VIDEOS}"]
    located: dict[str, Sequence[Any]] = {
        name: [_renamed(row, partial(_below, held)) for row in table.rows] for name, table in tables.items()
    }
    output.mkdir(parents=True, exist_ok=True)
    every = [_placed(row, place) for row in located[f"{suite}/{_VIDEOS}"]]
    tasks = [row for row in every if row.status == COMPLETE]
    parts = [tasks[start : start + _SLICE] for start in range(0, len(tasks), _SLICE)]
    make = partial(_made, root=output, stall_limit_s=stall_limit_s)
    results: dict[tuple[object, ...], VideoRow] = {}
    made, findings = 0, []
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
        every_outcome = (pool.map if pool else map)(make, parts)
        outcomes = (
            pair for part, done in zip(parts, every_outcome, strict=True) for pair in zip(part, done, strict=True)
        )
        for row, (result, is_new, problem) in logged(outcomes, len(tasks), "videos regenerated"):
            made += is_new and not problem
            if problem:
                findings.append(stored_clips.finding(published, row, problem))
            elif result is not None:
                results[_key(row)] = result
    for name, table in tables.items():
        level = "/".join([".."] * (len(Path(place).parts) + len(Path(name).parts)))
        rows_of = [_with_files(row, results) for row in (every if table is videos else located[name])]
        table.write(output / layout.MANIFESTS / place / name, rows_of, level)
    path = output / layout.at("videos", dataset=place, suite=suite)
    return _Regenerated(path, made, len(results) - made, tuple(findings))


def _published(folder_of: Path) -> tuple[str, dict[str, _Table]]:
    """The dataset and the tables of an export. Its names are a stranger's."""
    try:
        marker = jsontext.mapping((folder_of / output_folder.MARKER).read_bytes())
    except (OSError, ValueError):
        marker = {}
    if marker.get("format") != _FORMAT:
        raise ManifestError(f"{folder_of} is no export in the format {_FORMAT}")
    found = sorted((folder_of / output_folder.DATA).glob(f"*/{_VIDEOS}"))
    if len(found) != 1:
        raise ManifestError(f"{folder_of} has {len(found)} manifests of videos, not one")
    tables = _tables(found[0])
    suite = found[0].parent.name
    described = tables[f"{suite}/{_VIDEOS}"].about
    dataset = str(described.get("dataset"))
    place = layout.place_of(layout.at("videos", dataset=dataset, suite=suite))
    if place is None or place.kind != "videos" or described.get("suite") != suite:
        raise ManifestError(f"{found[0]} names no dataset and suite that can be folders: {short(dataset)}, {suite}")
    return dataset, tables


def _below(held: Path, name: str) -> str:
    plain = PurePosixPath(name)
    if plain.is_absolute() or ".." in plain.parts or "\0" in name:
        raise ManifestError(f"the clip's name {short(name)} leads out of {held}")
    return str(held.resolve() / plain)


def _placed(row: VideoRow, dataset: str) -> VideoRow:
    """A row with the path that the workflow would give its file, whatever the published one is."""
    if row.status != COMPLETE or row.path is None:
        return replace(row, path=None)
    recipe = parse(row.recipe)
    place = layout.at(
        "clips", dataset=dataset, suite=recipe.suite, perturbation=recipe.perturbation, severity=recipe.severity
    )
    target = shards.target_of(recipe, Path(place), row.item_id)
    return replace(row, path=target.as_posix() if target else None)


def _made(
    part: Sequence[VideoRow], *, root: Path, stall_limit_s: float
) -> list[tuple[VideoRow | None, bool, str | None]]:
    """Per clip its row, whether its file was made now, and the problem."""
    work = partial(_make, root=root)
    outcomes = supervise.run(work, part, stall_limit_s=stall_limit_s, name=lambda row: repr(row.item_id))
    return [(*(outcome.result or (None, False)), outcome.error) for outcome in outcomes]


def _make(row: VideoRow, tick: Tick, *, root: Path) -> tuple[VideoRow, bool]:
    target = locations.confined(root, row.path) if row.path else root
    if row.path and target.is_file() and storage.sha256(target) == row.sha256:
        return row, False
    wanted = sound.is_wanted([row.audio or sound.UNWANTED])
    measured = render_clip.produce(parse(row.recipe), source_of(row), target, tick, with_sound=wanted)
    if measured.frames_sha256 != row.frames_sha256:
        raise MediaError("its frames are not the published ones: perturb verify tells what may differ")
    return clip_rows.complete_video(row, measured), True


def _key(row: ClipRow) -> tuple[object, ...]:
    return row.item_id, row.suite, row.perturbation, row.severity


_OF_CLIP = tuple(field.name for field in fields(ClipRow))


def _with_files(row: Any, results: Mapping[tuple[object, ...], VideoRow]) -> Any:
    """A row of videos, of mixes or of pairs, with what is known of the file that was made."""
    made = results.get(_key(row)) if isinstance(row, ClipRow) else None
    return row if made is None else replace(row, **{name: getattr(made, name) for name in _OF_CLIP})
