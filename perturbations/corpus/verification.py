"""`perturb verify`: whether every row and every stored file of a corpus is still what a run made.

A run keeps the SHA-256 of each manifest that it wrote, and rows have the size and the SHA-256 of every file. With
`render`, clips and captions are made again and compared. `perturbations.corpus.deletion` removes what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, TypeVar

from perturbations.base import shown, storage, supervise, tars
from perturbations.base.errors import BackendError, ManifestError, MediaError, ToolError
from perturbations.base.progress import Tick
from perturbations.corpus.plan import recipe
from perturbations.corpus.render.clean_clips import source_of
from perturbations.corpus.row_checks import Checked, Finding, StoredRow, check_rows, finding_of, name_of
from perturbations.corpus.store import parts, stored_clip
from perturbations.corpus.store.parts import CorpusParts
from perturbations.manifest import files, locations, manifest_paths, provenance, skipped
from perturbations.manifest.rows import (
    ANALYSES,
    COMPLETE,
    SOURCES,
    TEXTS,
    VIDEOS,
    CaptionRow,
    RowKind,
    SourceRow,
    TextRow,
    VideoRow,
)

LEFTOVER = "a write that was interrupted left it"
AGAIN = "made again, "
_OTHER_FILE = "the file has"


def manifests_in(path: Path) -> list[Path]:
    """The manifests that a user means by a path: a manifest, a folder of them, or a folder with `manifests` in it.

    Manifests that a run wrote and that are missing now are among them. Raises `ManifestError` where there is none.
    """
    folder = _folder_of(path)
    if not folder.is_dir() and folder.exists():
        return [folder]
    if not (manifests := sorted({*manifest_paths.manifests_below(folder), *manifest_paths.recorded_below(folder)})):
        raise ManifestError(f"there is no manifest in {path}" if folder.exists() else f"no such manifest: {path}")
    return manifests


def _folder_of(path: Path) -> Path:
    """The folder of manifests that a user means, or the manifest itself."""
    path = locations.path_in_tree(path)
    has_run = any((path / name).is_dir() for name in (manifest_paths.MANIFESTS, manifest_paths.WORK))
    return path / manifest_paths.MANIFESTS if has_run and manifest_paths.in_tree(path) is None else path


def check_root(manifests: Sequence[Path], root: str) -> list[Finding]:
    """A finding unless one of the manifests is a `videos.parquet` with this SHA-256, the corpus' root."""
    videos = [path for path in manifests if path.name == manifest_paths.name(VIDEOS.name) and path.is_file()]
    roots = {path: storage.sha256(path) for path in videos}
    if root.lower() in roots.values():
        return []
    return [finding_of(path, f"its SHA-256 is {digest}, and not {root}") for path, digest in roots.items()] or [
        finding_of(
            manifests[0].parent, f"there is no {manifest_paths.name(VIDEOS.name)}, whose SHA-256 would be the root"
        )
    ]


def check(path: Path, *, render: bool = False, jobs: int = 1, stall_limit_s: float = 120.0) -> Iterator[Checked]:
    """What is wrong with the manifests that a path means; in a folder, also with clips and parts without a manifest.

    `jobs` processes check files. With `render`, clips and captions are made again and compared; a clip without progress
    for `stall_limit_s` seconds is given up.
    """
    manifests, folder = manifests_in(path), _folder_of(path)
    for manifest in manifests:
        yield check_manifest(manifest, render=render, jobs=jobs, stall_limit_s=stall_limit_s)
    tree = manifest_paths.in_tree(folder)
    if tree is None or manifests == [folder]:
        return
    look = partial(_problems, render=render, stall_limit_s=stall_limit_s)
    there = {Path(os.path.abspath(manifest)) for manifest in manifests}
    for dataset, suite in _suites_with_clips(tree[0]):
        manifest = tree[0] / manifest_paths.at("videos", dataset=dataset, suite=suite)
        if manifest.is_relative_to(tree[0] / tree[1]) and Path(os.path.abspath(manifest)) not in there:
            of_clips = Checked(tree[0] / manifest_paths.CORPORA / dataset / suite, tree[0], fields={"dataset": dataset})
            _check_clips(of_clips, CorpusParts(tree[0], dataset, suite), None, partial(look, root=tree[0]), jobs)
            yield of_clips
    of_jobs = Checked(tree[0].joinpath(manifest_paths.WORK, *tree[1].parts[1:]), tree[0])
    for file, problem in parts.damaged(of_jobs.path):
        of_jobs.add(problem, place=file)
        of_jobs.left.append(file)
    yield of_jobs


