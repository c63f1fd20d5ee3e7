"""Results of features or similarities that any program computed: the same rows, ranks and page as an evaluation's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from perturbations import retrieval
from perturbations.base import storage
from perturbations.base.errors import AnnotationError, short
from perturbations.base.records import canonical, digest
from perturbations.evaluation import feature_sets, stored_features
from perturbations.evaluation.feature_sets import Answers, FeatureSet
from perturbations.evaluation.method_settings import AS_IT_IS, parameters_of
from perturbations.evaluation.planning import DirectionName, Side, category_of
from perturbations.evaluation.result_sets import check, with_clean
from perturbations.evaluation.rows import (
    CHOICES,
    CLEAN_SCENARIO,
    LISTED,
    RANKS,
    RESULTS,
    WHOLE_GALLERY,
    RankRow,
    ResultRow,
    Run,
    ScenarioKey,
    backend_cell,
    banks_key,
)
from perturbations.evaluation.stored_features import StoredFeatures, StoredSimilarities
from perturbations.manifest import files, layout
from perturbations.retrieval.metrics import retrieved_first
from perturbations.retrieval.scoring import cosines
from perturbations.tta.methods import registry as methods_registry

_log = logging.getLogger("perturbations")

_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is scored.

    Attributes:
        dataset, model: names in tables.
        protocol: the published protocol that the features follow.
        direction: which side has the clips.
        sides: what is perturbed, of the files that are there.
        methods: methods on similarities, beside the model as it is.
        bank, gallery_bank: features for methods that take them.
        top_k: how many items that a query retrieved first are kept.
        choices: the items that each query chooses among, in place of the gallery: R@1 is then the accuracy.
    """

    dataset: str
    model: str
    direction: DirectionName
    protocol: str | None = None
    sides: Sequence[Side] = ("query", "gallery")
    methods: Sequence[str] = ()
    bank: Path | None = None
    gallery_bank: Path | None = None
    top_k: int | None = None
    choices: Answers | None = None


@dataclass(frozen=True)
class _Retrieved:
    """What a scenario's similarities say of the queries with these ids: ranks, and how often items are retrieved."""

    ids: tuple[str, ...]
    ranks: NDArray[np.int64]
    occurrence: NDArray[np.float64]
    first: list[str | None]


@dataclass(frozen=True)
class _Case:
    """One scenario: its run by the model as it is, and the files of the queries and of the gallery."""

    run: Run
    files: tuple[Path, Path]


_Rows = tuple[list[ResultRow], list[RankRow]]

_Warnings = dict[str, list[str]]
"""What a user should know, by its kind: a text per scenario."""

_FAR_BELOW = 10.0
"""Percent points of R@1: a clean result so far below a perturbed one is that of other rows."""


def scored(queries: FeatureSet, gallery: FeatureSet, answers: Answers | None, wanted: Wanted) -> _Rows:
    """The results and ranks of every scenario: clean, perturbed queries, perturbed galleries, and both.

    Without `answers` an item answers the query of its own id. A listed query without features, or without an answer in
    the gallery, counts as missing. Raises `AnnotationError` for ids that repeat or that no answer lists, features of
    other widths, NaN and rows of zeros, and `ConfigError` for a method that is unknown, learns, or lacks its bank.
    """
    clean = _read(queries.clean), _read(gallery.clean)
    cases = [_case(wanted, "none", None, None, (queries.clean, gallery.clean))]
    if "query" in wanted.sides:
        asking = queries.perturbed.items()
        cases += [_case(wanted, "query", own, None, (path, gallery.clean)) for own, path in asking]
    if "gallery" in wanted.sides:
        answering = gallery.perturbed.items()
        cases += [_case(wanted, "gallery", None, own, (queries.clean, path)) for own, path in answering]
    if "both" in wanted.sides:
        cases += _both(queries, gallery, wanted)

    def of_case(case: _Case) -> Iterator[tuple[str, _Retrieved]]:
        query, items = (
            known if path == known.path else _read(path) for known, path in zip(clean, case.files, strict=True)
        )
        query, targets = _answered(query, items.ids, items.path, listed, wanted.choices, warned)
        for method in dict.fromkeys((AS_IT_IS, *wanted.methods)):
            yield method, _of_features(query, items, targets, method, wanted)

    listed = answers or {name: (name,) for name in clean[0].ids}
    warned: _Warnings = {}
    about: dict[str, object] = {"compared": "cosine", "numbers": int(clean[1].rows.shape[1])}
    banks = {"bank": wanted.bank, "gallery_bank": wanted.gallery_bank}
    about |= {name: storage.sha256(bank) for name, bank in banks.items() if bank}
    return _warned(_rows(cases, of_case, listed, wanted, about), warned)


