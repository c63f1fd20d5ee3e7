"""What can be made of each table, figure and section of the papers: the lines of docs/how-to/reproduce-a-table.md.

Tables follow from the published cells, perturbations from the suites; the rest is `coverage.csv`, line by line.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from perturbations.evaluation.published import protocols
from perturbations.evaluation.published.cell_status import cells
from perturbations.suites import suite_registry as suites

COVERAGE = Path(__file__).with_name("coverage.csv")
_YES = ("shown", "needs features")


class CoverageLine(NamedTuple):
    """A line of a paper: what it has, whether it can be made, and the command or the reason."""

    paper: str
    place: str
    what: str
    answer: str
    how: str


def lines() -> Iterator[CoverageLine]:
    """Every line, paper by paper: tables, perturbations, then the rest in the paper's order."""
    with COVERAGE.open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    for paper, own in protocols.papers().items():
        yield from _tables(paper, own)
        title, suite = own["title"], own.get("suite")
        for kind, target in (("video", suite), ("text", f"text_{suite}")):
            if suite and (entries := suites.perturbations(suite, kind)):
                how = f"`snakemake {target}_<dataset>`; `perturb list {suite}`"
                yield CoverageLine(title, f"perturbations of {kind}s", str(len(entries)), "yes", how)
        for row in written:
            if row["paper"] == paper:
                yield CoverageLine(title, row["place"], row["what"], row["answer"], row["how"])


def _tables(paper: str, about: Mapping[str, Any]) -> Iterator[CoverageLine]:
    """The tables of results, those together of which the same is true."""
    known = cells()
    presets = {table: own.name for own in protocols.protocols().values() if own.paper == paper for table in own.tables}
    groups: dict[tuple[str, str], list[str]] = {}
    sizes: Counter[tuple[str, str]] = Counter()
    for number, of_table in known[known["paper"] == paper].groupby("table", sort=False):
        table = str(number)
        counts = {str(status): int(count) for status, count in of_table["status"].value_counts().items()}
        key = _answer(counts, of_table.loc[~of_table["status"].isin(_YES), "reason"], presets.get(table, ""), table)
        groups.setdefault(key, []).append(table)
        sizes[key] += len(of_table)
    for number, reason in about.get("not_read", {}).items():
        groups.setdefault(("no", reason), []).append(number)
    for (answer, how), numbers in groups.items():
        ordered = sorted(numbers, key=lambda number: (len(number), number))
        size = f"{sizes[answer, how]:,} cells" if sizes[answer, how] else "not among the cells"
        yield CoverageLine(about["title"], f"Tab. {', '.join(ordered)}", size, answer, how)


def _answer(counts: Mapping[str, int], lacking: Iterable[str], preset: str, table: str) -> tuple[str, str]:
    """Whether a table can be made, and how, or why not."""
    reasons = "; ".join(dict.fromkeys(lacking))
    name = preset.removesuffix(table) + "<number>" if preset.endswith(f"_table_{table}") else preset
    ways = []
    if "shown" in counts:
        ways.append(f"`evaluation.protocol: {name}`" if name else "`snakemake text_msrvtt_p_<dataset>`: captions.html")
    if "needs features" in counts:
        ways.append(f"`perturb score --protocol {name}`")
    if ways and reasons:
        ways.append(f"{sum(counts.values()) - sum(counts.get(status, 0) for status in _YES)} cells not: {reasons}")
    return ("yes", "; ".join(ways)) if ways else ("no", reasons)


def block() -> str:
    """A table per paper, in Markdown."""
    parts, head = [], ["", "|place|what|made|command, or reason|", "|---|---|---|---|"]
    for paper, of_paper in groupby(lines(), lambda line: line.paper):
        rows = (f"|{'|'.join((_in_ranges(line.place), *line[2:]))}|" for line in of_paper)
        parts.append("\n".join([f"**{paper}**", *head, *rows]))
    return "\n\n".join(parts) + "\n"


def _in_ranges(place: str) -> str:
    """A place with three or more numbers in a row as their first and last: "Tab. 1 to 3, 7"."""
    numbers = place.removeprefix("Tab. ").split(", ")
    if not all(map(str.isdigit, numbers)):
        return place
    runs: list[list[int]] = []
    for number in map(int, numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"Tab. {', '.join(texts)}"
