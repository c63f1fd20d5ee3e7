"""Crops of a corpus's clips at the size of their own pixels: fine perturbations are not to be seen in thumbnails."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from perturbations.base.arrays import Image
from perturbations.base.errors import ManifestError, MediaError, UnknownPerturbationError
from perturbations.manifest.kinds import VideoRow
from perturbations.report import preview
from perturbations.suites import registry

SIDE = 160
"""Pixels of a crop's side."""

CLEAN = "clean"
"""What stands below the crop of the clean clip."""

_TILED_WIDTH = 240  # of six frames, which show a change of time
_STEP = 16  # between the places that a crop may have
_MOST_BYTES = 1_350_000  # of all pictures; base64 makes 4 characters of 3 bytes


@dataclass(frozen=True)
class Crop:
    """A crop, or why there is none."""

    label: str
    image: Image | None  # RGB uint8, at most `SIDE` pixels a side
    note: str = ""  # the size of a crop of another size than the clean one, or why there is no picture


@dataclass(frozen=True)
class Strip:
    """A clip under one perturbation: the clean crop, then one per severity."""

    item_id: str
    perturbation: str
    crops: tuple[Crop, ...]


Drawn = list[tuple[Strip, list[dict[str, Any]]]]
"""Strips with their pictures, as the page shows them."""


def strips(rows: Sequence[VideoRow], names: Sequence[str], root: Path) -> Iterator[Strip]:
    """The strips of one clip; `rows` are its complete rows with absolute paths, `names` the perturbations in order.

    `root` is left out where a reason names a file below it, so that a page does not tell where it was made.
    """
    clean: Image | None = None
    by_name: dict[str, list[VideoRow]] = {name: [] for name in names}
    for row in sorted(rows, key=lambda row: row.severity):
        by_name.setdefault(row.perturbation, []).append(row)
    for name, members in by_name.items():
        if not members:
            continue
        first = members[0]
        if _is_temporal(f"{first.suite}/{name}"):
            crops = [_tiles(CLEAN, preview.several_clean, first, root)]
            crops += [_tiles(label(row), preview.several, row, root) for row in members]
        else:
            if clean is None:
                clean, note = _image(preview.clean_middle, first, root)
            place = (0.5, 0.5) if clean is None else _busiest(clean)
            crops = [Crop(CLEAN, None if clean is None else crop(clean, place), "" if clean is not None else note)]
            crops += [_of_row(row, clean, place, root) for row in members]
        yield Strip(first.item_id, name, tuple(crops))


def _is_temporal(key: str) -> bool:
    """Whether a perturbation moves frames; one that is not installed here is shown by one frame."""
    try:
        return registry.get(key).moves_frames
    except UnknownPerturbationError:
        return False


def _of_row(row: VideoRow, clean: Image | None, place: tuple[float, float], root: Path) -> Crop:
    image, note = _image(preview.middle, row, root)
    if image is None:
        return Crop(label(row), None, note)
    if clean is not None and image.shape != clean.shape:
        note = f"of {image.shape[1]} x {image.shape[0]}"
    return Crop(label(row), crop(image, place), note)


def label(row: VideoRow) -> str:
    """What stands below the crop of a row."""
    return f"severity {row.severity}"


def _image(drawn: Callable[[VideoRow], Image], row: VideoRow, root: Path) -> tuple[Image | None, str]:
    """A picture of a row; where a file is missing or damaged, the reason. A page of the others is still of use."""
    try:
        return drawn(row), ""
    except (MediaError, ManifestError, IndexError) as error:
        return None, " ".join(str(error).replace(f"{root}/", "").split())[:120]


def _tiles(label: str, drawn: Callable[[VideoRow], Image], row: VideoRow, root: Path) -> Crop:
    image, note = _image(drawn, row, root)
    if image is not None and image.shape[1] > _TILED_WIDTH:
        size = _TILED_WIDTH, max(1, round(image.shape[0] * _TILED_WIDTH / image.shape[1]))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    return Crop(label, image, note)


