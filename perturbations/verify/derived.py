"""Manifests whose rows follow from other manifests: their expected rows, and the differences from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perturbations.base import wings
from perturbations.base.errors import BackendError, ManifestError, MediaError, ToolError
from perturbations.captions import caption_rows
from perturbations.engine import clip_rows
from perturbations.engine.source import source_of
from perturbations.guides import registry as guides
from perturbations.guides.registry import AnalysisRecipe, Work, parse_analysis
from perturbations.manifest import locations, sets
from perturbations.manifest.kinds import (
    CAPTIONS,
    COMPLETE,
    SOURCES,
    TEXT_STATISTICS,
    TEXTS,
    VIDEOS,
    AnalysisRow,
    CaptionRow,
    CompleteSource,
    MultimodalRow,
    QrelRow,
    QuarantineRow,
    SourceRow,
    TextRow,
    TextStatisticsRow,
    VideoRow,
)
from perturbations.plan import mixes
from perturbations.plan.listed import ListedCaption
from perturbations.plan.recipe import TextRecipe, parse_text
from perturbations.suites import registry
from perturbations.text.fluency import fluency_change
from perturbations.text.tokens import differs
from perturbations.verify.findings import Finding, compared, differences, name_of, values
from perturbations.verify.tree import Manifest, Tree


def expected_rows(tree: Tree, manifest: Manifest[object]) -> Sequence[object] | None:
    """The rows that follow from a manifest's neighbours; None where a neighbour is not available."""
    folder = manifest.path.parent
    name = manifest.kind.name
    for rows_of_wing in wings.offered("expected_rows"):
        if (expected := rows_of_wing(tree, manifest)) is not None:
            return list(expected)
    if name == "qrels":
        described, sources = tree.neighbour(folder / "captions.parquet", CAPTIONS), _sources(tree, folder)
        return None if described is None or sources is None else _qrels(described.rows, sources)
    if name == "text_statistics":
        texts = tree.neighbour(folder / "captions.parquet", TEXTS)
        return None if texts is None else list(caption_rows.statistics(texts.rows))
    if name in ("quarantine", "mixes", "multimodal"):
        videos, sources = tree.neighbour(folder / "videos.parquet", VIDEOS), _sources(tree, folder.parent)
        if videos is None or sources is None:
            return None
        if name == "quarantine":
            return list(sets.quarantine_of(sources, videos.rows))
        if name == "multimodal":
            return _multimodal(tree, folder, videos)
        if manifest.path.stem == "mixed_severity":
            return list(mixes.mixed_severity(videos.rows))
        return list(mixes.mixed_types(videos.rows, sources))
    return None


def _sources(tree: Tree, folder: Path) -> list[SourceRow] | None:
    manifest = tree.neighbour(folder / "sources.parquet", SOURCES)
    return None if manifest is None else manifest.rows


def _qrels(described: Sequence[CaptionRow], sources: Sequence[SourceRow]) -> list[QrelRow]:
    complete = {row.item_id for row in sources if row.status == COMPLETE}
    return [
        QrelRow(query_id=row.caption_id, corpus_id=row.item_id, score=1) for row in described if row.item_id in complete
    ]


def _multimodal(tree: Tree, folder: Path, videos: Manifest[VideoRow]) -> list[MultimodalRow] | None:
    texts = tree.neighbour(folder / "captions.parquet", TEXTS)
    if texts is None:
        return None
    combined = registry.suite(folder.name).combined
    return [] if combined is None else list(mixes.multimodal(videos.rows, texts.rows, combined))


def check_derived(manifest: Manifest[object], expected: Sequence[object]) -> list[Finding]:
    """The differences between a manifest and its expected rows. METEOR is null where WordNet was not installed."""
    statistics = manifest.of(TEXT_STATISTICS)
    if statistics is not None:
        meteors = {values(row, manifest.kind.key): row.meteor for row in statistics.rows}
        expected = [
            _with_meteor(row, meteors.get(values(row, manifest.kind.key)))
            for row in expected
            if isinstance(row, TextStatisticsRow)
        ]
    return compared(manifest.path, manifest.kind, manifest.rows, expected, manifest.unrecorded)


def _with_meteor(row: TextStatisticsRow, meteor: float | None) -> TextStatisticsRow:
    """The expected row, with the manifest's METEOR where one of the two has none."""
    return replace(row, meteor=meteor) if meteor is None or row.meteor is None else row


# --- captions --------------------------------------------------------------------------------------------------------


