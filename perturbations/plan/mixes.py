"""Mixed benchmarks (MLVP, App. D.2): rows that point at videos which the single scenarios hold. No pixel is made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from perturbations.manifest.kinds import (
    SOURCE_STORAGE,
    ClipRow,
    CompleteSource,
    MixRow,
    MultimodalRow,
    SourceRow,
    TextRow,
    VideoRow,
)
from perturbations.suites.registry import Combined

SHARES = (0.2, 0.4, 0.6, 0.8)
"""Parts of the videos that are perturbed where types are mixed (Tab. 18)."""


def mixed_severity(videos: Sequence[VideoRow]) -> Iterator[MixRow]:
    """For each perturbation, each item once, at a severity drawn from those that were made (Tab. 17).

    A draw depends on the seed, the dataset, the item and the perturbation. A scenario that was quarantined stays a
    quarantined row.
    """
    from perturbations import rng  # late: it needs NumPy, which Snakemake is to do without

    choices: dict[tuple[str, str], list[VideoRow]] = defaultdict(list)
    for row in videos:
        choices[row.item_id, row.perturbation].append(row)
    for (item_id, name), rows in choices.items():
        rows = sorted(rows, key=lambda row: row.severity)
        key = f"{rows[0].suite}/{name}/mixed_severity"
        draw = rng.generator(rows[0].seed, rows[0].dataset, item_id, key)
        yield MixRow(mix="mixed_severity", **_columns(rows[draw.integers(len(rows))]))


def mixed_types(videos: Sequence[VideoRow], sources: Sequence[SourceRow]) -> Iterator[MixRow]:
    """For each share, each item once: that part at a random perturbation and severity, the rest clean (Tab. 18).

    Which items are perturbed is a matter of a number drawn for each, the smallest first: those of 20 % are among those
    of 40 %, and what became of an item is the same in both.
    """
    from perturbations import rng  # late: it needs NumPy, which Snakemake is to do without

    choices: dict[str, list[VideoRow]] = defaultdict(list)
    for row in videos:
        choices[row.item_id].append(row)
    drawn: dict[str, tuple[float, VideoRow]] = {}
    for item_id, rows in choices.items():
        rows = sorted(rows, key=lambda row: (row.perturbation, row.severity))
        draw = rng.generator(rows[0].seed, rows[0].dataset, item_id, f"{rows[0].suite}/mixed_types")
        drawn[item_id] = (float(draw.random()), rows[draw.integers(len(rows))])
    clean = {row.item_id: row for row in sources if isinstance(row, CompleteSource)}
    in_order = sorted(drawn, key=lambda item_id: (drawn[item_id][0], item_id))
    for share in SHARES:
        perturbed = set(in_order[: round(share * len(in_order))])
        for item_id in sorted(drawn):
            row = drawn[item_id][1]
            if item_id in perturbed:
                yield MixRow(mix="mixed_types", share=share, **_columns(row))
            else:
                yield _clean_row(share, row, clean[item_id])


def multimodal(videos: Sequence[VideoRow], captions: Sequence[TextRow], combined: Combined) -> Iterator[MultimodalRow]:
    """Each caption with its video, both perturbed, for every combination (MSRVTT-P, Sec. 4, Fig. 4).

    `captions` are the rows of the same suite's perturbed captions. Combinations of which one part was not made are left
    out; a video that was quarantined stays a quarantined row.
    """
    by_item: dict[str, list[VideoRow]] = defaultdict(list)
    for row in videos:
        if row.perturbation in combined.video and row.severity == combined.severity:
            by_item[row.item_id].append(row)
    for caption in captions:
        if caption.perturbation in combined.text:
            for row in by_item[caption.item_id]:
                yield MultimodalRow(
                    caption_id=caption.caption_id,
                    text_perturbation=caption.perturbation,
                    text_severity=caption.severity,
                    text=caption.text,
                    changed=caption.changed,
                    similarity=caption.similarity,
                    attempts=caption.attempts,
                    accepted=caption.accepted,
                    text_backend=caption.backend,
                    text_recipe_id=caption.recipe_id,
                    **_columns(row),
                )


_CLIP_COLUMNS = [field.name for field in fields(ClipRow)]


def _columns(row: ClipRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _CLIP_COLUMNS}


def _clean_row(share: float, like: VideoRow, source: CompleteSource) -> MixRow:
    """A clean clip as a row among perturbed ones: severity 0."""
    return MixRow(
        mix="mixed_types",
        share=share,
        dataset=like.dataset,
        item_id=like.item_id,
        suite=like.suite,
        severity=0,
        seed=like.seed,
        path=source.path,
        storage=SOURCE_STORAGE,
        codec=source.codec,
        pix_fmt=source.pix_fmt,
        width=source.width,
        height=source.height,
        fps=source.fps,
        frame_count=source.frame_count,
        stored_frames=source.frame_count,
        duration_s=source.duration_s,
        bytes=source.bytes,
        sha256=source.sha256,
        frames_sha256=source.frames_sha256,
        source_path=like.source_path,
        source_sha256=like.source_sha256,
        source_frame_count=source.frame_count,
        start_s=like.start_s,
        end_s=like.end_s,
        status=source.status,
    )