def scored_similarities(held: FeatureSet, answers: Answers | None, wanted: Wanted) -> _Rows:
    """The results and ranks of similarities: clean ones, and perturbed ones of the only side of `wanted`.

    Arguments and errors as of `scored`; without `answers` the clean file's queries are the listed ones.
    """
    (side,) = wanted.sides
    cases = [_case(wanted, "none", None, None, (held.clean, held.clean))]
    for scenario, path in held.perturbed.items():
        query, gallery = (scenario, None) if side == "query" else (None, scenario)
        cases.append(_case(wanted, side, query, gallery, (path, path)))

    def of_case(case: _Case) -> Iterator[tuple[str, _Retrieved]]:
        stored = stored_features.read_similarities(case.files[0])
        query, targets = _answered(stored, stored.gallery, stored.path, listed, wanted.choices, warned)
        yield AS_IT_IS, _retrieved(query.ids, stored.gallery, _whole(query.rows), targets, wanted)

    listed = answers or {name: (name,) for name in stored_features.read_similarities(held.clean).ids}
    warned: _Warnings = {}
    return _warned(_rows(cases, of_case, listed, wanted, {"compared": "similarities"}), warned)


def _warned(scored: _Rows, warned: _Warnings) -> _Rows:
    """The same results; the log has one line per kind of warning."""
    as_it_is = [row for row in scored[0] if row.method == AS_IT_IS]
    clean, perturbed = ([row for row in as_it_is if (row.side == "none") == is_clean] for is_clean in (True, False))
    warned["order"] = [
        f"R@1 is {own.recall_at_1:.1f} clean, and {row.recall_at_1:.1f} under {row.suite}/{row.perturbation}: are the "
        "rows of the clean features in the order of their ids?"
        for own in clean
        for row in perturbed
        if own.recall_at_1 < row.recall_at_1 - _FAR_BELOW
    ]
    for texts in filter(None, warned.values()):
        _log.warning("%s%s", texts[0], f" (and so in {len(texts) - 1:,} more scenarios)" if len(texts) > 1 else "")
    return scored


def write(folder: Path, rows: Sequence[ResultRow], ranks: Sequence[RankRow], about: Mapping[str, object]) -> None:
    """Write the manifests of results and of ranks."""
    check(rows)
    about = {**about, "root": "."}  # rows of features name no files
    files.write(folder / layout.name("results"), RESULTS, rows, about)
    files.write(folder / layout.name("ranks"), RANKS, ranks, about)


def _case(
    wanted: Wanted, side: Side, query: ScenarioKey | None, gallery: ScenarioKey | None, files: tuple[Path, Path]
) -> _Case:
    """A scenario of what queries and gallery are perturbed by; where both are, captions have columns of their own.

    Raises `AnnotationError` where perturbed clips are the side of captions, or perturbed captions that of clips.
    """
    sides = (query, files[0]), (gallery, files[1])
    (clips, of_clips), (texts, of_texts) = sides if wanted.direction == "v2t" else sides[::-1]
    for medium, what, own, path in (("video", "clips", clips, of_clips), ("text", "captions", texts, of_texts)):
        if own is not None and feature_sets.medium_of(own) != medium:
            raise AnnotationError(
                f"{own.suite}/{own.perturbation} is no perturbation of {what}, which {wanted.direction} has on the "
                f"side of {path}: give another --direction"
            )
    scenario = clips or texts or CLEAN_SCENARIO
    if clips and texts:
        scenario = clips._replace(text_perturbation=texts.perturbation, text_severity=texts.severity)
    run = Run(
        dataset=wanted.dataset,
        direction=wanted.direction,
        **scenario._replace(side=side)._asdict(),
        model=wanted.model,
        model_key=wanted.model,
        setting="features",
        checkpoint_sha256="",
        gallery_name=WHOLE_GALLERY if wanted.choices is None else CHOICES,
        method=AS_IT_IS,
        seed=0,
        order=LISTED,
    )
    return _Case(run, files)


