"""Write a corpus in the layout of another program."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.base.project import need_models
from perturbations.cli.arguments import Parser, add_stall_limit, positive
from perturbations.exports import export_registry
from perturbations.exports.export_registry import MEGABYTE, Request
from perturbations.manifest.rows import MULTIMODAL, TEXTS


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "manifest",
        type=Path,
        help="a manifest of sources, videos, mixes, texts (perturbed captions), multimodal pairs or composed queries",
    )
    formats = export_registry.exports()
    parser.epilog = "\n".join(export.describe() for export in formats.values())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter  # a line per format
    parser.add_argument("--format", choices=formats, required=True, help="the layout: see below")
    parser.add_argument("--order", type=Path, help="captions: the test split's file, which gives their order")
    parser.add_argument("--num-frames", type=positive, default=12, help="vtr_tta: frames per video; default: 12")
    parser.add_argument(
        "--size", type=positive, default=224, help="vtr_tta: side of the frames, in pixels; default: 224"
    )
    parser.add_argument(
        "--gallery", help="composed queries: the local gallery; default: the dataset's own, or local_full"
    )
    parser.add_argument(
        "--global", dest="global_gallery", action="store_true", help="composed queries: export the global gallery too"
    )
    parser.add_argument(
        "--clean",
        action="store_true",
        help="export clean clips and captions too (not with recipe, vtr_tta, composed)",
    )
    parser.add_argument(
        "--mirror", action="store_true", help="lmms_eval: the clips alone, where its own tasks look for them"
    )
    parser.add_argument(
        "--shard-size",
        type=positive,
        default=1000,
        metavar="MB",
        help="webdataset, mteb: size of a shard; default: 1000",
    )
    terms = parser.add_argument_group("for publication", "what only you know: for README.md and croissant.json")
    terms.add_argument("--license", default="", help="the licence's name, if possible from SPDX, or its address")
    terms.add_argument(
        "--creator",
        action="append",
        default=[],
        metavar="NAME",
        help="an author of the export; may be given several times",
    )
    terms.add_argument("--citation", default="", metavar="TEXT", help="how to cite it, if possible as BibTeX")
    terms.add_argument("--url", default="", help="the dataset's page")
    terms.add_argument(
        "--rai", type=Path, metavar="FILE", help="croissant, recipe: terms of responsible AI and provenance, as JSON"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder")
    add_stall_limit(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.exports.croissant import read_rai
    from perturbations.manifest import files

    export = export_registry.get(options.format)
    if export.needs_models:
        need_models()
    names = (
        *("manifest", "output", "num_frames", "size", "order", "gallery", "global_gallery", "mirror", "clean"),
        *("license", "citation", "url"),
    )
    request = Request(
        **{name: getattr(options, name) for name in names},
        stall_limit_s=options.stall_limit,
        shard_bytes=options.shard_size * MEGABYTE,
        creator=tuple(options.creator),
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
