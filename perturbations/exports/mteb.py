"""Retrieval tasks for `mteb`: corpus, queries and qrels as Parquet with the videos in it, and `tasks.py`."""

from __future__ import annotations

from perturbations.exports.registry import Export
from perturbations.exports.writing.records import Exported, Request


def write_videos(request: Request) -> Exported:
    """Write the tasks of videos as queries, among captions. Errors as of `taskfiles.write_clips`."""
    from perturbations.exports.writing import taskfiles

    return taskfiles.write_clips(request)


def write_captions(request: Request) -> int:
    """Write the tasks of perturbed captions as queries, among clean videos; returns the number of scenarios."""
    from perturbations.exports.writing import taskfiles

    return taskfiles.write_captions(request)


def write_pairs(request: Request) -> Exported:
    """Write the task of perturbed captions as queries, among perturbed videos; errors as of `taskfiles.write_pairs`."""
    from perturbations.exports.writing import taskfiles

    return taskfiles.write_pairs(request)


EXPORT = Export(
    name="mteb",
    summary="retrieval tasks for mteb",
    refuses="frames without video, clips without captions",
    videos=write_videos,
    captions=write_captions,
    pairs=write_pairs,
)
