"""What the check of a manifest gets, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from perturbations.manifest.kinds import RowT
from perturbations.verify.findings import Finding
from perturbations.verify.tree import Manifest, Tree


@dataclass(frozen=True)
class Options:
    """How to verify.

    Attributes:
        jobs: number of processes.
        stall_limit_s: seconds without progress after which a clip fails.
        fast: whether to compare hashes and membership only.
        repair: whether to repair what is wrong.
        version: of this package, whose words of comparability are compared; empty: none are.
    """

    jobs: int = 1
    stall_limit_s: float = 120.0
    fast: bool = False
    repair: bool = False
    version: str = ""


@dataclass
class Summary:
    """The result of verifying one manifest, or a folder of a corpus that holds files which no row names.

    Attributes:
        path: of the manifest, or of the folder.
        rows: number of rows.
        incomplete: number of quarantined or missing rows.
        findings: the problems.
        remarks: the number of rows that could not be verified completely, by reason; these are no problems of the rows.
        notes: what the manifest leaves out, and why; no problems.
        mended: number of repaired rows or files.
        guessed: whether a source's file or its row was changed, and its expected row is that of the file.
        is_manifest: False for a folder.
    """

    path: Path
    rows: int
    incomplete: int = 0
    findings: list[Finding] = field(default_factory=list)
    remarks: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mended: int = 0
    guessed: bool = False
    is_manifest: bool = True


@dataclass
class ManifestCheck(Generic[RowT]):
    """A manifest that is verified.

    Attributes:
        tree: the manifests near it.
        manifest: itself.
        options: how to verify.
        summary: the result, to which the check adds.
        rewrite: whether rows may change in a repair.
        corrected: its expected rows, as far as its check knows them.
    """

    tree: Tree
    manifest: Manifest[RowT]
    options: Options
    summary: Summary
    rewrite: bool = False
    corrected: Sequence[object] | None = None
