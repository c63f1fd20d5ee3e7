"""The jobs of rules about captions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from perturbations.base.records import canonical, digest
from perturbations.cli.common import check_failures, provenance
from perturbations.manifest import files, layout, sets
from perturbations.manifest import skipped as skipped_entries
from perturbations.manifest.kinds import (
    CAPTIONS,
    MULTIMODAL,
    QRELS,
    QUARANTINE,
    QUARANTINED,
    SOURCES,
    TEXT_STATISTICS,
    TEXTS,
    VIDEOS,
    CaptionRow,
    QuarantineRow,
    TextRow,
    TextStatisticsRow,
)
from perturbations.plan.listed import ListedCaption, RejectedItem, read, read_folder, read_recipes


def captions(*, dataset: str, listed: Path, sources: Path, captions: Path, qrels: Path) -> None:
    """Write the captions and qrels manifests."""
    rows = [
        CaptionRow(dataset=dataset, caption_id=line.caption_id, item_id=line.item_id, text=line.text)
        for line in read(listed, ListedCaption)
    ]
    clips = files.read_part(sources, SOURCES)
    about = {"dataset": dataset, sets.SET: sets.of_sources(clips).columns()}
    files.write(captions, CAPTIONS, rows, {**provenance(captions), **about})
    files.write(qrels, QRELS, sets.qrels(rows, clips), {**provenance(qrels), **about})


def rejected_captions(*, dataset: str, work: Path, rejected: Path, output: Path) -> None:
    """Write the manifest of captions that cannot be used."""
    rows = [
        QuarantineRow(dataset=dataset, item_id=row.item_id, status=QUARANTINED, stage="annotation", error=row.error)
        for row in read(rejected, RejectedItem)
    ]
    shards = read_folder(work / "captions", ListedCaption)
    caption_ids = [caption.caption_id for members in shards.values() for caption in members]
    described = sets.of_captions(caption_ids, len(rows)).columns()
    about = {**provenance(output), "dataset": dataset, sets.SET: described}
    files.write(output, QUARANTINE, rows, about)


def check_captions(*, allowed: int, quarantine: Path, output: Path) -> None:
    """Fail when more captions cannot be used than allowed."""
    failures = [(row.item_id, row.error) for row in files.read_part(quarantine, QUARANTINE)]
    ways = "Correct the annotations, exclude their items with `subset`,"
    check_failures(failures, allowed, "listed caption", "cannot be used", ways, quarantine, output)


def texts(*, dataset: str, recipes: Path, captions: Path, marker: Path) -> None:
    """Perturb the captions of a shard by every recipe of a suite."""
    from perturbations.base.progress import logged
    from perturbations.captions import text_parts
    from perturbations.plan.recipe import parse_text

    wanted = {
        marker.parent / scenario / layout.name("text_part", shard=layout.shard_of(marker)): parse_text(text)
        for scenario, text in read_recipes(recipes).items()
    }
    parts = text_parts.run(dataset, read(captions, ListedCaption), wanted)
    written = list(logged(parts, len(wanted), "perturbations"))
    text_parts.write_marker(marker, written)


def texts_manifest(
    *,
    dataset: str,
    adapter: str,
    suite: str,
    skipped: list[Any],
    work: Path,
    recipes: Path,
    rejected: Path,
    texts: Path,
    statistics: Path,
) -> None:
    """Merge perturbed captions, and write their statistics."""
    from perturbations.base.progress import logged
    from perturbations.captions import caption_rows, text_parts
    from perturbations.engine import merging
    from perturbations.engine.comparability import verdict
    from perturbations.engine.tally import Tally

    unusable = len(read(rejected, RejectedItem))
    parts = work / suite / "captions"
    text_parts.drop_untrue_markers(parts)  # what is missing stops the merge below; the next run makes it again
    rows, listed = merging.texts(dataset, work / "captions", parts, recipes, unusable)
    left_out, wanted = skipped_entries.parse(canonical(skipped)), read_recipes(recipes)
    tally, counted = Tally(), list[TextStatisticsRow]()
    about: dict[str, object] = {}

    def merged() -> Iterator[TextRow]:
        scenarios = groupby(rows, lambda row: (row.perturbation, row.severity))
        for _, scenario in logged(scenarios, len(wanted), "perturbations counted"):
            members = list(scenario)
            counted.append(caption_rows.statistics(members))
            yield from tally.over(members)

    def described() -> dict[str, object]:
        about.update(provenance(texts), dataset=dataset)
        about[sets.SET] = {**listed.columns(), **skipped_entries.columns(left_out)}
        about.update(adapter=adapter, config_digest=digest(dict(wanted)))
        about["comparability"] = verdict(Tally(), tally, adapter=adapter)
        return about

    files.write(texts, TEXTS, merged(), described)
    files.write(statistics, TEXT_STATISTICS, counted, about)


def multimodal(*, videos: Path, texts: Path, output: Path) -> None:
    """Join perturbed captions with perturbed videos."""
    from perturbations.engine.comparability import verdict
    from perturbations.engine.tally import Tally
    from perturbations.plan import mixes
    from perturbations.suites import registry

    clips, captions = files.read_part(videos, VIDEOS), files.read_part(texts, TEXTS)
    described = files.read_metadata(videos)
    combined = registry.suite(described["suite"]).combined
    about = {name: described[name] for name in ("dataset", "suite", sets.SET)}
    about |= provenance(output)
    tallies = Tally().counted(clips), Tally().counted(captions)
    about["comparability"] = verdict(*tallies, adapter=str(described.get("adapter", "")))
    if combined is not None:
        entries = skipped_entries.of_manifest(files.read_metadata(texts))
        left_out = [entry for entry in entries if entry.perturbation in combined.text]
        about[sets.SET] = {**about[sets.SET], **skipped_entries.columns(left_out)}
    files.write(output, MULTIMODAL, mixes.combinations(clips, captions), about)
