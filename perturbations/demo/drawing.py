"""The files of the demo's clips."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from perturbations.base import storage
from perturbations.demo import film
from perturbations.media import encoding
from perturbations.media.clip import Frame, Timing
from perturbations.plan.listed import ListedClip


def draw(listed: ListedClip) -> None:
    """Draw a clip, and encode it where its list names it."""
    rate = Fraction(film.FPS)
    pictures = film.frames(int(listed.item_id.rpartition("-")[2]))
    frames = (Frame(image, index, index) for index, image in enumerate(pictures))
    with storage.atomic_path(Path(listed.path)) as temporary:
        encoding.encode(frames, temporary, storage.PROFILES["compatible"], Timing(1 / rate, rate))
