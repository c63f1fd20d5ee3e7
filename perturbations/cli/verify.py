"""After a run, or years later: whether every file and row is still what was made."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import shown
from perturbations.base.errors import ManifestError
from perturbations.cli.arguments import Parser, add_json, add_stall_limit, positive
from perturbations.manifest import manifest_paths

if TYPE_CHECKING:
    from perturbations.corpus.row_checks import Checked, Finding

_MOST_SHOWN = 100


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(manifest_paths.MANIFESTS),
        help="a folder of manifests, or a manifest",
    )
    parser.add_argument("-j", "--jobs", type=positive, default=1, help="number of processes")
    parser.add_argument("--render", action="store_true", help="make clips and captions again, and compare them")
    parser.add_argument("--delete", action="store_true", help="delete what is wrong, so that snakemake makes it again")
    parser.add_argument(
        "--root",
        default="",
        metavar="SHA256",
        help="compare videos.parquet with this checksum, which a run prints",
    )
    add_json(parser)
    add_stall_limit(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.corpus import deletion, verification
    from perturbations.exports.export_folder import MARKER

    if (options.folder / MARKER).is_file():
        raise ManifestError(
            f"{options.folder} is an export, not manifests: its SHA256SUMS, where it has one, tells whether it is "
            "whole; `perturb export` into a new folder makes it again"
        )
    results = []
    deleted: list[Path] = []
    how = {"render": options.render, "jobs": options.jobs, "stall_limit_s": options.stall_limit}
    for checked in verification.check(options.folder, **how):
        results.append(checked)
        if not options.json:
            _print(checked)
    of_root = verification.check_root(verification.manifests_in(options.folder), options.root) if options.root else []
    for checked in results if options.delete else ():
        deleted += deletion.delete(checked)
    if options.json:
        print(json.dumps(_as_json(results, of_root, deleted), indent=2))
    else:
        _print_some(of_root)
        for path in deleted:
            print(f"  deleted: {shown.line(str(path))}")
        if deleted:
            print("The same call of `snakemake` makes again what it still needs; then `perturb verify` once more.")
        elif any(checked.wrong or checked.is_edited or checked.left for checked in results) and not options.delete:
            print("`perturb verify --delete` deletes what is wrong, and the next `snakemake` makes it again.")
    return int(bool(of_root) or any(checked.findings for checked in results))


def _as_json(results: Sequence[Checked], of_root: Sequence[Finding], deleted: Sequence[Path]) -> dict[str, object]:
    return {
        "manifests": [
            {
                "manifest": str(checked.path),
                "rows": checked.rows,
                "incomplete": checked.incomplete,
                "problems": checked.findings,
                "notes": checked.notes,
            }
            for checked in results
        ],
        "root": [*of_root],
        "deleted": [*map(str, deleted)],
    }


def _print(checked: Checked) -> None:
    """Print the result of one manifest."""
    path = shown.line(str(checked.path))
    _print_some(checked.findings)
    for note in checked.notes:
        print(f"  {path}: {shown.line(note)}")
    counted = f"{shown.plural(checked.rows, 'row')}, {checked.incomplete:,} of them quarantined or missing; "
    if manifest_paths.is_manifest(checked.path) or checked.findings:
        problems = shown.plural(len(checked.findings), "problem")
        print(f"{path}: {counted if manifest_paths.is_manifest(checked.path) else ''}{problems}")


def _print_some(findings: Sequence[Finding]) -> None:
    from perturbations.corpus.row_checks import line_of

    for finding in findings[:_MOST_SHOWN]:
        print(f"  {shown.line(line_of(finding))}")
    if len(findings) > _MOST_SHOWN:
        print(f"  and {len(findings) - _MOST_SHOWN} more; --json lists all")
