"""Previews of a corpus's clips: short and small, in a form that every browser plays, inside the page."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from perturbations.base.arrays import Image, uniform_indices
from perturbations.base.errors import ManifestError, MediaError
from perturbations.manifest.rows import VideoRow
from perturbations.media import encoding
from perturbations.media.clip import Frame, Timing
from perturbations.media.profiles import Profile, is_picture
from perturbations.pages import preview_sheet

_FRAMES, RATE = 16, 8  # of all previews, so that those side by side stay in step
_LATEST = 60  # no frame before it is skipped: of a long clip, only the beginning is decoded
_SIDE = 240  # the most pixels of a side
_PROFILE = Profile("libx264", "yuv420p", {"preset": "veryfast", "crf": "32", "x264-params": "cpu-independent=1"})
_TIMING = Timing(Fraction(1, RATE), Fraction(RATE))
_QUALITY = 40  # of stills
_ITEMS = 2


Preview = Mapping[str, str]
"""A clip that plays: addresses of data inside the page of a `video`, an MP4 (H.264, 4:2:0), and of a `still`, a WebP of
its middle frame; and a `note`, why there is none. What does not apply is empty, as the video of a picture."""

ItemPreviews = tuple[dict[bool, Preview], dict[str, list[tuple[VideoRow, Preview]]]]
"""Of an item the clean clip, its beginning (False), and all of it (True), as far as perturbed ones are beside it; and
the previews of each perturbation in order, each with its row, by severity."""


def chosen(complete: Mapping[str, int]) -> list[str]:
    """Up to two items to show, evenly spread over those with the most complete rows, whose numbers are given."""
    most = max(complete.values(), default=0)
    candidates = sorted(item_id for item_id, count in complete.items() if count == most)
    return list(dict.fromkeys(candidates[place * len(candidates) // _ITEMS] for place in range(_ITEMS) if candidates))


def of_item(rows: Sequence[VideoRow], names: Sequence[str], root: Path) -> ItemPreviews:
    """The previews of an item; `rows` are complete and have absolute paths, `names` are the perturbations in order.

    `root` is left out where a reason names a file below it, so that a page does not say where it was made.
    """
    clean: dict[bool, Preview] = {}
    perturbed: dict[str, list[tuple[VideoRow, Preview]]] = {}
    for name in names:
        members = sorted((row for row in rows if row.perturbation == name), key=lambda row: row.severity)
        whole = any(map(preview_sheet.moves_frames, members))
        if members and whole not in clean:
            clean[whole] = _preview(members[0], root, preview_sheet.clean_frames, whole)
        if members:
            perturbed[name] = [(row, _preview(row, root, preview_sheet.perturbed_frames, whole)) for row in members]
    return clean, perturbed


def places(held: int, fps: float, *, whole: bool) -> list[int]:
    """The frames of a preview: of its beginning at about their own speed, or spread over the clip."""
    step = max(1, round(fps / RATE))
    if whole or held < _FRAMES * step:
        return uniform_indices(_FRAMES, held)
    start = min(held - _FRAMES * step, _LATEST)
    return [start + step * place for place in range(_FRAMES)]


def _preview(
    row: VideoRow, root: Path, frames_of: Callable[[VideoRow, preview_sheet.PlacesOf], list[Image]], whole: bool
) -> Preview:
    """A preview; where a file is missing or damaged, the reason. A page of the others is still of use."""
    whole = whole or row.stored_frames is not None
    try:
        chosen = partial(places, fps=row.fps, whole=whole)
        images = [scaled_down(image, _SIDE, multiple=2) for image in frames_of(row, chosen)]  # 4:2:0 needs even sides
    except (MediaError, ManifestError, IndexError) as error:
        return {"video": "", "still": "", "note": " ".join(str(error).replace(f"{root}/", "").split())[:120]}
    video = "" if is_picture(row.source_path) else _address("video/mp4", encoded(images))
    middle = cv2.cvtColor(images[len(images) // 2], cv2.COLOR_RGB2BGR)
    still = cv2.imencode(".webp", middle, [cv2.IMWRITE_WEBP_QUALITY, _QUALITY])[1]
    return {"video": video, "still": _address("image/webp", still.tobytes()), "note": ""}


def encoded(images: Sequence[Image], profile: Profile = _PROFILE) -> bytes:
    """An MP4 of images with even sides, at the rate of all previews."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "preview.mp4")
        encoding.encode((Frame(image, place, place) for place, image in enumerate(images)), path, profile, _TIMING)
        return path.read_bytes()


def scaled_down(image: Image, most: int, *, multiple: int = 1) -> Image:
    """The image with no side longer than `most` pixels; the sides are multiples of a number."""
    scale = min(1.0, most / max(image.shape[:2]))
    width, height = (multiple * max(1, round(side * scale / multiple)) for side in image.shape[1::-1])
    return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
