"""The published cells with their status, as a table and as `perturb list protocols NAME --cells` prints them."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import pandas as pd

from perturbations.evaluation.published import protocols
from perturbations.suites import published_cells


def cells(protocol: str | None = None) -> pd.DataFrame:
    """The published cells with their status: the cells of a protocol's tables, or all 10,306.

    The columns are those that are printed (`perturbations.suites.published_cells`), `status` and `reason`. "shown":
    complete results of the table's preset show the cell once on their page. "needs ...": weights, features or a GPU are
    missing, and `reason` names them. "impossible": no results of this package can show the cell.

    Raises `ConfigError` for a protocol that there is not.
    """
    listed = published_cells.cells() if protocol is None else protocols.protocol(protocol).cells
    names = [*published_cells.PRINTED, "status", "reason"]
    return pd.DataFrame([[getattr(cell, name) for name in names] for cell in listed], columns=names)


_TABLE = itemgetter("paper", "table", "dataset", "direction", "side", "model", "setting", "status", "reason")
_LINE = itemgetter("method", "metric", "note")


def cell_lines(protocol: str | None) -> list[tuple[str, dict[str, object]]]:
    """What `perturb list protocols NAME --cells` prints of a protocol's cells, or of all.

    With each line comes its JSON; the first line's holds all cells and the counts.
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
            values = ", ".join(
                " ".join(filter(None, map(str, (row["perturbation"], row["severity"], row["printed"])))) for row in own
            )
            lines.append((f"    {', '.join(filter(None, (method, metric, note)))}: {values}", {}))
    return lines
