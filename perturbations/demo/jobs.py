"""The drawing of the demo's clips, and the job that trains its encoder."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perturbations.corpus.listed import ListedClip


def draw(listed: ListedClip) -> None:
    """Draw a clip, and encode it where its list names it."""
    from perturbations.base import storage
    from perturbations.demo import film
    from perturbations.media import encoding
    from perturbations.media.clip import Frame, Timing

    rate = Fraction(film.FPS)
    pictures = film.frames(int(listed.item_id.rpartition("-")[2]))
    frames = (Frame(image, index, index) for index, image in enumerate(pictures))
    with storage.atomic_path(Path(listed.path)) as temporary:
        encoding.encode(frames, temporary, storage.PROFILES["compatible"], Timing(1 / rate, rate))


def demo_encoder(*, seed: int, version: int, output: Path) -> None:
    """Train the small dual encoder on the demo's scenes. `version` changes when the training does."""
    from perturbations.base.project import need_models

    need_models()
    from perturbations.demo import encoder

    encoder.train(output, seed=seed)
