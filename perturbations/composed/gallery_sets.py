"""The galleries of composed queries, by name: which rows of the pool each query retrieves from. Standard library only.

They are computed when they are needed: 2,295 global galleries of 12,525 rows are one rule, not 29 million numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, get_args

from perturbations.composed.split import ComposedQuery, Rows, Split, distinct, overlap

_RECUT = 0.5
"""A distractor whose span has this intersection over union with the query's or a target's shows the same moment."""

GalleryName = Literal["global_rows", "global_distinct", "global_targets", "local_released", "local_full", "local_video"]
_SUMMARIES: Final[Mapping[str, str]] = {
    "global_rows": "every row but the query's; a name that repeats counts as often",
    "global_distinct": "every clip but the query's, each name once",
    "global_targets": "every target clip but the query's, each once: WebVid-CoVR's",
    "local_released": (
        "a single target and its distractors; several targets without any: the one reading that gives the published "
        "sizes and chances, in which 289 of EgoCVR's queries cannot miss"
    ),
    "local_full": "all targets and all of their distractors, without the query",
    "local_video": "the other clips of the query's long video",
}
NAMES: Final[tuple[str, ...]] = get_args(GalleryName)
DEFAULT_LOCAL: Final[GalleryName] = "local_full"


def summary_of(name: str) -> str:
    """What a gallery is, in a few words."""
    return _SUMMARIES.get(name, "the dataset's own")


def gallery(split: Split, name: str, *, deduplicate: bool = False) -> Iterator[Rows]:
    """The rows that each query retrieves from, in the queries' order, in a gallery or one that the dataset brings.

    With `deduplicate`, distractors that show the same moment as the query or one of its targets are left out. Raises
    ValueError for a name that there is not.
    """
    members: Iterable[Rows]
    if name in split.galleries:
        members = map(tuple, split.galleries[name])
    elif name not in NAMES:
        raise ValueError(f"no gallery {name!r}; choose one of {', '.join((*NAMES, *split.galleries))}")
    elif is_global(name):
        shared: Iterable[int] = range(len(split.pool))
        if name != "global_rows":
            names = split.last if name == "global_distinct" else {target.clip_id for target in split.targets()}
            shared = sorted(split.last[own] for own in names)
        absent = [{*split.rows_of.get(query.clip_id, ())} for query in split.queries]
        members = (tuple(row for row in shared if row not in own) for own in absent)
    else:
        members = map(partial(_local_rows, split, name), split.queries)
    return map(partial(_without_recuts, split), split.queries, members) if deduplicate else iter(members)


def _local_rows(split: Split, name: str, query: ComposedQuery) -> Rows:
    """The rows of a gallery near the query."""
    if name == "local_video":
        own = split.last[query.clip_id]
        return tuple(row for row in split.last_of_video[split.pool[own].video_id] if row != own)
    targets = distinct(query.target_ids)
    rows = [split.last[target] for target in targets]
    if name == "local_released":
        # The one reading of the published sizes: a query of several targets retrieves from those alone.
        return (*rows, *(split.blocks.get(targets[0], ()) if len(query.target_ids) == 1 else ()))
    rows += [row for target in targets for row in split.blocks.get(target, ())]
    by_name = {split.pool[row].clip_id: row for row in rows if split.pool[row].clip_id != query.clip_id}
    return tuple(sorted(by_name.values()))


def _without_recuts(split: Split, query: ComposedQuery, rows: Rows) -> Rows:
    """Rows without the distractors of the pool that show the same moment as the query or a target."""
    own = {query.clip_id, *query.target_ids}
    moments = [split.pool[split.last[name]] for name in own if name in split.last]
    recuts = {
        row
        for moment in moments
        for row in split.of_video[moment.video_id]
        if split.pool[row].clip_id not in own and overlap(split.pool[row], moment) >= _RECUT
    }
    return tuple(row for row in rows if row not in recuts)


def is_global(name: str) -> bool:
    """Whether R@1/5/10 are told of it, not R@1/2/3."""
    return name.startswith("global")


def targets_in(split: Split, query: ComposedQuery) -> Rows:
    """All rows of the query's targets, in order."""
    return tuple(sorted(row for name in distinct(query.target_ids) for row in split.rows_of[name]))


def ranges(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Rows as ranges (first, one after the last), in their order: a global gallery is two of them."""
    spans: list[tuple[int, int]] = []
    for row in rows:
        if spans and row == spans[-1][1]:
            spans[-1] = (spans[-1][0], row + 1)
        else:
            spans.append((row, row + 1))
    return spans


def rows_of(ranges: Sequence[tuple[int, int]]) -> Rows:
    """The rows of `ranges`."""
    return tuple(row for first, end in ranges for row in range(first, end))
