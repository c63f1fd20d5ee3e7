"""Verifies one row of a manifest of sources or videos: whether every cell is correct and the file fits the row.

Nothing is written here: `clip_repair` puts files back.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from perturbations.base import storage, tars
from perturbations.base.errors import ManifestError, MediaError, OutputError
from perturbations.base.progress import Tick
from perturbations.engine import clip_rows, render_clip, shards
from perturbations.engine.journal import Measured
from perturbations.engine.source import Source, source_of
from perturbations.manifest import locations
from perturbations.manifest.columns import columns_of
from perturbations.manifest.kinds import COMPLETE, CompleteSource, SourceRow, VideoRow
from perturbations.media import sound
from perturbations.plan.listed import ListedClip
from perturbations.plan.recipe import recorded
from perturbations.verify.findings import as_recorded, differences

_MEASURED = {*Measured.model_fields, "status"} - {"frame_count", "duration_s", "width", "height"}
"""The columns that no source tells."""


@dataclass(frozen=True)
class ClipCheck:
    """A row to verify.

    Attributes:
        row: the row in the manifest; None where it is missing.
        expected: the expected row, without the measured columns.
        root: the corpus's root.
        fast: whether to compare only the file's hash, and render nothing.
        remake: whether to render also what is missing or wrong, to know what the row was.
        same_tools: whether the same library versions made the file, so that it can be made again bit by bit.
        refused: why the file's folder leaves the corpus; "" where it does not.
        unrecorded: columns that the version which made the row did not have.
        with_sound: whether the corpus was made to have sound.
        remark: what of the row is not compared, and why; "" where all is.
    """

    row: VideoRow | None
    expected: VideoRow
    root: Path
    fast: bool
    remake: bool
    same_tools: bool
    refused: str = ""
    unrecorded: Collection[str] = ()
    with_sound: bool = True
    remark: str = ""


@dataclass(frozen=True)
class Checked:
    """The result for one row.

    Attributes:
        problems: what is wrong with the row.
        corrected: the correct row; None where it is not known.
        remark: why the row could not be verified completely; it is not a problem of the row.
        damage: the problem of the file; "" where it is the one that the row describes.
    """

    problems: tuple[str, ...]
    corrected: VideoRow | SourceRow | None
    remark: str = ""
    damage: str = ""

    @property
    def may_be_put_back(self) -> bool:
        """Whether only the file is wrong, and its row is not."""
        return bool(self.damage) and self.problems == (self.damage,)


def check_video(task: ClipCheck, tick: Tick) -> Checked:
    """Verify a row of a videos manifest and its file."""
    row, expected = task.row, task.expected
    if row is not None and row.status != COMPLETE:
        return _check_incomplete(task, row, tick)
    problems = [] if row is not None else ["the row is missing"]
    damage = _file_damage(task, row)
    corrected = None if row is None else _with_measured(expected, row)
    source, remark = None, task.remark
    is_damaged = bool(damage) or row is None
    is_rendered = task.remake or not task.fast
    if is_rendered:
        try:
            source = source_of(locations.located(expected, task.root))
        except (MediaError, ManifestError) as error:
            remark = f"cannot be rendered again: {error}"
    if source is not None and (task.remake if is_damaged else not task.fast):
        try:
            measured = _measured_again(task, source, tick, is_damaged=is_damaged)
            corrected = clip_rows.complete_video(expected, measured)
        except (MediaError, ManifestError, OutputError) as error:
            problems.append(f"it cannot be made again: {error}" if is_damaged else f"made again, it differs: {error}")
    elif is_rendered and source is None and not task.fast and not damage and row is not None:
        problems += _frames_differ(task, row, tick)
    problems += [damage] if damage else []
    if row is not None and corrected is not None:
        corrected = as_recorded(corrected, row, {*task.unrecorded, "audio"})
        problems += differences(row, corrected)
    return Checked(tuple(problems), corrected, remark, damage)


def _with_measured(expected: VideoRow, row: VideoRow) -> VideoRow:
    """The expected row with the measured columns of the manifest's row."""
    names = _MEASURED | recorded(expected.recipe).entry.changed_columns
    return replace(expected, **{name: getattr(row, name) for name in names}, stage=None, error=None)


def _target(task: ClipCheck) -> Path:
    return locations.confined(task.root, task.expected.path) if task.expected.path else task.root


def _file_damage(task: ClipCheck, row: VideoRow | None) -> str:
    """The problem of the stored file, judged by its size and hash; "" where there is none."""
    if task.expected.path is None:
        return ""
    path = f"{task.root}/{task.expected.path}"
    problem = task.refused
    file = tars.file_of(path)
    if not problem and os.path.islink(file):
        try:
            locations.confined(task.root, task.expected.path)
        except ManifestError as error:
            problem = str(error)
    if problem:
        return problem
    if os.path.isdir(file):
        return f"there is a folder in the file's place: {file}"
    if not tars.is_file(path):
        return f"the file is missing: {path}"
    if row is not None and (tars.at(path).size != row.bytes or storage.sha256(path) != row.sha256):
        return f"the file is not the one that the row describes: {path}"
    return ""


def with_sound_of(row: VideoRow | None, path: Path, *, wanted: bool, is_damaged: bool) -> bool:
    """Whether a clip is made with sound: those of an earlier version, whose rows say nothing of it, have none."""
    if row is None or row.audio is not None:
        return wanted
    return not is_damaged and tars.is_file(path) and sound.is_in(path)


