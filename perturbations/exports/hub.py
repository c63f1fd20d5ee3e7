"""A dataset repository of the Hugging Face Hub, which `datasets.load_dataset` opens: `videofolder` with a card."""

from __future__ import annotations

from typing import Any

from perturbations.exports.registry import Export


def _files() -> Any:
    from perturbations.exports.writing import hubfiles

    return hubfiles


EXPORT = Export(
    name="hub",
    summary="a Hugging Face dataset repository",
    refuses="frames without video, more than 100,000 files, two complete rows of one item and scenario",
    videos=lambda request: _files().write_clips(request, "hub").exported,
    captions=lambda request: len(_files().write_captions(request, "hub").tables),
    pairs=lambda request: _files().write_pairs(request, "hub").exported,
)
