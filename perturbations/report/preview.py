"""Contact sheets of corpora: a row a perturbation, a column a severity; six frames where it is about time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from perturbations import api
from perturbations.arrays import Image
from perturbations.engine import pipeline, rendering, shards
from perturbations.errors import ManifestError
from perturbations.manifest import files, locations
from perturbations.manifest.kinds import COMPLETE, VIDEOS, CompleteSource, VideoRow
from perturbations.media import decoding
from perturbations.media.clip import Clip, uniform_indices
from perturbations.plan import recipe
from perturbations.report.sheet import contact_sheet, write_png
from perturbations.suites import registry


def from_video(
    row: CompleteSource,
    donors: Sequence[CompleteSource],
    output: Path,
    *,
    names: Sequence[str] | None,
    severities: Sequence[int],
    seed: int,
    variant: str,
) -> None:
    """Draw the middle frame of a clip under each perturbation and severity; `names` None means all.

    `row` and `donors` are rows of a sources manifest. Without donors, what needs them is left out of "all".
    """
    entries = registry.perturbations(kind="video")
    keys = names or [entry.key for entry in entries if entry.guide != "donor" or donors]
    rows = []
    for key in keys:
        images = images_of(registry.get(key), row, donors, severities=severities, seed=seed, variant=variant)
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
    variant: str,
) -> list[Image]:
    """The middle frame of a clip, clean and under each severity; six frames in one where a perturbation is about time.

    `row` and `donors` are rows of a sources manifest. Images are RGB uint8, as large as the clip or nearly so.
    """
    clip = Clip(Path(row.path), row.start_s, row.end_s)
    temporal = entry.method == "temporal"
    if temporal:
        images = [tiled(_decoded(clip, row.frame_count))]
    else:
        images = [next(iter(decoding.decode(clip, only={row.frame_count // 2}))).image]
    for severity in severities:
        made = recipe.make(entry, severity, variant=variant, seed=seed, storage=recipe.Unstored(), donors="--donors")
        source = shards.source_with_facts(made, row, donors)
        length = rendering.length(made, source)
        positions = uniform_indices(_ROWS * _COLUMNS, length) if temporal else [length // 2]
        found = {one.position: one.image for one in rendering.render(made, source, only=set(positions))}
        shown = [found[position] for position in positions]
        images.append(tiled(shown) if temporal else shown[0])
    return images


def from_manifest(
    path: Path, output: Path, *, item: str | None, names: Sequence[str] | None, severities: Sequence[int]
) -> None:
    """Draw one item of a `videos` manifest as it is stored, the frame in the middle; `names` None means all.

    Raises `ManifestError` when nothing of the item is complete.
    """
    root = locations.root_of(path, files.read_metadata(path))
    complete = [
        row
        for row in files.read_rows(path, VIDEOS)
        if row.status == COMPLETE
        and item in (None, row.item_id)
        and (names is None or f"{row.suite}/{row.perturbation}" in names)
        and row.severity in severities
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
    clean = _clean(chosen[0])
    lines = []
    for name in sorted(by_name, key=in_order.index):
        by_severity = by_name[name]
        if registry.get(f"{first.suite}/{name}").method == "temporal":
            images = [_several(by_severity[severity]) if severity in by_severity else None for severity in shown]
            lines.append((name, [_several_clean(chosen[0]), *images]))
        else:
            images = [_middle(by_severity[severity]) if severity in by_severity else None for severity in shown]
            lines.append((name, [clean, *images]))
    columns = ["clean", *(f"severity {severity}" for severity in shown)]
    write_png(contact_sheet(lines, columns, title=f"{first.dataset}: {first.item_id}"), output)


# What happens in time does not show in one frame: six of them, in order, row by row.
_ROWS, _COLUMNS = 2, 3


def tiled(images: Sequence[Image]) -> Image:
    """Six frames as one picture of a frame's shape."""
    height, width = images[0].shape[:2]
    size = max(1, width // _COLUMNS), max(1, height // _COLUMNS)
    small = [cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images]
    rows = [np.hstack(small[start : start + _COLUMNS]) for start in range(0, _ROWS * _COLUMNS, _COLUMNS)]
    return np.asarray(np.vstack(rows), np.uint8)


def _several(row: VideoRow) -> Image:
    held = row.stored_frames or row.frame_count
    return tiled(list(api.open_clip(row, uniform_indices(_ROWS * _COLUMNS, held))))


def _several_clean(row: VideoRow) -> Image:
    return tiled(_decoded(_source_clip(row), row.source_frame_count))


def _source_clip(row: VideoRow) -> Clip:
    return Clip(Path(row.source_path), row.start_s, row.end_s)


def _decoded(clip: Clip, num_frames: int) -> list[Image]:
    positions = uniform_indices(_ROWS * _COLUMNS, num_frames)
    images = {frame.position: frame.image for frame in decoding.decode(clip, only=set(positions))}
    return [images[position] for position in positions]


def _middle(row: VideoRow) -> Image:
    held = row.stored_frames or row.frame_count
    image: Image = api.open_clip(row, [held // 2])[0]
    return image


def _clean(row: VideoRow) -> Image:
    """The clean clip's frame that stands where `_middle` looks."""
    stored = recipe.parse(row.recipe).storage
    position = row.source_frame_count // 2
    if isinstance(stored, recipe.StoredFrames):
        sampled = pipeline.stored_indices(stored, row.source_frame_count)
        position = sampled[len(sampled) // 2]
    return next(iter(decoding.decode(_source_clip(row), only={position}))).image
