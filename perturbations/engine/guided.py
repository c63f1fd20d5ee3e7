"""Guided recipes: the facts of a clip, from stored or new analyses, and the guide that the kernel takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache

from perturbations.base import rng
from perturbations.base.errors import ManifestError
from perturbations.base.records import parse_record
from perturbations.guides.guide import Analysed, AnalysisRecipe, Facts, Known
from perturbations.manifest.kinds import COMPLETE, AnalysisRow, CompleteSource
from perturbations.media.clip import MediaClip
from perturbations.media.footage import CleanClip
from perturbations.plan.recipe import VideoRecipe


def facts_of(recipe: VideoRecipe, clip: CleanClip | CompleteSource, known: Known) -> Facts | None:
    """The facts of one clip; None where the recipe is not guided.

    Raises `MediaError` when the clip's analysis failed, or nothing suitable is known of it.
    """
    if recipe.guide is None:
        return None
    # Without the severity, so that all severities share the draw.
    draw = float(rng.generator(recipe.seed, clip.dataset, clip.item_id, recipe.key).random())
    return recipe.guide.find(clip.item_id, known, seed=recipe.seed, draw=draw, parameters=recipe.params)


def facts_now(
    recipe: VideoRecipe,
    clip: CleanClip,
    others: Sequence[CleanClip] = (),
    analysed: Callable[[AnalysisRecipe, CleanClip], AnalysisRow] | None = None,
) -> Facts | None:
    """The facts of a clip that is analysed now; `others` are the clips that frames may be taken from.

    `analysed` replaces `analysed_now`, to keep rows that several recipes share. Raises `MediaError` when nothing
    suitable is found.
    """
    if recipe.guide is None:
        return None
    if recipe.guide.on_the_fly:
        return Facts()
    if recipe.analysis is None:
        return facts_of(recipe, clip, Known())
    row_of = analysed or analysed_now
    row = row_of(recipe.analysis, clip)
    donors = [row_of(recipe.analysis, other) for other in others] if recipe.donors else []
    return facts_of(recipe, clip, Known({row.item_id: row}, donors))


def analysed_now(recipe: AnalysisRecipe, clip: CleanClip) -> AnalysisRow:
    """The row of a clip that is analysed now, in memory. Raises `MediaError`."""
    (result,) = recipe.run([clip], files=[None], before={})
    if not isinstance(result, Analysed):
        raise result
    return AnalysisRow(
        dataset=clip.dataset,
        item_id=clip.item_id,
        analysis=recipe.analysis,
        recipe=recipe.text,
        recipe_id="",
        backend=result.backend,
        result=result.result,
        vector=result.vector,
        width=clip.width,
        height=clip.height,
        fps=clip.fps,
        frame_count=clip.num_frames,
        source_path=clip.place,
        source_sha256=clip.sha256,
        source_frames_sha256=clip.frames_sha256,
        start_s=clip.clip.start_s,
        end_s=clip.clip.end_s,
        status=COMPLETE,
    )


def parse_facts(recipe: VideoRecipe, text: str | None) -> Facts | None:
    """The facts of a row, as its recipe's guide needs them. Raises `ManifestError`."""
    if recipe.guide is None:
        if text is not None:
            raise ManifestError(f"{recipe.key} has no guide, but the row's column 'guide' has {text[:60]!r}")
        return None
    if text is None:
        raise ManifestError(
            f"the row does not say what {recipe.key} must know of the clip: its column 'guide' is empty"
        )
    return parse_record(recipe.guide.facts, text, f"the facts of the guide '{recipe.guide.kind}'")


def arguments(recipe: VideoRecipe, clip: CleanClip) -> tuple[object, ...]:
    """The guide, which a guided kernel takes beside the others."""
    if recipe.guide is None:
        return ()
    assert isinstance(clip.facts, Facts)
    return (recipe.guide.argument(clip.facts, clip, clip.kept),)


def other_clip(facts: object) -> MediaClip:
    """The other clip that frames are taken from. Raises `MediaError` when its file is missing or changed."""
    assert isinstance(facts, Facts), "the plan names frames of another clip, and the clip has no guide"
    return facts.other_clip()


def backends_of(backend: str | None) -> dict[str, str]:
    """The backend of each role, from a row's column `backend`."""
    return {role: model["backend"] for role, model in json.loads(backend or "{}").items()}


@lru_cache(maxsize=1024)  # a corpus has few, and many rows
def offline_roles(backend: str | None) -> tuple[str, ...]:
    """The roles that an offline stand-in played, from a row's column `backend`."""
    return tuple(role for role, chosen in backends_of(backend).items() if chosen == "offline")
