"""The jobs of rules that make one manifest of all shards' parts.

`work` is the folder of the collection's lists and parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perturbations.base.records import canonical, digest
from perturbations.cli.common import check_failures, provenance
from perturbations.manifest import files, sets
from perturbations.manifest.kinds import ANALYSES, MIXES, QUARANTINE, SOURCES, VIDEOS


def sources_manifest(*, dataset: str, work: Path, rejected: Path, output: Path) -> None:
    """Merge the parts of the manifest of clean clips."""
    from perturbations.engine import merging

    parts = work / "sources"
    clips = merging.sources(dataset, work / "shards", parts, rejected)
    about = {**provenance(output), "dataset": dataset}
    files.write(output, SOURCES, clips, {**about, sets.SET: sets.of_sources(clips).columns()})


def analyses_manifest(*, dataset: str, recipe: Mapping[str, Any], work: Path, output: Path) -> None:
    """Merge the parts of an analysis of all clips; `recipe` is what they must follow."""
    from perturbations.engine import merging

    parts = work / "analyses" / output.stem
    about = {**provenance(output), "dataset": dataset}
    rows = merging.analyses(work / "sources", work / "shards", parts, canonical(recipe))
    files.write(output, ANALYSES, rows, about)


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
    """Merge the parts of a corpus, and write its card."""
    from perturbations.base import storage
    from perturbations.engine import corpus_card, merging
    from perturbations.engine.comparability import verdict
    from perturbations.engine.tally import Tally
    from perturbations.plan import listed
    from perturbations.suites import registry

    clips, parts = files.read_part(sources, SOURCES), work / suite
    wanted = listed.read_recipes(recipes)
    tally = Tally()
    about: dict[str, object] = {}

    def described() -> dict[str, object]:
        about.update(provenance(videos), dataset=dataset, suite=suite)
        about[sets.SET] = sets.of_counts(clips, tally.complete, len(wanted)).columns()
        about.update(adapter=adapter, config_digest=digest(dict(wanted)))
        about["comparability"] = verdict(tally, Tally(), adapter=adapter)
        about.update({sets.LOSSES: losses} if (losses := sets.losses_of(clips)) else {})
        return about

    rows = merging.videos(clips, work / "shards", parts, wanted)
    files.write(videos, VIDEOS, tally.over(rows), described)
    members = sets.of_counts(clips, tally.complete, len(wanted))
    text = corpus_card.card(registry.suite(suite), tally, members, about, captions=captions)
    storage.write_text(card, text)
    files.write(quarantine, QUARANTINE, sets.quarantine_of(clips, tally.failed), about)


def mixes(*, videos: Path, sources: Path, severities: Path, types: Path) -> None:
    """Write the mixed manifests: views of a videos manifest."""
    from perturbations.plan.mixes import mixed_severity, mixed_types

    rows, clips = files.read_part(videos, VIDEOS), files.read_part(sources, SOURCES)
    described = files.read_metadata(videos)
    about = {name: described[name] for name in ("dataset", "suite", sets.SET, "comparability")}
    files.write(severities, MIXES, mixed_severity(rows), {**provenance(severities), **about})
    files.write(types, MIXES, mixed_types(rows, clips), {**provenance(types), **about})


def check_quarantine(*, allowed: int, quarantine: Path, output: Path) -> None:
    """Fail when more items are quarantined or missing than allowed."""
    rows = files.read_part(quarantine, QUARANTINE)
    # Of an item's rows the first says why.
    reasons = {row.item_id: f"{row.stage}: {row.error}" for row in reversed(rows)}
    ways = "Repair them and run `perturb retry`, exclude them with `subset`,"
    check_failures(sorted(reasons.items()), allowed, "item", "quarantined or missing", ways, quarantine, output)
