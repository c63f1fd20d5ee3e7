"""Corpora as files of other programs' own layout.

`vtr_tta` is the released code of HAT-VTR, built on X-Pool's: a torch file of frames for each video,
`<perturbation>_<severity>/<video_id>.pt`, and captions in a list of pairs.
"""

from __future__ import annotations

import csv
import json
import logging
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from perturbations import manifest, media, storage
from perturbations.api import open_clip, plain_row
from perturbations.errors import ManifestError
from perturbations.progress import logged
from perturbations.tta import frames

log = logging.getLogger("perturbations")

Row = dict[str, Any]

_NAMES = {"mlvp/gaussian_noise": "gaussian", "mlvp/impulse_noise": "impulse"}
"""Where vtr_tta's name is another."""


def vtr_tta_videos(path: Path, output: Path, *, num_frames: int = 12, size: int = 224) -> int:
    """Write the frames of every complete row of a `videos` or `sources` manifest; returns how many files are there.

    A file holds `video`, float32 num_frames x 3 x size x size, resized, cropped and normalized as X-Pool's test
    transform does, and `video_id`. Frames are sampled as X-Pool samples them. Files that are there already and hold
    what the row says are left alone.

    Raises `ManifestError` for another kind of manifest, and where two ids have the same file name in this layout.
    """
    kind = manifest.read_metadata(path)["kind"]
    if kind not in (manifest.VIDEOS.name, manifest.SOURCES.name):
        raise ManifestError(f"{path} is a manifest of {kind}; frames are exported from videos or sources")
    rows = [plain_row(row) for row in manifest.read_manifest(path).to_dict("records")]
    complete = [row for row in rows if row["status"] == manifest.COMPLETE]
    if len(complete) < len(rows):
        log.warning("left out: %d quarantined", len(rows) - len(complete))
    files = _file_names(complete, output)
    for file, row in logged(list(files.items()), len(files), "videos exported"):
        told = {"video_id": row["item_id"], "identity": f"{_identity(row)} {num_frames} {size}"}
        if _holds(file, told):
            continue
        if str(row.get("storage") or "").startswith("frames/"):
            stack = open_clip(row)
            shown = stack[media.uniform_indices(num_frames, len(stack))]
        else:
            shown = open_clip(row, media.uniform_indices(num_frames, row["frame_count"]))
        with storage.atomic_path(file) as temporary:
            torch.save({"video": frames.transformed(shown, size).contiguous(), **told}, temporary)
    return len(files)


def vtr_tta_captions(path: Path, output: Path, order: Path) -> int:
    """Write `<perturbation>_<severity>.json` for every scenario of a `texts` manifest; returns how many were written.

    A file is a list of [video_id, caption] in the order of `order`, the test split's CSV with a column `video_id`, as
    the loader wants it. Captions that the fidelity gate refused are the original ones.

    Raises `ManifestError` for another kind of manifest, or when a video of the split has not exactly one caption.
    """
    kind = manifest.read_metadata(path)["kind"]
    if kind != manifest.TEXTS.name:
        raise ManifestError(f"{path} is a manifest of {kind}; captions are exported from texts")
    wanted = _order(order)
    scenarios: dict[str, dict[str, list[str]]] = {}
    for row in manifest.read_rows(path, manifest.TEXTS):
        text = row["text"] if row["accepted"] else row["source_text"]
        of_item = scenarios.setdefault(_folder(row), {})
        of_item.setdefault(row["item_id"], []).append(text)
    for name, texts in scenarios.items():
        wrong = [item_id for item_id in wanted if len(texts.get(item_id, ())) != 1]
        if wrong:
            raise ManifestError(
                f"this layout has one caption a video; {wrong[0]!r} has {len(texts.get(wrong[0], ()))} in {path}"
            )
        pairs = [[item_id, texts[item_id][0]] for item_id in wanted]
        storage.write_text(output / f"{name}.json", json.dumps(pairs, ensure_ascii=False, indent=0))
    return len(scenarios)


def _order(path: Path) -> list[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return [row["video_id"] for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error, KeyError) as error:
        raise ManifestError(f"{path} is no CSV with a column video_id: {error}") from error


def _folder(row: Mapping[str, Any]) -> str:
    if "perturbation" not in row:
        return "clean"
    name = _NAMES.get(f"{row['suite']}/{row['perturbation']}", row["perturbation"])
    return f"{name}_{row['severity']}"


def _file_names(rows: Sequence[Row], output: Path) -> dict[Path, Row]:
    """The names that the loader looks for. Ids in which it sees no difference are an error."""
    found: dict[Path, Row] = {}
    for row in rows:
        name = row["item_id"].replace("/", "_").replace("\\", "_")
        file = output / _folder(row) / f"{name}.pt"
        if file in found:
            raise ManifestError(
                f"{found[file]['item_id']!r} and {row['item_id']!r} are both {file.name} in this layout"
            )
        if "\0" in name:
            raise ManifestError(f"{row['item_id']!r} cannot be the name of a file")
        found[file] = row
    return found


def _identity(row: Row) -> str:
    """What changes when a row's frames do."""
    return str(row.get("recipe_id") or row["frames_sha256"])


def _holds(file: Path, told: Mapping[str, str]) -> bool:
    """Whether a file of an earlier run is whole, and of this row."""
    if not file.is_file():
        return False
    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError):
        return False
    return isinstance(held, dict) and "video" in held and all(held.get(name) == value for name, value in told.items())