def _measured_again(task: ClipCheck, source: Source, tick: Tick, *, is_damaged: bool) -> Measured:
    """What is measured of a clip that is made again, in a folder of its own.

    Where other tools made an intact file, or its sound as earlier versions did, its frames are compared with rendered
    ones. Raises `MediaError`.
    """
    recipe, target = recorded(task.expected.recipe), _target(task)
    if not is_damaged and task.row is not None and sound.is_earlier(task.row.audio):
        measured = render_clip.measure(recipe, source, target, tick, with_sound=False)
        return measured.model_copy(update={"audio": task.row.audio})
    with_sound = with_sound_of(task.row, target, wanted=task.with_sound, is_damaged=is_damaged)
    if not is_damaged and not task.same_tools:
        return render_clip.measure(recipe, source, target, tick, with_sound=with_sound)
    with storage.scratch_directory() as folder:
        again = Path(folder) / f"again{render_clip.extension(recipe) or ''}"
        return render_clip.produce(recipe, source, again, tick, with_sound=with_sound)


def _frames_differ(task: ClipCheck, row: VideoRow, tick: Tick) -> list[str]:
    """The differences between a stored file's frames and its row, where the source is not available."""
    if row.path is None:
        return []
    try:
        digest, count = render_clip.frames_sha256(_target(task), tick)
    except MediaError as error:
        return [f"the file cannot be read: {error}"]
    problems = [] if digest == row.frames_sha256 else ["frames_sha256 is not that of the file's frames"]
    return problems + ([] if count == row.stored_frames else [f"the file has {count} frames, not {row.stored_frames}"])


def _check_incomplete(task: ClipCheck, row: VideoRow, tick: Tick) -> Checked:
    measured = _MEASURED - {"status"}
    problems = _misfilled(row, (column.name for column in columns_of(VideoRow) if column.name in measured))
    expected = replace(task.expected, path=None, status=row.status, stage=row.stage, error=row.error)
    problems += differences(row, as_recorded(expected, row, task.unrecorded), _MEASURED)
    if task.expected.path is not None and tars.is_file(task.root / task.expected.path):
        problems.append(f"there is a file of a row that is {row.status}: {task.expected.path}")
    if task.fast or row.stage != "video":
        return Checked(tuple(problems), None)
    try:
        source = source_of(locations.located(task.expected, task.root))
        with storage.scratch_directory() as folder:
            recipe = recorded(task.expected.recipe)
            render_clip.produce(recipe, source, Path(folder) / f"again{render_clip.extension(recipe) or ''}", tick)
    except MediaError:
        return Checked(tuple(problems), None)
    return Checked((*problems, f"it is {row.status}, but can be made: `perturb retry` asks for it again"), None)


def _misfilled(row: VideoRow | SourceRow, empty: Iterable[str]) -> list[str]:
    """The cells that are wrongly filled or wrongly empty in a row without a clip; `empty` must be."""
    filled = (name for name in empty if getattr(row, name) is not None)
    problems = [f"{name} must be empty in a row that is {row.status}" for name in filled]
    reasons = (name for name in ("stage", "error") if not getattr(row, name))
    return problems + [f"{name} is empty in a row that is {row.status}" for name in reasons]


def check_source(row: SourceRow, root: Path, fast: bool, tick: Tick, unrecorded: Collection[str] = ()) -> Checked:
    """Verify a row of a sources manifest and its video."""
    if not isinstance(row, CompleteSource):
        return _check_unused(row, root, fast, tick)
    problems = [f"{name} must be empty in a complete row" for name in ("stage", "error") if getattr(row, name)]
    path = Path(locations.located(row, root).path)
    if not path.is_file():
        return Checked((*problems, f"the file is missing: {path}"), None)
    size, digest = path.stat().st_size, row.sha256
    if size != row.bytes or (digest := storage.sha256(path)) != row.sha256:
        problems.append(f"the file is not the one that the row describes: {path}")
    is_other = (size, digest) != (row.bytes, row.sha256)
    if fast:
        return Checked(tuple(problems), replace(row, bytes=size, sha256=digest))
    listed = ListedClip(
        item_id=row.item_id,
        source_video_id=row.source_video_id or "",
        path=str(path),
        start_s=row.start_s,
        end_s=row.end_s,
        split=row.split,
    )
    try:
        again = replace(
            shards.source_row(row.dataset, listed, tick), path=row.path, source_video_id=row.source_video_id
        )
    except MediaError as error:
        return Checked((*problems, f"it cannot be decoded: {error}"), None)
    again = as_recorded(again, row, unrecorded)
    return Checked((*problems, *([] if is_other else differences(row, again))), again)


def _check_unused(row: SourceRow, root: Path, fast: bool, tick: Tick) -> Checked:
    allowed = {"dataset", "split", "item_id", "source_video_id", "start_s", "end_s", "path", "status", "stage", "error"}
    problems = _misfilled(row, (column.name for column in columns_of(SourceRow) if column.name not in allowed))
    if fast or row.stage != "source" or row.path is None:
        return Checked(tuple(problems), None)
    path = str(locations.located(row, root).path)
    listed = ListedClip(
        item_id=row.item_id, source_video_id=row.source_video_id or "", path=path, start_s=row.start_s, end_s=row.end_s
    )
    try:
        shards.source_row(row.dataset, listed, tick)
    except MediaError:
        return Checked(tuple(problems), None)
    return Checked((*problems, f"it is {row.status}, but decodes: `perturb retry` asks for it again"), None)
