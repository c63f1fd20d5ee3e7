"""The rows of manifests: the columns known before an item is made, and those added when it is finished or failed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from perturbations.base import storage
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, no_tick, ticking
from perturbations.base.records import canonical
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.plan.recipe import VideoRecipe, recipe_id
from perturbations.corpus.render import clean_clips
from perturbations.corpus.store.journal import Measured
from perturbations.manifest.rows import (
    COMPLETE,
    QUARANTINED,
    AnalysisRow,
    CompleteSource,
    QuarantineStage,
    SourceRow,
    VideoRow,
)
from perturbations.media import profiles
from perturbations.media.clean_clip import Cut
from perturbations.media.clip import Frame, MediaClip
from perturbations.models.guides.guide_registry import AnalysisRecipe, Facts, Known


def source_row(dataset: str, listed: ListedClip, tick: Tick = no_tick) -> CompleteSource:
    """Decode all frames of a listed clip and describe it. Raises `MediaError` when anything about it is wrong."""
    from perturbations.media import decoding, probing  # not at the top: planning needs no PyAV

    path = Path(listed.path)
    info = probing.probe(path)
    if listed.bytes is not None and path.stat().st_size != listed.bytes:
        raise MediaError("the file changed while the run was starting; run again")
    digest = hashlib.sha256()
    count = 0
    last: Frame | None = None
    for last in ticking(decoding.decode(MediaClip(path, listed.start_s, listed.end_s)), tick):
        digest.update(last.image.data)
        count += 1
    assert last is not None
    has_clock = not profiles.is_picture(path)
    return CompleteSource(
        dataset=dataset,
        **_of_list(listed),
        bytes=path.stat().st_size,
        sha256=storage.sha256(path),
        frames_sha256=digest.hexdigest(),
        codec=info.codec,
        pix_fmt=info.pix_fmt,
        width=last.image.shape[1],
        height=last.image.shape[0],
        fps=float(info.frame_rate) if has_clock else 0.0,
        frame_count=count,
        duration_s=float(last.pts * info.time_base + 1 / info.frame_rate) if has_clock else 0.0,
        rotation=info.rotation,
        sample_aspect_ratio=str(info.sample_aspect) if info.sample_aspect != 1 else None,
        source_losses=", ".join(info.losses) or None,
        status=COMPLETE,
    )


def quarantined_source(dataset: str, listed: ListedClip, error: str) -> SourceRow:
    """The row of a listed clip that cannot be decoded, with the reason."""
    return SourceRow(dataset=dataset, **_of_list(listed), status=QUARANTINED, stage="source", error=error)


def _of_list(listed: ListedClip) -> dict[str, Any]:
    """The columns that the row of a clean clip takes from its line in the list."""
    names = ("split", "item_id", "source_video_id", "start_s", "end_s", "path")
    return {name: getattr(listed, name) for name in names}


def expected_video(
    recipe: VideoRecipe,
    source: CompleteSource,
    relative_path: str | None,
    known: Known,
    cut_of: Callable[[CompleteSource], Cut] | None = None,
) -> VideoRow:
    """The row of a perturbed clip, without the measured columns; with a stage and the reason where it cannot be made.

    A clip cannot be made where its whole video lacks it, or where the facts that a guided recipe needs are not known.
    """
    cut: Cut | None = None
    facts: Facts | None = None
    stage: QuarantineStage | None = "source"
    error: str | None = None
    try:
        cut = cut_of(source) if cut_of else None
        stage = "analysis"
        facts = clean_clips.facts_of(recipe, source, known)
        stage = None
    except MediaError as reason:
        error, cut = str(reason), None
    guide = None if facts is None else facts.text
    place = None if cut is None else cut.text
    names = ("suite", "perturbation", "severity", "variant", "draw", "seed")
    of_recipe: dict[str, Any] = {name: getattr(recipe, name) for name in names}
    return VideoRow(
        **_of_source(source),
        **of_recipe,
        level=recipe.entry.category,
        params=canonical(recipe.params),
        backend=recipe.guide_recipe.models(known.rows.get(source.item_id)) if recipe.guide_recipe else "{}",
        guide=guide,
        **({} if facts is None else facts.columns),
        recipe=recipe.text,
        recipe_id=recipe_id(recipe, source, guide, place),
        path=relative_path if error is None else None,
        stage=stage,
        error=error,
        storage="/".join(str(recipe.storage[name]) for name in _STORAGE if name in recipe.storage),
        sample_aspect_ratio=source.sample_aspect_ratio,
        duration_s=source.duration_s,
        source_frame_count=source.frame_count,
        cut=place,
    )


def _of_source(source: CompleteSource) -> dict[str, Any]:
    """The columns that the row of a clip's result takes from its source, until it is complete."""
    names = ("dataset", "item_id", "width", "height", "fps", "frame_count", "start_s", "end_s")
    columns = {name: getattr(source, name) for name in names}
    return {**columns, "source_path": source.path, "source_sha256": source.sha256, "status": QUARANTINED}


_STORAGE = ("tier", "profile", "num_frames")
"""What the column `storage` says of a recipe: `video/high`, `frames/12` or `recipe`."""


def expected_analysis(recipe: AnalysisRecipe, source: CompleteSource, relative_path: str | None) -> AnalysisRow:
    """The row of an analysed clip, without the analysis's result."""
    return AnalysisRow(
        **_of_source(source),
        analysis=recipe.analysis,
        recipe=recipe.text,
        recipe_id=recipe_id(recipe, source),
        path=relative_path,
        source_frames_sha256=source.frames_sha256,
    )


_Item = TypeVar("_Item", VideoRow, AnalysisRow)


def complete(row: _Item, measured: Measured) -> _Item:
    """The row of a perturbed or analysed clip with the columns that were measured."""
    columns: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in measured.items()
    }
    return replace(row, **columns, status=COMPLETE)


def backends_of(backend: str | None) -> dict[str, str]:
    """The backend of each role, from a row's column `backend`."""
    return {role: model["backend"] for role, model in json.loads(backend or "{}").items()}


@lru_cache(maxsize=1024)  # a corpus has few, and many rows
def offline_roles(backend: str | None) -> tuple[str, ...]:
    """The roles that an offline stand-in played, from a row's column `backend`."""
    return tuple(role for role, chosen in backends_of(backend).items() if chosen == "offline")
