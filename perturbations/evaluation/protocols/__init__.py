"""The shelf of published evaluation protocols: one file per paper, each of which declares `PROTOCOLS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def cells(protocol: str | None = None) -> pd.DataFrame:
    """The published cells with what became of each: those of a protocol's tables, or all 10,275.

    The columns are those of `perturbations.suites.published.Published`, then `status` and `reason`. "shown": complete
    results of the table's preset show the cell once on their page. "needs ...": weights, features or a GPU are
    lacking, and `reason` says of what. "impossible": no results of this package can have it.

    Raises `ConfigError` for a protocol that there is not.
    """
    from dataclasses import asdict, fields

    import pandas as pd

    from perturbations.evaluation.protocols import registry
    from perturbations.suites import published

    wanted = published.cells() if protocol is None else published.values(registry.protocol(protocol))
    papers = registry.papers()
    presets = {(own.paper, table): name for name, own in registry.protocols().items() for table in own.tables}
    rows = []
    for cell in wanted:
        known = papers[cell.paper].stated(cell)
        reason = known.reason or f"by the preset {presets[cell.paper, cell.table]}"
        rows.append({**asdict(cell), "status": known.status, "reason": reason})
    return pd.DataFrame(rows, columns=[*(column.name for column in fields(published.Published)), "status", "reason"])
