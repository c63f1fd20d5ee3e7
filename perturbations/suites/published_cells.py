"""The cells of the papers' tables, as printed: which paper, table, row and column, and what contradicts a cell.

`published.parquet` holds 10,306 numbers of HAT-VTR (`hat_vtr`), MSRVTT-P and YouCook2-P (`msrvtt_p`, the NeurIPS
version), Qiu et al. (`mm_robustness`), EgoCVR (`egocvr`) and further sets of composed retrieval, with what the papers
state of the runs behind each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

_FILE = Path(__file__).with_name("published.parquet")

PAPERS: Final = MappingProxyType(
    {
        **{"hat_vtr": "HAT-VTR", "msrvtt_p": "MSRVTT-P", "mm_robustness": "Qiu et al.", "egocvr": "EgoCVR"},
        **{"covr_r": "CoVR-R", "dense_webvid_covr": "Dense-WebVid-CoVR", "tf_covr": "TF-CoVR", "omni_cvr": "OmniCVR"},
    }
)
"""The papers' keys and names."""


SPLITS: Final[Mapping[str, Mapping[int, int]]] = MappingProxyType(
    {
        "msrvtt": {1_000: 1_000},
        "activitynet": {4_917: 4_917},
        "lsmdc": {999: 999},
        "msvd": {670: 670},
        "didemo": {1_004: 1_004},
        "youcook2": {3_305: 3_305, 3_350: 3_350},
        "flickr30k": {1_000: 5_000},
        "coco": {5_000: 25_000},
    }
)
"""By adapter the published splits: the number of their items, and of the captions of these. YouCook2-P prints 3,305;
its own totals give 3,350."""

HASHES: Final[Mapping[tuple[str, int], tuple[str, str]]] = MappingProxyType(
    {
        ("msrvtt", 1_000): (
            "23ca25cae27818f24013f7440e17da9cb4c34228510c0ea22d70f7afde05c745",
            "0c5e8c42eeef4926ba52ff03dc295092",
        ),
        ("activitynet", 4_917): (
            "8ef3a674cc4e5a79bdbc90c26bca837614c927a182679ef8e893b62b4d1c39f9",
            "076a831109fbc4b29c0df2f1f01ee25b",
        ),
        ("msvd", 670): (
            "adc5c80497c2295367a951a4068df985461f6641b7b7a712a74ce51905427b89",
            "50ef761c86839ff4a6357e31c6d781ec",
        ),
        ("youcook2", 3_350): (
            "0a8946f5ae8023c04f2fbc430b0e081f6d5d2cebff4a0f4b9e726ee99768429d",
            "4fa0f2899db4d29f340dcfe80b54a511",
        ),
    }
)
"""What tells the splits that public files list from others of their size: hashes of the ids of the items, and of these
with the captions. `manifest.sets.ids_sha256` makes the first, and an evaluation the second."""


SKIPPED: Final[Mapping[tuple[str, str], int]] = MappingProxyType({("egocvr", "local_released"): 2})
"""By adapter and gallery the queries that the authors' code leaves out, whose galleries have a single clip."""


def other_items(adapter: str, items: int, *, ids: str | None = None, listed: str | None = None) -> str | None:
    """Why `items` that are listed are not known to be those of the published split of their number; None: they are.

    `ids` and `listed` are the two hashes of `HASHES`; one of them is given; an evaluation may have recorded none.
    """
    if (adapter, items) not in HASHES:
        return f"which items are listed cannot be compared, as no hash of the published split of {adapter} is known"
    if ids is None and listed is None:
        return "which items are listed is not recorded"
    if ids == HASHES[adapter, items][0] or listed == HASHES[adapter, items][1]:
        return None
    return f"the {items:,} listed items are not those of the published split of {adapter}"


@dataclass(frozen=True, slots=True)
class Published:
    """A number of a table, and its key: all that the paper states of the runs behind it.

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
        model, setting, method: as the table names them; the methods are this package's where it has them. Of EgoCVR
            the setting is the gallery.
        metric: the name of this package's column where it has one: "recall_at_1", "hub_skewness", "gamma_r", ...
        printed: the number as the table has it.
        note: how the cell was read, where it is not plain.
        contradiction: which other published number the cell contradicts; empty for most.
        status, reason: whether results of this package reach it ("shown", "needs features", "needs weights", "needs
            GPU", "impossible"), and by what, or why not.
        parts: the retrievals that the number is of, as JSON: one, or both directions, whose results are summed. Each
            has its `direction`, `side`, `sizes` ([queries, gallery] that the paper may have had, null where it is
            open, with a point the mean of galleries of several sizes), and `runs`, the scenarios of the mean. None
            where no results can have the key.
        of: the column that a robustness score is of.
        stated_model, pooling, backbone, trained: the model: the name that features are given under (empty where none is
            behind the number, as in random orders), how frames are pooled (empty where the workflow does not run it),
            its architecture and what it was trained on (empty where the paper leaves them open).
        stated_method, changed: the method's name here, and as JSON its parameters that differ from the published ones.
        seed: of the order of queries.
        gallery: the name of a composed gallery, of multiple choice, or of the whole dataset.
        frames, shortlist: of composed retrieval, "mean" or "middle", and the clips that a first stage keeps.
        batch_size: of methods that adapt.
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
    printed: str
    note: str
    contradiction: str
    status: str
    reason: str
    parts: str | None
    of: str
    stated_model: str
    pooling: str
    backbone: str
    trained: str
    stated_method: str
    changed: str
    seed: int | None
    gallery: str
    frames: str
    shortlist: int | None
    batch_size: int | None

    @property
    def value(self) -> float:
        """The number; of recall and MMI in percent."""
        return float(self.printed)


_NAMES: Final = tuple(column.name for column in fields(Published))
PRINTED: Final = _NAMES[: _NAMES.index("status")]
"""The columns that a paper prints; the others are the key that a result is compared with."""


@cache
def cells() -> tuple[Published, ...]:
    """Every cell of every table."""
    import pyarrow.parquet as pq

    columns = pq.read_table(_FILE, columns=list(_NAMES)).to_pydict()
    return tuple(Published(*own) for own in zip(*(columns[name] for name in _NAMES), strict=True))


def values(paper: str, tables: Iterable[str]) -> list[Published]:
    """The published cells of tables of a paper, in printed order."""
    return [cell for table in tables for cell in cells() if (cell.paper, cell.table) == (paper, table)]


@cache
def retrieval_of(suite: str, modality: str) -> tuple[Published, ...]:
    """The cells of retrieval under a suite's perturbations of a modality."""
    of_retrieval = (cell for cell in cells() if cell.parts is not None)
    return tuple(cell for cell in of_retrieval if cell.suite == suite and modality in cell.modality.split("+"))
