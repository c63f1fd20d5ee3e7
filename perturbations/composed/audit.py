"""What is odd in a composed split: queries that cannot miss, right answers that are wrong. Standard library only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from perturbations.composed.gallery_sets import gallery, is_global, targets_in
from perturbations.composed.modifications import Split, distinct, overlap, same_action

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
    pairs = [(query.clip, query.instruction) for query in split.queries]
    return {
        "queries": len(split.queries),
        "targets": len(list(split.targets())),
        "free_hits": sum(
            {*rows} <= {*targets_in(split, query)} for rows, query in zip(released, split.queries, strict=True)
        ),
        "recut_targets": sum(any(any(recut(name)) for name in query.targets) for query in split.queries),
        "recut_queries": sum(any(True for _ in recut(query.clip)) for query in split.queries),
        "own_target": sum(query.clip in query.targets for query in split.queries),
        "only_own_target": sum(distinct(query.targets) == [query.clip] for query in split.queries),
        "repeated": len(pairs) - len({*pairs}),
    }


@dataclass(kw_only=True)
class _Comparison:
    """A gallery that a dataset brings beside one of ours: the same clips as often, whichever rows stand for them.

    Attributes:
        given, ours: the galleries' names.
        queries: how many there are.
        equal: queries with the same clips in both.
        given_size, our_size: mean numbers of clips.
        more, fewer: clips that only the given galleries hold, and that only ours hold, in all.
        first: the id of the first query that differs; empty where none does.
    """

    given: str
    ours: str
    queries: int
    equal: int = 0
    given_size: float = 0
    our_size: float = 0
    more: int = 0
    fewer: int = 0
    first: str = ""

    def words(self) -> str:
        """The comparison in a sentence."""
        sizes = f"{self.given_size:,.2f} clips on average, ours {self.our_size:,.2f}"
        if self.equal == self.queries:
            return f"{self.given} is {self.ours}: all {self.queries:,} galleries hold the same clips ({sizes})"
        return (
            f"{self.given} is not {self.ours}: {self.equal:,} of {self.queries:,} galleries hold the same clips "
            f"({sizes}); in all, {self.more:,} clips are only in the file's and {self.fewer:,} only in ours; the first "
            f"that differs is that of query {self.first}"
        )


def compare_galleries(split: Split, given: str = "local_official", ours: str = "local_released") -> _Comparison:
    """Compare two galleries of a split, query by query. Raises ValueError for a gallery that there is not."""
    counts = _Comparison(given=given, ours=ours, queries=len(split.queries))
    names = [clip.clip_id for clip in split.pool]
    pairs = zip(split.queries, gallery(split, given), gallery(split, ours), strict=True)
    for query, given_rows, our_rows in pairs:
        their_rows, own_rows = {*given_rows}, {*our_rows}
        counts.given_size += len(their_rows)
        counts.our_size += len(own_rows)
        if their_rows == own_rows:
            counts.equal += 1
            continue
        theirs, own = (Counter(names[row] for row in rows) for rows in (their_rows, own_rows))
        counts.equal += theirs == own
        counts.more += (theirs - own).total()
        counts.fewer += (own - theirs).total()
        if theirs != own and not counts.first:
            counts.first = query.query_id
    counts.given_size /= max(1, counts.queries)
    counts.our_size /= max(1, counts.queries)
    return counts


def compared(split: Split) -> Iterator[_Comparison]:
    """Each gallery that the dataset brings, beside ours that it could be: the closest first, an equal one alone."""
    for given in split.galleries:
        ours = (
            ("global_rows", "global_distinct") if is_global(given) else ("local_released", "local_full", "local_video")
        )
        comparisons: list[_Comparison] = []
        for name in ours:
            comparisons.append(compare_galleries(split, given, name))
            if comparisons[-1].equal == len(split.queries):
                comparisons = comparisons[-1:]
                break
        yield from sorted(comparisons, key=lambda comparison: -comparison.equal)
