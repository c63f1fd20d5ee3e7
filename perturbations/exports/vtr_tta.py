"""The layout that the released code of HAT-VTR reads instead of videos. That code is built on X-Pool's.

It has one torch file of frames per video, `<perturbation>_<severity>/<video_id>.pt`, and captions as a list of pairs.
The documentation's page about exports describes the layout.
"""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from perturbations.api.clips import Clip
from perturbations.base import shown, storage
from perturbations.base.errors import ConfigError, ManifestError, MediaError
from perturbations.base.progress import Tick
from perturbations.exports import export_folder, exported_corpus, videos
from perturbations.exports.export_registry import Exported, Request
from perturbations.exports.exported_corpus import ExportedClip
from perturbations.manifest import files
from perturbations.manifest.companions import numbered
from perturbations.manifest.rows import SOURCES, TEXTS, VIDEOS, ClipRow, TextRow, VideoRow

_NAMES = {"mlvp/gaussian_noise": "gaussian", "mlvp/impulse_noise": "impulse"}
"""The perturbations that have another name in this format."""

_LONGEST_NAME = 230  # bytes; file systems allow 255, and the temporary name needs some
_NOT_LOADED = {"1012_Unbreakable_00.05.16.065-00.05.21.941"}
"""Clips of LSMDC's list that the loaders skip."""


def write_videos(request: Request) -> Exported:
    """Write the frames of every complete row of a `videos` or `sources` manifest, one clip in memory at a time.

    A file holds `video_id` and `video`: float32, num_frames x 3 x size x size, resized, cropped and normalized like
    X-Pool's test transform. Frames are sampled like X-Pool's. The folder may hold the files of other manifests. A clip
    that cannot be read, makes no progress for `stall_limit_s` seconds, or whose file the loader could not find, is a
    failure; the others continue.

    Raises `ManifestError` for another kind of manifest, for two complete rows of one id and scenario, and for another
    number of stored frames than requested, and `OutputError` for a folder that the workflow fills.
    """
    exported = exported_corpus.read(replace(request, clean=False), kinds=(VIDEOS, SOURCES), any_tier=True)
    stored = {name for name in exported.storages if name.startswith("frames/")}
    if other := sorted(stored - {f"frames/{request.num_frames}"}):
        raise ManifestError(f"{request.manifest} stores {', '.join(other)} only, not {request.num_frames} frames")
    export_folder.check_tree(request.output, request.manifest)
    item_ids: dict[str, set[str]] = {}
    for row in exported.rows:
        item_ids.setdefault(scenario(row), set()).add(row.item_id)
    for _, clips in exported.scenarios():
        place = request.output / scenario(clips[0].row)
        files_of = {item_id: place / f"{name}.pt" for item_id, name in _names(item_ids[place.name]).items()}
        storage.remove_leftovers(files_of.values())

        def work(clip: ExportedClip, tick: Tick, files_of: Mapping[str, Path] = files_of) -> Path:
            if clip.row.item_id not in files_of:
                raise MediaError("no file can have the name that the loader looks for, or another id has it")
            return _write(files_of[clip.row.item_id], clip, request.num_frames, request.size)

        exported.written += len(videos.for_each(exported, clips, work))
    return exported.result()


def scenario(row: exported_corpus.ListedRow | TextRow) -> str:
    """`<perturbation>_<severity>`, or `clean`: the name of a row's folder, or of its file of captions."""
    if not isinstance(row, ClipRow | TextRow):
        return "clean"
    name = _NAMES.get(f"{row.suite}/{row.perturbation}", row.perturbation or "")
    return f"{storage.file_stem(name)}_{row.severity}"


