"""The commands of rules that make one manifest of all shards' parts: merge, merge-videos, mix, check."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base.errors import ManifestError
from perturbations.base.records import digest
from perturbations.cli.arguments import Commands, add_command
from perturbations.cli.common import provenance


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "merge", _merge, "merge the parts of a manifest of sources or analyses")
    parser.add_argument("kind", choices=("sources", "analyses"))
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--shards", type=Path, required=True, help="folder of the shards' list files")
    parser.add_argument("--parts", type=Path, required=True, help="folder of the parts, one per shard")
    parser.add_argument("--rejected", type=Path, help="sources: the listed items that cannot be used")
    parser.add_argument("--sources", type=Path, help="analyses: folder of the parts of the sources, one per shard")
    parser.add_argument("--recipe", help="analyses: the analysis's JSON")
    parser.add_argument("--output", type=Path, required=True)

    parser = add_command(commands, "merge-videos", _merge_videos, "merge the parts of a corpus, and write its card")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--adapter", required=True, help="the dataset's adapter")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--shards", type=Path, required=True, help="folder of the shards' list files")
    parser.add_argument("--parts", type=Path, required=True, help="folder of the parts, PERTURBATION/SEVERITY/SHARD")
    parser.add_argument("--recipes", type=Path, required=True, help="the recipes of all scenarios, JSON")
    parser.add_argument("--sources", type=Path, required=True, help="the sources manifest")
    parser.add_argument("--quarantine", type=Path, required=True, help="where to write the quarantine manifest")
    parser.add_argument("--card", type=Path, required=True, help="where to write the dataset card")
    parser.add_argument(
        "--captions", nargs=2, type=int, default=[0, 0], help="numbers of captions that can be used, and that cannot"
    )
    parser.add_argument("--output", type=Path, required=True)

    parser = add_command(commands, "mix", _mix, "write the mixed manifests: views of a videos manifest")
    parser.add_argument("--videos", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--severities", type=Path, required=True, help="mixed_severity to write")
    parser.add_argument("--types", type=Path, required=True, help="mixed_types to write")

    parser = add_command(commands, "check", _check, "fail when more items are quarantined than allowed")
    parser.add_argument("quarantine", type=Path)
    parser.add_argument("--captions", action="store_true", help="count captions, of which an item may have several")
    parser.add_argument("--allowed", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)


def _merge(options: argparse.Namespace) -> int:
    from perturbations.engine import merging
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import ANALYSES, SOURCES

    about = {**provenance(options.output), "dataset": options.dataset}
    is_sources = options.kind == "sources"
    about |= sets.unrecorded(options.parts, SOURCES) if is_sources else sets.unrecorded(options.parts, ANALYSES)
    if is_sources:
        sources = merging.sources(options.dataset, options.shards, options.parts, options.rejected)
        files.write(options.output, SOURCES, sources, {**about, "set": sets.of_sources(sources).columns()})
    else:
        rows = merging.analyses(options.sources, options.shards, options.parts, options.recipe)
        files.write(options.output, ANALYSES, rows, about)
    return 0


def _merge_videos(options: argparse.Namespace) -> int:
    from perturbations.base import storage
    from perturbations.engine import corpus_card, merging
    from perturbations.engine.comparability import comparability
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import QUARANTINE, SOURCES, VIDEOS
    from perturbations.plan import listed
    from perturbations.suites import registry

    sources = sets.read_part(options.sources, SOURCES)
    recipes = listed.read_recipes(options.recipes)
    rows = merging.videos(sources, options.shards, options.parts, recipes)
    members = sets.of_corpus(sources, rows, len(recipes))
    about = {**provenance(options.output), "dataset": options.dataset, "suite": options.suite, "set": members.columns()}
    about |= {"adapter": options.adapter, "config_digest": digest(dict(recipes))}
    about["comparability"] = comparability(rows, adapter=options.adapter)
    about |= sets.unrecorded(options.parts, VIDEOS)
    files.write(options.output, VIDEOS, rows, about)
    text = corpus_card.card(registry.suite(options.suite), rows, members, about, captions=tuple(options.captions))
    storage.write_text(options.card, text)
    files.write(options.quarantine, QUARANTINE, sets.quarantine_of(sources, rows), about)
    return 0


def _mix(options: argparse.Namespace) -> int:
    from perturbations.engine.comparability import comparability
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import MIXES, SOURCES, VIDEOS
    from perturbations.plan import mixes

    videos = sets.read_part(options.videos, VIDEOS)
    sources = sets.read_part(options.sources, SOURCES)
    described = files.read_metadata(options.videos)
    about = {name: described[name] for name in ("dataset", "suite", "set")}
    about["comparability"] = comparability(videos, adapter=str(described.get("adapter", "")))
    files.write(options.severities, MIXES, mixes.mixed_severity(videos), {**provenance(options.severities), **about})
    files.write(options.types, MIXES, mixes.mixed_types(videos, sources), {**provenance(options.types), **about})
    return 0


def _check(options: argparse.Namespace) -> int:
    from perturbations.base import storage
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import QUARANTINE

    rows = sets.read_part(options.quarantine, QUARANTINE)
    # Of an item's rows the first says why.
    reasons = {row.item_id: f"{row.stage}: {row.error}" for row in reversed(rows)}
    if options.captions:
        failures = [(row.item_id, row.error) for row in rows]
        what = "listed captions cannot be used"
        ways = "Correct the annotations, exclude their items with `subset`,"
    else:
        failures = sorted(reasons.items())
        what = "items are quarantined or missing"
        ways = "Repair them and run `perturb retry`, exclude them with `subset`,"
    if len(failures) > options.allowed:
        lines = [f"  {name!r}: {reason}" for name, reason in failures[:20]]
        rest = [f"  and {len(failures) - 20} more"] if len(failures) > 20 else []
        raise ManifestError(
            f"{len(failures)} {what}, max_failed_items allows {options.allowed}. {ways} or raise max_failed_items in "
            f"config.yaml. Full list: {options.quarantine}\n" + "\n".join(lines + rest)
        )
    storage.write_text(options.output, f"{len(failures)} quarantined, {options.allowed} allowed\n")
    return 0
