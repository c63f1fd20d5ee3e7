"""The galleries of composed queries, by name: which rows of the pool each query retrieves from. Standard library only.

They are computed when they are needed: 2,295 global galleries of 12,525 rows are one rule, not 29 million numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from perturbations.composed.split import ComposedQuery, Rows, Split, distinct, overlap

_RECUT = 0.5
"""A distractor whose span has this intersection over union with the query's or a target's shows the same moment."""

_RowsOf = Callable[[Split, ComposedQuery], Rows]


def _rows_of_clip(split: Split, query: ComposedQuery) -> Rows:
    return tuple(split.rows_of.get(query.clip_id, ()))


def _row_of_clip(split: Split, query: ComposedQuery) -> Rows:
    return tuple(split.last[name] for name in (query.clip_id,) if name in split.last)


def _released(split: Split, query: ComposedQuery) -> Rows:
    targets = distinct(query.target_ids)
    own = tuple(split.last[name] for name in targets)
    # The one reading of the published sizes: a query of several targets retrieves from those alone.
    return own + (tuple(split.blocks.get(targets[0], ())) if len(query.target_ids) == 1 else ())


def _full(split: Split, query: ComposedQuery) -> Rows:
    targets = distinct(query.target_ids)
    members = [split.last[name] for name in targets]
    members += [row for name in targets for row in split.blocks.get(name, ())]
    by_name = {split.pool[row].clip_id: row for row in members if split.pool[row].clip_id != query.clip_id}
    return tuple(sorted(by_name.values()))


def _of_video(split: Split, query: ComposedQuery) -> Rows:
    own = split.last[query.clip_id]
    return tuple(row for row in split.last_of_video[split.pool[own].video_id] if row != own)


def _targets(split: Split) -> set[int]:
    return {split.last[name] for query in split.queries for name in query.target_ids}


_GLOBAL: Final[dict[str, tuple[str, Callable[[Split], Iterable[int]], _RowsOf]]] = {
    "global_rows": (
        "every row but the query's; a name that repeats counts as often",
        lambda split: range(len(split.pool)),
        _rows_of_clip,
    ),
    "global_distinct": (
        "every clip but the query's, each name once",
        lambda split: split.last.values(),
        _row_of_clip,
    ),
    "global_targets": ("every target clip but the query's, each once: WebVid-CoVR's", _targets, _row_of_clip),
}
"""What a gallery is, the rows that queries share, and which of them a query does not retrieve from."""

_LOCAL: Final[dict[str, tuple[str, _RowsOf]]] = {
    "local_released": (
        "a single target and its distractors; several targets without any: the one reading that gives the published "
        "sizes and chances, in which 289 of EgoCVR's queries cannot miss",
        _released,
    ),
    "local_full": ("all targets and all of their distractors, without the query", _full),
    "local_video": ("the other clips of the query's long video", _of_video),
}
"""What a gallery is, and the rows that a query retrieves from."""

NAMES: Final[tuple[str, ...]] = (*_GLOBAL, *_LOCAL)
DEFAULT_LOCAL: Final[str] = "local_full"


def summary_of(name: str) -> str:
    """What a gallery is, in a few words."""
    known = _GLOBAL.get(name) or _LOCAL.get(name)
    return known[0] if known else "the dataset's own"


def gallery(split: Split, name: str, *, deduplicate: bool = False) -> Iterator[Rows]:
    """The rows that each query retrieves from, in the queries' order, in a gallery or one that the dataset brings.

    With `deduplicate`, distractors that show the same moment as the query or one of its targets are left out. Raises
    ValueError for a name that there is not.
    """
    members: Iterable[Rows]
    if name in split.galleries:
        members = map(tuple, split.galleries[name])
    elif name in _GLOBAL:
        _, shared_of, absent_of = _GLOBAL[name]
        shared = sorted(shared_of(split))
        absent = map(partial(absent_of, split), split.queries)
        members = (tuple(row for row in shared if row not in own) for own in absent)
    elif name in _LOCAL:
        members = map(partial(_LOCAL[name][1], split), split.queries)
    else:
        raise ValueError(f"no gallery {name!r}; choose one of {', '.join((*NAMES, *split.galleries))}")
    return map(partial(_without_recuts, split), split.queries, members) if deduplicate else iter(members)


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
