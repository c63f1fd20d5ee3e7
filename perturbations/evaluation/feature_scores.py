"""Results of features that any program computed: the same rows, ranks and page as an evaluation's."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations import retrieval
from perturbations.base import storage
from perturbations.base.errors import AnnotationError, short
from perturbations.base.records import canonical, digest
from perturbations.datasets import parsing
from perturbations.evaluation import stored_features
from perturbations.evaluation.planning import CLEAN, DirectionName, Side
from perturbations.evaluation.result_sets import check, with_clean
from perturbations.evaluation.rows import RANKS, RESULTS, RankRow, ResultRow, ScenarioColumns
from perturbations.evaluation.stored_features import StoredFeatures
from perturbations.manifest import files, layout
from perturbations.manifest.columns import row_from
from perturbations.retrieval.metrics import summary_of_ranks
from perturbations.suites import registry

_Answers = Mapping[str, Sequence[str]]
"""The gallery's ids that answer each query, by the query's id."""

_RELEVANT = ("query_id", "gallery_id")
"""The columns of a file of answers."""

_SHOWN = 3


@dataclass(frozen=True)
class FeatureSet:
    """The files of one side of a retrieval; perturbed ones by suite, perturbation and severity."""

    clean: Path
    perturbed: Mapping[tuple[str, str, int], Path] = field(default_factory=dict)


def located(path: Path) -> FeatureSet:
    """The files of features at a path: one file, or a folder as `perturb encode` writes it.

    A folder holds `clean.npz` and `SUITE/PERTURBATION/SEVERITY.npz`, or the other suffixes that are read.
    Raises `AnnotationError` for a folder without a clean file, and for other names in it.
    """
    if not path.is_dir():
        return FeatureSet(path)
    found: dict[tuple[str, ...], Path] = {}
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).with_suffix("").parts
        if file.is_file() and file.suffix in (*stored_features.SUFFIXES, ".csv") and len(parts) in (1, 3):
            found.setdefault(parts, file)
    if (CLEAN,) not in found:
        raise AnnotationError(f"{path} holds no clean.npz: the features of what is not perturbed")
    perturbed = {}
    for parts, file in found.items():
        if len(parts) == 3:
            suite, name, severity = parts
            entry = registry.get(f"{suite}/{name}")
            if not severity.isdecimal() or int(severity) not in entry.severities:
                raise AnnotationError(f"{file}: {entry.key} has no severity {short(severity)}")
            perturbed[suite, name, int(severity)] = file
    return FeatureSet(found[CLEAN,], perturbed)


def read_answers(path: Path) -> dict[str, list[str]]:
    """The answers in a CSV of `query_id,gallery_id`, one pair per line. Raises `AnnotationError`."""
    answers: dict[str, list[str]] = {}
    for place, row in parsing.table(path, _RELEVANT):
        if not isinstance(row, dict) or None in row or not all(row.get(name, "").strip() for name in _RELEVANT):
            raise AnnotationError(f"{path}, line {place}: a line has a query_id and a gallery_id, and nothing else")
        query, item = (row[name].strip() for name in _RELEVANT)
        if item in answers.setdefault(query, []):
            raise AnnotationError(f"{path}, line {place}: {short(query)} and {short(item)} stand there twice")
        answers[query].append(item)
    if not answers:
        raise AnnotationError(f"{path} lists no pair")
    return answers


def write_answers(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Write the CSV that `read_answers` reads: pairs of a query's id and the id of an item that answers it."""
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([_RELEVANT, *pairs])
    storage.write_text(path, content.getvalue())