def crop(image: Image, place: tuple[float, float]) -> Image:
    """`SIDE` x `SIDE` pixels of an image (H x W x 3), or fewer where it has fewer.

    `place` are the shares of height and width at which the crop's middle lies, as far as it then lies within the image.
    """
    starts = []
    for length, share in zip(image.shape[:2], place, strict=True):
        starts.append(max(0, min(round(length * share) - SIDE // 2, length - SIDE)))
    top, left = starts
    return np.ascontiguousarray(image[top : top + SIDE, left : left + SIDE])


def _busiest(image: Image) -> tuple[float, float]:
    """The middle, in shares of height and width, of the crop with the strongest edges."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    edges = np.abs(cv2.Laplacian(grey, cv2.CV_32F)).astype(np.float64)
    sums = np.pad(edges.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    height, width = grey.shape
    tall, wide = min(SIDE, height), min(SIDE, width)
    tops, lefts = np.arange(0, height - tall + 1, _STEP), np.arange(0, width - wide + 1, _STEP)
    bottoms, rights = tops + tall, lefts + wide
    within = sums[np.ix_(bottoms, rights)] - sums[np.ix_(tops, rights)]
    within = within - sums[np.ix_(bottoms, lefts)] + sums[np.ix_(tops, lefts)]
    top, left = np.unravel_index(int(within.argmax()), within.shape)
    return float((tops[top] + tall / 2) / height), float((lefts[left] + wide / 2) / width)


# Clips, severities and quality of WebP, in the order in which they are tried until all pictures have room on the page.
_PLANS = ((2, 9, 90), (1, 9, 90), (1, 9, 75), (1, 3, 75), (1, 2, 75), (1, 2, 50), (1, 1, 30))


def drawn(clips: Sequence[Sequence[Strip]]) -> Drawn:
    """The strips' pictures, fewer or smaller ones where all would make the page too large."""
    pictures: Drawn = []
    for number, severities, quality in _PLANS:
        pictures = []
        for strip in (strip for clip in clips[:number] for strip in clip):
            pictures.append((strip, [_encoded(crop, quality) for crop in _fewer(strip.crops, severities)]))
        if sum(len(picture["source"]) for _, of_strip in pictures for picture in of_strip) * 3 / 4 <= _MOST_BYTES:
            break
    return pictures


def _fewer(crops: Sequence[Crop], severities: int) -> list[Crop]:
    """The clean crop and at most so many severities: the highest, and others evenly below it."""
    clean, *rest = crops
    if len(rest) > severities:
        places = sorted({round(place) for place in np.linspace(len(rest) - 1, 0, severities)})
        rest = [rest[place] for place in places]
    return [clean, *rest]


def _encoded(crop: Crop, quality: int) -> dict[str, Any]:
    """A crop as a WebP inside the page, a data URI; no source where there is no picture."""
    shown = {"label": crop.label, "note": crop.note}
    if crop.image is None:
        return {**shown, "source": ""}
    height, width = crop.image.shape[:2]
    bgr = cv2.cvtColor(crop.image, cv2.COLOR_RGB2BGR)
    _, data = cv2.imencode(".webp", bgr, [cv2.IMWRITE_WEBP_QUALITY, quality])
    source = "data:image/webp;base64," + base64.b64encode(data.tobytes()).decode()
    return {**shown, "source": source, "width": width, "height": height}


def chosen(complete: Mapping[str, Sequence[VideoRow]], scenarios: int) -> list[str]:
    """Up to two items to show: of those with every scenario, or of all where none has, the first and the middle one."""
    whole = sorted(item_id for item_id, rows in complete.items() if len(rows) >= scenarios)
    candidates = whole or sorted(complete)
    return list(dict.fromkeys([*candidates[:1], *candidates[len(candidates) // 2 :][:1]]))
