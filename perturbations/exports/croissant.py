"""The layout `hub` with a description in Croissant's vocabulary, which `mlcroissant` and search engines read."""

from __future__ import annotations

from perturbations.exports.registry import Export
from perturbations.exports.writing.records import Exported, Request


def write_videos(request: Request) -> Exported:
    """Write the videos, their tables, the card and `croissant.json`. Errors as of `hubfiles.write_clips`."""
    from perturbations.exports.writing import croissantfile, hubfiles

    written = hubfiles.write_clips(request, "croissant")
    croissantfile.write(request, written)
    return written.exported


def write_captions(request: Request) -> int:
    """Write perturbed captions as Parquet, the card and `croissant.json`; returns the number of tables."""
    from perturbations.exports.writing import croissantfile, hubfiles

    written = hubfiles.write_captions(request, "croissant")
    croissantfile.write(request, written)
    return len(written.tables)


def write_pairs(request: Request) -> Exported:
    """Write videos, a row per pair, the card and `croissant.json`. Errors as of `hubfiles.write_pairs`."""
    from perturbations.exports.writing import croissantfile, hubfiles

    written = hubfiles.write_pairs(request, "croissant")
    croissantfile.write(request, written)
    return written.exported


EXPORT = Export(
    name="croissant",
    summary="the layout hub with a Croissant description",
    refuses="what hub refuses",
    videos=write_videos,
    captions=write_captions,
    pairs=write_pairs,
)
