"""Composed retrieval of features that any program computed: the same rows, ranks and page as in the workflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from perturbations.base import shown
from perturbations.base.errors import AnnotationError, ConfigError, did_you_mean, short
from perturbations.base.records import canonical
from perturbations.composed import gallery_sets, manifests
from perturbations.composed.split import WORDS, Split
from perturbations.evaluation.composed.ways import GIVEN, ScoredModel, scenario_rows, words_of
from perturbations.evaluation.features import feature_reading, feature_sets
from perturbations.evaluation.features.feature_reading import PooledAs, StoredFeatures
from perturbations.evaluation.features.feature_sets import FeatureSet
from perturbations.evaluation.plan.composed_runs import scenario_of
from perturbations.evaluation.result_rows import (
    CLEAN_SCENARIO,
    COMPOSED,
    FEATURES,
    Finished,
    RankRow,
    ResultRow,
    ScenarioKey,
    rows_of,
    run_of_named_model,
)
from perturbations.evaluation.result_sets import RANDOM
from perturbations.retrieval.composed import AVERAGES

_log = logging.getLogger("perturbations")

_Case = tuple[ScenarioKey, ScoredModel, Split]
"""A scenario with its features and its queries."""


def scored(
    listed: Split,
    texts: Path | None,
    clips: Path,
    *,
    dataset: str,
    model: str,
    strategies: Sequence[str],
    words: Sequence[str] | None = None,
    galleries: Sequence[str] | None = None,
    source_in_gallery: str | None = None,
    first_stage: Sequence[str] | None = None,
    frames: PooledAs = "mean",
    shortlist: int = 15,
    top_k: int | None = None,
    protocol: str | None = None,
) -> tuple[list[ResultRow], list[RankRow]]:
    """The results and ranks of features, in every way and gallery: clean ones, and perturbed queries.

    The arguments are those of `perturb score`; without `texts`, `clips` holds similarities, of a model that has no
    feature of a query: they are scored as they are, and with the first stage's shortlists. Clips without features are
    in no gallery. Queries whose clip, or all of whose targets, have no features count as missing. Raises
    `AnnotationError` for features that are missing or do not fit, and `ConfigError` for unknown names.
    """
    of_words: list[str] = []
    if texts is None:
        held, names = feature_reading.read_similarities(clips)
        split = _present(listed, held.path, names)
        last = _given(model, split, held, names)
        cases: list[_Case] = [(CLEAN_SCENARIO, last, split)]
    else:
        of_texts, of_clips = feature_sets.located(texts), feature_sets.located(clips)
        if first_stage and len(of_texts) + len(of_clips) > 2:
            raise ConfigError("--first-stage is of clean queries: its own features of perturbed ones are not known")
        held = feature_reading.read(of_clips[None], frames=frames)
        split = _present(listed, held.path, held.ids)
        of_words = _words(split, words) if {*strategies} != {"visual"} else []
        last = _model(model, split, held, of_texts[None], of_words)
        cases = _cases(split, of_texts, of_clips, last, frames)
    models = [*_shortlisting(split, last, of_words, first_stage, frames), last]
    how: dict[str, Any] = {"frames": frames, "shortlist": shortlist}
    ways = {
        **how,
        "galleries": _galleries(split, galleries, source_in_gallery),
        "strategies": GIVEN if texts is None else strategies,
        "words": of_words,
        "averages": AVERAGES,
        "first_stage": ("visual",),
        "top_k": top_k,
    }
    about = {"method": COMPOSED, "parameters": canonical(how), "listed_sha256": listed.listed_sha256}
    made: list[Finished] = []
    for scenario, own, part in cases:
        made += scenario_rows(
            part,
            models if scenario.side == "none" else [own],
            run_of_named_model(dataset, own.name, scenario, COMPOSED, FEATURES, **about),
            ways,
            listed=len(listed.queries),
            settings=how,
            protocol=protocol,
            backend=canonical({"retrieval": "features"}),
            tools=canonical({"numpy": np.__version__}),
        )
    if not made:
        raise ConfigError("nothing to score: in no gallery does a query choose among two clips or more")
    if all(row.method == RANDOM for row, *_ in made):
        raise ConfigError("nothing to score: the strategies need features of texts that every query has")
    return rows_of(made)


def _present(split: Split, path: Path, clip_ids: Sequence[str]) -> Split:
    """The split without clips that have no features. If no query is left, the whole split, for the error about them."""
    part = manifests.restricted(split, frozenset(clip_ids), frozenset(query.query_id for query in split.queries))
    if not part.queries:
        return split
    if lacking := len(split.pool) - len(part.pool):
        missing = shown.plural(len(split.queries) - len(part.queries), "query")
        total = len(split.pool)
        _log.warning("%s lacks %d of %d clips: they are in no gallery, and %s missing", path, lacking, total, missing)
    return part


def _given(name: str, split: Split, held: StoredFeatures, names: tuple[str, ...]) -> ScoredModel:
    """A model of cross-attention, from its similarities of queries (by id) with clips (by name)."""
    asking = feature_reading.rows_of_ids(held, [query.query_id for query in split.queries], "queries of the split")
    clips = [clip.clip_id for clip in split.pool]
    rows = feature_reading.rows_of_ids(StoredFeatures(held.path, names, asking.T), clips, "clips of the split").T
    return ScoredModel(name, np.zeros((len(clips), 1), np.float32), similarities=np.asarray(rows, np.float32))


def _shortlisting(
    split: Split, last: ScoredModel, words: Sequence[str], first_stage: Sequence[str] | None, frames: PooledAs
) -> list[ScoredModel]:
    """The model that makes shortlists for the last model, where there is such a model."""
    if not first_stage:
        return []
    name, *paths = first_stage
    if name == last.name or len(paths) not in (1, 2):
        raise ConfigError("--first-stage: give a name of its own, a file of clips, and perhaps one of texts")
    texts = Path(paths[1]) if len(paths) > 1 else None
    return [_model(name, split, feature_reading.read(Path(paths[0]), frames=frames), texts, words)]


def _cases(split: Split, texts: FeatureSet, clips: FeatureSet, model: ScoredModel, frames: PooledAs) -> list[_Case]:
    """The scenarios: nothing, the queries' clips or their instructions are perturbed; with the features that are given.

    `texts` are by the text, perturbed instructions by the query's id; `clips` by name. Perturbed clips are queries'.
    """
    cases: list[_Case] = [(CLEAN_SCENARIO, model, split)]
    for scenario, path in feature_sets.perturbed(clips).items():
        held = feature_reading.read(path, frames=frames).unique()
        part = _available(split, held, {query.query_id: query.clip_id for query in split.queries})
        kept = {query.query_id for query in part.queries}
        places = [place for place, query in enumerate(split.queries) if query.query_id in kept]
        asking = feature_reading.rows_of_ids(held, [query.clip_id for query in part.queries])
        own = replace(model, texts={name: rows[places] for name, rows in model.texts.items()}, queries=asking)
        cases.append((scenario_of(_half(scenario), None), own, part))
    for scenario, path in feature_sets.perturbed(texts).items():
        held = feature_reading.read(path).unique()
        part = _available(split, held, {query.query_id: query.query_id for query in split.queries})
        rows = feature_reading.rows_of_ids(held, [query.query_id for query in part.queries])
        cases.append((scenario_of(None, _half(scenario)), replace(model, texts={"instruction": rows}), part))
    return cases


def _words(split: Split, names: Sequence[str] | None) -> list[str]:
    """The kinds of words that every query has."""
    complete = [name for name in WORDS if all(words_of(split, name))]
    if lacking := [name for name in names or () if name not in complete]:
        raise ConfigError(f"--words {lacking[0]}: some queries have none; the annotations have {', '.join(complete)}")
    return list(names or complete)


_IN_GALLERY: dict[str | None, bool | Literal["both"] | None] = {"true": True, "false": False, "both": "both"}


def _galleries(split: Split, names: Sequence[str] | None, in_gallery: str | None) -> list[str]:
    """The galleries of these names, which may end in `WITH_SOURCE`; without names, every gallery."""
    known = (*split.galleries, *gallery_sets.NAMES)
    for name in names or ():
        if name.removesuffix(gallery_sets.WITH_SOURCE) not in known:
            raise ConfigError(f"no gallery {name!r}; choose of {', '.join(known)}{did_you_mean(name, known)}")
    exact = [name for name in names or () if name.endswith(gallery_sets.WITH_SOURCE)]
    plain = [name for name in names or known if name not in exact]
    asked = manifests.named(plain, split, _IN_GALLERY.get(in_gallery))
    return [*asked, *(name for name in exact if name not in asked)]


def _model(name: str, split: Split, clips: StoredFeatures, texts: Path | None, words: Sequence[str]) -> ScoredModel:
    of_clips = feature_reading.rows_of_ids(clips, [clip.clip_id for clip in split.pool], "clips")
    if texts is None or not words:
        return ScoredModel(name, of_clips)
    held = feature_reading.read(texts)
    of_words = {}
    for word in words:
        try:
            texts_of = [text.strip() for text in words_of(split, word)]
            of_words[word] = feature_reading.rows_of_ids(held, texts_of, "texts")
        except AnnotationError as error:
            raise ConfigError(f"--words {word}: {error}; --words chooses what is needed") from error
    return ScoredModel(name, of_clips, of_words)


def _half(scenario: ScenarioKey) -> tuple[str, str, int]:
    if scenario.severity is None:
        raise ConfigError(f"{scenario.suite}/{scenario.perturbation}: composed retrieval has no {scenario.mix}")
    return scenario.suite, scenario.perturbation, scenario.severity


def _available(split: Split, held: StoredFeatures, of_queries: Mapping[str, str]) -> Split:
    """The queries that have features under the ids `of_queries`. Raises `AnnotationError` where none has."""
    ids = frozenset(held.ids)
    names = frozenset(query for query, name in of_queries.items() if name in ids)
    if others := sorted(ids - {*of_queries.values()}):
        _log.warning("%s: %d ids are of no query of the split, the first %s", held.path, len(others), short(others[0]))
    part = manifests.restricted(split, frozenset(split.rows_of), names)
    if not part.queries:
        raise AnnotationError(
            f"{held.path} has features of no query: ids of perturbed clips are those of clips, of perturbed texts "
            "those of queries"
        )
    return part
