"""The commands of rules that process a shard of clips: sources, analyse, videos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import job_environment, wings
from perturbations.cli.arguments import Commands, add_job
from perturbations.cli.common import complete_sources
from perturbations.manifest import layout
from perturbations.plan.extension import PlanWing

if TYPE_CHECKING:
    from perturbations.manifest.kinds import AnalysisRow


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    for job in (_sources, _videos, _analyse):
        add_job(commands, job)


def _sources(dataset: str, listed: Path, output: Path, demo: bool = False) -> None:
    """Decode and describe the clips of a shard."""
    from perturbations.base.progress import logged
    from perturbations.engine import shards
    from perturbations.manifest import files
    from perturbations.manifest.kinds import SOURCES
    from perturbations.plan.listed import ListedClip, read

    clips = read(listed, ListedClip)
    draw = wings.only(wing.draw for wing in wings.of(PlanWing)) if demo else None
    rows = shards.run_sources(dataset, clips, stall_limit_s=job_environment.current().timeout_s, prepare=draw)
    files.write_part(output, SOURCES, list(logged(rows, len(clips), "clips")))


def _videos(
    recipe: str,
    sources: Path,
    corpus: Path,
    output: Path,
    analysis: Path | None = None,
    donors: Path | None = None,
    whole: list[Path] | None = None,
    sound: bool = False,
    tar: bool = False,
) -> None:
    """Perturb the clips of a shard by one recipe."""
    from perturbations.base.progress import logged
    from perturbations.engine import shards
    from perturbations.guides.registry import Known
    from perturbations.manifest import files, layout, sets
    from perturbations.manifest.kinds import ANALYSES, COMPLETE, SOURCES, VIDEOS
    from perturbations.plan import clip_markers
    from perturbations.plan.recipe import parse

    clips = complete_sources(sources)
    of_donors = [] if donors is None else sets.read_part(donors, ANALYSES)
    known = Known(_by_item(analysis), [row for row in of_donors if row.status == COMPLETE])
    wanted = parse(recipe)
    rows = shards.run_videos(
        wanted,
        clips,
        known=known,
        videos=[row for path in whole or () for row in sets.read_part(path, SOURCES)],
        root=Path(),
        folder=corpus,
        journal=layout.journal_of(output),
        stall_limit_s=job_environment.current().timeout_s,
        with_sound=sound,
        in_tar=tar,
    )
    finished = list(logged(rows, len(clips), "clips"))
    if tar:
        finished = shards.tar_rows(finished, wanted, folder=corpus, journal=layout.journal_of(output))
    files.write_part(output, VIDEOS, finished)
    if wanted.storage.tier != "recipe":
        marker = corpus / layout.name("clip_marker", shard=layout.shard_of(output))
        clip_markers.write(marker, [(row.path, row.bytes) for row in finished])


def _by_item(path: Path | None) -> dict[str, AnalysisRow]:
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import ANALYSES

    return {} if path is None else {row.item_id: row for row in sets.read_part(path, ANALYSES)}


def _analyse(recipe: str, sources: Path, folder: Path, output: Path, captions: Path | None = None) -> None:
    """Analyse the clips of a shard."""
    from perturbations.base.progress import logged
    from perturbations.engine import shards
    from perturbations.guides.registry import parse_analysis
    from perturbations.manifest import files
    from perturbations.manifest.kinds import ANALYSES

    clips = complete_sources(sources)
    rows = shards.run_analysis(
        parse_analysis(recipe),
        clips,
        root=Path(),
        folder=folder,
        journal=layout.journal_of(output),
        stall_limit_s=job_environment.current().timeout_s,
        before=_by_item(captions),
    )
    finished = list(logged(rows, len(clips), "clips"))
    files.write_part(output, ANALYSES, finished)
