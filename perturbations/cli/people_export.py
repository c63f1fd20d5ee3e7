"""The commands that write a corpus in the layout of another program, and make one from its recipes."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.base.errors import ConfigError
from perturbations.base.project import need_models
from perturbations.cli.arguments import Commands, add_command, add_stall_limit, positive
from perturbations.exports import registry
from perturbations.exports.registry import MEGABYTE, Request
from perturbations.manifest.kinds import MULTIMODAL, TEXTS


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "export", _export, "write a corpus in the layout of another program")
    parser.add_argument(
        "manifest",
        type=Path,
        help="a manifest of sources, videos, mixes, texts (perturbed captions), multimodal pairs or composed queries",
    )
    formats = registry.exports()
    parser.epilog = " ".join(export.describe() for export in formats.values())
    parser.add_argument("--format", choices=formats, required=True, help="the layout: see below")
    parser.add_argument("--order", type=Path, help="captions: the test split's file, which gives their order")
    parser.add_argument("--num-frames", type=positive, default=12, help="vtr_tta: per video; default: 12")
    parser.add_argument(
        "--size", type=positive, default=224, help="vtr_tta: side of the frames, in pixels; default: 224"
    )
    parser.add_argument(
        "--gallery", help="composed queries: the local gallery; default: the dataset's own, or local_full"
    )
    parser.add_argument(
        "--global", dest="global_gallery", action="store_true", help="composed queries: the global gallery too"
    )
    parser.add_argument(
        "--clean", action="store_true", help="the clean clips and captions too (not of recipe, vtr_tta, composed)"
    )
    parser.add_argument(
        "--mirror", action="store_true", help="lmms_eval: the clips alone, where its own tasks look for them"
    )
    parser.add_argument(
        "--shard-size", type=positive, default=1000, metavar="MB", help="webdataset, mteb: of a shard; default: 1000"
    )
    terms = parser.add_argument_group("for publication", "what only you know: for README.md and croissant.json")
    terms.add_argument("--license", default="", help="its name, best one of SPDX, or its address")
    terms.add_argument("--creator", action="append", default=[], metavar="NAME", help="may be given several times")
    terms.add_argument("--citation", default="", metavar="TEXT", help="best as BibTeX")
    terms.add_argument("--url", default="", help="the dataset's page")
    terms.add_argument(
        "--rai", type=Path, metavar="FILE", help="croissant, recipe: terms of responsible AI and provenance, as JSON"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder")
    add_stall_limit(parser)

    parser = add_command(
        commands, "regenerate", _regenerate, "make a corpus from an export of recipes, and prove that it is the same"
    )
    parser.add_argument("published", type=Path, help="a folder that `perturb export --format recipe` wrote")
    parser.add_argument("--clips", type=Path, required=True, help="the folder of the source dataset's clips")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder, which gets manifests and corpora")
    parser.add_argument("--root", default="", metavar="DIGEST", help="the export's root, as its publisher names it")
    parser.add_argument("-j", "--jobs", type=positive, default=1, help="number of clips to make in parallel")
    add_stall_limit(parser)


def _regenerate(options: argparse.Namespace) -> int:
    from perturbations.corpus.checking import line_of
    from perturbations.exports import regenerate

    if not options.clips.is_dir():
        raise ConfigError(f"--clips: no such folder: {options.clips}")
    videos, counts, findings = regenerate.regenerate(
        options.published,
        options.clips,
        options.output,
        jobs=options.jobs,
        stall_limit_s=options.stall_limit,
        root=options.root,
    )
    for finding in findings:
        print(f"  {shown.line(line_of(finding))}")
    if not options.root:
        print("  without --root only the frames are proven: all other columns are the publisher's word")
    print(
        f"{videos}: the published frames: {shown.plural(counts['made'] + counts['kept'], 'clip')} "
        f"({counts['made']:,} made now), other ones: {counts['failed']:,}; "
        f"{shown.plural(len(findings) - counts['failed'], 'other problem')}"
    )
    return 1 if findings else 0


def _export(options: argparse.Namespace) -> int:
    from perturbations.exports.croissant import read_rai
    from perturbations.manifest import files

    export = registry.get(options.format)
    if export.needs_models:
        need_models()
    request = Request(
        manifest=options.manifest,
        output=options.output,
        num_frames=options.num_frames,
        size=options.size,
        order=options.order,
        stall_limit_s=options.stall_limit,
        gallery=options.gallery,
        global_gallery=options.global_gallery,
        mirror=options.mirror,
        clean=options.clean,
        shard_bytes=options.shard_size * MEGABYTE,
        license=options.license,
        creator=tuple(options.creator),
        citation=options.citation,
        url=options.url,
        rai=read_rai(options.rai) if options.rai else {},
    )
    kind = files.kind_of(options.manifest)
    result = export.write(_WRITTEN.get(kind.name, "videos"), request)
    for subject, problem in (*result.quarantined, *result.failed):
        print(f"  {shown.line(f'{request.manifest}: {subject}: {problem}')}")
    print(f"{request.output}: {result}")
    return 1 if result.failed else 0


_WRITTEN = {"composed_queries": "splits", TEXTS.name: "captions", MULTIMODAL.name: "pairs"}
"""The kind of corpus that a format is asked for, of the kinds of manifests that list no videos alone."""