def _suites_with_clips(root: Path) -> list[tuple[str, str]]:
    """The collections and suites that have a folder of clips."""
    folders = [
        path
        for name in ("*", f"*/{manifest_paths.WHOLE}")
        for path in root.glob(manifest_paths.any_of("clips", dataset=name))
    ]
    places = [manifest_paths.place_of(path.relative_to(root).as_posix()) for path in folders]
    return sorted({(fields["dataset"], fields["suite"]) for kind, fields in filter(None, places) if kind == "clips"})


def check_manifest(path: Path, *, render: bool = False, jobs: int = 1, stall_limit_s: float = 120.0) -> Checked:
    """What is wrong with a manifest, its rows, and the files that its rows name; the settings are as for `check`.

    Where the manifest is not what the run wrote, clips are compared with the rows of the run's parts.
    """
    root, name, fields = _place(path)
    checked = Checked(path, root, name, fields)
    if storage.is_leftover(path):
        checked.add(LEFTOVER)
        checked.left.append(path)
        return checked
    kind, rows, about = _read(checked)
    look = partial(_problems, stall_limit_s=stall_limit_s)
    start = locations.root_of(path, about) if about else root
    if kind in (SOURCES, ANALYSES) and rows is not None:
        _check_files(checked, kind, rows, partial(look, root=start, render=False), jobs)
    elif name == "videos":
        of_run = CorpusParts(root, **fields)
        _check_clips(checked, of_run, rows, partial(look, root=start, render=render), jobs)
    elif kind == VIDEOS and rows is not None:
        _check_files(checked, kind, rows, partial(look, root=start, render=render), jobs)
    elif kind == TEXTS and rows is not None and render:
        _render_captions(checked, kind, rows)
    if checked.wrong and render and (note := provenance.note(str(about.get("cpu_features", "")))):
        checked.notes.append(note)
    return checked


def _place(path: Path) -> tuple[Path, str, dict[str, str]]:
    """The root of a manifest's tree, its kind of `manifest_paths`, and the fields of its path.

    A manifest in no tree has its own folder as the root, and no kind.
    """
    path = locations.path_in_tree(path)
    tree = manifest_paths.in_tree(path)
    name, fields = (tree and manifest_paths.place_of(tree[1].as_posix())) or ("", {})
    return path.parent if tree is None else tree[0], name, fields


def _read(checked: Checked) -> tuple[RowKind[Any] | None, Sequence[Any] | None, Mapping[str, Any]]:
    """A manifest's kind, rows and metadata; adds their problems. No rows where a run wrote another manifest."""
    path = checked.path
    record = manifest_paths.record_of(locations.path_in_tree(path))
    if not path.exists():
        checked.add("the manifest is missing: a run wrote it")
        checked.left += [record] if record is not None else []
        return None, None, {}
    try:
        kind, about = files.kind_of(path), files.read_metadata(path)
        checked.rows = files.stored_rows(path)
        rows = files.read_rows(path, kind)
        locations.root_of(path, about)
        if record is not None and record.is_file() and record.read_text("utf-8").strip() != storage.sha256(path):
            raise ManifestError(f"it is not the manifest that the run wrote: its SHA-256 is not that in {record}")
        checked.notes += skipped.sentences(skipped.of_manifest(about))
    except ManifestError as error:
        checked.is_edited = True
        checked.add(str(error).removeprefix(f"{path} "))
        return None, None, {}
    check_rows(checked, kind, rows, about)
    return kind, None if checked.is_edited else rows, about


# --- files -----------------------------------------------------------------------------------------------------------


def _check_files(
    checked: Checked,
    kind: RowKind[Any],
    rows: Iterable[StoredRow],
    check: Callable[[list[Any]], list[str]],
    jobs: int,
) -> set[str]:
    """Check the file of every complete row, and return the files that hold the clips."""
    stored = set()
    for row, problem in in_parallel(check, (row for row in rows if row.status == COMPLETE), jobs):
        if row.path is not None:
            stored.add(tars.file_of(row.path))
        if problem:
            checked.add(problem, name_of(row, kind.key))
            checked.is_edited |= problem.startswith(AGAIN)  # the row itself is wrong
            if not isinstance(row, SourceRow) or problem.startswith(_OTHER_FILE):
                checked.wrong.append(row)
    return stored


_SLICE = 64  # rows that a process checks at a time
_Row = TypeVar("_Row")
_Result = TypeVar("_Result")


