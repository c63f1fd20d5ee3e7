"""The tables of the documentation that were measured: how, when, and of which versions of the kernels."""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from perturbations.suites import registry as suites

_FOLDER = Path(__file__).with_name("measurements")
MEASURED = _FOLDER / "measured.json"
"""Per measured table: its command, its date, and the versions of what it measured."""
CAPTIONS = _FOLDER / "captions.csv"
"""What `benchmarks/text.py msrvtt FILE distance` measured: a row per perturbation of msrvtt_p's captions."""

_TABLE_6 = {
    "AddText": (0.57, 0.76),
    "Bias": (0.88, 0.94),
    "ChangeChar": (0.60, 0.79),
    "DropText": (0.29, 0.53),
    "Positional": (0.64, 0.78),
    "SwapText": (0.68, 0.87),
    "TextStyle": (0.56, 0.80),
}
"""BLEU-4 and METEOR of MSR-VTT's captions by category: Schiappa et al., Tab. 6."""

Measured = dict[str, dict[str, Any]]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = ["".join(f" {cell} |" if cell else " |" for cell in line) for line in (names, *rows)]
    return "".join(f"|{line}\n" for line in (lines[0], "---|" * len(names), *lines[1:]))


def measured() -> Measured:
    """The tables that were measured, by name; `versions` is keyed by suite/perturbation."""
    tables: Measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    tables["captions"]["versions"] = {f"msrvtt_p/{row['perturbation']}": int(row["version"]) for row in _caption_rows()}
    return tables


def outdated(tables: Measured) -> list[str]:
    """A sentence per measured table of which something has another version today."""
    sentences = []
    for name, entry in tables.items():
        now = _versions(entry["versions"])
        changed = [f"{key} ({old}, now {now[key]})" for key, old in entry["versions"].items() if old != now[key]]
        if changed:
            sentences.append(
                f"the table {name!r} was measured with other versions of {', '.join(changed)}: run "
                f"`{entry['command']}`, put its figures in, then `python docs/generate.py --measured {name}`"
            )
    return sentences


def _versions(keys: Iterable[str]) -> dict[str, int | None]:
    """Today's versions; None for what there is no longer."""
    known = {entry.key: entry.version for entry in suites.perturbations()}
    return {key: known.get(key) for key in keys}


def record(name: str) -> None:
    """Write that a table was measured today."""
    tables: Measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    tables[name]["date"] = f"{datetime.date.today()}"
    if "versions" in tables[name]:  # those of captions are in their own table
        tables[name]["versions"] = _versions(tables[name]["versions"])
    MEASURED.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")


def of_measured(name: str) -> Callable[[], str]:
    """The block that says how a table was measured, when, and of which versions."""

    def block() -> str:
        entry = measured()[name]
        versions: dict[int, list[str]] = {}
        for key, version in entry["versions"].items():
            versions.setdefault(version, []).append(key.partition("/")[2])
        *rest, most = sorted(versions, key=lambda version: len(versions[version]))
        named = [f"{', '.join(versions[version])}: {version}" for version in rest]
        listed = "; ".join([*named, f"all others: {most}" if rest else f"all: {most}"])
        return f"`{entry['command']}`, {entry['date']}. Versions of the kernels: {listed}.\n"

    return block


def _caption_rows() -> list[dict[str, str]]:
    with CAPTIONS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def of_caption_categories() -> str:
    """A line per category of msrvtt_p's captions, beside the paper's."""
    means = []
    for category, (bleu, meteor) in _TABLE_6.items():
        rows = [row for row in _caption_rows() if row["category"] == category]
        ours = [f"{fmean(float(row[name]) for row in rows):.3f}" for name in ("bleu4", "meteor")]
        means.append([category, ours[0], f"{bleu:.2f}", ours[1], f"{meteor:.2f}"])
    return table(["category", "BLEU-4", "paper", "METEOR", "paper"], means)


def of_caption_perturbations() -> str:
    """A line per perturbation of msrvtt_p's captions."""
    head = ["perturbation", "backend", "changed", "bleu4", "meteor"]
    return table(head, ([row[name] for name in head] for row in _caption_rows()))