def scored(
    queries: FeatureSet,
    gallery: FeatureSet,
    answers: _Answers | None = None,
    *,
    dataset: str,
    model: str,
    direction: DirectionName,
) -> tuple[list[ResultRow], list[RankRow]]:
    """The results and ranks of every scenario: clean, perturbed queries, and perturbed galleries.

    Without `answers` an item answers the query of its own id; a query of `answers` without features counts as missing.
    Raises `AnnotationError` for ids that repeat, are missing or answer nothing, features of other widths, NaN and rows
    of zeros.
    """
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    clean_queries, clean_gallery = _read(queries.clean), _read(gallery.clean)
    listed = answers or {name: (name,) for name in clean_queries.ids}
    cases: list[tuple[Side, tuple[str, str, int]]] = [
        ("none", (CLEAN, CLEAN, 0)),
        *(("query", scenario) for scenario in queries.perturbed),
        *(("gallery", scenario) for scenario in gallery.perturbed),
    ]
    for side, (suite, name, severity) in cases:
        chosen = _read(queries.perturbed[suite, name, severity]) if side == "query" else clean_queries
        items = _read(gallery.perturbed[suite, name, severity]) if side == "gallery" else clean_gallery
        places = _ranks(chosen, items, listed)
        scenario = ScenarioColumns(
            dataset=dataset,
            suite=suite,
            perturbation=name,
            severity=severity,
            direction=direction,
            side=side,
            model=model,
            model_key=model,
            method="none",
            seed=0,
        )
        columns = asdict(scenario)
        rows.append(_row(columns, chosen, items, places, missing=len(listed.keys() - {*chosen.ids})))
        ranks += [
            RankRow(**columns, query_id=query, rank=int(place)) for query, place in zip(chosen.ids, places, strict=True)
        ]
    return with_clean(rows, ranks), ranks


def write(folder: Path, rows: Sequence[ResultRow], ranks: Sequence[RankRow], about: Mapping[str, object]) -> None:
    """Write the manifests of results and of ranks."""
    check(rows)
    about = {**about, "root": "."}  # rows of features name no files
    files.write(folder / layout.name("results"), RESULTS, rows, about)
    files.write(folder / layout.name("ranks"), RANKS, ranks, about)


def _read(path: Path) -> StoredFeatures:
    return stored_features.read(path).unique()


def _ranks(chosen: StoredFeatures, items: StoredFeatures, answers: _Answers) -> NDArray[np.int64]:
    place = {name: row for row, name in enumerate(items.ids)}
    unknown = [name for name in chosen.ids if name not in answers]
    if unknown:
        raise AnnotationError(f"{chosen.path}: no item answers {_some(unknown)}")
    absent = [item for name in chosen.ids for item in answers[name] if item not in place]
    if absent:
        raise AnnotationError(
            f"{items.path} lacks {_some(absent)}, which queries of {chosen.path} ask for; --relevant FILE.csv says "
            "which item answers which query"
        )
    try:
        return retrieval.score(
            chosen.rows, items.rows, [[place[item] for item in answers[name]] for name in chosen.ids]
        )
    except ValueError as error:
        raise AnnotationError(f"{chosen.path} and {items.path}: {error}") from error


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(map(short, names[:_SHOWN]))}{more}"


def _row(
    columns: dict[str, Any], chosen: StoredFeatures, items: StoredFeatures, places: NDArray[np.int64], *, missing: int
) -> ResultRow:
    """A row of results. Weights, frames and settings are not known of features: their columns say so."""
    key = f"{columns['suite']}/{columns['perturbation']}"
    sums = {"queries": storage.sha256(chosen.path), "gallery": storage.sha256(items.path)}
    return row_from(
        RESULTS,
        {
            **columns,
            **summary_of_ranks(places),
            "category": columns["suite"] if columns["side"] == "none" else registry.get(key).level,
            "setting": "features",
            "queries": len(chosen.ids),
            "missing_queries": missing,
            "gallery": len(items.ids),
            "settings": canonical({"compared": "cosine", "numbers": int(items.rows.shape[1])}),
            "backend": canonical({"retrieval": "features"}),
            "queries_sha256": sums["queries"],
            "manifest_sha256": sums["gallery"],
            "checkpoint_sha256": "",
            "tools": canonical({"numpy": np.__version__}),
            "recipe_id": digest({**columns, **sums}),
            **dict.fromkeys(("updates", "empty", "non_finite"), 0),
        },
    )