def check_captions(tree: Tree, manifest: Manifest[CaptionRow]) -> Iterator[Finding]:
    """The listed captions: each must occur once, and its item must be listed."""
    yield from doubled(manifest)
    sources = _sources(tree, manifest.path.parent)
    if sources is not None:
        items = {row.item_id for row in sources}
        for row in manifest.rows:
            if row.item_id not in items:
                yield Finding(manifest.path, row.caption_id, f"its item {row.item_id!r} is not listed")
        described = sets.of_sources(sources).columns()
        if manifest.about.get("set") != described:
            problem = f"its metadata says {manifest.about.get('set')}, but the sources give {described}"
            yield Finding(manifest.path, "", problem)


def check_texts(tree: Tree, manifest: Manifest[TextRow], *, fast: bool, remarks: dict[str, int]) -> Iterator[Finding]:
    """Perturbed captions: one row per listed caption and scenario, with correct cells; made again unless `fast`.

    `remarks` receives the numbers of rows that cannot be made again on this machine, by reason.
    """
    rows = manifest.rows
    place, key = manifest.path, manifest.kind.key
    yield from doubled(manifest)
    scenarios: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for row in rows:
        scenarios[row.perturbation, row.severity][row.recipe] += 1
    listed = _listed_captions(tree, manifest)
    keys = {(row.perturbation, row.severity, row.caption_id) for row in rows}
    for (name, severity), texts in scenarios.items():
        try:
            recipe = parse_text(texts.most_common(1)[0][0])
        except ManifestError as error:
            yield Finding(place, f"{name} {severity}", str(error))
            continue
        members = [row for row in rows if (row.perturbation, row.severity) == (name, severity)]
        for caption_id in listed:
            if (name, severity, caption_id) not in keys:
                yield Finding(place, f"{name} {severity} {caption_id}", "the row is missing")
        again: dict[str, TextRow] = {}
        try:
            again = {} if fast else _again(recipe, members)
        except (BackendError, ToolError) as error:
            reason = f"not made again: {error}"
            remarks[reason] = remarks.get(reason, 0) + len(members)
        for row in members:
            problems = _text_problems(row, recipe, listed)
            if row.caption_id in again:
                problems += differences(row, replace(again[row.caption_id], item_id=row.item_id, dataset=row.dataset))
            for problem in dict.fromkeys(problems):
                yield Finding(place, name_of(row, key), problem)
    yield from _listed_scenarios(manifest, len(scenarios), listed)


def _listed_captions(tree: Tree, manifest: Manifest[TextRow]) -> dict[str, CaptionRow]:
    described = tree.neighbour(manifest.path.parent.parent / "captions.parquet", CAPTIONS)
    if described is not None:
        return {row.caption_id: row for row in described.rows}
    return {
        row.caption_id: CaptionRow(
            dataset=row.dataset, caption_id=row.caption_id, item_id=row.item_id, text=row.source_text
        )
        for row in manifest.rows
    }


def _listed_scenarios(manifest: Manifest[TextRow], scenarios: int, listed: dict[str, CaptionRow]) -> Iterator[Finding]:
    described = manifest.part("set")
    skipped = described.get("skipped", [])
    rejected = described.get("quarantined")
    # Without captions there are no rows of scenarios.
    counted = sets.of_captions(listed, rejected if type(rejected) is int else 0, scenarios).columns()
    if not listed:
        counted["scenarios"] = described.get("scenarios")
    if described != {**counted, "skipped": skipped}:
        yield Finding(manifest.path, "", f"its metadata says {described}, but its rows give {counted}")


def check_rejected(manifest: Manifest[QuarantineRow]) -> Iterator[Finding]:
    """The captions that cannot be used: their metadata must count them, besides those that can."""
    yield from doubled(manifest)
    described = manifest.part("set")
    usable, rejected = described.get("complete"), len(manifest.rows)
    if not isinstance(usable, int) or (described.get("quarantined"), described.get("listed")) != (
        rejected,
        usable + rejected,
    ):
        yield Finding(manifest.path, "", f"its metadata says {dict(described)}, but it has {rejected} rows")


def _text_problems(row: TextRow, recipe: TextRecipe, listed: dict[str, CaptionRow]) -> list[str]:
    caption = listed.get(row.caption_id)
    if caption is None:
        return ["the row is unexpected: its caption is not listed"]
    from perturbations.models import registry as models

    entry = registry.get(recipe.key)
    own = ListedCaption(caption_id=caption.caption_id, item_id=caption.item_id, text=caption.text)
    expected = replace(
        row,
        dataset=caption.dataset,
        item_id=caption.item_id,
        backend=models.names(entry.makers, recipe.backend),
        changed=row.text != caption.text,
        effective_change=differs(caption.text, row.text),
        fluency_change=fluency_change(caption.text, row.text),
        **caption_rows.of_recipe(recipe, caption.dataset, own),
    )
    problems = differences(row, expected)
    if not entry.gated and (row.attempts != 1 or not row.accepted):
        problems.append("there is no gate: attempts must be 1 and accepted true")
    if (row.similarity is None) == ("similarity" in entry.players):
        problems.append(f"similarity must be {'measured' if row.similarity is None else 'empty'}")
    return problems


