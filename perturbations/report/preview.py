"""Contact sheets of corpora: a row a perturbation, a column a severity; six frames where it is about time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from perturbations import api, manifest, media, pipeline, recipe, registry, rendering, shards
from perturbations.errors import ManifestError
from perturbations.report.sheet import contact_sheet, write_png


def from_video(
    row: Mapping[str, Any],
    donors: Sequence[Mapping[str, Any]],
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
    write_png(contact_sheet(rows, columns, title=row["item_id"]), output)


def images_of(
    entry: registry.Perturbation,
    row: Mapping[str, Any],
    donors: Sequence[Mapping[str, Any]],
    *,
    severities: Sequence[int],
    seed: int,
    variant: str,
) -> list[media.Image]:
    """The middle frame of a clip, clean and under each severity; six frames in one where a perturbation is about time.

    `row` and `donors` are rows of a sources manifest. Images are RGB uint8, as large as the clip or nearly so.
    """
    clip = rendering.clip_of(dict(row), Path(row["path"]))
    temporal = entry.method == "temporal"
    if temporal:
        images = [tiled(_decoded(clip, row["frame_count"]))]
    else:
        images = [next(iter(media.decode(clip, only={row["frame_count"] // 2}))).image]
    for severity in severities:
        made = recipe.make(entry, severity, variant=variant, seed=seed, storage={"tier": "recipe"}, donors="--donors")
        source = shards.source_with_facts(made, dict(row), [dict(one) for one in donors])
        length = rendering.length(made, source)
        positions = media.uniform_indices(_ROWS * _COLUMNS, length) if temporal else [length // 2]
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
    table = manifest.read_manifest(path)
    complete = table[table["status"] == manifest.COMPLETE]
    if item is not None:
        complete = complete[complete["item_id"] == item]
    if names is not None:
        complete = complete[(complete["suite"] + "/" + complete["perturbation"]).isin(names)]
    complete = complete[complete["severity"].isin(severities)]
    if complete.empty:
        raise ManifestError(f"{path} has no complete row{'' if item is None else f' of {item!r}'} to draw")
    chosen = complete[complete["item_id"] == complete["item_id"].iloc[0]]
    shown = sorted(int(severity) for severity in chosen["severity"].unique())
    in_order = [entry.name for entry in registry.perturbations(str(chosen["suite"].iloc[0]))]
    clean = _clean(chosen.iloc[0])
    rows = []
    for name in sorted(chosen["perturbation"].unique(), key=in_order.index):
        by_severity = {int(row["severity"]): row for _, row in chosen[chosen["perturbation"] == name].iterrows()}
        if registry.get(f"{chosen['suite'].iloc[0]}/{name}").method == "temporal":
            images = [_several(by_severity[one]) if one in by_severity else None for one in shown]
            rows.append((name, [_several_clean(chosen.iloc[0]), *images]))
        else:
            images = [_middle(by_severity[one]) if one in by_severity else None for one in shown]
            rows.append((name, [clean, *images]))
    columns = ["clean", *(f"severity {severity}" for severity in shown)]
    title = f"{chosen['dataset'].iloc[0]}: {chosen['item_id'].iloc[0]}"
    write_png(contact_sheet(rows, columns, title=title), output)


# What happens in time does not show in one frame: six of them, in order, row by row.
_ROWS, _COLUMNS = 2, 3


def tiled(images: Sequence[media.Image]) -> media.Image:
    """Six frames as one picture of a frame's shape."""
    height, width = images[0].shape[:2]
    size = max(1, width // _COLUMNS), max(1, height // _COLUMNS)
    small = [cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images]
    rows = [np.hstack(small[start : start + _COLUMNS]) for start in range(0, _ROWS * _COLUMNS, _COLUMNS)]
    return np.asarray(np.vstack(rows), np.uint8)


def _several(row: object) -> media.Image:
    columns = api.plain_row(row)
    held = columns["stored_frames"] or columns["frame_count"]
    return tiled(list(api.open_clip(columns, media.uniform_indices(_ROWS * _COLUMNS, held))))


def _several_clean(row: object) -> media.Image:
    columns = api.plain_row(row)
    return tiled(_decoded(rendering.clip_of(columns, Path(columns["source_path"])), columns["source_frame_count"]))


def _decoded(clip: media.Clip, num_frames: int) -> list[media.Image]:
    positions = media.uniform_indices(_ROWS * _COLUMNS, num_frames)
    images = {frame.position: frame.image for frame in media.decode(clip, only=set(positions))}
    return [images[position] for position in positions]


def _middle(row: object) -> media.Image:
    columns = api.plain_row(row)
    held = columns["stored_frames"] or columns["frame_count"]
    image: media.Image = api.open_clip(columns, [held // 2])[0]
    return image


def _clean(row: object) -> media.Image:
    """The clean clip's frame that stands where `_middle` looks."""
    columns = api.plain_row(row)
    made = api.row_recipe(columns)
    position = columns["source_frame_count"] // 2
    if made["storage"]["tier"] == "frames":
        sampled = pipeline.stored_indices(made, columns["source_frame_count"])
        position = sampled[len(sampled) // 2]
    clip = media.Clip(Path(columns["source_path"]), columns["start_s"], columns["end_s"])
    return next(iter(media.decode(clip, only={position}))).image
