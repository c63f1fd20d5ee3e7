"""Corpora as files of other programs' own layout.

`vtr_tta` is the released code of HAT-VTR, built on X-Pool's: a torch file of frames for each video,
`<perturbation>_<severity>/<video_id>.pt`, and captions in a list of pairs. docs/export.md tells what is known of it.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from perturbations.api import open_clip
from perturbations.engine import supervise
from perturbations.errors import ManifestError, MediaError
from perturbations.manifest import files as manifest_files
from perturbations.manifest import locations
from perturbations.manifest.kinds import COMPLETE, SOURCES, TEXTS, VIDEOS, ClipRow, CompleteSource, SourceRow, TextRow
from perturbations.media.clip import uniform_indices
from perturbations.progress import logged
from perturbations.system import storage
from perturbations.system.export_names import check_folders, for_spreadsheets, is_file_name, one_file_for
from perturbations.tta import frames
from perturbations.verify.findings import Finding, name_of

log = logging.getLogger("perturbations")

NAMES = "names.csv"
"""Beside the files of a scenario: which ids could not be file names as they are."""

_NAMES = {"mlvp/gaussian_noise": "gaussian", "mlvp/impulse_noise": "impulse"}
"""Where vtr_tta's name is another."""

_OVERHEAD = 2**20  # bytes of a file beside its frames
_NOT_LOADED = {"1012_Unbreakable_00.05.16.065-00.05.21.941"}
"""Clips of LSMDC's list that the loaders leave out."""


@dataclass(frozen=True)
class Exported:
    """How many files were written, how many were there already, and which rows have none, with the reason."""

    written: int
    kept: int
    failed: tuple[Finding, ...]
    quarantined: tuple[Finding, ...]


def vtr_tta_videos(
    path: Path, output: Path, *, num_frames: int = 12, size: int = 224, stall_limit_s: float = 120.0
) -> Exported:
    """Write the frames of every complete row of a `videos` or `sources` manifest, one clip in memory at a time.

    A file holds `video`, float32 num_frames x 3 x size x size, resized, cropped and normalized as X-Pool's test
    transform does, and `video_id`. Frames are sampled as X-Pool samples them. Files that are there already, whole, and
    hold what the row says are left alone. A clip that cannot be read, or takes longer than `stall_limit_s` seconds,
    is a finding; the others go on.

    Raises `ManifestError` for another kind of manifest, for two complete rows of one id and scenario, and where other
    frames were stored than are asked for.
    """
    kind = manifest_files.kind_of(path)
    if kind not in (VIDEOS, SOURCES):
        raise ManifestError(f"{path} is a manifest of {kind.name}; frames are exported from videos or sources")
    root = locations.root_of(path, manifest_files.read_metadata(path))
    rows: list[ClipRow | SourceRow] = [locations.located(row, root) for row in manifest_files.read_rows(path, kind)]
    complete = [row for row in rows if isinstance(row, ClipRow | CompleteSource) and row.status == COMPLETE]
    _check_rows(path, complete, num_frames)
    stored = [Path(row.path) for row in complete if isinstance(row, ClipRow) and row.path]
    check_folders(output, {_scenario(row) for row in rows}, stored)
    files = _file_names(rows, output)
    tasks = [(files[_scenario(row), row.item_id], row) for row in complete]

    def work(task: tuple[Path, ClipRow | CompleteSource], tick: supervise.Tick) -> bool:
        return _export(*task, num_frames, size)

    written, failed = 0, []
    outcomes = supervise.run(work, tasks, stall_limit_s=stall_limit_s, name=lambda task: repr(task[1].item_id))
    for outcome in logged(outcomes, len(tasks), "videos exported"):
        written += bool(outcome.result)
        if outcome.error is not None:
            failed.append(_finding(path, outcome.task[1], outcome.error))
    quarantined = [
        _finding(path, row, f"{row.status}: {row.stage}: {row.error}") for row in rows if row.status != COMPLETE
    ]
    return Exported(written, len(tasks) - written - len(failed), tuple(failed), tuple(quarantined))


def _finding(path: Path, row: ClipRow | SourceRow, problem: str) -> Finding:
    key = ("item_id", "perturbation", "severity") if isinstance(row, ClipRow) else ("item_id",)
    return Finding(path, name_of(row, key), problem)


def _check_rows(path: Path, rows: Iterable[ClipRow | CompleteSource], num_frames: int) -> None:
    counted = Counter((_scenario(row), row.item_id) for row in rows)
    twice = [f"{item_id!r} in {scenario}" for (scenario, item_id), count in counted.items() if count > 1]
    if twice:
        raise ManifestError(f"{path} has complete rows more than once: {', '.join(twice[:5])}")
    stored = {row.storage for row in rows if isinstance(row, ClipRow) and row.storage.startswith("frames/")}
    if other := stored - {f"frames/{num_frames}"}:
        raise ManifestError(f"{path} stores {', '.join(sorted(other))} only, not {num_frames} frames")


def _scenario(row: ClipRow | SourceRow | TextRow) -> str:
    """The name of its folder, or file of captions."""
    if isinstance(row, SourceRow):
        return "clean"
    name = _NAMES.get(f"{row.suite}/{row.perturbation}", row.perturbation or "")
    return f"{storage.file_stem(name)}_{row.severity}"


