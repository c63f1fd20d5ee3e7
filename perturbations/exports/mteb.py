"""Retrieval tasks for `mteb`: corpus, queries and qrels as Parquet with the videos in it, and `tasks.py`."""

from __future__ import annotations

from typing import Any

from perturbations.exports.registry import Export


def _files() -> Any:
    from perturbations.exports.writing import taskfiles

    return taskfiles


EXPORT = Export(
    name="mteb",
    summary="retrieval tasks for mteb",
    refuses="frames without video; clips without captions, but with --clean",
    videos=lambda request: _files().write_clips(request),
    captions=lambda request: _files().write_captions(request),
    pairs=lambda request: _files().write_pairs(request),
    splits=lambda request: _files().write_splits(request),
)
