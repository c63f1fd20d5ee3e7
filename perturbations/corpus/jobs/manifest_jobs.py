"""The jobs of rules that make one manifest of all shards' parts: exactly the listed items, by the current recipes.

`work` is the folder of the collection's lists and parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.base.records import canonical, digest
from perturbations.corpus import corpus_card
from perturbations.corpus.captions import mixes as views
from perturbations.corpus.comparability import verdict
from perturbations.corpus.jobs.job_metadata import check_failures, provenance
from perturbations.corpus.plan import clip_lists, recipe
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.store import clip_rows
from perturbations.corpus.tally import Tally
from perturbations.manifest import files, manifest_paths, sets
from perturbations.manifest.attributes import of_row
from perturbations.manifest.rows import (
    ANALYSES,
    MIXES,
    QUARANTINE,
    SOURCES,
    VIDEOS,
    AnalysisRow,
    CompleteSource,
    SourceRow,
    VideoRow,
)
from perturbations.models.guides.guide_registry import parse_analysis
from perturbations.suites import suite_registry


def sources_manifest(*, dataset: str, work: Path, rejected: Path, attributes: Path, output: Path) -> None:
    """Merge the parts of the manifest of clean clips, add the items that no job uses, and the attributes of all.

    Raises `ManifestError` unless each listed item has exactly one row.
    """
    expected = (
        (
            work / "sources" / manifest_paths.name("source_part", shard=shard),
            [(clip.item_id, clip.path, clip.start_s, clip.end_s, clip.split) for clip in clips],
        )
        for shard, clips in clip_lists.read_folder(work / "shards", ListedClip).items()
    )
    rows = [*sets.merge(expected, SOURCES, ("item_id", "path", "start_s", "end_s", "split"))]
    rows += clip_lists.read(rejected, SourceRow)
    if problem := sets.difference(Counter(row.item_id for row in rows), {row.item_id for row in rows}):
        raise ManifestError(f"the lists of {dataset}: {problem}")
    about, of_items = {**provenance(output), "dataset": dataset}, clip_lists.read_texts(attributes)
    rows = [replace(row, **_described(row, of_items.get(row.item_id))) for row in rows]
    files.write(output, SOURCES, rows, {**about, sets.SET: sets.of_sources(rows).columns()})


def _described(row: SourceRow, attributes: str | None) -> dict[str, str | None]:
    """The columns that a row gets from the further ones of its item, whose split is the annotations' own."""
    split = of_row(attributes).get("split")
    return {"attributes": attributes, "split": split if isinstance(split, str) else row.split}


def analyses_manifest(*, dataset: str, recipe: Mapping[str, Any], work: Path, output: Path) -> None:
    """Merge the parts of an analysis of all clips; `recipe` is what they must follow.

    Raises `ManifestError` unless each complete clip has exactly one row.
    """
    current = parse_analysis(canonical(recipe))

    def due() -> Iterator[tuple[Path, list[object]]]:
        for shard in clip_lists.shards(work / "shards"):
            sources = files.read_part(work / "sources" / manifest_paths.name("source_part", shard=shard), SOURCES)
            complete = (row for row in sources if isinstance(row, CompleteSource))
            keys = [(row.item_id, clip_rows.expected_analysis(current, row, None).recipe_id) for row in complete]
            yield work / "analyses" / output.stem / manifest_paths.name("analysis_part", shard=shard), list(keys)

    rows: Iterator[AnalysisRow] = sets.merge(due(), ANALYSES, ("item_id", "recipe_id"))
    files.write(output, ANALYSES, rows, {**provenance(output), "dataset": dataset})


def videos_manifest(
    *,
    dataset: str,
    adapter: str,
    suite: str,
    captions: tuple[int, int],
    work: Path,
    recipes: Path,
    sources: Path,
    videos: Path,
    quarantine: Path,
    card: Path,
) -> None:
    """Merge the parts of a corpus, and write its card.

    Raises `ManifestError` unless each complete clip has exactly one row per scenario, made by the current recipe from
    the current source.
    """
    clips, wanted = files.read_part(sources, SOURCES), clip_lists.read_texts(recipes)
    complete = {row.item_id: row for row in clips if isinstance(row, CompleteSource)}
    lists = clip_lists.read_folder(work / "shards", ListedClip)
    members = {shard: [clip.item_id for clip in held if clip.item_id in complete] for shard, held in lists.items()}
    del lists  # which takes much memory
    tally = Tally()
    about: dict[str, object] = {}

    def rows() -> Iterator[VideoRow]:
        expected = (
            (
                work / suite / scenario / manifest_paths.name("video_part", shard=shard),
                [(item_id, text, complete[item_id].sha256) for item_id in item_ids],
            )
            for scenario, text in wanted.items()
            for shard, item_ids in members.items()
        )
        for row in sets.merge(expected, VIDEOS, ("item_id", "recipe", "source_sha256")):
            current = recipe.recipe_id(recipe.parse(row.recipe), complete[row.item_id], row.guide, row.cut)
            if row.recipe_id != current:
                scenario = f"{row.perturbation} {row.severity}"
                raise ManifestError(f"the row of {row.item_id!r} under {scenario} is not its recipe's")
            yield row

    def described() -> dict[str, object]:
        about.update(provenance(videos), dataset=dataset, suite=suite)
        about[sets.SET] = sets.of_sources(clips, tally.complete, len(wanted)).columns()
        about.update(adapter=adapter, config_digest=digest(dict(wanted)))
        about["comparability"] = verdict(tally, Tally(), adapter=adapter)
        about.update({sets.LOSSES: losses} if (losses := sets.losses_of(clips)) else {})
        return about

    files.write(videos, VIDEOS, tally.over(rows()), described)
    of_corpus = sets.of_sources(clips, tally.complete, len(wanted))
    text = corpus_card.card(suite_registry.suite(suite), tally, of_corpus, about, captions=captions)
    storage.write_text(card, text)
    files.write(quarantine, QUARANTINE, sets.quarantine_of(clips, tally.failed), about)


def mixes(*, videos: Path, sources: Path, severities: Path, types: Path) -> None:
    """Write the mixed manifests: views of a videos manifest."""
    rows, clips = files.read_part(videos, VIDEOS), files.read_part(sources, SOURCES)
    described = files.read_metadata(videos)
    about = {name: described[name] for name in ("dataset", "adapter", "suite", sets.SET, "comparability")}
    files.write(severities, MIXES, views.mixed_severity(rows), {**provenance(severities), **about})
    files.write(types, MIXES, views.mixed_types(rows, clips), {**provenance(types), **about})


def check_quarantine(*, allowed: int, quarantine: Path, output: Path) -> None:
    """Fail when more items are quarantined or missing than allowed."""
    rows = files.read_part(quarantine, QUARANTINE)
    # The first of an item's rows has the reason.
    reasons = {row.item_id: f"{row.stage}: {row.error}" for row in reversed(rows)}
    ways = "Repair them and run `perturb retry`, exclude them with `subset`,"
    check_failures(sorted(reasons.items()), allowed, "item", "quarantined or missing", ways, quarantine, output)
