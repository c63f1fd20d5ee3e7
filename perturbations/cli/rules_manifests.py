"""The commands of rules that make one manifest of all shards' parts: merge, merge-videos, mix, check."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from perturbations.base.errors import ManifestError
from perturbations.base.records import digest
from perturbations.cli.arguments import Commands, add_job
from perturbations.cli.common import provenance


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    for job in (_merge, _merge_videos, _mix, _check):
        add_job(commands, job)


def _merge(
    kind: Literal["sources", "analyses"],
    /,
    dataset: str,
    shards: Path,
    parts: Path,
    output: Path,
    rejected: Path = Path(),
    sources: Path = Path(),
    recipe: str = "",
) -> None:
    """Merge the parts of a manifest of sources or analyses."""
    from perturbations.engine import merging
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import ANALYSES, SOURCES

    about = {**provenance(output), "dataset": dataset}
    if kind == "sources":
        clips = merging.sources(dataset, shards, parts, rejected)
        files.write(output, SOURCES, clips, {**about, sets.SET: sets.of_sources(clips).columns()})
    else:
        files.write(output, ANALYSES, merging.analyses(sources, shards, parts, recipe), about)


def _merge_videos(
    dataset: str,
    adapter: str,
    suite: str,
    shards: Path,
    parts: Path,
    recipes: Path,
    sources: Path,
    quarantine: Path,
    card: Path,
    output: Path,
    captions: tuple[int, int] = (0, 0),
) -> None:
    """Merge the parts of a corpus, and write its card."""
    from perturbations.base import storage
    from perturbations.engine import corpus_card, merging
    from perturbations.engine.comparability import verdict
    from perturbations.engine.tally import Tally, TextTally
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import QUARANTINE, SOURCES, VIDEOS
    from perturbations.plan import listed
    from perturbations.suites import registry

    clips = sets.read_part(sources, SOURCES)
    wanted = listed.read_recipes(recipes)
    tally = Tally(corpus_card.MEASURES)
    about: dict[str, object] = {}

    def described() -> dict[str, object]:
        about.update(provenance(output), dataset=dataset, suite=suite)
        about[sets.SET] = sets.of_counts(clips, tally.complete, len(wanted)).columns()
        about.update(adapter=adapter, config_digest=digest(dict(wanted)))
        about["comparability"] = verdict(tally, TextTally(), adapter=adapter)
        about.update({sets.LOSSES: losses} if (losses := sets.losses_of(clips)) else {})
        return about

    rows = merging.videos(clips, shards, parts, wanted)
    files.write(output, VIDEOS, tally.over(rows), described)
    members = sets.of_counts(clips, tally.complete, len(wanted))
    text = corpus_card.card(registry.suite(suite), tally, members, about, captions=captions)
    storage.write_text(card, text)
    files.write(quarantine, QUARANTINE, sets.quarantine_of(clips, tally.failed), about)


def _mix(videos: Path, sources: Path, severities: Path, types: Path) -> None:
    """Write the mixed manifests: views of a videos manifest."""
    from perturbations.engine.comparability import comparability
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import MIXES, SOURCES, VIDEOS
    from perturbations.plan import mixes

    rows, clips = sets.read_part(videos, VIDEOS), sets.read_part(sources, SOURCES)
    described = files.read_metadata(videos)
    about = {name: described[name] for name in ("dataset", "suite", sets.SET)}
    about["comparability"] = comparability(rows, adapter=str(described.get("adapter", "")))
    files.write(severities, MIXES, mixes.mixed_severity(rows), {**provenance(severities), **about})
    files.write(types, MIXES, mixes.mixed_types(rows, clips), {**provenance(types), **about})


def _check(quarantine: Path, /, allowed: int, output: Path, captions: bool = False) -> None:
    """Fail when more items are quarantined than allowed."""
    from perturbations.base import storage
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import QUARANTINE

    rows = sets.read_part(quarantine, QUARANTINE)
    # Of an item's rows the first says why.
    reasons = {row.item_id: f"{row.stage}: {row.error}" for row in reversed(rows)}
    if captions:
        failures = [(row.item_id, row.error) for row in rows]
        what = "listed captions cannot be used"
        ways = "Correct the annotations, exclude their items with `subset`,"
    else:
        failures = sorted(reasons.items())
        what = "items are quarantined or missing"
        ways = "Repair them and run `perturb retry`, exclude them with `subset`,"
    if len(failures) > allowed:
        lines = [f"  {name!r}: {reason}" for name, reason in failures[:20]]
        rest = [f"  and {len(failures) - 20} more"] if len(failures) > 20 else []
        raise ManifestError(
            f"{len(failures)} {what}, max_failed_items allows {allowed}. {ways} or raise max_failed_items in "
            f"config.yaml. Full list: {quarantine}\n" + "\n".join(lines + rest)
        )
    storage.write_text(output, f"{len(failures)} quarantined, {allowed} allowed\n")
