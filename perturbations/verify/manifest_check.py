"""What the check of a manifest gets, and what it leaves."""

from __future__ import annotations

from collections import Counter
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
        dry_run: whether a repair only says what it would put back.
        root: the digest that the lists of a corpus, or all lists, must have; empty: any.
    """

    jobs: int = 1
    stall_limit_s: float = 120.0
    fast: bool = False
    repair: bool = False
    version: str = ""
    dry_run: bool = False
    root: str = ""


@dataclass
class Summary:
    """The result of verifying one manifest, or a folder of a corpus that holds files which no row names.

    Attributes:
        path: of the manifest, or of the folder.
        rows: number of rows.
        incomplete: number of quarantined or missing rows.
        findings: the problems that are left.
        repaired: those that a repair mended, or would mend.
        remarks: the number of rows that could not be verified completely, by reason; these are no problems of the rows.
        notes: what the manifest leaves out, and why; no problems.
        is_manifest: False for a folder.
    """

    path: Path
    rows: int
    incomplete: int = 0
    findings: list[Finding] = field(default_factory=list)
    repaired: list[Finding] = field(default_factory=list)
    remarks: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    is_manifest: bool = True


@dataclass
class ManifestCheck(Generic[RowT]):
    """A manifest that is verified.

    Attributes:
        tree: the manifests near it.
        manifest: itself.
        options: how to verify.
        remake: whether clips that are missing or wrong are made, to know what their rows were.
        is_restored: whether it is another than the file that lies there, because a repair puts it back.
        corrected: its expected rows, as far as its check knows them.
        summary: the result, to which the check adds.
    """

    tree: Tree
    manifest: Manifest[RowT]
    options: Options
    remake: bool = False
    is_restored: bool = False
    corrected: Sequence[object] | None = None
    summary: Summary = field(init=False)

    def __post_init__(self) -> None:
        self.summary = Summary(self.manifest.path, len(self.manifest.rows))
