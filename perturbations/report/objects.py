"""Main objects as pictures: one row per clip, with the boxes that an analysis found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from perturbations.base.arrays import Image
from perturbations.base.errors import ManifestError
from perturbations.base.names import composed
from perturbations.guides.main_object import DetectedObject, MainObjects, parse_result
from perturbations.manifest import files, locations
from perturbations.manifest.kinds import ANALYSES, COMPLETE, AnalysisRow
from perturbations.media import decoding
from perturbations.media.clip import MediaClip, uniform_indices
from perturbations.report.sheet import contact_sheet, empty_sheet, write_picture

MAIN, OTHER = (255, 64, 32), (80, 200, 255)
"""RGB colours of the main object's box and the other boxes. The main box is also thicker, for colour-blind readers."""

_CLIPS, _PICTURES = 8, 6


def from_manifest(path: Path, output: Path, *, item: str | None) -> None:
    """Draw the boxes of a `main_object` manifest on its clips: on one item, or on the first eight.

    The sheet of a manifest without any complete row, because every clip is quarantined, says so.
    Raises `ManifestError` when the manifest holds other analyses, or no main object of the item.
    """
    about = files.read_metadata(path)
    root = locations.root_of(path, about)
    complete = [row for row in files.read_rows(path, ANALYSES) if row.status == COMPLETE]
    if not complete and item is None:
        write_picture(empty_sheet(f"main objects of {about.get('dataset', 'no dataset')}"), output)
        return
    rows = [
        locations.located(row, root)
        for row in complete
        if row.analysis == "main_object" and (item is None or composed(item) == composed(row.item_id))
    ]
    if not rows:
        raise ManifestError(f"{path} holds no main object{'' if item is None else f' of {item!r}'}")
    shown = [(row, parse_result(row.result or "")) for row in rows[:_CLIPS]]
    pictures = [(_label(row, result), _pictures(row, result)) for row, result in shown]
    columns = [f"{number} of {_PICTURES}" for number in range(1, _PICTURES + 1)]
    title = f"{rows[0].dataset}: main objects" + (f", {_CLIPS} of {len(rows)} clips" if len(rows) > _CLIPS else "")
    write_picture(contact_sheet(pictures, columns, title=title, cell_height=150), output)


def _label(row: AnalysisRow, result: MainObjects) -> str:
    return f"{row.item_id}: {result.caption}" if result.caption else row.item_id


def _pictures(row: AnalysisRow, result: MainObjects) -> list[Image | None]:
    places = uniform_indices(min(_PICTURES, len(result.positions)), len(result.positions))
    positions = [result.positions[place] for place in places]
    clip = MediaClip(Path(row.source_path), row.start_s, row.end_s)
    images = {frame.position: frame.image for frame in decoding.decode(clip, only=set(positions))}
    drawn: list[Image | None] = [
        _boxed(images[position], result.objects[place]) for place, position in zip(places, positions, strict=True)
    ]
    return drawn + [None] * (_PICTURES - len(drawn))


def _boxed(image: Image, objects: Sequence[DetectedObject]) -> Image:
    """A frame with its objects' boxes, best first: the main one thick, with its label and score."""
    # Drawn large, so that the labels of small clips are readable too.
    scale = max(1, round(300 / image.shape[0]))
    picture = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_NEAREST)
    for rank, detected in reversed(list(enumerate(objects))):
        x0, y0, x1, y1 = (round(value * scale) for value in detected.box)
        colour = MAIN if rank == 0 else OTHER
        cv2.rectangle(picture, (x0, y0), (x1 - 1, y1 - 1), colour, 4 if rank == 0 else 2)
        text = f"{detected.label} {detected.score:.2f}".strip()
        text = text.encode("ascii", "replace").decode()[:80]  # the font has only ASCII characters
        (width, height), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.6, 1)
        corner = (min(max(x0, 0), max(picture.shape[1] - width, 0)), max(y0, height + 6))
        cv2.rectangle(picture, (corner[0], corner[1] - height - 6), (corner[0] + width, corner[1]), colour, -1)
        cv2.putText(picture, text, (corner[0], corner[1] - 4), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (0, 0, 0), 1, cv2.LINE_AA)
    return np.ascontiguousarray(picture)
