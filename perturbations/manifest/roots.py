"""The root of a corpus: the SHA-256 of its `videos.parquet`, which has the hash of every file.

Standard library only.
"""

from __future__ import annotations

from pathlib import Path

from perturbations.base import storage
from perturbations.manifest import layout


def roots(manifests: Path) -> dict[str, str]:
    """The root of every corpus below a folder `manifests`, by its folder there, `DATASET/SUITE`."""
    videos = sorted(manifests.rglob(layout.name("videos")))
    return {path.parent.relative_to(manifests).as_posix(): storage.sha256(path) for path in videos}


def sentences(manifests: Path) -> list[str]:
    """The roots below a folder `manifests`, for people."""
    return [f"root of {corpus}: {digest}" for corpus, digest in roots(manifests).items()]