def in_parallel(
    check: Callable[[list[Any]], list[_Result]], rows: Iterable[_Row], jobs: int
) -> Iterator[tuple[_Row, _Result]]:
    """Each row with its result of `check`, which takes a group of rows and runs in `jobs` processes."""
    some = iter(rows)
    blocks = iter(lambda: [*islice(some, _SLICE * jobs)], [])
    if jobs == 1:
        for block in blocks:
            yield from zip(block, check(block), strict=True)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for block in blocks:
            slices = [block[start : start + _SLICE] for start in range(0, len(block), _SLICE)]
            yield from zip(block, chain.from_iterable(pool.map(check, slices)), strict=True)


def _problems(rows: Sequence[StoredRow], *, root: Path, render: bool, stall_limit_s: float) -> list[str]:
    """The problem of each row's file, or of its clip, which is made again in a process that may crash or hang."""
    problems = [_file_problem(row, root) for row in rows]
    if render:
        sound = [place for place, problem in enumerate(problems) if not problem]
        again = supervise.run(
            partial(_rendered_problem, root),
            [rows[place] for place in sound],
            stall_limit_s=stall_limit_s,
            name=lambda row: repr(row.item_id),
        )
        for place, (_, problem, error) in zip(sound, again, strict=True):
            problems[place] = error or problem or ""
    return problems


def _file_problem(row: StoredRow, root: Path) -> str:
    """What is wrong with the file of a complete row; "" where nothing is, or no file is stored."""
    try:
        path = locations.located(row, root).path
        if path is None:
            return ""
        if not tars.is_file(path):
            return f"the file is missing: {row.path}"
        if (size := tars.at(path)[2]) != row.bytes:
            return f"{_OTHER_FILE} {size} bytes, and had {row.bytes}: {row.path}"
        return "" if storage.sha256(Path(path)) == row.sha256 else f"{_OTHER_FILE} another content: {row.path}"
    except ManifestError as error:
        return str(error)
    except OSError as error:
        return f"the file cannot be read: {error.filename}: {os.strerror(error.errno or 0)}"


def _rendered_problem(root: Path, row: VideoRow, tick: Tick) -> str:
    try:
        wanted = recipe.parse(row.recipe)
        source = source_of(locations.located(row, root), wanted)
        with storage.scratch_directory() as folder:
            target = Path(folder) / f"again{stored_clip.extension(wanted) or ''}"
            (Path(folder) / "shared").mkdir()
            source = replace(source, scratch=Path(folder) / "shared" if row.cut else None)
            measured = stored_clip.make_clip(wanted, source, target, tick, with_sound=False)
    except (MediaError, ManifestError) as error:
        return f"it cannot be made again: {error}"
    return "" if measured["frames_sha256"] == row.frames_sha256 else f"{AGAIN}its frames are others"


def _check_clips(
    checked: Checked,
    of_run: CorpusParts,
    rows: Sequence[VideoRow] | None,
    check: Callable[[list[Any]], list[str]],
    jobs: int,
) -> None:
    """Check the clips of a corpus by the rows of its manifest, or of its parts, and the other files in its folder."""
    stored = _check_files(checked, VIDEOS, of_run.rows() if rows is None else rows, check, jobs)
    for path, is_own in of_run.unnamed_files(stored):
        size = shown.plural(path.lstat().st_size, "byte")
        problem = f"no row names this file of {size}"
        if is_own:
            checked.left.append(path)
            problem = LEFTOVER if storage.is_leftover(path) else f"{problem}: an earlier configuration left it"
        checked.add(problem, place=path)
    for marker in of_run.untrue_markers():
        checked.left.append(marker)
        checked.add("it is not the marker that the job wrote", place=marker)


# --- captions --------------------------------------------------------------------------------------------------------


def _render_captions(checked: Checked, kind: RowKind[TextRow], rows: Sequence[TextRow]) -> None:
    """Make the captions of each scenario again, and compare their texts."""
    from perturbations.corpus.captions import pipeline

    for text, group in groupby(rows, key=lambda row: row.recipe):
        members = [*group]
        listed = [
            CaptionRow(dataset=row.dataset, caption_id=row.caption_id, item_id=row.item_id, text=row.source_text)
            for row in members
        ]
        try:
            again = [*pipeline.rows_of(recipe.parse_text(text), members[0].dataset, listed)]
        except (BackendError, ToolError) as error:
            checked.notes.append(f"not made again: {shown.plural(len(members), 'caption')}: {error}")
            continue
        for row, other in zip(members, again, strict=True):
            if (row.text, row.accepted) != (other.text, other.accepted):
                checked.add(f"{AGAIN}its text is {other.text[:200]!r}", name_of(row, kind.key))
                checked.is_edited = True
                checked.wrong.append(row)
