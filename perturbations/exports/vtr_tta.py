"""The layout that the released code of HAT-VTR reads instead of videos. That code is built on X-Pool's.

It has one torch file of frames per video, `<perturbation>_<severity>/<video_id>.pt`, and captions as a list of pairs.
The page about exports in the documentation describes it.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import storage
from perturbations.base.errors import ConfigError, ManifestError
from perturbations.exports.registry import Export
from perturbations.exports.writing.filenames import check_folders, files_in, scenario
from perturbations.exports.writing.requests import Exported, Request

if TYPE_CHECKING:
    from perturbations.exports.writing.stored_clips import ListedRow, UsableRow
    from perturbations.verify.findings import Finding

_NAMES = {"mlvp/gaussian_noise": "gaussian", "mlvp/impulse_noise": "impulse"}
"""The perturbations that have another name in this format."""

_OVERHEAD = 2**20  # bytes of a file besides its frames
_NOT_LOADED = {"1012_Unbreakable_00.05.16.065-00.05.21.941"}
"""Clips of LSMDC's list that the loaders skip."""


def write_videos(request: Request) -> Exported:
    """Write the frames of every complete row of a `videos` or `sources` manifest, one clip in memory at a time.

    A file holds `video_id` and `video`: float32, num_frames x 3 x size x size, resized, cropped and normalized like
    X-Pool's test transform. Frames are sampled like X-Pool's. Existing files that are complete and fit their row are
    kept. A clip that cannot be read, or makes no progress for `stall_limit_s` seconds, becomes a finding; the others
    continue.

    Raises `ManifestError` for another kind of manifest, for two complete rows of one id and scenario, and for another
    number of stored frames than requested.
    """
    from perturbations.exports.writing import stored_clips

    def name_of(row: ListedRow) -> str:
        return scenario(row, _NAMES)

    clips = stored_clips.ClipsByScenario()
    clips.add(request.manifest, stored_clips.read(request.manifest), name_of)
    _check_frames(request, clips.storages)
    item_ids = {name: {row.item_id for row in rows} for name, rows in clips.scenarios.items()}
    for row in clips.incomplete:
        item_ids.setdefault(name_of(row), set()).add(row.item_id)
    check_folders(request.output, item_ids, clips.folders if clips.storages else ())
    written = 0
    failed: list[Finding] = []
    for name, members in item_ids.items():
        write = partial(_write_row, files=_files(members, request.output / name), request=request)
        rows = clips.scenarios.get(name, ())
        number, problems = stored_clips.write_each(request.manifest, rows, write, stall_limit_s=request.stall_limit_s)
        written += number
        failed += problems
    kept = sum(map(len, clips.scenarios.values())) - written - len(failed)
    return Exported(written, kept, tuple(failed), stored_clips.incomplete_findings(request.manifest, clips.incomplete))


def _check_frames(request: Request, storages: Iterable[str]) -> None:
    """Raise `ManifestError` where clips are stored as another number of frames than is requested."""
    stored = {name for name in storages if name.startswith("frames/")}
    if other := stored - {f"frames/{request.num_frames}"}:
        raise ManifestError(
            f"{request.manifest} stores {', '.join(sorted(other))} only, not {request.num_frames} frames"
        )


def _files(item_ids: Iterable[str], folder: Path) -> dict[str, Path]:
    """The file per id of a scenario, with the name that the loader looks for."""
    looked_for = {item_id: item_id.replace("/", "_").replace("\\", "_") for item_id in item_ids}
    return files_in(folder, looked_for, ".pt")


def _write_row(row: UsableRow, *, files: Mapping[str, Path], request: Request) -> bool:
    return _write(files[row.item_id], row, request.num_frames, request.size)


def _write(file: Path, row: UsableRow, num_frames: int, size: int) -> bool:
    """Write one file; False when it exists already."""
    import torch

    from perturbations.exports.writing import stored_clips
    from perturbations.tta import frames

    identity = {"video_id": row.item_id, "frames_sha256": row.frames_sha256 or ""}
    if _holds(file, identity, (num_frames, 3, size, size)):
        return False
    video = frames.transformed(stored_clips.sampled(row, num_frames), size).contiguous()
    # Not saved to a path directly, because torch would write the path into the file.
    content = io.BytesIO()
    torch.save({"video": video, **identity}, content)
    with storage.atomic_path(file) as temporary:
        temporary.write_bytes(content.getbuffer())
    return True


def _holds(file: Path, identity: Mapping[str, str], shape: tuple[int, ...]) -> bool:
    """Whether a file of an earlier run is complete and belongs to this row."""
    import torch

    if file.is_symlink() or not file.is_file() or file.stat().st_size > 4 * math.prod(shape) + _OVERHEAD:
        return False  # a larger file is never unpacked
    try:
        with zipfile.ZipFile(file) as archive:  # torch does not verify the checksums
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                return False
            if archive.testzip() is not None:
                return False
        content = torch.load(file, map_location="cpu", weights_only=True)
        video = content.pop("video")
        return content == dict(identity) and video.dtype == torch.float32 and tuple(video.shape) == shape
    except Exception:  # a broken file may raise any exception
        return False


def write_captions(request: Request) -> int:
    """Write `<perturbation>_<severity>.json` for every scenario of a `texts` manifest; return the number of files.

    A file is a list of [video_id, caption] with the first caption per video, in the order of the test split's file, as
    the loader expects. A caption that the fidelity gate rejected is replaced by its original.

    Raises `ManifestError` for another kind of manifest, or when a video of the split has no caption, and `ConfigError`
    without the split's file.
    """
    from perturbations.exports.writing import caption_texts

    if request.order is None:
        raise ConfigError("--order: give the test split's file; captions are written in its order")
    wanted = [item_id for item_id in caption_texts.split_order(request.order) if item_id not in _NOT_LOADED]
    written = 0
    for name, texts in caption_texts.first_captions(request.manifest, _NAMES):
        if missing := [item_id for item_id in wanted if item_id not in texts]:
            raise ManifestError(
                f"{len(missing)} of the {len(wanted)} videos of {request.order} have no caption {name} in "
                f"{request.manifest}: {', '.join(map(repr, missing[:5]))}"
            )
        pairs = [[item_id, texts[item_id]] for item_id in wanted]
        # Escaped to ASCII, because the loader reads the file in its machine's default encoding.
        storage.write_text_if_changed(request.output / f"{name}.json", json.dumps(pairs, indent=0))
        written += 1
    return written


EXPORT = Export(
    name="vtr_tta",
    summary="X-Pool's and HAT-VTR's released loaders",
    refuses="two complete rows of one id, another number of stored frames, a split's video without a caption",
    videos=write_videos,
    captions=write_captions,
    needs_models=True,
)
