"""The jobs that write pages: of a corpus, of perturbed captions, and of all that lies there."""

from __future__ import annotations

from pathlib import Path


def corpus_page(*, videos: Path, page: Path) -> None:
    """Write the page of a corpus; quarantine.parquet lies beside the manifest, the captions above it."""
    from perturbations.report import corpus_page

    corpus_page.write(videos, page)


def captions_page(*, captions: Path, page: Path) -> None:
    """Write the page of perturbed captions; caption_statistics.parquet lies beside the manifest."""
    from perturbations.report import captions_page

    captions_page.write(captions, page)


def index() -> None:
    """Write manifests/index.html, which leads to every page, manifest and clip of this folder."""
    from perturbations.report import index

    index.write(Path())
