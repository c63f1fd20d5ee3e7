"""Checks the manifests of captions: the listed, the rejected and the perturbed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from perturbations.base.errors import BackendError, ManifestError, ToolError
from perturbations.captions import caption_rows, pipeline
from perturbations.manifest import row_groups, sets
from perturbations.manifest.kinds import CAPTIONS, SOURCES, CaptionRow, QuarantineRow, TextRow
from perturbations.manifest.skipped import SKIPPED
from perturbations.plan.listed import ListedCaption
from perturbations.plan.recipe import TextRecipe, other_version, recorded_text
from perturbations.suites import registry
from perturbations.text.fluency import fluency_change
from perturbations.text.tokens import differs
from perturbations.verify.derived import doubled
from perturbations.verify.findings import Finding, as_recorded, differences, name_of
from perturbations.verify.manifest_check import ManifestCheck
from perturbations.verify.tree import Manifest, Tree


def check_captions(task: ManifestCheck[CaptionRow]) -> Iterator[Finding]:
    """The listed captions: each must occur once, and its item must be listed."""
    manifest = task.manifest
    yield from doubled(manifest)
    neighbour = task.tree.near(manifest, SOURCES)
    if neighbour is not None:
        sources = neighbour.rows
        items = {row.item_id for row in sources}
        for row in manifest.rows:
            if row.item_id not in items:
                yield Finding(manifest.path, row.caption_id, f"its item {row.item_id!r} is not listed")
        described = sets.of_sources(sources).columns()
        if manifest.about.get(sets.SET) != described:
            problem = f"its metadata says {manifest.about.get(sets.SET)}, but the sources give {described}"
            yield Finding(manifest.path, "", problem)


def check_texts(task: ManifestCheck[TextRow]) -> Iterator[Finding]:
    """Perturbed captions: one row per listed caption and scenario, with correct cells; made again unless fast.

    The remarks are the numbers of rows that cannot be made again on this machine or by this version, by reason.
    """
    manifest, remarks = task.manifest, task.summary.remarks
    place, key, unrecorded = manifest.path, manifest.kind.key, manifest.unrecorded
    yield from doubled(manifest)
    scenarios = row_groups.by_key(manifest.rows, lambda row: (row.perturbation, row.severity))
    listed = _listed_captions(task.tree, manifest)
    for (name, severity), stored in scenarios.items():
        members = list(stored)
        texts = Counter(row.recipe for row in members)
        try:
            recipe = recorded_text(texts.most_common(1)[0][0])
        except ManifestError as error:
            yield Finding(place, f"{name} {severity}", str(error))
            continue
        held = {row.caption_id for row in members}
        for caption_id in listed:
            if caption_id not in held:
                yield Finding(place, f"{name} {severity} {caption_id}", "the row is missing")
        again: dict[str, TextRow] = {}
        other = other_version(recipe)
        try:
            again = {} if task.options.fast or other else _again(recipe, members)
        except (BackendError, ToolError) as error:
            remarks[f"not made again: {error}"] += len(members)
        if other:
            remarks[f"not recomputed: {other}"] += len(members)
        for row in members:
            problems = _text_problems(row, recipe, listed, unrecorded)
            if row.caption_id in again:
                expected = replace(again[row.caption_id], item_id=row.item_id, dataset=row.dataset)
                problems += differences(row, as_recorded(expected, row, unrecorded))
            for problem in dict.fromkeys(problems):
                yield Finding(place, name_of(row, key), problem)
    yield from _listed_scenarios(manifest, len(scenarios), listed)


def _listed_captions(tree: Tree, manifest: Manifest[TextRow]) -> dict[str, CaptionRow]:
    described = tree.near(manifest, CAPTIONS)
    if described is not None:
        return {row.caption_id: row for row in described.rows}
    return {
        row.caption_id: CaptionRow(
            dataset=row.dataset, caption_id=row.caption_id, item_id=row.item_id, text=row.source_text
        )
        for row in manifest.rows
    }


def _listed_scenarios(manifest: Manifest[TextRow], scenarios: int, listed: dict[str, CaptionRow]) -> Iterator[Finding]:
    described = manifest.part(sets.SET)
    skipped = described.get(SKIPPED, [])
    rejected = described.get("quarantined")
    # Without captions there are no rows of scenarios.
    counted = sets.of_captions(listed, rejected if type(rejected) is int else 0, scenarios).columns()
    if not listed:
        counted["scenarios"] = described.get("scenarios")
    if described != {**counted, SKIPPED: skipped}:
        yield Finding(manifest.path, "", f"its metadata says {described}, but its rows give {counted}")


def check_rejected(task: ManifestCheck[QuarantineRow]) -> Iterator[Finding]:
    """The captions that cannot be used: their metadata must count them, besides those that can."""
    manifest = task.manifest
    yield from doubled(manifest)
    described = manifest.part(sets.SET)
    usable, rejected = described.get("complete"), len(manifest.rows)
    if not isinstance(usable, int) or (described.get("quarantined"), described.get("listed")) != (
        rejected,
        usable + rejected,
    ):
        yield Finding(manifest.path, "", f"its metadata says {dict(described)}, but it has {rejected} rows")


def _text_problems(
    row: TextRow, recipe: TextRecipe, listed: dict[str, CaptionRow], unrecorded: Sequence[str]
) -> list[str]:
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
        unchanged=pipeline.reason_of_no_change(entry, caption.text, row.text),
        fluency_change=fluency_change(caption.text, row.text),
        **caption_rows.of_recipe(recipe, caption.dataset, own),
    )
    problems = differences(row, as_recorded(expected, row, unrecorded))
    if not entry.gated and (row.attempts != 1 or not row.accepted):
        problems.append("there is no gate: attempts must be 1 and accepted true")
    if (row.similarity is None) == ("similarity" in entry.used_roles):
        problems.append(f"similarity must be {'measured' if row.similarity is None else 'empty'}")
    return problems


def _again(recipe: TextRecipe, rows: Sequence[TextRow]) -> dict[str, TextRow]:
    """The rows made again. Raises `BackendError` and `ToolError`."""
    listed = [ListedCaption(caption_id=row.caption_id, item_id=row.item_id, text=row.source_text) for row in rows]
    dataset = rows[0].dataset
    return {row.caption_id: row for row in caption_rows.run(recipe, dataset, listed)}