def _file_names(rows: Iterable[ClipRow | SourceRow], output: Path) -> dict[tuple[str, str], Path]:
    """Each scenario's and id's file, named as the loader looks for it.

    Names that no file can have, and names that the loader would take for two ids, are replaced by a hash: better not
    found than another's frames. Writes the table of ids whose name differs.
    """
    ids = defaultdict(set)
    for row in rows:
        ids[_scenario(row)].add(row.item_id)
    files = {}
    for scenario, members in ids.items():
        folder = output / scenario
        looked_for = {item_id: item_id.replace("/", "_").replace("\\", "_") for item_id in members}
        _same_file = one_file_for(folder, looked_for.values())
        shared = Counter(map(_same_file, looked_for.values()))
        table = io.StringIO()
        for item_id, name in sorted(looked_for.items()):
            found = shared[_same_file(name)] == 1 and is_file_name(name)
            stem = name if found else "~" + storage.sha256_of(item_id.encode())[:32]
            files[scenario, item_id] = folder / f"{stem}.pt"
            if stem != item_id:
                csv.writer(table, lineterminator="\n").writerow(
                    [for_spreadsheets(item_id), for_spreadsheets(f"{stem}.pt"), "yes" if found else "no"]
                )
        if table.getvalue():
            storage.write_text_if_changed(folder / NAMES, f"video_id,file,found_by_loader\n{table.getvalue()}")
        else:
            (folder / NAMES).unlink(missing_ok=True)
        _remove_leftovers(folder)
    return files


def _remove_leftovers(folder: Path) -> None:
    """Delete what interrupted writes left, all at once: a folder may hold thousands of files."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for file in list(folder.iterdir()):
            if re.fullmatch(r"\..*\.part-[0-9a-f]{12}\.pt", file.name, re.DOTALL):
                file.unlink(missing_ok=True)


def _export(file: Path, row: ClipRow | CompleteSource, num_frames: int, size: int) -> bool:
    """Write one file; False when it is there already."""
    told = {"video_id": row.item_id, "frames_sha256": row.frames_sha256 or ""}
    if _holds(file, told, (num_frames, 3, size, size)):
        return False
    video = frames.transformed(_sampled(row, num_frames), size).contiguous()
    # Not by its path, which torch would write into the file.
    written = io.BytesIO()
    torch.save({"video": video, **told}, written)
    with storage.atomic_path(file) as temporary:
        temporary.write_bytes(written.getbuffer())
    return True


def _sampled(row: ClipRow | CompleteSource, num_frames: int) -> np.ndarray:
    tier = row.storage.partition("/")[0] if isinstance(row, ClipRow) else ""
    if tier in ("video", "frames"):
        stored = Path(row.path or "")
        if not stored.is_file():
            raise MediaError(f"the file is missing: {stored}; perturb verify --repair makes it again")
        if storage.sha256(stored) != row.sha256:
            raise MediaError(f"{stored} changed since it was made; perturb verify --repair makes it again")
    if tier == "frames":
        return open_clip(row)
    return open_clip(row, uniform_indices(num_frames, row.frame_count))


def _holds(file: Path, told: Mapping[str, str], shape: tuple[int, ...]) -> bool:
    """Whether a file of an earlier run is whole, and of this row."""
    if file.is_symlink() or not file.is_file() or file.stat().st_size > 4 * math.prod(shape) + _OVERHEAD:
        return False  # nothing larger is unpacked
    try:
        with zipfile.ZipFile(file) as archive:  # torch does not look at the checksums
            if any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist()):
                return False
            if archive.testzip() is not None:
                return False
        held = torch.load(file, map_location="cpu", weights_only=True)
        video = held.pop("video")
        return held == dict(told) and video.dtype == torch.float32 and tuple(video.shape) == shape
    except Exception:  # whatever a broken file makes its readers raise
        return False


def vtr_tta_captions(path: Path, output: Path, order: Path) -> int:
    """Write `<perturbation>_<severity>.json` for every scenario of a `texts` manifest; returns how many were written.

    A file is a list of [video_id, caption] in the order of `order`, the test split's own file, as the loader wants it:
    a video's first caption. Captions that the fidelity gate refused are the original ones.

    Raises `ManifestError` for another kind of manifest, or when a video of the split has no caption.
    """
    kind = manifest_files.kind_of(path)
    if kind != TEXTS:
        raise ManifestError(f"{path} is a manifest of {kind.name}; captions are exported from texts")
    wanted = _order(order)
    scenarios: dict[str, dict[str, str]] = defaultdict(dict)
    for row in sorted(manifest_files.read_rows(path, TEXTS), key=lambda row: _numbered(row.caption_id)):
        scenarios[_scenario(row)].setdefault(row.item_id, row.text if row.accepted else row.source_text)
    for name, texts in scenarios.items():
        if missing := [item_id for item_id in wanted if item_id not in texts]:
            raise ManifestError(
                f"{len(missing)} of the {len(wanted)} videos of {order} have no caption {name} in {path}: "
                f"{', '.join(map(repr, missing[:5]))}"
            )
        pairs = [[item_id, texts[item_id]] for item_id in wanted]
        # Escaped: the loader reads it in whatever encoding its machine is set to.
        storage.write_text_if_changed(output / f"{name}.json", json.dumps(pairs, indent=0))
    return len(scenarios)


def _numbered(caption_id: str) -> list[tuple[int, str]]:
    """An order in which `it#2` comes before `it#10`."""
    return [(int(digits or -1), text) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", caption_id)]


def _order(path: Path) -> list[str]:
    """The ids of a test split, as its file lists them.

    A CSV with a column `video_id` (MSR-VTT), JSON lines with `clip_id` (ActivityNet), lines whose first of several
    columns between tabs is the id (LSMDC), or an id a line (MSVD).
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
    except (OSError, ValueError, csv.Error, KeyError, TypeError) as error:
        raise ManifestError(f"{path} does not list the videos of a test split: {error}") from error
    if not ids:
        raise ManifestError(f"{path} lists no video")
    return [item_id for item_id in ids if item_id not in _NOT_LOADED]
