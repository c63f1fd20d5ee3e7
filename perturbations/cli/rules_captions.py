"""The commands of rules about captions: captions, texts, merge-texts, combine."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base.records import digest
from perturbations.cli.arguments import Commands, add_command
from perturbations.cli.common import provenance


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "captions", _captions, "write the captions and qrels manifests")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--qrels", type=Path, required=True)

    parser = add_command(
        commands, "reject-captions", _reject_captions, "write the manifest of captions that cannot be used"
    )
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--captions", type=Path, required=True, help="folder of the shards' list files")
    parser.add_argument("--rejected", type=Path, required=True, help="the listed captions that cannot be used")
    parser.add_argument("--output", type=Path, required=True)

    parser = add_command(commands, "texts", _texts, "perturb the captions of a shard by one recipe")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--recipe", required=True, help="the recipe's JSON")
    parser.add_argument("--captions", type=Path, required=True, help="the shard's list file")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument(
        "--similarities", type=Path, help="a folder that jobs on the same shard share; it changes no result"
    )

    parser = add_command(commands, "merge-texts", _merge_texts, "merge perturbed captions, and write their statistics")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--adapter", required=True, help="the dataset's adapter")
    parser.add_argument("--captions", type=Path, required=True, help="folder of the shards' list files")
    parser.add_argument("--parts", type=Path, required=True, help="folder of the parts, PERTURBATION/SEVERITY/SHARD")
    parser.add_argument("--recipes", type=Path, required=True, help="the recipes of all scenarios, JSON")
    parser.add_argument("--rejected", type=Path, help="the listed captions that cannot be used")
    parser.add_argument("--skipped", default="[]", help="the perturbations that cannot be made, JSON")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--statistics", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True, help="Markdown: their statistics, with examples")

    parser = add_command(commands, "combine", _combine, "join perturbed captions with perturbed videos")
    parser.add_argument("--videos", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)


def _captions(options: argparse.Namespace) -> int:
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import CAPTIONS, QRELS, SOURCES, CaptionRow, qrels
    from perturbations.plan import listed

    captions = [
        CaptionRow(dataset=options.dataset, caption_id=line.caption_id, item_id=line.item_id, text=line.text)
        for line in listed.read(options.captions, listed.ListedCaption)
    ]
    sources = sets.read_part(options.sources, SOURCES)
    about = {"dataset": options.dataset, "set": sets.of_sources(sources).columns()}
    files.write(options.output, CAPTIONS, captions, {**provenance(options.output), **about})
    files.write(options.qrels, QRELS, qrels.of_captions(captions, sources), {**provenance(options.qrels), **about})
    return 0


def _reject_captions(options: argparse.Namespace) -> int:
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import QUARANTINE, QUARANTINED, QuarantineRow
    from perturbations.plan import listed

    rejected = listed.read(options.rejected, listed.RejectedItem)
    rows = [
        QuarantineRow(
            dataset=options.dataset, item_id=row.item_id, status=QUARANTINED, stage="annotation", error=row.error
        )
        for row in rejected
    ]
    shards = listed.read_folder(options.captions, listed.ListedCaption)
    caption_ids = [caption.caption_id for members in shards.values() for caption in members]
    described = sets.of_captions(caption_ids, len(rows)).columns()
    about = {**provenance(options.output), "dataset": options.dataset, "set": described}
    files.write(options.output, QUARANTINE, rows, about)
    return 0


def _texts(options: argparse.Namespace) -> int:
    from perturbations.base.progress import logged
    from perturbations.captions import caption_rows
    from perturbations.manifest import files
    from perturbations.manifest.kinds import TEXTS
    from perturbations.plan import listed, recipe

    lines = listed.read(options.captions, listed.ListedCaption)
    rows = caption_rows.run(recipe.parse_text(options.recipe), options.dataset, lines, options.similarities)
    files.write_part(options.output, TEXTS, list(logged(rows, len(lines), "captions")))
    return 0


def _merge_texts(options: argparse.Namespace) -> int:
    from perturbations.base import storage
    from perturbations.base.progress import logged
    from perturbations.captions import caption_page, caption_rows
    from perturbations.engine import merging
    from perturbations.engine.comparability import comparability
    from perturbations.manifest import files, sets, skipped
    from perturbations.manifest.kinds import TEXT_STATISTICS, TEXTS
    from perturbations.plan.listed import RejectedItem, read, read_recipes

    rejected = read(options.rejected, RejectedItem) if options.rejected else []
    rows, listed = merging.texts(options.dataset, options.captions, options.parts, options.recipes, len(rejected))
    left_out = skipped.parse(options.skipped)
    described = {**listed.columns(), "skipped": skipped.columns(left_out)}
    about = {**provenance(options.output), "dataset": options.dataset, "set": described}
    recipes = digest(dict(read_recipes(options.recipes)))
    about |= {"adapter": options.adapter, "config_digest": recipes}
    about["comparability"] = comparability([], rows, adapter=options.adapter)
    about |= sets.unrecorded(options.parts, TEXTS)
    files.write(options.output, TEXTS, rows, about)
    scenarios = len({(row.perturbation, row.severity) for row in rows})
    counted = list(logged(caption_rows.statistics(rows), scenarios, "perturbations counted"))
    files.write(options.statistics, TEXT_STATISTICS, counted, about)
    storage.write_text(options.page, caption_page.of_corpus(rows, listed, rejected, left_out))
    return 0


def _combine(options: argparse.Namespace) -> int:
    from perturbations.engine.comparability import comparability
    from perturbations.manifest import files, sets, skipped
    from perturbations.manifest.kinds import MULTIMODAL, TEXTS, VIDEOS
    from perturbations.plan import mixes
    from perturbations.suites import registry

    videos = sets.read_part(options.videos, VIDEOS)
    texts = sets.read_part(options.texts, TEXTS)
    described = files.read_metadata(options.videos)
    combined = registry.suite(described["suite"]).combined
    about = {name: described[name] for name in ("dataset", "suite", "set")}
    about |= provenance(options.output)
    about["comparability"] = comparability(videos, texts, adapter=str(described.get("adapter", "")))
    if combined is not None:
        entries = skipped.of_manifest(files.read_metadata(options.texts))
        left_out = [entry for entry in entries if entry.perturbation in combined.text]
        about["set"] = {**about["set"], "skipped": skipped.columns(left_out)}
    files.write(options.output, MULTIMODAL, mixes.combinations(videos, texts), about)
    return 0
