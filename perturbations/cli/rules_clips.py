"""The jobs of rules that process a shard of clips: sources, analyses, videos."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perturbations.base import limits as limits_of_files
from perturbations.base.limits import Limits
from perturbations.base.records import canonical
from perturbations.engine import journal, shards
from perturbations.manifest import files, layout
from perturbations.manifest.kinds import ANALYSES, COMPLETE, SOURCES, VIDEOS, CompleteSource

if TYPE_CHECKING:
    from perturbations.manifest.kinds import AnalysisRow

STALL_LIMIT_S = 120.0
"""Seconds without progress after which a clip is given up, where the job's rule says nothing."""
NO_LIMITS: Mapping[str, int] = {}
"""What has the default of each limit of config.yaml."""


def sources(
    *,
    dataset: str,
    version: int,
    drawn: bool,
    listed: Path,
    part: Path,
    timeout_s: float = STALL_LIMIT_S,
    limits: Mapping[str, int] = NO_LIMITS,
) -> None:
    """Decode and describe the clips of a shard; first draw those of a synthetic dataset (`drawn`).

    `version` changes when decoding does.
    """
    from perturbations.demo.jobs import draw
    from perturbations.plan.listed import ListedClip, read

    limits_of_files.use(Limits(**limits))
    clips = read(listed, ListedClip)
    rows = shards.run_sources(dataset, clips, stall_limit_s=timeout_s, prepare=draw if drawn else None)
    files.write_part(part, SOURCES, rows)


def videos(
    *,
    recipe: Mapping[str, Any],
    sources: Path,
    output: list[Path],
    timeout_s: float = STALL_LIMIT_S,
    limits: Mapping[str, int] = NO_LIMITS,
    analysis: Path | None = None,
    donors: Path | None = None,
    whole: list[Path] | None = None,
    sound: bool = False,
    tar: bool = False,
) -> None:
    """Perturb the clips of a shard by one recipe.

    `output` is the part of the manifest and, before it, where clips are stored, their marker in the folder of clips.
    """
    from perturbations.guides.registry import Known
    from perturbations.plan.recipe import parse

    limits_of_files.use(Limits(**limits))
    *markers, part = output
    folder = markers[0].parent if markers else part.parent
    clips = _complete(sources)
    of_donors = [] if donors is None else files.read_part(donors, ANALYSES)
    known = Known(_by_item(analysis), [row for row in of_donors if row.status == COMPLETE])
    rows = shards.run_videos(
        parse(canonical(recipe)),
        clips,
        known=known,
        videos=[row for path in whole or () for row in files.read_part(path, SOURCES)],
        root=Path(),
        folder=folder,
        journal=layout.journal_of(part),
        stall_limit_s=timeout_s,
        with_sound=sound,
        in_tar=tar,
    )
    files.write_part(part, VIDEOS, rows)
    for marker in markers:
        journal.write_marker(marker, rows)


def _complete(sources: Path) -> list[CompleteSource]:
    """The clips of a part that can be used."""
    return [row for row in files.read_part(sources, SOURCES) if isinstance(row, CompleteSource)]


def _by_item(path: Path | None) -> dict[str, AnalysisRow]:
    return {} if path is None else {row.item_id: row for row in files.read_part(path, ANALYSES)}


def analyses(
    *,
    recipe: Mapping[str, Any],
    sources: Path,
    part: Path,
    timeout_s: float = STALL_LIMIT_S,
    limits: Mapping[str, int] = NO_LIMITS,
    before: Path | None = None,
) -> None:
    """Analyse the clips of a shard; `before` is the part of the analysis that this one builds on."""
    from perturbations.guides.registry import parse_analysis

    limits_of_files.use(Limits(**limits))
    clips = _complete(sources)
    rows = shards.run_analysis(
        parse_analysis(canonical(recipe)),
        clips,
        root=Path(),
        folder=part.parent / "files",
        journal=layout.journal_of(part),
        stall_limit_s=timeout_s,
        before=_by_item(before),
    )
    files.write_part(part, ANALYSES, rows)
