"""The file of each exported clip: the stored one, or one that is encoded without loss from the clip's frames.

Pictures are exported as pictures: as they are stored, or as PNG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perturbations.base import storage, tars
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, logged, ticking
from perturbations.engine import render_clip, rendering, supervise
from perturbations.engine.source import source_of
from perturbations.exports.writing import stored_clips
from perturbations.exports.writing.export_rows import ExportedClip
from perturbations.exports.writing.stored_clips import UsableRow, is_picture
from perturbations.manifest.kinds import CompleteSource, VideoRow
from perturbations.media import decoding, encoding
from perturbations.media.clip import MediaClip
from perturbations.plan.recipe import parse
from perturbations.verify.findings import Finding

_LOSSLESS = storage.PROFILES["lossless"]


@dataclass(frozen=True)
class Placed:
    """The clips whose videos are there, and the problems of the others.

    Attributes:
        files: the file per clip, with its hash, in the order of the clips.
        written: the number of files that were not there before.
        failed: the problems.
    """

    files: Mapping[ExportedClip, _VideoFile]
    written: int
    failed: tuple[Finding, ...]


@dataclass(frozen=True)
class _VideoFile:
    """A video's file, and the hash of its bytes."""

    path: Path
    sha256: str


def is_stored(row: UsableRow, *, one_form: bool = False) -> bool:
    """Whether a file holds just this clip: a stored video, or a clean clip that is no part of a longer video.

    With `one_form`, other files than MP4 do not count, and other pictures than PNG.
    """
    held = _is_whole(row) if isinstance(row, CompleteSource) else row.storage.startswith("video/")
    return held and (not one_form or suffix(row) == form(row))


def form(row: UsableRow) -> str:
    """The extension of a file that is encoded for an export."""
    return ".png" if is_picture(row) else ".mp4"


def suffix(row: UsableRow) -> str:
    """The extension of the exported file: that of a picture's or a clean clip's own file where it is plain."""
    own = Path(row.path or "").suffix.lower()
    plain = own[1:].isascii() and own[1:].isalnum() and len(own) <= 6
    kept = _is_whole(row) if isinstance(row, CompleteSource) else storage.is_picture(own)
    return own if kept and plain else form(row)


def _is_whole(row: CompleteSource) -> bool:
    """Whether a clean clip is its whole file."""
    return row.start_s is None and row.end_s is None


def place(
    manifest: Path,
    members: Sequence[ExportedClip],
    target: Callable[[ExportedClip], Path | None],
    *,
    stall_limit_s: float,
    one_form: bool = False,
) -> Placed:
    """Put each clip's video to its `target`; without one, a stored file stays where it is and is only checked.

    A stored file is linked (a hard link; copied where the file systems differ, or out of a tar), after its hash was
    compared with the row's. Another clip is rendered and encoded without loss; a file that is there and has the row's
    frames is kept. A clip that cannot be read, or makes no progress for `stall_limit_s` seconds, becomes a finding.

    Raises `OutputError` when the disk refuses.
    """

    def work(clip: ExportedClip, tick: Tick) -> tuple[str, str, bool]:
        stored = is_stored(clip.row, one_form=one_form)
        wanted = target(clip)
        if stored:
            stored_clips.check_stored(clip.row)
            held = Path(clip.row.path or "")
            linked = wanted is not None and _link(held, wanted, clip.row.sha256 or "")
            return str(wanted or held), clip.row.sha256 or "", linked
        assert wanted is not None, "a clip that no file holds needs a place"
        written = _encode(clip.row, wanted, tick)
        return str(wanted), storage.sha256(wanted), written

    placed, written, failed = {}, 0, []
    name = "videos exported"
    outcomes = supervise.run(work, members, stall_limit_s=stall_limit_s, name=lambda clip: repr(clip.row.item_id))
    for outcome in logged(outcomes, len(members), name):
        if outcome.result is None:
            failed.append(stored_clips.finding(manifest, outcome.task.row, outcome.error or "no result"))
            continue
        path, sha256, is_new = outcome.result
        placed[outcome.task] = _VideoFile(Path(path), sha256)
        written += is_new
    return Placed(placed, written, tuple(failed))


def _link(held: Path, target: Path, sha256: str) -> bool:
    """Link or copy a file whose hash is known; False where the target is the same already."""
    if not target.is_symlink() and target.is_file():
        place = tars.at(held)
        if place.member is None and target.samefile(held):
            return False
        if target.stat().st_size == place.size and storage.sha256(target) == sha256:
            return False
    with storage.atomic_path(target) as temporary:
        storage.link_or_copy(held, temporary)
    return True


def _encode(row: UsableRow, target: Path, tick: Tick) -> bool:
    """Write a clip's frames without loss; False where a file of an earlier run holds them."""
    if not target.is_symlink() and target.is_file():
        with suppress(MediaError):
            if render_clip.frames_sha256(target, tick)[0] == row.frames_sha256:
                return False
    if isinstance(row, CompleteSource):
        source = source_of(row)
        frames, timing = ticking(source.frames(), tick), source.timing
    else:
        assert isinstance(row, VideoRow)
        source = source_of(row)
        planned = rendering.planned_clip(parse(row.recipe), source)
        frames, timing = planned.frames(tick=tick), planned.timing
        if is_stored(row):  # a JPEG, whose own loss is a part of it
            frames = decoding.decode(MediaClip(Path(row.path or "")))
    profile = storage.PICTURES["png"] if is_picture(row) else _LOSSLESS
    with storage.atomic_path(target) as temporary:
        encoding.encode(frames, temporary, profile, timing, sample_aspect=source.sample_aspect)
        hashed, _ = render_clip.frames_sha256(temporary, tick)
        if row.frames_sha256 and hashed != row.frames_sha256:
            raise MediaError("the frames are not those of the manifest's row; perturb verify tells why")
    return True
