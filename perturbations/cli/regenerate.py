"""Make a corpus from an export of recipes, and prove that it is the same."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.base.errors import ConfigError
from perturbations.cli.arguments import Parser, add_stall_limit, positive


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument("published", type=Path, help="a folder that `perturb export --format recipe` wrote")
    parser.add_argument("--clips", type=Path, required=True, help="the folder of the source dataset's clips")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write manifests and corpora to")
    parser.add_argument(
        "--root", default="", metavar="DIGEST", help="the checksum of the export that its publisher gave, to compare"
    )
    parser.add_argument("-j", "--jobs", type=positive, default=1, help="number of clips to make in parallel")
    add_stall_limit(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.corpus.row_checks import line_of
    from perturbations.exports.regeneration import regenerate

    if not options.clips.is_dir():
        raise ConfigError(f"--clips: no such folder: {options.clips}")
    videos, counts, findings = regenerate(
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