def _again(recipe: TextRecipe, rows: Sequence[TextRow]) -> dict[str, TextRow]:
    """The rows made again. Raises `BackendError` and `ToolError`."""
    listed = [ListedCaption(caption_id=row.caption_id, item_id=row.item_id, text=row.source_text) for row in rows]
    dataset = rows[0].dataset
    return {row.caption_id: row for row in caption_rows.run(recipe, dataset, listed)}


# --- analyses --------------------------------------------------------------------------------------------------------


def check_analyses(tree: Tree, manifest: Manifest[AnalysisRow], *, fast: bool) -> Iterator[Finding]:
    """An analysis: one row per complete clip; made again where it is offline, unless `fast`."""
    yield from doubled(manifest)
    sources = _sources(tree, manifest.path.parent)
    complete = {row.item_id: row for row in sources or [] if isinstance(row, CompleteSource)}
    for item_id in sorted(set(complete) - {row.item_id for row in manifest.rows}):
        yield Finding(manifest.path, item_id, "the row is missing")
    texts = Counter(row.recipe for row in manifest.rows)
    if not texts:
        return
    try:
        recipe = parse_analysis(texts.most_common(1)[0][0])
    except ManifestError as error:
        yield Finding(manifest.path, "", str(error))
        return
    if recipe.analysis != manifest.path.stem:
        yield Finding(manifest.path, "", f"it holds the analysis {recipe.analysis}")
    declared = guides.analysis(recipe.analysis)
    is_repeatable = declared.extension is None and declared.after is None and recipe.is_offline
    for row in manifest.rows:
        source = complete.get(row.item_id)
        if source is None:
            if sources is not None:
                yield Finding(manifest.path, row.item_id, "the row is unexpected: its clip is not complete")
            continue
        expected = clip_rows.expected_analysis(recipe, source, row.path)
        unknown = ("backend", "result", "vector", "bytes", "sha256", "status", "stage", "error")
        problems = [*differences(row, expected, unknown), *_emptiness_problems(row, recipe)]
        if is_repeatable and not fast:
            problems += _analysed_again(row, source, recipe, manifest.root)
        for problem in problems:
            yield Finding(manifest.path, row.item_id, problem)


def _emptiness_problems(row: AnalysisRow, recipe: AnalysisRecipe) -> list[str]:
    """The cells that are wrongly empty or wrongly filled, by the row's status and the analysis's files."""
    reasons, results, of_file = ("stage", "error"), ("backend", "result", "vector"), ("path", "bytes", "sha256")
    filled: tuple[str, ...] = ("backend", *of_file)
    empty: tuple[str, ...] = reasons
    if row.status != COMPLETE:
        filled, empty = reasons, (*results, *of_file)
    elif guides.analysis(recipe.analysis).extension is None:
        filled, empty = ("backend",), (*reasons, *of_file)
    problems = [f"{name} must be filled in a row that is {row.status}" for name in filled if getattr(row, name) is None]
    return problems + [f"{name} must be empty" for name in empty if getattr(row, name) is not None]


def _analysed_again(row: AnalysisRow, source: CompleteSource, recipe: AnalysisRecipe, root: Path) -> list[str]:
    try:
        clip = source_of(locations.located(source, root))
        (outcome,) = guides.analysis(recipe.analysis).run(recipe, [clip], Work(files=[None]))
    except MediaError:
        return []  # a finding of the sources manifest
    if row.status != COMPLETE:
        return [] if isinstance(outcome, MediaError) else [f"it is {row.status}, but can be analysed: `perturb retry`"]
    if isinstance(outcome, MediaError):
        return [f"it is complete, but fails now: {outcome}"]
    problems = [name for name in ("backend", "result") if getattr(row, name) != getattr(outcome, name)]
    as_stored = None if outcome.vector is None else tuple(np.asarray(outcome.vector, np.float32).tolist())
    problems += [] if row.vector == as_stored else ["vector"]
    return [f"{name} is not what the analysis finds" for name in problems]


# --- any manifest ----------------------------------------------------------------------------------------------------


def doubled(manifest: Manifest[object]) -> Iterator[Finding]:
    """Rows that share one key."""
    for key, count in Counter(values(row, manifest.kind.key) for row in manifest.rows).items():
        if count > 1:
            yield Finding(manifest.path, " ".join(map(str, key)), "the row is there twice")
