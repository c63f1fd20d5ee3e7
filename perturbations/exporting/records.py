"""What an export is asked for, and what became of it. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perturbations.verify.findings import Finding


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to export, and how. A format uses what applies to it.

    Attributes:
        manifest: of sources, videos or texts.
        output: the folder to write to.
        num_frames: frames per video.
        size: side of the pictures, in pixels.
        order: the test split's own file, in whose order captions are written.
        stall_limit_s: seconds without a sign of life after which a clip is given up.
    """

    manifest: Path
    output: Path
    num_frames: int = 12
    size: int = 224
    order: Path | None = None
    stall_limit_s: float = 120.0


@dataclass(frozen=True)
class Exported:
    """How many videos were written, how many were there already, and which rows have none, with the reason."""

    written: int
    kept: int
    failed: tuple[Finding, ...] = ()
    quarantined: tuple[Finding, ...] = ()
