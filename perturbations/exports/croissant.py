"""The layout `hub` with a description in Croissant's vocabulary, which `mlcroissant` and search engines read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.exports.registry import Export

if TYPE_CHECKING:
    from perturbations.exports.writing.hubfiles import Written
    from perturbations.exports.writing.requests import Request


def _described(request: Request, what: str) -> Written:
    """Write clips, captions or pairs as the layout `hub` does, and `croissant.json`; errors as there."""
    from perturbations.exports.writing import croissantfile, hubfiles

    write = {"clips": hubfiles.write_clips, "captions": hubfiles.write_captions, "pairs": hubfiles.write_pairs}[what]
    written = write(request, "croissant")
    if written.tables:
        croissantfile.write(written.about, {written.records: written.tables}, written.videos)
    return written


EXPORT = Export(
    name="croissant",
    summary="the layout hub with a Croissant description",
    refuses="what hub refuses",
    videos=lambda request: _described(request, "clips").exported,
    captions=lambda request: len(_described(request, "captions").tables),
    pairs=lambda request: _described(request, "pairs").exported,
)