def _both(queries: FeatureSet, gallery: FeatureSet, wanted: Wanted) -> list[_Case]:
    """The combinations that suites declare."""
    sets = queries.perturbed, gallery.perturbed
    clips, texts = sets if wanted.direction == "v2t" else sets[::-1]
    cases = []
    for clip, text in feature_sets.combined(clips, texts):
        own, other = (clip, text) if wanted.direction == "v2t" else (text, clip)
        cases.append(_case(wanted, "both", own, other, (queries.perturbed[own], gallery.perturbed[other])))
    return cases


def _read(path: Path) -> StoredFeatures:
    return stored_features.read(path).unique()


_Stored = TypeVar("_Stored", StoredFeatures, StoredSimilarities)


def _answered(
    held: _Stored, items: Sequence[str], path: Path, listed: Answers, choices: Answers | None, warned: _Warnings
) -> tuple[_Stored, list[list[int]]]:
    """The queries that have an answer among the items, and its places. Raises `AnnotationError` where none has.

    Of multiple choice the answer is one of the query's items, of which none may be absent. What a user should know
    is put to `warned`.
    """
    place = {name: row for row, name in enumerate(items)}
    if unknown := [name for name in held.ids if name not in listed]:
        raise AnnotationError(f"{held.path}: no item answers {_some(unknown)}")
    targets = [[place[item] for item in listed[name] if item in place] for name in held.ids]
    if choices is not None:
        of_query = [choices.get(name, ()) for name in held.ids]
        complete = [all(item in place for item in own) for own in of_query]
        targets = [
            [row for row in rows if whole and items[row] in own]
            for rows, own, whole in zip(targets, of_query, complete, strict=True)
        ]
    kept = [row for row, own in enumerate(targets) if own]
    hint = "--relevant FILE says which item answers which query"
    if not kept:
        raise AnnotationError(f"{path} holds no answer to any query of {held.path}; {hint}")
    if len(kept) < len(targets):
        lacking = [name for name, own in zip(held.ids, targets, strict=True) if not own]
        text = f"{path} holds no answer to {_some(lacking)} of {held.path}, which count as missing"
        warned.setdefault("answers", []).append(text)
    if len(items) == 1:
        text = f"{path} is a gallery of one item: every rank is 1, whatever the model"
        warned.setdefault("gallery", []).append(text)
    own_ids = tuple(held.ids[row] for row in kept)
    return replace(held, ids=own_ids, rows=held.rows[kept]), [targets[row] for row in kept]


def _of_features(
    query: StoredFeatures, items: StoredFeatures, targets: list[list[int]], method: str, wanted: Wanted
) -> _Retrieved:
    try:
        blocks = cosines(query.rows, items.rows)
        if method != AS_IT_IS:
            from perturbations.tta import known

            blocks = _whole(known.scores(method, wanted.direction, query.rows, items.rows, **_banks(wanted)))
        return _retrieved(query.ids, items.ids, blocks, targets, wanted)
    except (ValueError, RuntimeError) as error:
        raise AnnotationError(f"{query.path} and {items.path}: {error}") from error


def _banks(wanted: Wanted) -> dict[str, NDArray[np.float32]]:
    """The features of the banks that are given."""
    paths = {"bank": wanted.bank, "gallery_bank": wanted.gallery_bank}
    return {name: _read(path).rows for name, path in paths.items() if path is not None}


def _uses(method: str, bank: str) -> bool:
    """Whether a method takes the `bank` or the `gallery_bank`."""
    declared = methods_registry.method(method)
    return declared.needs_bank if bank == "bank" else declared.takes_gallery_bank