def _names(item_ids: Iterable[str]) -> dict[str, str]:
    """For each id, the file name without its ending that the loader looks for, if the file can have this name.

    No other id's file may have the name, even where a file system treats two names as equal, and no interrupted write.
    """
    looked_for = {item_id: item_id.replace("/", "_").replace("\\", "_") for item_id in set(item_ids)}
    shared = Counter(map(_folded, looked_for.values()))
    return {
        item_id: name
        for item_id, name in looked_for.items()
        if shared[_folded(name)] == 1 and "\0" not in name and 0 < len(name.encode()) <= _LONGEST_NAME
        if not storage.is_leftover(Path(name))
    }


def _folded(name: str) -> str:
    """Equal texts for names that some file system treats as equal: in other case, or with other codes of accents."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _write(file: Path, clip: ExportedClip, num_frames: int, size: int) -> Path:
    """Write the file of a clip."""
    import torch

    from perturbations.tta import frames

    row = clip.row
    if isinstance(row, VideoRow) and row.path:
        videos.check_stored(row)
    video = frames.transformed(Clip(row).sampled(num_frames), size).contiguous()
    # Not saved to a path directly, because torch would write the path into the file.
    content = io.BytesIO()
    torch.save({"video": video, "video_id": row.item_id, "frames_sha256": row.frames_sha256 or ""}, content)
    with storage.atomic_path(file) as temporary:
        temporary.write_bytes(content.getbuffer())
    return file


def write_captions(request: Request) -> Exported:
    """Write `<perturbation>_<severity>.json` for every scenario of a `texts` manifest.

    A file is a list of [video_id, caption] with the first caption per video, in the order of the test split's file, as
    the loader expects. A caption that the fidelity gate rejected is replaced by its original.

    Raises `ManifestError` for another kind of manifest, or when a video of the split has no caption, and `ConfigError`
    without the split's file.
    """
    if request.order is None:
        raise ConfigError("--order: give the test split's file; captions are written in its order")
    kind = files.kind_of(request.manifest)
    if kind != TEXTS:
        raise ManifestError(f"{request.manifest} is a manifest of {kind.name}; captions are exported from texts")
    export_folder.check_tree(request.output, request.manifest)
    wanted = [item_id for item_id in split_order(request.order) if item_id not in _NOT_LOADED]
    written = 0
    for name, rows in groupby(files.read_rows(request.manifest, TEXTS), scenario):
        texts: dict[str, str] = {}
        for row in sorted(rows, key=lambda row: numbered(row.caption_id)):
            texts.setdefault(row.item_id, row.text if row.accepted else row.source_text)
        if missing := [item_id for item_id in wanted if item_id not in texts]:
            raise ManifestError(
                f"{len(missing)} of the {len(wanted)} videos of {request.order} have no caption {name} in "
                f"{request.manifest}: {', '.join(map(repr, missing[:5]))}"
            )
        pairs = [[item_id, texts[item_id]] for item_id in wanted]
        # Escaped to ASCII, because the loader reads the file in its machine's default encoding.
        storage.write_text(request.output / f"{name}.json", json.dumps(pairs, indent=0))
        written += 1
    return Exported(others=shown.plural(written, "file"))


def split_order(path: Path) -> list[str]:
    """The ids of a test split, as its file lists them.

    Formats: a CSV file with a column `video_id` (MSR-VTT), JSON lines with `clip_id` (ActivityNet), tab-separated lines
    whose first column is the id (LSMDC), or one id per line (MSVD). Raises `ManifestError` for another file.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            if path.suffix == ".jsonl":
                ids = [str(json.loads(line)["clip_id"]) for line in file if line.strip()]
            else:
                text = file.read()
                first = text.partition("\n")[0].strip()
                if "\t" not in first and ("," in first or first == "video_id"):
                    ids = [row["video_id"] for row in csv.DictReader(io.StringIO(text, newline=""))]
                else:
                    ids = [line.partition("\t")[0].strip() for line in text.split("\n") if line.strip()]
    except (OSError, ValueError, csv.Error, KeyError, TypeError, RecursionError) as error:
        raise ManifestError(f"{path} does not list the videos of a test split: {error}") from error
    if not ids:
        raise ManifestError(f"{path} lists no video")
    return ids
