"""Merges the parts of all shards: exactly the listed items, under each scenario, by the current recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from perturbations.base.errors import ManifestError
from perturbations.engine import clip_rows
from perturbations.guides.registry import parse_analysis
from perturbations.manifest import files, layout, sets
from perturbations.manifest.kinds import (
    ANALYSES,
    SOURCES,
    TEXTS,
    VIDEOS,
    AnalysisRow,
    CompleteSource,
    SourceRow,
    TextRow,
    VideoRow,
)
from perturbations.plan import caption_recipes, listed, recipe
from perturbations.plan.listed import ListedCaption, ListedClip, Recipes, RejectedItem


def sources(dataset: str, shards: Path, parts: Path, rejected: Path) -> list[SourceRow]:
    """The rows of all listed items: the rows of the parts, and the rows of items that no job uses.

    Raises `ManifestError` unless each listed item has exactly one row.
    """
    lists = listed.read_folder(shards, ListedClip)
    expected = (
        (
            parts / layout.name("source_part", shard=shard),
            [(clip.item_id, clip.path, clip.start_s, clip.end_s, clip.split) for clip in clips],
        )
        for shard, clips in lists.items()
    )
    described = [*sets.merge(expected, SOURCES, ("item_id", "path", "start_s", "end_s", "split"))]
    unused = [
        clip_rows.rejected_source(dataset, item.item_id, item.split, item.error, missing=item.missing)
        for item in listed.read(rejected, RejectedItem)
    ]
    every = described + unused
    if problem := sets.difference(Counter(row.item_id for row in every), {row.item_id for row in every}):
        raise ManifestError(f"the lists of {dataset}: {problem}")
    return every


def analyses(sources: Path, shards: Path, parts: Path, text: str) -> Iterator[AnalysisRow]:
    """The rows of an analysis of every complete clip. Raises `ManifestError` unless each clip has exactly one row."""
    current = parse_analysis(text)

    def expected(shard: str) -> list[object]:
        described = files.read_part(sources / layout.name("source_part", shard=shard), SOURCES)
        complete = (row for row in described if isinstance(row, CompleteSource))
        return [(row.item_id, clip_rows.expected_analysis(current, row, None).recipe_id) for row in complete]

    members = listed.read_folder(shards, ListedClip)
    due = ((parts / layout.name("analysis_part", shard=shard), expected(shard)) for shard in members)
    return sets.merge(due, ANALYSES, ("item_id", "recipe_id"))


def videos(sources: Sequence[SourceRow], shards: Path, parts: Path, recipes: Recipes) -> Iterator[VideoRow]:
    """The rows of every complete clip under every scenario.

    Raises `ManifestError` unless each clip has exactly one row per scenario, made by the current recipe from the
    current source.
    """
    complete = {row.item_id: row for row in sources if isinstance(row, CompleteSource)}
    lists = listed.read_folder(shards, ListedClip)
    members = {shard: [clip.item_id for clip in clips if clip.item_id in complete] for shard, clips in lists.items()}
    del lists  # which takes much memory
    expected = (
        (
            parts / scenario / layout.name("video_part", shard=shard),
            [(item_id, text, complete[item_id].sha256) for item_id in item_ids],
        )
        for scenario, text in recipes.items()
        for shard, item_ids in members.items()
    )
    for row in sets.merge(expected, VIDEOS, ("item_id", "recipe", "source_sha256")):
        current = recipe.recipe_id(recipe.parse(row.recipe), complete[row.item_id], row.guide, row.cut)
        if row.recipe_id != current:
            raise ManifestError(
                f"the row of {row.item_id!r} under {row.perturbation} {row.severity} is not its recipe's"
            )
        yield row


def texts(
    dataset: str, lists: Path, parts: Path, recipes: Path, rejected: int
) -> tuple[Iterator[TextRow], sets.Listed]:
    """The rows of every usable caption, one scenario after the other, and the statuses of the listed captions.

    `rejected` is the number of listed captions that cannot be used.

    Reading the rows raises `ManifestError` unless each caption has exactly one row per scenario, made by the current
    recipe from the current text.
    """
    shards = listed.read_folder(lists, ListedCaption)
    current = listed.read_recipes(recipes)

    def expected(text: str, members: Sequence[ListedCaption]) -> list[object]:
        parsed = recipe.parse_text(text)
        return [(caption.caption_id, caption_recipes.text_id(parsed, dataset, caption)) for caption in members]

    due = (
        (parts / scenario / layout.name("text_part", shard=shard), expected(text, members))
        for scenario, text in current.items()
        for shard, members in shards.items()
    )
    merged = sets.merge(due, TEXTS, ("caption_id", "recipe_id"))
    caption_ids = [caption.caption_id for members in shards.values() for caption in members]
    return merged, sets.of_captions(caption_ids, rejected, len(current))
