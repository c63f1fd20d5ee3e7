"""What is odd in a composed split: queries that cannot miss, right answers that are wrong. Standard library only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from perturbations.composed.gallery_sets import gallery, is_global, targets_in
from perturbations.composed.split import Split, distinct, overlap, same_action

_SAME_MOMENT = 0.8
"""Spans with this intersection over union show the same moment."""


def audit(split: Split) -> dict[str, int]:
    """Counts of a split.

    `queries`, `targets`: how many there are; targets once each. `free_hits`: queries whose `local_released` gallery
    holds nothing but targets: they cannot miss. `recut_targets`: queries for which a target's own moment, cut again,
    narrated alike, is a distractor in the pool and counts as wrong. `recut_queries`: queries whose clip's own moment,
    cut again, is a distractor in the pool. `own_target`: queries that are among their own targets. `only_own_target`:
    queries that have no other target. `repeated`: queries whose clip and instruction another query has too.
    """
    annotated = split.annotated

    def recut(name: str) -> Iterator[bool]:
        """Of each distractor that shows the clip's moment: whether it is narrated alike."""
        for clip in (split.pool[row] for row in split.rows_of[name]):
            for other in (split.pool[row] for row in split.of_video[clip.video_id]):
                if other.clip_id not in annotated and overlap(clip, other) >= _SAME_MOMENT:
                    yield same_action(other.narration) == same_action(clip.narration)

    released = gallery(split, "local_released")
    pairs = [(query.clip_id, query.instruction) for query in split.queries]
    return {
        "queries": len(split.queries),
        "targets": len(list(split.targets())),
        "free_hits": sum(
            {*rows} <= {*targets_in(split, query)} for rows, query in zip(released, split.queries, strict=True)
        ),
        "recut_targets": sum(any(any(recut(name)) for name in query.target_ids) for query in split.queries),
        "recut_queries": sum(any(True for _ in recut(query.clip_id)) for query in split.queries),
        "own_target": sum(query.clip_id in query.target_ids for query in split.queries),
        "only_own_target": sum(distinct(query.target_ids) == [query.clip_id] for query in split.queries),
        "repeated": len(pairs) - len({*pairs}),
    }


def compare_galleries(split: Split, given: str = "local_official", ours: str = "local_released") -> dict[str, Any]:
    """Compare a gallery that a dataset brings with one of ours, query by query: the same clips as often.

    Returns `given` and `ours`, their names; `queries`, how many there are, and `equal`, how many have the same clips in
    both, whichever rows stand for them; `given_size` and `our_size`, mean numbers of clips; `more` and `fewer`, the
    clips that only the given galleries hold, and only ours, in all; `first`, the id of the first query that differs,
    empty where none does. Raises ValueError for a gallery that there is not.
    """
    counts: Counter[str] = Counter()
    differ = []
    for query, theirs, own in zip(split.queries, gallery(split, given), gallery(split, ours), strict=True):
        rows = {*theirs}, {*own}
        counts.update(given=len(rows[0]), ours=len(rows[1]))
        if rows[0] != rows[1]:
            first, second = (Counter(split.pool[row].clip_id for row in side) for side in rows)
            counts.update(more=(first - second).total(), fewer=(second - first).total())
            differ += [query.query_id] * (first != second)
    number = len(split.queries)
    return {
        "given": given,
        "ours": ours,
        "queries": number,
        "equal": number - len(differ),
        "given_size": counts["given"] / max(1, number),
        "our_size": counts["ours"] / max(1, number),
        "more": counts["more"],
        "fewer": counts["fewer"],
        "first": differ[0] if differ else "",
    }


def words(comparison: Mapping[str, Any]) -> str:
    """A comparison of galleries in a sentence."""
    text = (
        "{given} is {ours}: all {queries:,} galleries hold the same clips ({given_size:,.2f} clips on average, ours "
        "{our_size:,.2f})"
        if comparison["equal"] == comparison["queries"]
        else "{given} is not {ours}: {equal:,} of {queries:,} galleries hold the same clips ({given_size:,.2f} clips "
        "on average, ours {our_size:,.2f}); in all, {more:,} clips are only in the file's and {fewer:,} only in ours; "
        "the first that differs is that of query {first}"
    )
    return text.format_map(comparison)


def compared(split: Split) -> Iterator[dict[str, Any]]:
    """Each gallery that the dataset brings, beside ours that it could be: the closest first, an equal one alone."""
    everywhere, local = ("global_rows", "global_distinct"), ("local_released", "local_full", "local_video")
    for given in split.galleries:
        comparisons: list[dict[str, Any]] = []
        for name in everywhere if is_global(given) else local:
            comparisons.append(compare_galleries(split, given, name))
            if comparisons[-1]["equal"] == len(split.queries):
                comparisons = comparisons[-1:]
                break
        yield from sorted(comparisons, key=lambda comparison: -comparison["equal"])
