"""The page of perturbed captions in a browser: texts before and after, by perturbation and severity.

It holds a sample of the captions, loads nothing, and is identical for identical manifests.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from perturbations.base import storage, templates
from perturbations.manifest import files, layout, locations
from perturbations.report import pages
from perturbations.suites import registry

_CAPTIONS = 6
_COLUMNS = ("perturbation", "level", "severity", "caption_id", "source_text", "text", "changed")


def write(path: Path, output: Path) -> None:
    """Write the page of a `texts` manifest. Raises `ManifestError`."""
    about = files.read_metadata(path)
    table = files.read_columns(path, *_COLUMNS)
    suite, dataset = str(about.get("suite") or _suite(path)), str(about.get("dataset", ""))
    cards = list(_cards(_sample(table), _changed(table), suite))
    categories: dict[str, list[str]] = {}
    for card in cards:
        categories.setdefault(card["category"], []).append(card["name"])
    others = {
        "all corpora and results": locations.root_of(path, about) / layout.at("index"),
        "statistics": path.with_name(layout.name("caption_page")),
        "rows (Parquet)": path,
    }
    text = templates.rendered(
        "perturbations.report",
        "captions.html.j2",
        title=f"Captions of {dataset} under {suite}",
        links=[(name, pages.href(target, output)) for name, target in others.items()],
        totals=[
            ("captions", f"{pc.count_distinct(table['caption_id']).as_py():,}"),
            ("perturbations", f"{len(cards):,}"),
            ("perturbed captions", f"{len(table):,}"),
        ],
        cards=cards,
        categories=categories,
        severities=sorted(set(table["severity"].to_pylist())),
        shape=(4, 3),
    )
    storage.write_text(output, text)


def _suite(path: Path) -> str:
    table = files.read_columns(path, "suite")
    return str(table["suite"][0]) if len(table) else ""


def _sample(table: pa.Table) -> pa.Table:
    """The rows of a few captions, evenly spread over the ids."""
    known = sorted(pc.unique(table["caption_id"]).to_pylist())
    chosen = {known[place * len(known) // _CAPTIONS] for place in range(_CAPTIONS) if known}
    return table.filter(pc.is_in(table["caption_id"], pa.array(sorted(chosen), pa.string())))


def _changed(table: pa.Table) -> dict[tuple[str, int], float]:
    """The share of captions that changed, by perturbation and severity."""
    means = table.set_column(_COLUMNS.index("changed"), "changed", table["changed"].cast(pa.float64()))
    means = means.group_by(["perturbation", "severity"]).aggregate([("changed", "mean")])
    return {(row["perturbation"], row["severity"]): row["changed_mean"] for row in means.to_pylist()}


def _cards(table: pa.Table, changed: dict[tuple[str, int], float], suite: str) -> Iterator[dict[str, Any]]:
    """Each perturbation in its suite's order, then those that are not installed here: its pairs by severity."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        by_name.setdefault(row["perturbation"], []).append(row)
    known = {entry.name: entry for entry in (registry.perturbations(suite) if suite in registry.suites() else ())}
    for name in [*(name for name in known if name in by_name), *sorted(by_name.keys() - known.keys())]:
        rows = sorted(by_name[name], key=lambda row: (row["severity"], row["caption_id"]))
        by_severity: dict[int, list[Any]] = {}
        for row in rows:
            by_severity.setdefault(row["severity"], []).append(compared(row["source_text"], row["text"]))
        yield {
            "name": name,
            "category": rows[0]["level"],
            "summary": known[name].summary if name in known else "",
            "severities": [
                (severity, f"{changed[name, severity]:.0%}", pairs) for severity, pairs in by_severity.items()
            ],
        }


_Words = list[tuple[str, bool]]


def compared(before: str, after: str) -> tuple[_Words, _Words]:
    """Two texts as runs of words, each with whether the other text lacks it."""
    texts = before.split(), after.split()
    sides: tuple[_Words, _Words] = [], []
    for kind, *places in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        for side, words, start, end in zip(sides, texts, places[::2], places[1::2], strict=True):
            if end > start:
                side.append((" ".join(words[start:end]), kind != "equal"))
    return sides
