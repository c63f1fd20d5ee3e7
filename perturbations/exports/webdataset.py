"""Tar files of samples, which `webdataset` and `datasets` read in order from disk or over the network."""

from __future__ import annotations

from perturbations.exports.registry import Export
from perturbations.exports.writing.records import Exported, Request


def write_videos(request: Request) -> Exported:
    """Write the shards of every scenario, and the card. Errors as of `shardfiles.write_clips`."""
    from perturbations.exports.writing import shardfiles

    return shardfiles.write_clips(request)


def write_captions(request: Request) -> int:
    """Write the shards of perturbed captions, with `--clean` also of clean ones; returns the number of shards."""
    from perturbations.exports.writing import shardfiles

    return shardfiles.write_captions(request)


def write_pairs(request: Request) -> Exported:
    """Write the shards of videos with the captions that they are paired with. Errors as of `shardfiles.write_pairs`."""
    from perturbations.exports.writing import shardfiles

    return shardfiles.write_pairs(request)


EXPORT = Export(
    name="webdataset",
    summary="tar shards for webdataset",
    refuses="frames without video, two complete rows of one item and scenario",
    videos=write_videos,
    captions=write_captions,
    pairs=write_pairs,
)
