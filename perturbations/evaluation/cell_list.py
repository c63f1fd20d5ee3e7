"""What `perturb list protocols NAME --cells` prints: how many published cells have which status, then the cells."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from perturbations.evaluation.protocols import cells

_TABLE = itemgetter("paper", "table", "dataset", "direction", "side", "model", "setting", "status", "reason")
_LINE = itemgetter("method", "metric", "note")


def lines(protocol: str | None) -> list[tuple[str, dict[str, object]]]:
    """The lines for a protocol or for all published cells; the first with all of them, and the counts, as JSON.

    Counts of statuses come first; then a line for each row of the papers' tables below a line of what it shares with
    its neighbours. Raises `ConfigError` for a protocol that there is not.
    """
    table = cells(protocol)
    plain = [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
    counts = {str(status): int(number) for status, number in table["status"].value_counts().items()}
    named = ", ".join(f"{number:,} {status}" for status, number in counts.items())
    lines: list[tuple[str, dict[str, object]]] = [
        (f"{len(table):,} published cells: {named}", {"counts": counts, "cells": plain})
    ]
    for (paper, number, *where, status, reason), group in groupby(sorted(plain, key=_TABLE), _TABLE):
        members, shared = list(group), ", ".join(filter(None, map(str, where)))
        lines.append((f"{paper}, Table {number}: {shared}: {len(members):,} {status} ({reason})", {}))
        for (method, metric, note), own in groupby(members, _LINE):
            values = ", ".join(f"{_name(row)} {row['printed']}" for row in own)
            lines.append((f"    {', '.join(filter(None, (method, metric, note)))}: {values}", {}))
    return lines


def _name(row: dict[str, object]) -> str:
    return " ".join(filter(None, map(str, (row["perturbation"], row["severity"]))))
