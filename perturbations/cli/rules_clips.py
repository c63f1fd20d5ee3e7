"""The commands of rules that process a shard of clips: sources, analyse, videos."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import wings
from perturbations.cli.arguments import Commands, add_command, add_stall_limit
from perturbations.cli.common import complete_sources
from perturbations.manifest import layout
from perturbations.plan.extension import PlanWing

if TYPE_CHECKING:
    from perturbations.manifest.kinds import AnalysisRow


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "sources", _sources, "decode and describe the clips of a shard")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--listed", type=Path, required=True, help="the shard's list file")
    parser.add_argument("--demo", dest="is_drawn", action="store_true", help="draw the demo's clips first")
    parser.add_argument("--output", type=Path, required=True)
    add_stall_limit(parser)

    parser = add_command(commands, "videos", _videos, "perturb the clips of a shard by one recipe")
    parser.add_argument("--recipe", required=True, help="the recipe's JSON")
    parser.add_argument("--sources", type=Path, required=True, help="the shard's part of the sources manifest")
    parser.add_argument("--analysis", type=Path, help="the shard's part of the analysis that the recipe needs")
    parser.add_argument("--donors", type=Path, help="the clips that segments may be taken from")
    parser.add_argument(
        "--whole", nargs="+", type=Path, default=[], help="parts about the videos that clips are cut from"
    )
    parser.add_argument("--corpus", type=Path, required=True, help="folder for the perturbed files")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--silent", action="store_true", help="store videos without sound")
    add_stall_limit(parser)

    parser = add_command(commands, "analyse", _analyse, "analyse the clips of a shard")
    parser.add_argument("--recipe", required=True, help="the analysis's JSON")
    parser.add_argument("--sources", type=Path, required=True, help="the shard's part of the sources manifest")
    parser.add_argument("--captions", type=Path, help="the shard's main objects, whose captions are embedded")
    parser.add_argument("--folder", type=Path, required=True, help="folder for the files that the analysis keeps")
    parser.add_argument("--output", type=Path, required=True)
    add_stall_limit(parser)


def _pack(part: Path, files: Iterable[str | None]) -> None:
    """Pack the files of a part, in an object store."""
    for wing in wings.wings().values():
        wing.pack(part, files)


def _sources(options: argparse.Namespace) -> int:
    from perturbations.base.progress import logged
    from perturbations.engine import shards
    from perturbations.manifest import files
    from perturbations.manifest.kinds import SOURCES
    from perturbations.plan import listed

    clips = listed.read(options.listed, listed.ListedClip)
    draw = wings.only(wing.draw for wing in wings.of(PlanWing))
    rows = shards.run_sources(
        options.dataset,
        clips,
        stall_limit_s=options.stall_limit,
        prepare=draw if options.is_drawn else None,
    )
    files.write_part(options.output, SOURCES, list(logged(rows, len(clips), "clips")))
    _pack(options.output, [clip.path for clip in clips] if options.is_drawn else [])
    return 0


def _videos(options: argparse.Namespace) -> int:
    from perturbations.base.progress import logged
    from perturbations.engine import shards
    from perturbations.guides.registry import Known
    from perturbations.manifest import files, layout, sets
    from perturbations.manifest.kinds import ANALYSES, COMPLETE, SOURCES, VIDEOS
    from perturbations.plan import clip_markers, recipe

    sources = complete_sources(options.sources)
    donors = [] if options.donors is None else sets.read_part(options.donors, ANALYSES)
    known = Known(_by_item(options.analysis), [row for row in donors if row.status == COMPLETE])
    wanted = recipe.parse(options.recipe)
    rows = shards.run_videos(
        wanted,
        sources,
        known=known,
        videos=[row for path in options.whole for row in sets.read_part(path, SOURCES)],
        root=Path(),
        folder=options.corpus,
        journal=layout.journal_of(options.output),
        stall_limit_s=options.stall_limit,
        with_sound=not options.silent,
    )
    finished = list(logged(rows, len(sources), "clips"))
    files.write_part(options.output, VIDEOS, finished)
    if wanted.storage.tier != "recipe":
        marker = options.corpus / layout.name("clip_marker", shard=options.output.stem)
        clip_markers.write(marker, [(row.path, row.bytes) for row in finished])
    _pack(options.output, [row.path for row in finished])
    return 0


def _by_item(path: Path | None) -> dict[str, AnalysisRow]:
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import ANALYSES

    return {} if path is None else {row.item_id: row for row in sets.read_part(path, ANALYSES)}


def _analyse(options: argparse.Namespace) -> int:
    from perturbations.base.progress import logged
    from perturbations.engine import shards
    from perturbations.guides.registry import parse_analysis
    from perturbations.manifest import files
    from perturbations.manifest.kinds import ANALYSES

    sources = complete_sources(options.sources)
    rows = shards.run_analysis(
        parse_analysis(options.recipe),
        sources,
        root=Path(),
        folder=options.folder,
        journal=layout.journal_of(options.output),
        stall_limit_s=options.stall_limit,
        before=_by_item(options.captions),
    )
    finished = list(logged(rows, len(sources), "clips"))
    files.write_part(options.output, ANALYSES, finished)
    _pack(options.output, [row.path for row in finished])
    return 0
