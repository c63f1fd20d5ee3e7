"""The command that verifies a corpus: verify."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import layout, shown
from perturbations.base.errors import ManifestError
from perturbations.cli.arguments import Commands, add_command, add_json, add_stall_limit, positive

if TYPE_CHECKING:
    from perturbations.verify.run import Options, Summary

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
    parser.add_argument("--repair", action="store_true", help="repair files and rows that can be made again")
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
    settings = run.Options(
        jobs=options.jobs,
        stall_limit_s=options.stall_limit,
        fast=options.fast,
        repair=options.repair,
        version=__version__,
    )
    after = dataclasses.replace(settings, fast=True, repair=False)
    if options.json:
        summaries = list(run.verify(options.paths, settings))
        if options.repair and any(summary.findings for summary in summaries):
            repaired = {summary.path: summary.mended for summary in summaries}
            summaries = list(run.verify(options.paths, after))
            for summary in summaries:
                summary.mended = repaired.get(summary.path, 0)
        print(json.dumps([_as_json(summary) for summary in summaries], indent=2))
        return 1 if any(summary.findings for summary in summaries) else 0
    problems = _print_findings(options.paths, settings)
    if problems and options.repair:
        print("After the repair:")
        problems = _print_findings(options.paths, after)
    return 1 if problems else 0


def _as_json(summary: Summary) -> dict[str, object]:
    """The result of one manifest, with all of its findings."""
    return {
        "manifest": str(summary.path),
        "rows": summary.rows,
        "incomplete": summary.incomplete,
        "repaired": summary.mended,
        "problems": [
            {"file": str(finding.place), "row": finding.subject, "problem": finding.problem}
            for finding in summary.findings
        ],
        "remarks": summary.remarks,
        "notes": summary.notes,
    }


def _print_findings(paths: Sequence[Path], settings: Options) -> int:
    """Verify, print the findings, and return the number of problems."""
    from perturbations.verify import run, tree

    problems = strangers = 0
    for summary in run.verify(paths, settings):
        path = shown.line(str(summary.path))
        most = _MOST_SHOWN if summary.is_manifest else _MOST_STRANGERS
        for finding in summary.findings[:most]:
            print(f"  {shown.line(str(finding))}")
        if len(summary.findings) > most:
            print(f"  and {len(summary.findings) - most} more of {path}")
        for remark, count in summary.remarks.items():
            print(f"  {path}: {count} rows: {shown.line(remark)}")
        for note in summary.notes:
            print(f"  {path}: {shown.line(note)}")
        repaired = f", {summary.mended} repaired" if summary.mended else ""
        counted = f"{summary.rows} rows, {summary.incomplete} of them quarantined or missing; "
        print(f"{path}: {counted if summary.is_manifest else ''}{len(summary.findings)} problems{repaired}")
        strangers += sum(finding.problem == tree.UNNAMED for finding in summary.findings)
        problems += len(summary.findings)
    if strangers:
        print(
            f"{strangers} files that no row names: of perturbations, severities or clips that config.yaml had before, "
            "or of others. Nothing reads them; delete those that you do not need."
        )
    return problems
