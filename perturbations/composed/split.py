"""What a split for composed retrieval is made of: clips, queries, distractors of each target, and their manifests.

Standard library only.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from perturbations.base.records import digest
from perturbations.manifest.rows import SOURCES, RowKind

ModificationKind = Literal["temporal", "object"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolClip:
    """A row of the pool that galleries are taken from. A clip may have several rows, with other narrations.

    Attributes:
        dataset, row: the dataset's name and the place in the pool; set in manifests.
        clip_id: the clip's name.
        video_id: the long video that it is a part of.
        narration: what happens in it.
        start_s, end_s: its span in the long video, in seconds; None where it is not known.
        distractors, certain: of a target's first row in manifests: the ranges of its block in `Split.blocks`, as JSON,
            and whether they are known without a doubt.
    """

    dataset: str = ""
    row: int = 0
    clip_id: str
    video_id: str
    narration: str
    start_s: float | None = None
    end_s: float | None = None
    distractors: str | None = None
    certain: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedQuery:
    """A clip and an instruction, which together describe the target clips.

    Attributes:
        dataset: the dataset's name; set in manifests.
        query_id: unique in the split.
        clip_id: the query clip's name.
        instruction: what to change.
        narration, target_narration: of the query clip and of the first target.
        modified_caption: a caption of the query clip, changed as the instruction says (TF-CVR); empty where none is.
        targets: the names of the target clips as a JSON list, the first one described by `target_narration`.
        change: whether the action changes, or the object, as `change_source` says; None where nobody says.
        change_source, instruction_source, caption_source: who said so: "official", "rule ...", "llm <model>"; empty
            where nobody did.
        category: the dataset's own category of the query; empty where it has none.
    """

    dataset: str = ""
    query_id: str
    clip_id: str
    instruction: str
    narration: str = ""
    target_narration: str = ""
    modified_caption: str = ""
    targets: str
    change: ModificationKind | None = None
    change_source: str = ""
    instruction_source: str = ""
    caption_source: str = ""
    category: str = ""

    @property
    def target_ids(self) -> tuple[str, ...]:
        """The names of the target clips."""
        return _names(self.targets)


@cache
def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def as_text(names: Iterable[str]) -> str:
    """The names of target clips as a query holds them."""
    return json.dumps([*names], ensure_ascii=False)


WORDS = {"instruction": "instruction", "tfcvr": "modified_caption", "gt": "target_narration"}
"""A query's words, by the column that holds them: its instruction, the changed caption of its clip (TF-CVR), or its
target's narration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryRow:
    """The rows of the pool that a query retrieves from, int32.

    Of a global gallery the row without a query has the rows of all queries, and those of a query are where it differs.
    """

    dataset: str
    gallery: str
    query_id: str | None = None
    rows: array  # type: ignore[type-arg]  # of int; no generic type at run time before Python 3.12


Rows = tuple[int, ...]
"""Positions in the pool."""


def stored(rows: Iterable[int]) -> array[int]:
    """Rows in four bytes each: 2,295 global galleries are 29 million rows, which as a tuple's numbers take 1 GB."""
    return array("i", rows)


@dataclass(frozen=True)
class Split:
    """A split for composed retrieval.

    Attributes:
        pool: the clips, in the order that positions count.
        queries: in their order.
        blocks: the rows of each target's distractors, by the target's name.
        certain: the targets whose blocks are known without a doubt; see `official.blocks`.
        galleries: each query's gallery, by the gallery's name, where the dataset brings its own.
        gallery: the name of the gallery in which the dataset's authors evaluate, where it is none of these.
        source_in_gallery: whether the authors leave the query's own clip in the gallery.
    """

    pool: tuple[PoolClip, ...]
    queries: tuple[ComposedQuery, ...]
    blocks: Mapping[str, Rows]
    certain: frozenset[str] = frozenset()
    galleries: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    gallery: str = ""
    source_in_gallery: bool = False

    @cached_property
    def listed_sha256(self) -> str:
        """A hash of the pool and the queries."""
        queries = [(query.query_id, query.clip_id, query.target_ids, query.instruction) for query in self.queries]
        return digest([[(clip.clip_id, clip.video_id) for clip in self.pool], queries])

    @cached_property
    def rows_of(self) -> dict[str, list[int]]:
        """All rows of each name."""
        return _rows_by(clip.clip_id for clip in self.pool)

    @cached_property
    def last(self) -> dict[str, int]:
        """The last row of each name. It is the one that counts where each name counts once, as in the released code."""
        return {name: rows[-1] for name, rows in self.rows_of.items()}

    @cached_property
    def of_video(self) -> dict[str, list[int]]:
        """All rows of each long video."""
        return _rows_by(clip.video_id for clip in self.pool)

    @cached_property
    def last_of_video(self) -> dict[str, list[int]]:
        """The last row of each name, by long videos."""
        last = {*self.last.values()}
        return {video: [row for row in rows if row in last] for video, rows in self.of_video.items()}

    @cached_property
    def annotated(self) -> frozenset[str]:
        """The names of all query and target clips."""
        return frozenset(name for query in self.queries for name in (query.clip_id, *query.target_ids))

    def targets(self) -> Iterator[PoolClip]:
        """Every target clip once, by the name's first row, in the order of first use."""
        names = dict.fromkeys(name for query in self.queries for name in query.target_ids)
        return (self.pool[self.rows_of[name][0]] for name in names)


def _rows_by(names: Iterable[str]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows


_NO_LETTER = re.compile(r"[^a-z ]")


def same_action(narration: str) -> str:
    """What two narrations of the same action have in common: the lower-case text, letters and spaces only.

    This is the rule by which EgoCVR's distractors are never the target's own action: of 10,308 none is.
    """
    return " ".join(_NO_LETTER.sub("", narration.lower()).split())


def overlap(first: PoolClip, second: PoolClip) -> float:
    """The intersection of two spans over their union, 0 for clips of other videos or without spans."""
    if first.video_id != second.video_id:
        return 0.0
    if first.start_s is None or first.end_s is None or second.start_s is None or second.end_s is None:
        return 0.0
    shared = min(first.end_s, second.end_s) - max(first.start_s, second.start_s)
    union = max(first.end_s, second.end_s) - min(first.start_s, second.start_s)
    return shared / union if shared > 0 and union > 0 else 0.0


def distinct(names: Iterable[str]) -> list[str]:
    """The names, each once, in order."""
    return list(dict.fromkeys(names))


# --- manifests --------------------------------------------------------------------------------------------------------

UNLISTED = "unlisted"
"""In the metadata of a split: how many clips of its pool are no items of the dataset."""


def _contradictions(path: Path, rows: Sequence[PoolClip], about: Mapping[str, object]) -> Iterator[str]:
    from perturbations.manifest.companions import companion  # for who verifies

    listed, names = {row.item_id for row in companion(path, SOURCES)}, {row.clip_id for row in rows}
    if listed and UNLISTED in about and (len(names - listed) != about[UNLISTED] or listed - names):
        yield f"its clips are not those of the dataset: {len(names - listed):,} of {len(names):,} are not listed"


POOL = RowKind("pool", PoolClip, ("row",), contradictions=_contradictions)
COMPOSED_QUERIES = RowKind("composed_queries", ComposedQuery, ("query_id",))
GALLERIES = RowKind("galleries", GalleryRow, ("gallery", "query_id"))


def kinds() -> list[RowKind[Any]]:
    """The kinds of this package's manifests."""
    return [POOL, COMPOSED_QUERIES, GALLERIES]
