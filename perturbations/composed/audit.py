"""How the galleries that a dataset brings compare with those of rules. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perturbations.composed.gallery_sets import gallery, is_global
from perturbations.composed.split import Split


def compare_galleries(split: Split, given: str = "local_official", ours: str = "local_released") -> dict[str, Any]:
    """Compare a gallery that a dataset brings with one of ours, query by query: the same clips as often.

    Returns `given` and `ours`, their names; `queries`, how many there are, and `equal`, how many have the same clips in
    both, whichever of their rows are taken; `given_size` and `our_size`, mean numbers of clips; `first`, the id of the
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
        local = ("local_released", "local_full")
        several: list[dict[str, Any]] = []
        for name in ("global_rows", "global_distinct") if is_global(given) else local:
            several.append(compare_galleries(split, given, name))
            if several[-1]["equal"] == len(split.queries):
                several = several[-1:]
                break
        comparisons += sorted(several, key=lambda comparison: -comparison["equal"])
    return comparisons
