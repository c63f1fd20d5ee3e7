"""Tar files of samples, which `webdataset` and `datasets` read in order from disk or over the network."""

from __future__ import annotations

from typing import Any

from perturbations.exports.registry import Export


def _files() -> Any:
    from perturbations.exports.writing import shardfiles

    return shardfiles


EXPORT = Export(
    name="webdataset",
    summary="tar shards for webdataset",
    refuses="frames without video, two complete rows of one item and scenario",
    videos=lambda request: _files().write_clips(request),
    captions=lambda request: _files().write_captions(request),
    pairs=lambda request: _files().write_pairs(request),
)
