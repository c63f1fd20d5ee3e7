"""The commands of rules about captions: captions, texts, merge-texts, combine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perturbations.base.records import digest
from perturbations.cli.arguments import Commands, add_job
from perturbations.cli.common import provenance


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    for job in (_captions, _reject_captions, _texts, _merge_texts, _combine):
        add_job(commands, job)


def _captions(dataset: str, captions: Path, sources: Path, output: Path, qrels: Path) -> None:
    """Write the captions and qrels manifests."""
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import CAPTIONS, QRELS, SOURCES, CaptionRow
    from perturbations.manifest.kinds.qrels import of_captions
    from perturbations.plan import listed

    rows = [
        CaptionRow(dataset=dataset, caption_id=line.caption_id, item_id=line.item_id, text=line.text)
        for line in listed.read(captions, listed.ListedCaption)
    ]
    clips = sets.read_part(sources, SOURCES)
    about = {"dataset": dataset, sets.SET: sets.of_sources(clips).columns()}
    files.write(output, CAPTIONS, rows, {**provenance(output), **about})
    files.write(qrels, QRELS, of_captions(rows, clips), {**provenance(qrels), **about})


def _reject_captions(dataset: str, captions: Path, rejected: Path, output: Path) -> None:
    """Write the manifest of captions that cannot be used."""
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import QUARANTINE, QUARANTINED, QuarantineRow
    from perturbations.plan import listed

    rows = [
        QuarantineRow(dataset=dataset, item_id=row.item_id, status=QUARANTINED, stage="annotation", error=row.error)
        for row in listed.read(rejected, listed.RejectedItem)
    ]
    shards = listed.read_folder(captions, listed.ListedCaption)
    caption_ids = [caption.caption_id for members in shards.values() for caption in members]
    described = sets.of_captions(caption_ids, len(rows)).columns()
    about = {**provenance(output), "dataset": dataset, sets.SET: described}
    files.write(output, QUARANTINE, rows, about)


def _texts(dataset: str, recipes: Path, captions: Path, output: Path) -> None:
    """Perturb the captions of a shard by every recipe of a suite."""
    from perturbations.base.progress import logged
    from perturbations.captions import text_parts
    from perturbations.manifest import layout
    from perturbations.plan import clip_markers, listed
    from perturbations.plan.recipe import parse_text

    wanted = {
        output.parent / scenario / layout.name("text_part", shard=layout.shard_of(output)): parse_text(text)
        for scenario, text in listed.read_recipes(recipes).items()
    }
    parts = text_parts.run(dataset, listed.read(captions, listed.ListedCaption), wanted)
    written = list(logged(parts, len(wanted), "perturbations"))
    clip_markers.write_texts(output, written)


def _merge_texts(
    dataset: str,
    adapter: str,
    captions: Path,
    parts: Path,
    recipes: Path,
    output: Path,
    statistics: Path,
    rejected: Path | None = None,
    skipped: str = "[]",
) -> None:
    """Merge perturbed captions, and write their statistics."""
    from perturbations.base.progress import logged
    from perturbations.captions import caption_rows
    from perturbations.engine import merging
    from perturbations.engine.comparability import verdict
    from perturbations.engine.tally import Tally, TextTally
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import TEXT_STATISTICS, TEXTS, TextRow, TextStatisticsRow
    from perturbations.manifest.skipped import columns, parse
    from perturbations.plan.listed import RejectedItem, read, read_recipes

    unusable = len(read(rejected, RejectedItem)) if rejected else 0
    rows, listed = merging.texts(dataset, captions, parts, recipes, unusable)
    left_out, wanted = parse(skipped), read_recipes(recipes)
    tally, counted = TextTally(), list[TextStatisticsRow]()
    about: dict[str, object] = {}

    def merged() -> Iterator[TextRow]:
        for members in logged(caption_rows.by_scenario(rows), len(wanted), "perturbations counted"):
            scenario = caption_rows.CaptionTally()
            for row in members:
                scenario.add(row)
                tally.add(row)
                yield row
            counted.append(scenario.summary().statistics)

    def described() -> dict[str, object]:
        about.update(provenance(output), dataset=dataset)
        about[sets.SET] = {**listed.columns(), **columns(left_out)}
        about.update(adapter=adapter, config_digest=digest(dict(wanted)))
        about["comparability"] = verdict(Tally(), tally, adapter=adapter)
        return about

    files.write(output, TEXTS, merged(), described)
    files.write(statistics, TEXT_STATISTICS, counted, about)


def _combine(videos: Path, texts: Path, output: Path) -> None:
    """Join perturbed captions with perturbed videos."""
    from perturbations.engine.comparability import comparability
    from perturbations.manifest import files, sets, skipped
    from perturbations.manifest.kinds import MULTIMODAL, TEXTS, VIDEOS
    from perturbations.plan import mixes
    from perturbations.suites import registry

    clips, captions = sets.read_part(videos, VIDEOS), sets.read_part(texts, TEXTS)
    described = files.read_metadata(videos)
    combined = registry.suite(described["suite"]).combined
    about = {name: described[name] for name in ("dataset", "suite", sets.SET)}
    about |= provenance(output)
    about["comparability"] = comparability(clips, captions, adapter=str(described.get("adapter", "")))
    if combined is not None:
        entries = skipped.of_manifest(files.read_metadata(texts))
        left_out = [entry for entry in entries if entry.perturbation in combined.text]
        about[sets.SET] = {**about[sets.SET], **skipped.columns(left_out)}
    files.write(output, MULTIMODAL, mixes.combinations(clips, captions), about)
