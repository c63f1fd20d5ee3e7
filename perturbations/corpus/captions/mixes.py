"""Mixed benchmarks (MLVP, App. D.2): rows that point at videos of the single scenarios. No new video is rendered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from typing import TypeVar

from perturbations.base import rng
from perturbations.manifest.rows import (
    SOURCE_STORAGE,
    ClipRow,
    CompleteSource,
    MixRow,
    MultimodalRow,
    SourceRow,
    TextRow,
    VideoRow,
)
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Combined

SHARES = (0.2, 0.4, 0.6, 0.8)
"""Where types are mixed: the share of perturbed videos in each mix (Tab. 18)."""


def mixed_severity(videos: Sequence[VideoRow], draw_of: str = "") -> Iterator[MixRow]:
    """For each perturbation, each item once, at a severity drawn from the available ones (Tab. 17).

    A draw depends on the seed, the dataset, the item and the perturbation; `draw_of` names a draw other than the
    manifest's. A quarantined row that is drawn stays quarantined.
    """
    for (item_id, name), rows in _grouped(videos, lambda row: (row.item_id, row.perturbation)):
        rows = sorted(rows, key=lambda row: row.severity)
        key = f"{rows[0].suite}/{name}/mixed_severity{draw_of}"
        draw = rng.generator(rows[0].seed, rows[0].dataset, item_id, key)
        yield _extended(MixRow, rows[draw.integers(len(rows))], mix="mixed_severity")


PER_BATCH = "mixed_types_per_batch"
"""The mix in which every batch of queries has the same share of perturbed videos, as in the paper (App. D.2)."""


def mixed_types(
    videos: Sequence[VideoRow],
    sources: Sequence[SourceRow],
    draw_of: str = "",
    batches: Sequence[Sequence[str]] | None = None,
) -> Iterator[MixRow]:
    """For each share, each item once: this share at a random perturbation and severity, the rest clean (Tab. 18).

    A number is drawn per item, and the items with the smallest numbers are perturbed: among all items, or within each
    of the `batches`, which list ids. So the items perturbed at a share of 20 % are also perturbed at 40 %, with the
    same perturbation and severity. An item in no batch stays clean.
    """
    drawn: dict[str, tuple[float, VideoRow]] = {}
    for item_id, rows in _grouped(videos, lambda row: row.item_id):
        rows = sorted(rows, key=lambda row: (row.perturbation, row.severity))
        draw = rng.generator(rows[0].seed, rows[0].dataset, item_id, f"{rows[0].suite}/mixed_types{draw_of}")
        drawn[item_id] = (float(draw.random()), rows[draw.integers(len(rows))])
    clean = {row.item_id: row for row in sources if isinstance(row, CompleteSource)}
    known = (drawn.keys() & group for group in batches or [tuple(drawn)])
    in_order = [sorted(group, key=lambda item_id: (drawn[item_id][0], item_id)) for group in known]
    for share in SHARES:
        perturbed = {item_id for group in in_order for item_id in group[: round(share * len(group))]}
        for item_id in sorted(drawn):
            row = drawn[item_id][1]
            if item_id in perturbed:
                yield _extended(MixRow, row, mix="mixed_types", share=share)
            else:
                yield _clean_row(share, row, clean[item_id])


_Group = TypeVar("_Group", bound=Hashable)


def _grouped(
    rows: Sequence[VideoRow], key: Callable[[VideoRow], _Group]
) -> Iterable[tuple[_Group, Iterable[VideoRow]]]:
    """The rows in groups of equal keys, in the order in which keys come first."""
    if not isinstance(rows, list | tuple):  # of a large manifest, whose rows follow their keys
        return groupby(rows, key)
    groups: dict[_Group, list[VideoRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups.items()


def drawn(
    mix: str, videos: Sequence[VideoRow], sources: Sequence[SourceRow], draw_of: str, batches: Sequence[Sequence[str]]
) -> list[MixRow]:
    """The rows of a mix ("mixed_severity", "mixed_types", `PER_BATCH`) in a draw of this name; "": the manifest's."""
    name = f"/{draw_of}" if draw_of else ""
    if mix == "mixed_severity":
        return [*mixed_severity(videos, name)]
    return [*mixed_types(videos, sources, name, batches if mix == PER_BATCH else None)]


def combinations(videos: Sequence[VideoRow], captions: Sequence[TextRow]) -> Iterator[MultimodalRow]:
    """The rows of `multimodal` for the suite's own combinations; no rows where the suite has none."""
    combined = suite_registry.suite(videos[0].suite).combined if videos else None
    return iter(()) if combined is None else multimodal(videos, captions, combined)


def multimodal(videos: Sequence[VideoRow], captions: Sequence[TextRow], combined: Combined) -> Iterator[MultimodalRow]:
    """Each caption with its video, both perturbed, for every combination (MSRVTT-P, Sec. 4, Fig. 4).

    `captions` are the rows of the same suite's perturbed captions. A combination is left out when its video or its
    caption has no row; the row of a quarantined video stays quarantined.
    """
    by_item: dict[str, list[VideoRow]] = defaultdict(list)
    for row in videos:
        if row.perturbation in combined.video and row.severity == combined.severity:
            by_item[row.item_id].append(row)
    for caption in captions:
        if caption.perturbation in combined.text:
            for row in by_item[caption.item_id]:
                yield _extended(
                    MultimodalRow,
                    row,
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
                )


_CLIP_COLUMNS = [field.name for field in fields(ClipRow)]


_Extended = TypeVar("_Extended", MixRow, MultimodalRow)


def _extended(kind: Callable[..., _Extended], row: ClipRow, **columns: object) -> _Extended:
    """A clip's row with the columns that a view adds."""
    return kind(**{name: getattr(row, name) for name in _CLIP_COLUMNS}, **columns)


_OF_CLIP = ("dataset", "item_id", "suite", "seed", "source_path", "source_sha256", "start_s", "end_s")
_OF_FILE = (
    *("path", "codec", "pix_fmt", "width", "height", "fps", "frame_count", "sample_aspect_ratio", "duration_s"),
    *("bytes", "sha256", "frames_sha256", "status"),
)


def _clean_row(share: float, like: VideoRow, source: CompleteSource) -> MixRow:
    """A clean clip as a row among perturbed ones: severity 0."""
    columns = {name: getattr(like, name) for name in _OF_CLIP} | {name: getattr(source, name) for name in _OF_FILE}
    columns |= dict.fromkeys(("stored_frames", "source_frame_count"), source.frame_count)
    return MixRow(mix="mixed_types", share=share, severity=0, storage=SOURCE_STORAGE, **columns)
