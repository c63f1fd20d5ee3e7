"""The drawing of the demo's clips, and the job that trains its encoder."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path


def draw(item_id: str, path: Path) -> None:
    """Draw the clip of an item, and encode it into a file."""
    from perturbations.base import storage
    from perturbations.demo import film
    from perturbations.media import encoding, profiles
    from perturbations.media.clip import Frame, Timing

    rate = Fraction(film.FPS)
    pictures = film.frames(int(item_id.rpartition("-")[2]))
    frames = (Frame(image, index, index) for index, image in enumerate(pictures))
    with storage.atomic_path(path) as temporary:
        encoding.encode(frames, temporary, profiles.PROFILES["compatible"], Timing(1 / rate, rate))


def demo_encoder(*, seed: int, version: int, output: Path) -> None:
    """Train the small dual encoder on the demo's scenes. `version` changes when the training does."""
    from perturbations.base.project import need_models

    need_models()
    from perturbations.demo import encoder

    encoder.train(output, seed=seed)
