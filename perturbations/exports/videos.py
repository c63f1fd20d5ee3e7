"""The file of each exported clip: the stored file, or a file that is encoded without loss from the clip's frames.

Pictures are exported as pictures: as they are stored, or as PNG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from perturbations.base import storage, supervise, tars
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, logged, ticking
from perturbations.corpus.plan.recipe import parse
from perturbations.corpus.render import rendering
from perturbations.corpus.render.clean_clips import source_of
from perturbations.corpus.store import stored_clip
from perturbations.exports.exported_corpus import ExportedClip, ExportedCorpus, UsableRow, is_picture, left_out
from perturbations.manifest.rows import CompleteSource, VideoRow
from perturbations.media import decoding, encoding, profiles
from perturbations.media.clip import MediaClip

_READ = (".mp4", ".mkv", ".avi", ".mpeg", ".mov", *profiles.PICTURE_EXTENSIONS)
"""Extensions that `datasets` recognizes as videos or pictures; a GIF counts as a picture, WebM is unknown."""

_AGAIN = "`perturb verify --delete`, then snakemake, makes it again"
_Result = TypeVar("_Result")


VideoFile = tuple[Path, str]
"""A video's file, and the hash of its bytes."""


def place(
    corpus: ExportedCorpus, targets: Mapping[ExportedClip, Path], *, one_form: bool = False
) -> dict[ExportedClip, VideoFile]:
    """Put each clip's video to its path in `targets`; returns the files in the order of the clips.

    A stored file is linked (a hard link; copied where the file systems differ, or out of a tar), after its hash was
    compared with the row's; with `one_form`, it is only checked, and stays where it is, if it is an MP4 or a PNG.
    Any other clip is rendered and encoded without loss. A clip that cannot be read, or makes no progress for the
    request's `stall_limit_s`, becomes a failure of the corpus, and the other clips continue.

    Raises `OutputError` when the disk refuses.
    """

    def work(clip: ExportedClip, tick: Tick) -> VideoFile:
        row, target = clip.row, targets[clip]
        if not _is_stored(row, one_form=one_form):
            _encode(row, target, tick)
            return target, storage.sha256(target)
        check_stored(row)
        held, digest = Path(row.path or ""), row.sha256 or ""
        if one_form:
            return held, digest
        with storage.atomic_path(target) as temporary:
            storage.link_or_copy(held, temporary)
        return target, digest

    placed = for_each(corpus, list(targets), work)
    corpus.written += len(placed)
    corpus.videos |= {clip.identity for clip in placed}
    return placed


def for_each(
    corpus: ExportedCorpus, clips: Sequence[ExportedClip], work: Callable[[ExportedClip, Tick], _Result]
) -> dict[ExportedClip, _Result]:
    """Each clip with the result of `work` in a supervised process; a clip without a result counts as failed."""
    limit = corpus.request.stall_limit_s
    outcomes = supervise.run(work, clips, stall_limit_s=limit, name=lambda clip: repr(clip.row.item_id))
    results = {}
    first = clips[0].row if clips else None
    scenario = (
        f"{first.perturbation} at severity {first.severity}" if isinstance(first, VideoRow) else "the clean clips"
    )
    for clip, result, error in logged(outcomes, len(clips), f"videos of {scenario} exported"):
        if result is not None:
            results[clip] = result
        else:
            corpus.failed.append(left_out(clip.row, error or "no result"))
    return results


def _is_stored(row: UsableRow, *, one_form: bool = False) -> bool:
    """Whether a file holds exactly this clip: a stored video, or a clean clip that is no part of a longer video.

    Files that readers do not recognize as a video or a picture do not count; with `one_form`, only MP4 and PNG count.
    """
    if isinstance(row, CompleteSource):
        held = row.start_s is None and row.end_s is None and _own_suffix(row) in _READ
    else:
        held = row.storage.startswith("video/")
    return held and (not one_form or suffix(row) == form(row))


def form(row: UsableRow) -> str:
    """The extension of a file that is encoded for an export."""
    return ".png" if is_picture(row) else ".mp4"


def suffix(row: UsableRow) -> str:
    """The extension of the exported file: where a picture's or clean clip's own file is exported, its extension."""
    own = _own_suffix(row)
    kept = _is_stored(row) if isinstance(row, CompleteSource) else profiles.is_picture(own)
    return own if kept else form(row)


def _own_suffix(row: UsableRow) -> str:
    return Path(row.path or "").suffix.lower()


def check_stored(row: UsableRow) -> None:
    """Raise `MediaError` when the file of a stored clip is missing, was changed, or may not be read."""
    stored = Path(row.path or "")
    try:
        digest = storage.sha256(stored) if tars.is_file(stored) else None
    except PermissionError as error:
        raise MediaError(f"the file cannot be read: {stored}: permission denied") from error
    if digest is None:
        raise MediaError(f"the file is missing: {stored}; {_AGAIN}")
    if digest != row.sha256:
        raise MediaError(f"{stored} changed since it was made; {_AGAIN}")


def _encode(row: VideoRow | CompleteSource, target: Path, tick: Tick) -> None:
    """Write a clip's frames without loss. Raises `MediaError` where they differ from the row's frames."""
    source = source_of(row)
    if isinstance(row, CompleteSource):
        frames, timing = ticking(source.frames(), tick), source.timing
    else:
        planned = rendering.planned_clip(parse(row.recipe), source)
        frames, timing = planned.frames(tick=tick), planned.timing
        if _is_stored(row):  # a JPEG: its loss belongs to the perturbed picture
            frames = decoding.decode(MediaClip(Path(row.path or "")))
    profile = profiles.PICTURES["png"] if is_picture(row) else profiles.PROFILES["lossless"]
    with storage.atomic_path(target) as temporary:
        encoding.encode(frames, temporary, profile, timing, sample_aspect=source.sample_aspect)
        if row.frames_sha256 and stored_clip.frames_sha256(temporary, tick) != row.frames_sha256:
            raise MediaError("the frames are not those of the manifest's row; perturb verify tells why")
