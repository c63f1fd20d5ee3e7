"""What the wing `demo` brings to the spine."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.demo.layout import PLACES
from perturbations.plan.extension import PlanWing

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands
    from perturbations.plan.listed import ListedClip


def _draw(listed: ListedClip) -> None:
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


def _jobs(commands: Commands) -> None:
    from perturbations.cli.arguments import add_job

    add_job(commands, _train_encoder)


def _train_encoder(seed: int, output: Path) -> None:
    """Train the small dual encoder on the demo's scenes."""
    from perturbations.cli.common import need_models

    need_models()
    from perturbations.demo import encoder

    encoder.train(output, seed=seed)


WING = PlanWing(
    summary="clips that the package draws itself",
    rules=("demo",),
    things={"perturbations.datasets": {"demo": "adapter"}},
    places=PLACES,
    declare_jobs=_jobs,
    draw=_draw,
    encoder="demo_encoder",
)
