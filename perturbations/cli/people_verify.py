"""The command that verifies a corpus: verify."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import layout, shown
from perturbations.base.errors import ManifestError
from perturbations.cli.arguments import Commands, add_command, add_json, add_stall_limit, positive

if TYPE_CHECKING:
    from perturbations.verify.findings import Finding
    from perturbations.verify.run import Summary

_MOST_SHOWN = 100
_MOST_STRANGERS = 3  # files per folder: a changed configuration leaves whole folders


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(
        commands, "verify", _verify, "after a run, or years later: whether every file and row is still what was made"
    )
    parser.add_argument(
        "paths", nargs="*", type=Path, default=[Path(layout.MANIFESTS)], help="manifests, or folders of them"
    )
    parser.add_argument("-j", "--jobs", type=positive, default=1, help="number of rows to check in parallel")
    parser.add_argument("--fast", action="store_true", help="check hashes and membership only; make nothing again")
    parser.add_argument(
        "--root", default="", metavar="DIGEST", help="hold the lists against the root of a published record"
    )
    parser.add_argument("--repair", action="store_true", help="put back what is not as its list and its row say")
    parser.add_argument("-n", "--dry-run", action="store_true", help="with --repair: only list what would be put back")
    parser.add_argument("--undo-repair", action="store_true", help="put back what the last repair replaced, and end")
    add_json(parser)
    add_stall_limit(parser)


def _verify(options: argparse.Namespace) -> int:
    from perturbations import __version__
    from perturbations.exports.writing.output_folder import MARKER
    from perturbations.verify import run

    if exports := [path for path in options.paths if (path / MARKER).is_file()]:
        raise ManifestError(
            f"{exports[0]} is an export, not manifests: the same `perturb export` again compares its files, and makes "
            "what is missing or changed"
        )
    if options.undo_repair:
        return _undo(options.paths)
    settings = run.Options(
        jobs=options.jobs,
        stall_limit_s=options.stall_limit,
        fast=options.fast,
        repair=options.repair,
        version=__version__,
        dry_run=options.dry_run,
        root=options.root,
    )
    summaries = run.verify(options.paths, settings)
    if options.json:
        every = list(summaries)
        print(json.dumps([_as_json(summary) for summary in every], indent=2))
        return int(any(each.findings or (options.dry_run and each.repaired) for each in every))
    return _printed(summaries, repairs=options.repair, dry_run=options.dry_run)


def _undo(paths: Sequence[Path]) -> int:
    """Undo the last repair of the trees that hold these manifests."""
    from perturbations.verify import undoing

    changed = 0
    for root in sorted({(layout.in_tree(path) or (path, path))[0] for path in paths}):
        undone = undoing.undo(root)
        for path in undone.restored:
            print(f"  {shown.line(str(path))}: as before the repair")
        for path in undone.changed:
            print(f"  {shown.line(str(path))}: changed since the repair, and left as it is")
        changed += len(undone.changed)
    return 1 if changed else 0


def _as_json(summary: Summary) -> dict[str, object]:
    """The result of one manifest, with all of its findings."""
    return {
        "manifest": str(summary.path),
        "rows": summary.rows,
        "incomplete": summary.incomplete,
        "repaired": [_problem(finding) for finding in summary.repaired],
        "problems": [_problem(finding) for finding in summary.findings],
        "remarks": summary.remarks,
        "notes": summary.notes,
    }


def _problem(finding: Finding) -> dict[str, str]:
    return {"file": str(finding.place), "row": finding.subject, "problem": finding.problem}


def _printed(summaries: Iterable[Summary], *, repairs: bool, dry_run: bool) -> int:
    """Print the findings of a verification; returns 1 where any problem is left."""
    from perturbations.verify import strangers

    unnamed = repaired = open_rows = 0
    is_open = False
    for summary in summaries:
        path = shown.line(str(summary.path))
        most = _MOST_SHOWN if summary.is_manifest else _MOST_STRANGERS
        _print_some(summary.findings, most, "", path)
        _print_some(summary.repaired, _MOST_SHOWN, "would be put back: " if dry_run else "put back: ", path)
        for remark, count in summary.remarks.items():
            print(f"  {path}: {count} rows: {shown.line(remark)}")
        for note in summary.notes:
            print(f"  {path}: {shown.line(note)}")
        mended = f", {len(summary.repaired)} {'to repair' if dry_run else 'repaired'}" if summary.repaired else ""
        counted = f"{summary.rows} rows, {summary.incomplete} of them quarantined or missing; "
        print(f"{path}: {counted if summary.is_manifest else ''}{len(summary.findings)} problems{mended}")
        unnamed += sum(finding.problem == strangers.UNNAMED for finding in summary.findings)
        repaired += len(summary.repaired)
        open_rows += sum(bool(finding.subject) for finding in summary.findings)
        is_open |= bool(summary.findings or (dry_run and summary.repaired))
    if unnamed:
        print(
            f"{unnamed} files that no row names: of perturbations, severities or clips that config.yaml had before, "
            "or not this workflow's."
        )
    if open_rows and not repairs:
        print("`perturb verify --repair` puts back what the rows describe; with `--dry-run` it only lists it.")
    if repaired and not dry_run:
        print("`perturb verify --undo-repair` puts back what was there before.")
    return int(is_open)


def _print_some(findings: Sequence[Finding], most: int, what: str, path: str) -> None:
    for finding in findings[:most]:
        print(f"  {what}{shown.line(str(finding))}")
    if len(findings) > most:
        print(f"  and {len(findings) - most} more of {path}")