def _whole(scores: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    yield slice(len(scores)), scores


def _retrieved(
    ids: tuple[str, ...],
    gallery: Sequence[str],
    blocks: Iterable[tuple[slice, NDArray[Any]]],
    targets: list[list[int]],
    wanted: Wanted,
) -> _Retrieved:
    ranks, counts = [], []
    first: list[str | None] = []
    top_k = wanted.top_k
    for part, scores in blocks:
        block = (
            scores if wanted.choices is None else _chosen(scores, [wanted.choices[own] for own in ids[part]], gallery)
        )
        ranks.append(retrieval.ranks(block, targets[part]))
        counts.append(retrieval.k_occurrence(block))
        first += [None] * len(block) if top_k is None else retrieved_first(block, gallery, top_k)
    return _Retrieved(ids, np.concatenate(ranks), np.sum(counts, axis=0), first)


def _chosen(scores: NDArray[Any], choices: Sequence[Sequence[str]], gallery: Sequence[str]) -> NDArray[Any]:
    """The scores of the items that each query chooses among; minus infinity of the others."""
    place = {name: column for column, name in enumerate(gallery)}
    chosen = np.full(scores.shape, -np.inf, np.result_type(scores, np.float32))
    for row, own in enumerate(choices):
        columns = [place[name] for name in own]
        chosen[row, columns] = scores[row, columns]
    return chosen


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(map(short, names[:_SHOWN]))}{more}"


def _rows(
    cases: Sequence[_Case],
    of_case: Callable[[_Case], Iterator[tuple[str, _Retrieved]]],
    listed: Answers,
    wanted: Wanted,
    settings: Mapping[str, object],
) -> _Rows:
    """The rows of all cases. Weights, frames and settings are not known of features: their columns say so."""
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    hashes = {name: storage.sha256_of(rows.tobytes()) for name, rows in _banks(wanted).items()}
    answers = digest([listed, wanted.choices])
    for case in cases:
        files_sha256 = {
            name: storage.sha256(path) for name, path in zip(("queries", "gallery"), case.files, strict=True)
        }
        for method, own in of_case(case):
            used = banks_key({name: sha256 for name, sha256 in hashes.items() if _uses(method, name)})
            run = replace(
                case.run,
                method=method,
                label=methods_registry.title_of(method),
                parameters=parameters_of(method, {}, wanted.direction),
                code=methods_registry.code(method),
                banks_sha256=used,
            )
            figures: dict[str, Any] = {**retrieval.summary_of_ranks(own.ranks), **_size(own, wanted)}
            row = ResultRow(
                **run.columns(),
                **figures,
                protocol=wanted.protocol,
                category=category_of(run),
                queries=len(own.ids),
                missing_queries=len(listed) - len(own.ids),
                settings=canonical(settings),
                backend=backend_cell({"retrieval": "features"}),
                queries_sha256=files_sha256["queries"],
                manifest_sha256=files_sha256["gallery"],
                tools=canonical({"numpy": np.__version__}),
                recipe_id=digest([run.columns(), files_sha256, answers]),
                updates=0,
                empty=0,
                non_finite=0,
            )
            rows.append(row)
            ranks += [
                RankRow(**run.columns(), query_id=name, rank=rank, retrieved=first)
                for name, rank, first in zip(own.ids, own.ranks.tolist(), own.first, strict=True)
            ]
    return with_clean(rows, ranks), ranks


def _size(own: _Retrieved, wanted: Wanted) -> dict[str, Any]:
    """The size of the gallery, and its hubs; of multiple choice the mean size, and no hubs."""
    if wanted.choices is not None:
        mean = float(np.mean([len(wanted.choices[name]) for name in own.ids]))
        return {"gallery": round(mean), "gallery_mean": mean}
    hubness = retrieval.hubness_of(own.occurrence)
    of_hubs = {f"hub_{name.removeprefix('hub_')}": float(value) for name, value in hubness.items()}
    return {"gallery": len(own.occurrence), **of_hubs}
