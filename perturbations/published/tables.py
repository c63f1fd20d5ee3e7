"""The cells of the papers' tables, as printed: which paper, table, row and column, and what contradicts a cell.

`tables.parquet` holds 10,203 numbers of HAT-VTR (`hat_vtr`), MSRVTT-P and YouCook2-P (`msrvtt_p`, the NeurIPS version),
Qiu et al. (`mm_robustness`) and EgoCVR (`egocvr`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

_FILE = Path(__file__).with_name("tables.parquet")

PAPERS: Final = MappingProxyType(
    {"hat_vtr": "HAT-VTR", "msrvtt_p": "MSRVTT-P", "mm_robustness": "Qiu et al.", "egocvr": "EgoCVR"}
)
"""The papers' keys and names."""

SPLITS: Final = MappingProxyType(
    {
        "msrvtt": (1_000,),
        "activitynet": (4_917,),
        "lsmdc": (999,),
        "msvd": (670,),
        "didemo": (1_004,),
        "youcook2": (3_305, 3_350),
        "egocvr": (2_295,),
    }
)
"""The queries of each dataset's published split, by adapter. YouCook2-P prints 3,305; its own totals give 3,350."""

RECALLS = frozenset({"r1", "r2", "r3", "r5", "r10", "rsum", "mean_recall", "mmi", "gamma_a", "gamma_r"})
"""The metrics of retrieval among the cells'; others are of captions, hubness and cost."""


@dataclass(frozen=True, slots=True)
class PublishedCell:
    """A number of a table.

    Attributes:
        paper, table: the paper's key and the table's number; S1, S2: of the supplement.
        dataset: its name.
        direction: "v2t", "t2v", "i2t", "t2i", "i2t+t2i" (a sum over both) or "composed".
        side: what is perturbed: "query", "gallery", "both", "none", or "alternating" (one modality, which is the query
            in one direction and the gallery in the other).
        modality: what is perturbed: "video", "image", "text", "video+text", "none".
        suite: whose perturbation; empty where nothing is perturbed.
        perturbation: the name of a perturbation or category, "clean", "all" (the table's mean), or "avg6".
        severity: a number (0: clean), "mean" (over severities), "mixed", or empty where it is not stated.
        model, setting, method: as the table names them; the methods are this package's where it has them.
        metric: "r1" ... "r10" and "mmi" in percent, "rsum" a sum of percents, "gamma_*" ratios, ...
        value: the number as printed.
        note: how the cell was read, where it is not plain.
        contradiction: which other published number the cell contradicts; empty for most.
    """

    paper: str
    table: str
    dataset: str
    direction: str
    side: str
    modality: str
    suite: str
    perturbation: str
    severity: str
    model: str
    setting: str
    method: str
    metric: str
    value: str
    note: str
    contradiction: str

    @property
    def number(self) -> float:
        """The value as a number."""
        return float(self.value)


_NAMES: Final = tuple(column.name for column in fields(PublishedCell))


@cache
def _by_table() -> dict[tuple[str, str], tuple[PublishedCell, ...]]:
    import pyarrow.parquet as pq

    columns = pq.read_table(_FILE, columns=list(_NAMES)).to_pydict()
    groups: dict[tuple[str, str], list[PublishedCell]] = {}
    for values in zip(*(columns[name] for name in _NAMES), strict=True):
        cell = PublishedCell(*values)
        groups.setdefault((cell.paper, cell.table), []).append(cell)
    return {key: tuple(members) for key, members in groups.items()}


def cells(paper: str | None = None, tables: Iterable[str] | None = None) -> Iterator[PublishedCell]:
    """The cells of a paper's tables, in printed order; default: of all tables, of all papers.

    Raises KeyError for a paper or table that there is not.
    """
    held = _by_table()
    names = None if tables is None else tuple(tables)
    chosen = [key for key in held if paper in (None, key[0]) and (names is None or key[1] in names)]
    known = {table for _, table in chosen}
    if not chosen or (names is not None and not known.issuperset(names)):
        raise KeyError(f"no published table {paper}, {', '.join(names or ())}")
    for key in chosen:
        yield from held[key]


@cache
def papers_of(suite: str, dataset: str, modality: str) -> dict[str, tuple[str, ...]]:
    """The papers that print retrieval under a suite's perturbations of a modality on a dataset, and their tables."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells():
        same = (cell.suite, cell.dataset) == (suite, dataset) and modality in cell.modality.split("+")
        if same and cell.metric in RECALLS:
            found.setdefault(cell.paper, {})[cell.table] = None
    return {paper: tuple(tables) for paper, tables in found.items()}


def datasets_of(suite: str, modality: str) -> tuple[str, ...]:
    """The datasets on which retrieval under a suite's perturbations of a modality was published."""
    names = (
        cell.dataset
        for cell in cells()
        if cell.suite == suite and modality in cell.modality.split("+") and cell.metric in RECALLS
    )
    return tuple(dict.fromkeys(names))
