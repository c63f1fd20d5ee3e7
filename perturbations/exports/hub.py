"""A dataset repository of the Hugging Face Hub, which `datasets.load_dataset` opens: `videofolder` with a card."""

from __future__ import annotations

from perturbations.exports.registry import Export
from perturbations.exports.writing.records import Exported, Request


def write_videos(request: Request) -> Exported:
    """Write the videos with a `metadata.parquet` per scenario, and the card. Errors as of `hubfiles.write_clips`."""
    from perturbations.exports.writing import hubfiles

    return hubfiles.write_clips(request, "hub").exported


def write_captions(request: Request) -> int:
    """Write perturbed captions as Parquet, and the card; returns the number of tables."""
    from perturbations.exports.writing import hubfiles

    return len(hubfiles.write_captions(request, "hub").tables)


def write_pairs(request: Request) -> Exported:
    """Write each video of the pairs once, a row per pair, and the card. Errors as of `hubfiles.write_pairs`."""
    from perturbations.exports.writing import hubfiles

    return hubfiles.write_pairs(request, "hub").exported


EXPORT = Export(
    name="hub",
    summary="a Hugging Face dataset repository",
    refuses="frames without video, more than 100,000 files, two complete rows of one item and scenario",
    videos=write_videos,
    captions=write_captions,
    pairs=write_pairs,
)
