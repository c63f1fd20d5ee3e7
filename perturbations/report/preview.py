"""Contact sheets of corpora: one row per perturbation, one column per severity; six frames for temporal ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from perturbations.api import functions as api
from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.errors import ManifestError
from perturbations.engine import rendering, shards
from perturbations.guides import registry as guides
from perturbations.manifest import files, locations
from perturbations.manifest.kinds import COMPLETE, VIDEOS, CompleteSource, VideoRow
from perturbations.media import decoding
from perturbations.media.clip import MediaClip, uniform_indices
from perturbations.plan import recipe
from perturbations.report.sheet import contact_sheet, empty_sheet, write_png
from perturbations.suites import registry


def from_video(
    row: CompleteSource,
    donors: Sequence[CompleteSource],
    output: Path,
    *,
    names: Sequence[str] | None,
    severities: Sequence[int],
    seed: int,
    variant: str | None,
) -> None:
    """Draw the middle frame of a clip under each perturbation and severity; `names` None means all.

    `row` and `donors` are rows of a sources manifest. Without donors, "all" leaves out perturbations that need
    them, and always those whose suite has no such variant.
    """
    entries = [
        entry
        for suite in registry.suites().values()
        if variant is None or variant in suite.variants
        for entry in suite.perturbations
        if entry.kind == "video"
    ]
    keys = names or [entry.key for entry in entries if donors or not guides.takes_frames(entry.guide)]
    rows = []
    for key in keys:
        images = images_of(registry.get(key, variant), row, donors, severities=severities, seed=seed)
        rows.append((key.partition("/")[2], images))
    columns = ["clean", *(f"severity {severity}" for severity in severities)]
    write_png(contact_sheet(rows, columns, title=row.item_id), output)


def images_of(
    entry: registry.Perturbation,
    row: CompleteSource,
    donors: Sequence[CompleteSource],
    *,
    severities: Sequence[int],
    seed: int,
) -> list[Image]:
    """The middle frame of a clip, clean and under each severity; six tiled frames for a temporal perturbation.

    `row` and `donors` are rows of a sources manifest. Images are RGB uint8, of about the clip's size.
    """
    clip = MediaClip(Path(row.path), row.start_s, row.end_s)
    temporal = entry.moves_frames
    if temporal:
        images = [_tiled(_decoded(clip, row.frame_count))]
    else:
        images = [next(iter(decoding.decode(clip, only={row.frame_count // 2}))).image]
    for severity in severities:
        video = recipe.make(entry, severity, seed=seed, storage=recipe.Unstored(), donors="--donors")
        source = shards.source_with_facts(video, row, donors)
        planned = rendering.planned_clip(video, source)
        length = planned.num_frames
        positions = uniform_indices(_ROWS * _COLUMNS, length) if temporal else [length // 2]
        frames = {frame.position: frame.image for frame in planned.frames(only=set(positions))}
        shown = [frames[position] for position in positions]
        images.append(_tiled(shown) if temporal else shown[0])
    return images


def from_manifest(
    path: Path, output: Path, *, item: str | None, names: Sequence[str] | None, severities: Sequence[int]
) -> None:
    """Draw the middle frame of one stored item of a `videos` manifest per perturbation; `names` None means all.

    The sheet of a manifest without any complete row, because every clip is quarantined, says so.
    Raises `ManifestError` when no row of the item is complete, or none of these names.
    """
    about = files.read_metadata(path)
    root = locations.root_of(path, about)
    rows = [row for row in files.read_rows(path, VIDEOS) if row.status == COMPLETE]
    if not rows and item is None:
        write_png(empty_sheet(f"{about.get('suite', 'the corpus')} on {about.get('dataset', 'no dataset')}"), output)
        return
    complete = [
        row
        for row in rows
        if item in (None, row.item_id)
        and (names is None or f"{row.suite}/{row.perturbation}" in names)
        and row.severity in severities
        and storage.at_hand(root / row.source_path)
    ]
    if not complete:
        raise ManifestError(f"{path} has no complete row{'' if item is None else f' of {item!r}'} to draw")
    first = complete[0]
    chosen = [locations.located(row, root) for row in complete if row.item_id == first.item_id]
    by_name: dict[str, dict[int, VideoRow]] = defaultdict(dict)
    for row in chosen:
        by_name[row.perturbation][row.severity] = row
    shown = sorted({row.severity for row in chosen})
    in_order = [entry.name for entry in registry.perturbations(first.suite)]
    clean = clean_middle(chosen[0])
    lines = []
    for name in sorted(by_name, key=in_order.index):
        temporal = registry.get(f"{first.suite}/{name}").moves_frames
        of_row = several if temporal else middle
        images = [of_row(by_name[name][severity]) if severity in by_name[name] else None for severity in shown]
        lines.append((name, [several_clean(chosen[0]) if temporal else clean, *images]))
    columns = ["clean", *(f"severity {severity}" for severity in shown)]
    write_png(contact_sheet(lines, columns, title=f"{first.dataset}: {first.item_id}"), output)


# One frame cannot show a change of time: a temporal perturbation is shown by six frames, in order, row by row.
_ROWS, _COLUMNS = 2, 3


def _tiled(images: Sequence[Image]) -> Image:
    """Six frames as one image with a frame's aspect ratio."""
    height, width = images[0].shape[:2]
    size = max(1, width // _COLUMNS), max(1, height // _COLUMNS)
    small = [cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images]
    rows = [np.hstack(small[start : start + _COLUMNS]) for start in range(0, _ROWS * _COLUMNS, _COLUMNS)]
    return np.asarray(np.vstack(rows), np.uint8)


def several(row: VideoRow) -> Image:
    """Six frames of a perturbed clip, tiled. The row's paths are absolute. Raises `MediaError`."""
    held = row.stored_frames or row.frame_count
    return _tiled(list(api.open_clip(row, uniform_indices(_ROWS * _COLUMNS, held))))


def several_clean(row: VideoRow) -> Image:
    """Six frames of the clean clip of a row, tiled. Raises `MediaError`."""
    return _tiled(_decoded(_source_clip(row), row.source_frame_count))


def _source_clip(row: VideoRow) -> MediaClip:
    return MediaClip(Path(row.source_path), row.start_s, row.end_s)


def _decoded(clip: MediaClip, num_frames: int) -> list[Image]:
    positions = uniform_indices(_ROWS * _COLUMNS, num_frames)
    images = {frame.position: frame.image for frame in decoding.decode(clip, only=set(positions))}
    return [images[position] for position in positions]


def middle(row: VideoRow) -> Image:
    """The middle frame of a perturbed clip. The row's paths are absolute. Raises `MediaError`."""
    held = row.stored_frames or row.frame_count
    image: Image = api.open_clip(row, [held // 2])[0]
    return image


def clean_middle(row: VideoRow) -> Image:
    """The clean clip's frame at the position that `middle` shows. Raises `MediaError`."""
    stored = recipe.parse(row.recipe).storage
    position = row.source_frame_count // 2
    if isinstance(stored, recipe.StoredFrames):
        sampled = uniform_indices(stored.num_frames, row.source_frame_count)
        position = sampled[len(sampled) // 2]
    return next(iter(decoding.decode(_source_clip(row), only={position}))).image
