"""The galleries of composed queries, by name: which rows of the pool each query retrieves from. Standard library only.

They are computed when they are needed: 2,295 global galleries of 12,525 rows are one rule, not 29 million numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, get_args

from perturbations.composed.split import ComposedQuery, Rows, Split, distinct, stored

WITH_SOURCE = "+source"
"""Ends the name of a gallery that holds the query's own clip, too."""
_OFFICIAL = "_official"
"""Ends the names of the galleries that EgoCVR's annotations bring."""

GalleryName = Literal[
    "global_rows", "global_distinct", "global_targets", "global_target_rows", "local_released", "local_full"
]
_SUMMARIES: Final[Mapping[str, str]] = {
    "global_rows": "every row but the query's; a name that repeats counts as often",
    "global_distinct": "every clip but the query's, each name once",
    "global_targets": "every target clip but the query's, each once: WebVid-CoVR's",
    "global_target_rows": (
        "the first target of every query without the query's clip, as often as it is one; R@k is of the first target "
        "alone: TF-CoVR's released code"
    ),
    "local_released": (
        "a single target and its distractors; several targets without any: the one reading that gives the published "
        "sizes and chances, in which 289 of EgoCVR's queries cannot miss"
    ),
    "local_full": "all targets and all of their distractors, without the query",
}
NAMES: Final[tuple[str, ...]] = get_args(GalleryName)
DEFAULT_LOCAL: Final[GalleryName] = "local_full"


def summary_of(name: str) -> str:
    """What a gallery is, in a few words."""
    return _SUMMARIES.get(name, "the dataset's own")


def gallery(split: Split, name: str) -> Iterator[Sequence[int]]:
    """The rows that each query retrieves from, in the queries' order, in a gallery or one that the dataset brings.

    The query's own clip is one of them where the name ends in `WITH_SOURCE`, and else is not; EgoCVR's official
    galleries are as they are. Raises ValueError for a name that there is not.
    """
    rule, with_source = name.removesuffix(WITH_SOURCE), name.endswith(WITH_SOURCE)
    if rule not in split.galleries and rule not in NAMES:
        raise ValueError(f"no gallery {name!r}; choose one of {', '.join((*NAMES, *split.galleries))}")
    own = [split.rows_of.get(query.clip_id, []) for query in split.queries]
    members: Iterator[Sequence[int]]
    if rule in split.galleries:
        brought = split.galleries[rule]
        if rule.endswith(_OFFICIAL) and not with_source:
            return iter(brought)
        members = (
            stored(row for row in rows if row not in without) for rows, without in zip(brought, own, strict=True)
        )
    elif is_global(rule):
        shared = _shared_rows(split, rule)
        members = (tuple(row for row in shared if row not in without) for without in map(frozenset, own))
    else:
        members = (_local_rows(split, rule, query) for query in split.queries)
    if not with_source:
        return members
    of_name = own if rule == "global_rows" else [rows[-1:] for rows in own]
    return (stored(sorted((*rows, *added))) for rows, added in zip(members, of_name, strict=True))


def _shared_rows(split: Split, name: str) -> Sequence[int]:
    """The rows of a global gallery, before the query's own are left out."""
    if name == "global_rows":
        return range(len(split.pool))
    if name == "global_target_rows":
        return sorted(split.last[query.target_ids[0]] for query in split.queries)
    names = split.last if name == "global_distinct" else {target.clip_id for target in split.targets()}
    return sorted(split.last[own] for own in names)


def _local_rows(split: Split, name: str, query: ComposedQuery) -> Rows:
    """The rows of a gallery near the query."""
    targets = distinct(query.target_ids)
    rows = [split.last[target] for target in targets]
    if name == "local_released":
        # The one reading of the published sizes: a query of several targets retrieves from those alone.
        return (*rows, *(split.blocks.get(targets[0], ()) if len(query.target_ids) == 1 else ()))
    rows += [row for target in targets for row in split.blocks.get(target, ())]
    by_name = {split.pool[row].clip_id: row for row in rows if split.pool[row].clip_id != query.clip_id}
    return tuple(sorted(by_name.values()))


def is_global(name: str) -> bool:
    """Whether it has the clips of all long videos."""
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
