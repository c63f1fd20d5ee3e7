"""Puts a clip back: it is made by its recipe, and takes its place only where it has the hash of its row."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perturbations.base import storage, tars
from perturbations.base.errors import ManifestError, MediaError, OutputError, cut
from perturbations.base.progress import Tick
from perturbations.engine import packing, render_clip
from perturbations.engine.source import source_of
from perturbations.manifest import layout, locations
from perturbations.manifest.kinds import VideoRow
from perturbations.plan import clip_markers
from perturbations.plan.recipe import parse
from perturbations.verify import undoing
from perturbations.verify.clip_checks import with_sound_of


@dataclass(frozen=True)
class ClipRepair:
    """A clip whose file is missing or wrong, of a recorded row.

    Attributes:
        row: the row.
        root: the corpus's root.
        replaces: whether a file that is there may be replaced.
        with_sound: whether the corpus was made to have sound.
        dry_run: whether it is only tried.
        member: where the clip is made that lies in a tar, which `patch_tar` puts back with the others.
    """

    row: VideoRow
    root: Path
    replaces: bool
    with_sound: bool
    dry_run: bool
    member: Path | None = None


def put_back(task: ClipRepair, tick: Tick) -> str:
    """Put a clip back; returns why it was not, "" where it was."""
    row, root = task.row, task.root
    try:
        target = locations.confined(root, row.path or "")
        if reason := _obstacle(task, target):
            return reason
        source, recipe = source_of(locations.located(row, root)), parse(row.recipe)
        with_sound = with_sound_of(row, target, wanted=task.with_sound, is_damaged=True)
        with storage.scratch_directory() as folder:
            output = task.member or storage.temporary_path(target)
            if task.dry_run:
                output = Path(folder) / output.name
            else:
                with storage.output_errors(output):
                    output.parent.mkdir(parents=True, exist_ok=True)
            try:
                measured = render_clip.produce(recipe, source, output, tick, with_sound=with_sound)
                if measured.sha256 != row.sha256:
                    return "what its recipe makes here is not the recorded file: other tools may have made it"
                if not task.dry_run and task.member is None:
                    undoing.put(root, target, output, row.sha256)
            finally:
                if output != task.member:
                    output.unlink(missing_ok=True)
    except (MediaError, ManifestError, OutputError) as error:
        return str(error)
    return ""


def patch_tar(root: Path, tar: str, clips: Mapping[str, Path], rows: Sequence[VideoRow]) -> str:
    """Put clips back that `put_back` made, by their paths, at their places in a tar; returns why they were not."""
    place = layout.place_of(tar)
    if place is None or place.kind != "clip_tar":
        return f"no job packs clips into {cut(tar)}"
    try:
        target = locations.confined(root, tar)
        output = storage.temporary_path(target)
        try:
            with storage.output_errors(output):
                output.parent.mkdir(parents=True, exist_ok=True)
            packing.patch(target, output, clips, rows)
            undoing.put(root, target, output, storage.sha256(output))
        finally:
            output.unlink(missing_ok=True)
    except (ManifestError, OutputError) as error:
        return str(error)
    return ""


def _obstacle(task: ClipRepair, target: Path) -> str:
    """Why what lies in a clip's place must stay; "" where it may be replaced, or nothing is there."""
    target = Path(tars.file_of(str(target)))
    if not os.path.lexists(target):
        return ""
    if not task.replaces:
        return "no list says that its manifest is the one of these clips: delete the file, and it is made"
    if target.is_dir() and not target.is_symlink():
        return "the folder in its place is not empty: move it away" if any(target.iterdir()) else ""
    size, clip = target.lstat().st_size, tars.from_folder(task.row.path or "")
    if any(
        tars.sizes(clips.items()).get(target.name) == size and clips.get(clip) != task.row.bytes
        for clips in clip_markers.clips_in(target.parent)
    ):
        return "its job noted the size that it has: the manifest may be of other clips. Delete the file if it is not"
    return ""
