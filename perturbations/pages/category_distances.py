"""Distances of perturbed captions from the originals: means per category, beside the published ones of the dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from perturbations.manifest.rows import TextStatisticsRow
from perturbations.suites import published_cells

_DISTANCES = {"bleu4": "BLEU-4", "meteor": "METEOR", "rouge1": "ROUGE-1 F1"}
_PRINTED = {"rouge_f1": "rouge1"}


def table(counted: Sequence[TextStatisticsRow], adapter: str) -> dict[str, Any]:
    """Means over the perturbations of each category; `adapter`, the dataset's, says which published ones are beside.

    The rows are of one suite. The columns of a paper are absent where it has none of the suite and dataset. Returns the
    `heads`, the `rows` of texts, one per category, and the `source` of the published numbers.
    """
    suites = {row.suite for row in counted}
    papers = {
        (cell.perturbation, _PRINTED.get(cell.metric, cell.metric)): cell
        for cell in published_cells.cells()
        if cell.suite in suites and cell.dataset == adapter and _PRINTED.get(cell.metric, cell.metric) in _DISTANCES
    }
    by_category: dict[str, list[TextStatisticsRow]] = defaultdict(list)
    for row in counted:
        by_category[row.level].append(row)
    rows = []
    for category, members in by_category.items():
        texts = [category]
        for name in _DISTANCES:
            values = [value for row in members if (value := getattr(row, name)) is not None]
            texts += [f"{sum(values) / len(values):.2f}" if values else ""]
            texts += [papers[category, name].printed if (category, name) in papers else ""] if papers else []
        rows.append(texts)
    heads = ["category", *(head for name in _DISTANCES.values() for head in ((name, "paper") if papers else (name,)))]
    source = ""
    if papers:
        tables = sorted({f"{published_cells.PAPERS[cell.paper]}, Table {cell.table}" for cell in papers.values()})
        note = "Its ROUGE-1 is another measure: it is lower than what the unchanged captions alone would give."
        source = f"paper: {', '.join(tables)}. {note}"
    return {"heads": heads, "rows": rows, "source": source}
