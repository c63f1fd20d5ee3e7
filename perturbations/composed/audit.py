"""What is odd in a composed split: queries that cannot miss, right answers that are wrong. Standard library only."""

from __future__ import annotations

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
    both, whichever rows stand for them; `given_size` and `our_size`, mean numbers of clips; `first`, the id of the
    first query that differs, empty where none does. Raises ValueError for a gallery that there is not.
    """
    sizes, differ = [], []
    for query, *both in zip(split.queries, gallery(split, given), gallery(split, ours), strict=True):
        theirs, own = ({*rows} for rows in both)
        sizes.append((len(theirs), len(own)))
        if theirs != own:
            first, second = (sorted(split.pool[row].clip_id for row in rows) for rows in (theirs, own))
            differ += [query.query_id] * (first != second)
    of_given, of_ours = (sum(own) / max(1, len(sizes)) for own in zip(*sizes, strict=True)) if sizes else (0.0, 0.0)
    return {
        "given": given,
        "ours": ours,
        "queries": len(sizes),
        "equal": len(sizes) - len(differ),
        "given_size": of_given,
        "our_size": of_ours,
        "first": differ[0] if differ else "",
    }


def words(comparison: Mapping[str, Any]) -> str:
    """A comparison of galleries in a sentence."""
    sizes = "({given_size:,.2f} clips on average, ours {our_size:,.2f})"
    if comparison["equal"] == comparison["queries"]:
        text = f"{{given}} is {{ours}}: all {{queries:,}} galleries hold the same clips {sizes}"
    else:
        text = f"{{given}} is not {{ours}}: {{equal:,}} of {{queries:,}} galleries hold the same clips {sizes}"
        text += "; the first that differs is that of query {first}"
    return text.format_map(comparison)


def compared(split: Split) -> list[dict[str, Any]]:
    """Each gallery that the dataset brings, beside ours that it could be: the closest first, an equal one alone."""
    comparisons = []
    for given in split.galleries:
        local = ("local_released", "local_full", "local_video")
        several: list[dict[str, Any]] = []
        for name in ("global_rows", "global_distinct") if is_global(given) else local:
            several.append(compare_galleries(split, given, name))
            if several[-1]["equal"] == len(split.queries):
                several = several[-1:]
                break
        comparisons += sorted(several, key=lambda comparison: -comparison["equal"])
    return comparisons
