"""Composed retrieval of features that any program computed: the same rows, ranks and page as in the workflow."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from perturbations.base import shown
from perturbations.base.errors import AnnotationError, ConfigError, did_you_mean, short
from perturbations.base.records import canonical
from perturbations.composed import audit, gallery_sets, manifests, sources
from perturbations.composed.split import WORDS, Split
from perturbations.evaluation.composed.ways import GIVEN, MAP_KS, ScoredModel, scenario_rows, words_of
from perturbations.evaluation.features import feature_reading, feature_sets
from perturbations.evaluation.features.feature_reading import StoredFeatures
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
    given_run,
    rows_of,
)
from perturbations.evaluation.result_sets import RANDOM
from perturbations.manifest import manifest_paths
from perturbations.retrieval.composed import AVERAGES, GLOBAL_KS, LOCAL_KS

_log = logging.getLogger("perturbations")

_Results = tuple[list[ResultRow], list[RankRow]]
_Case = tuple[ScenarioKey, ScoredModel, Split]


def scored(options: argparse.Namespace) -> tuple[_Results, list[Path]]:
    """The results and ranks of `perturb score --direction composed`; it prints what holds of the split, and results.

    And the manifest of the queries that the page has examples of, where it is kept what they retrieved first. Raises
    `AnnotationError` for features that are missing or do not fit, `ConfigError` for unknown names.
    """
    if options.split is None or options.relevant is not None or options.choices is not None:
        raise ConfigError(
            "--direction composed needs --split, which says what answers a query, and no --relevant or --choices"
        )
    path: Path = options.split
    split = manifests.read(path) if path.is_dir() else _split_of(path, options)
    for comparison in audit.compared(split):
        print(shown.line(audit.words(comparison)))
    rows, ranks = _results(split, options)
    for row in rows:
        figures = {f"R@{k}": f"recall_at_{k}" for k in (LOCAL_KS if "@local" in row.model_key else GLOBAL_KS)}
        figures |= {f"mAP@{k}": f"map_at_{k}" for k in MAP_KS if row.map_at_5 is not None}
        figures |= {"own clip first": "source_first"} if row.source_first is not None else {}
        recalls = ", ".join(f"{name} {getattr(row, column):.2f}" for name, column in figures.items())
        scenario = "" if row.side == "none" else f", {row.suite}/{row.perturbation} {row.severity}"
        print(shown.line(f"{row.model_key}: {row.method}{scenario}: {recalls} ({shown.plural(row.queries, 'query')})"))
    if options.top_k is None:
        return (rows, ranks), []
    folder = path if path.is_dir() else options.output / "split"
    if folder != path:
        manifests.write(split, folder, options.dataset, (), {"root": "."})
    return (rows, ranks), [folder / manifest_paths.name("composed_queries")]


def _results(listed: Split, wanted: argparse.Namespace) -> _Results:
    """The results and ranks of features, in every way and gallery that is wanted: clean ones, and perturbed queries.

    Of similarities, whose model has no feature of a query: as they are, and with the first stage's shortlists.
    Clips without features are in no gallery, and queries that lack theirs, or all targets, count as missing.
    """
    words: list[str] = []
    if wanted.similarities is not None:
        held, names = feature_reading.read_similarities(wanted.similarities)
        split = _present(listed, held.path, names)
        model = _given(wanted.model, split, held, names)
        cases: list[_Case] = [(CLEAN_SCENARIO, model, split)]
    else:
        texts, clips = feature_sets.located(wanted.queries), feature_sets.located(wanted.gallery)
        if wanted.first_stage and len(texts) + len(clips) > 2:
            raise ConfigError("--first-stage is of clean queries: its own features of perturbed ones are not known")
        held = feature_reading.read(clips[None], frames=wanted.frames)
        split = _present(listed, held.path, held.ids)
        words = _words(split, wanted.words) if {*wanted.strategies} != {"visual"} else []
        model = _model(wanted.model, split, held, texts[None], words)
        cases = _cases(split, texts, clips, model, wanted)
    models = _models(split, model, words, wanted)
    how = {name: getattr(wanted, name) for name in ("frames", "shortlist")}
    ways = {
        **how,
        "galleries": _galleries(split, wanted.galleries, wanted.source_in_gallery),
        "strategies": wanted.strategies if wanted.similarities is None else GIVEN,
        "words": words,
        "averages": AVERAGES,
        "first_stage": ("visual",),
        "top_k": wanted.top_k,
    }
    about = {"method": COMPOSED, "parameters": canonical(how), "listed_sha256": listed.listed_sha256}
    made: list[Finished] = []
    for scenario, own, part in cases:
        run = given_run(wanted.dataset, own.name, scenario, COMPOSED, FEATURES, **about)
        made += scenario_rows(
            part,
            models if scenario.side == "none" else [own],
            run,
            ways,
            listed=len(listed.queries),
            settings=how,
            protocol=wanted.protocol,
            backend=canonical({"retrieval": "features"}),
            tools=canonical({"numpy": np.__version__}),
        )
    if not made:
        raise ConfigError("nothing to score: in no gallery does a query choose among two clips or more")
    if all(row.method == RANDOM for row, *_ in made):
        raise ConfigError("nothing to score: the strategies need features of texts that every query has")
    return rows_of(made)


def _present(split: Split, path: Path, clip_ids: Sequence[str]) -> Split:
    """The split of the clips that have features; the whole one where that leaves no query, for the error about them."""
    part = manifests.restricted(split, frozenset(clip_ids), frozenset(query.query_id for query in split.queries))
    if not part.queries:
        return split
    if lacking := len(split.pool) - len(part.pool):
        missing = shown.plural(len(split.queries) - len(part.queries), "query")
        total = len(split.pool)
        _log.warning("%s lacks %d of %d clips: they are in no gallery, and %s missing", path, lacking, total, missing)
    return part


def _given(name: str, split: Split, held: StoredFeatures, names: tuple[str, ...]) -> ScoredModel:
    """A model of cross-attention by its similarities of queries, by their ids, with clips, by their names."""
    asking = feature_reading.rows_of_ids(held, [query.query_id for query in split.queries], "queries of the split")
    clips = [clip.clip_id for clip in split.pool]
    rows = feature_reading.rows_of_ids(StoredFeatures(held.path, names, asking.T), clips, "clips of the split").T
    return ScoredModel(name, np.zeros((len(clips), 1), np.float32), similarities=np.asarray(rows, np.float32))


def _models(split: Split, model: ScoredModel, words: Sequence[str], wanted: argparse.Namespace) -> list[ScoredModel]:
    """The model, after that which makes shortlists."""
    if not wanted.first_stage:
        return [model]
    name, *paths = wanted.first_stage
    if name == model.name or len(paths) not in (1, 2):
        raise ConfigError("--first-stage: give a name of its own, a file of clips, and perhaps one of texts")
    texts = Path(paths[1]) if len(paths) > 1 else None
    return [_model(name, split, feature_reading.read(Path(paths[0]), frames=wanted.frames), texts, words), model]


def _cases(
    split: Split, texts: FeatureSet, clips: FeatureSet, model: ScoredModel, wanted: argparse.Namespace
) -> list[_Case]:
    """What is perturbed: nothing, the queries' clips, or their instructions, with the features of those that there are.

    `texts` are by the text, perturbed instructions by the query's id; `clips` by name. Perturbed clips are queries'.
    """
    cases: list[_Case] = [(CLEAN_SCENARIO, model, split)]
    for scenario, path in feature_sets.perturbed(clips).items():
        held = feature_reading.read(path, frames=wanted.frames).unique()
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
    """The words that every query has."""
    complete = [name for name in WORDS if all(words_of(split, name))]
    if lacking := [name for name in names or () if name not in complete]:
        raise ConfigError(f"--words {lacking[0]}: some queries have none; the annotations have {', '.join(complete)}")
    return list(names or complete)


def _split_of(path: Path, options: argparse.Namespace) -> Split:
    """The split of an annotation file, by the adapter that is named."""
    if options.adapter is None and (options.columns or options.pool):
        raise ConfigError("--columns and --pool need --adapter: composed_table reads any table")
    if lacking := [text for text in options.columns if "=" not in text]:
        raise ConfigError(f"--columns {lacking[0]}: write ROLE=NAME, as source=video_1 targets=video_2")
    columns = dict(text.split("=", 1) for text in options.columns)
    return sources.of_file(path, options.adapter, columns, options.pool)


_IN_GALLERY: dict[str | None, bool | Literal["both"] | None] = {"true": True, "false": False, "both": "both"}


def _galleries(split: Split, names: Sequence[str] | None, in_gallery: str | None) -> list[str]:
    """The galleries of these names, which may end in `WITH_SOURCE`; without names, every one."""
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
