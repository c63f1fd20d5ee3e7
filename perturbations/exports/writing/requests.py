"""The request and the result of an export. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perturbations.verify.findings import Finding

MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What only the publisher of an export knows; empty where it was not given.

    Attributes:
        license: a name, best one of SPDX, or an address.
        creator: who made the dataset.
        citation: how it is cited, best as BibTeX.
        url: its page.
    """

    license: str = ""
    creator: tuple[str, ...] = ()
    citation: str = ""
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to export, and how. A format ignores the fields that do not apply to it.

    Attributes:
        manifest: a manifest of sources, videos, mixes, texts, multimodal pairs or composed queries.
        output: the folder to write to.
        num_frames: frames per video.
        size: side of the pictures, in pixels.
        order: the file of the test split; captions are written in its order.
        stall_limit_s: seconds without progress after which a clip fails.
        gallery: composed queries: the local gallery's name; None: the dataset's own, else the default.
        global_gallery: composed queries: whether the global gallery is written too.
        clean: whether the clean clips (of texts: the clean captions and clips) are written too.
        shard_bytes: the size above which a new shard is begun.
        terms: of publication.
    """

    manifest: Path
    output: Path
    num_frames: int = 12
    size: int = 224
    order: Path | None = None
    stall_limit_s: float = 120.0
    gallery: str | None = None
    global_gallery: bool = False
    clean: bool = False
    shard_bytes: int = 1000 * MEGABYTE
    terms: Terms = Terms()


@dataclass(frozen=True)
class Exported:
    """The numbers of written and of already existing videos, and the rows without a video, with the reasons.

    `recipes` is the number of clips of which recipes are written, in place of videos.
    """

    written: int
    kept: int
    failed: tuple[Finding, ...] = ()
    quarantined: tuple[Finding, ...] = ()
    recipes: int = 0

    def __str__(self) -> str:
        videos = f"{self.written} videos written, {self.kept} existed"
        summary = f"recipes of {self.recipes} clips written" if self.recipes else videos
        return f"{summary}, {len(self.failed)} failed, {len(self.quarantined)} are quarantined"
