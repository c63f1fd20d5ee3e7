"""A scene, a recipe and the row of one stored clip."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import clips
import numpy as np

from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.store import stored_clip
from perturbations.manifest.rows import CompleteSource, VideoRow
from perturbations.models.guides.guide_registry import Known
from perturbations.suites import suite_registry

ENTRIES = suite_registry.perturbations(kind="video")


LOSSLESS = tiers.stored_video("lossless")


FRAMES = tiers.stored_frames(5)


RECIPE = tiers.UNSTORED


def scene(frames: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """A moving textured picture."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), dtype=np.uint8)
    large = np.kron(coarse, np.ones((8, 8, 1), np.uint8))
    return np.stack([large[:height, i % 8 : i % 8 + width] for i in range(frames)])


def donor_frames() -> np.ndarray:
    """Another clip, of another size and length."""
    return scene(9, 40, 72, seed=7)


def made_row(key: str, severity: int, tier: tiers.Storage, path: Path, folder: Path, **options: Any) -> VideoRow:
    """A complete manifest row as the workflow makes it."""
    row = row_of(key, severity, tier, path, folder, **options)
    assert row.status == "complete", row.error
    return row


source_row = cache(clips.source_row)


@cache
def known(text: str, source: CompleteSource, folder: Path) -> Known:
    """What analyses tell of a clip, for every tier of a recipe once."""
    wanted, donors = recipe.parse(text), []
    if suite_registry.get(wanted.key).in_variant(wanted.variant).guide in ("donor", "random_donor"):
        other = clips.write_scene(folder / "donor.mp4", donor_frames())
        donors = [source, clips.source_row(other, "other")]
    return clips.known(wanted, source, folder / "known", donors)


def row_of(
    key: str,
    severity: int,
    tier: tiers.Storage,
    path: Path,
    folder: Path,
    *,
    variant: str | None = None,
    seed: int = 0,
) -> VideoRow:
    wanted = recipe.make(suite_registry.get(key), severity, variant=variant, seed=seed, storage=tier, donors="data")
    source = source_row(path)
    target = folder / f"it{stored_clip.extension(wanted) or ''}"
    (row,) = clips.video_rows(
        wanted,
        [source],
        root=folder,
        folder=folder,
        known=known(replace(wanted, storage=RECIPE).text, source, folder.parent),
    )
    return replace(row, path=str(target) if row.path else None)
