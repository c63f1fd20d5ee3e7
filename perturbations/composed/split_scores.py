"""Composed retrieval of features that any program computed: the same rows, ranks and page as in the workflow."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perturbations.base import shown
from perturbations.base.errors import AnnotationError, ConfigError, did_you_mean, short
from perturbations.base.records import canonical
from perturbations.composed import gallery_sets, manifests, official
from perturbations.composed import runner as composed_runner
from perturbations.composed.audit import compared
from perturbations.composed.modifications import Split
from perturbations.composed.planning import ComposedScenario, Shift
from perturbations.composed.strategies import WORDS, ScoredModel, words_of
from perturbations.evaluation import feature_sets, score_command, stored_features
from perturbations.evaluation.feature_sets import FeatureScenario, FeatureSet
from perturbations.evaluation.result_sets import RANDOM
from perturbations.evaluation.rows import RankRow, ResultRow
from perturbations.evaluation.stored_features import Floats, PooledAs, StoredFeatures
from perturbations.retrieval.composed import GLOBAL_KS, LOCAL_KS
from perturbations.suites import registry

_log = logging.getLogger("perturbations")


def score(options: argparse.Namespace) -> int:
    """What `perturb score --direction composed` does: it prints what holds of the split, and each result,
    and writes the results, their ranks and their page.

    Raises `AnnotationError` for features that are missing or do not fit, `ConfigError` for unknown names.
    """
    if options.split is None or options.relevant is not None or options.similarities is not None:
        raise ConfigError("--direction composed needs --split, which says what answers a query, and no --relevant")
    path: Path = options.split
    split = manifests.read(path)[0] if path.is_dir() else official.read(path)
    for comparison in compared(split):
        print(shown.line(comparison.words()))
    texts, clips = feature_sets.located(options.queries), feature_sets.located(options.gallery)
    rows, ranks = _scored(split, texts, clips, options)
    for row in rows:
        ks = GLOBAL_KS if "@global" in row.model_key else LOCAL_KS
        recalls = ", ".join(f"R@{k} {getattr(row, f'recall_at_{k}'):.2f}" for k in ks)
        scenario = "" if row.side == "none" else f", {row.suite}/{row.perturbation} {row.severity}"
        print(shown.line(f"{row.model_key}: {row.method}{scenario}: {recalls} ({row.queries:,} queries)"))
    score_command.write(options.output, rows, ranks, None)
    return 0


def _scored(
    split: Split, texts: FeatureSet, clips: FeatureSet, wanted: argparse.Namespace
) -> tuple[list[ResultRow], list[RankRow]]:
    """The results and ranks of features, in every way and gallery that is wanted: clean ones, and perturbed queries.

    `texts` are by the text, perturbed instructions by the query's id; `clips` by name. Perturbed clips are queries'.
    """
    words = _words(split, wanted.words) if {*wanted.strategies} != {"visual"} else []
    names = _galleries(split, wanted.galleries)
    model = _model(wanted.model, split, clips.clean, texts.clean, words, wanted.frames)
    models = [model]
    if wanted.first_stage:
        name, *paths = wanted.first_stage
        if name == model.name or len(paths) not in (1, 2):
            raise ConfigError("--first-stage: give a name of its own, a file of clips, and perhaps one of texts")
        first_texts = Path(paths[1]) if len(paths) > 1 else None
        models.insert(0, _model(name, split, Path(paths[0]), first_texts, words, wanted.frames))
        if texts.perturbed or clips.perturbed:
            raise ConfigError("--first-stage is of clean queries: its own features of perturbed ones are not known")
    cases: list[tuple[ComposedScenario, ScoredModel, Split]] = [(ComposedScenario(), model, split)]
    for scenario, path in clips.perturbed.items():
        held = stored_features.read(path, frames=wanted.frames).unique()
        part = _available(split, held, by_clip=True)
        own = ScoredModel(
            name=model.name,
            clips=model.clips,
            texts={name: _of_queries(rows, split, part) for name, rows in model.texts.items()},
            queries=stored_features.rows_of_ids(held, [query.clip for query in part.queries]),
        )
        cases.append((ComposedScenario(clips=_shift(scenario)), own, part))
    for scenario, path in texts.perturbed.items():
        held = stored_features.read(path).unique()
        part = _available(split, held, by_clip=False)
        rows = stored_features.rows_of_ids(held, [query.query_id for query in part.queries])
        own = replace(model, texts={"instruction": rows})
        cases.append((ComposedScenario(instructions=_shift(scenario)), own, part))
    results: list[ResultRow] = []
    ranks: list[RankRow] = []
    for scenario_settings, own, part in cases:
        scored = [own] if scenario_settings.perturbed != "nothing" else models
        own_rows, own_ranks = composed_runner.scenario_rows(
            part,
            scored,
            scenario_settings,
            composed_runner.Ways(
                galleries=names,
                strategies=wanted.strategies,
                words=words,
                deduplicate=wanted.deduplicate,
                shortlist=wanted.shortlist,
            ),
            keys={entry.name: entry.name for entry in scored},
            shared={
                "dataset": wanted.dataset,
                "listed_sha256": composed_runner.listed_sha256(split),
                "setting": "features",
                "backend": canonical({"retrieval": "features"}),
                "checkpoint_sha256": "",
                "tools": canonical({"numpy": np.__version__}),
            },
            how={"frames": wanted.frames, "deduplicate": wanted.deduplicate, "shortlist": wanted.shortlist},
            listed=len(split.queries),
        )
        results += own_rows
        ranks += own_ranks
    if all(row.method == RANDOM for row in results):
        raise ConfigError("nothing to score: the strategies need features of texts that every query has")
    return results, ranks


def _words(split: Split, names: Sequence[str] | None) -> list[str]:
    """The words that every query has."""
    complete = [name for name in WORDS if all(words_of(split, name))]
    if lacking := [name for name in names or () if name not in complete]:
        raise ConfigError(f"--words {lacking[0]}: some queries have none; the annotations have {', '.join(complete)}")
    return list(names or complete)


def _galleries(split: Split, names: Sequence[str] | None) -> list[str]:
    known = (*gallery_sets.NAMES, *split.galleries)
    for name in names or ():
        if name not in known:
            raise ConfigError(f"no gallery {name!r}; choose of {', '.join(known)}{did_you_mean(name, known)}")
    return list(names or known)


def _model(
    name: str, split: Split, clips: Path, texts: Path | None, words: Sequence[str], frames: PooledAs
) -> ScoredModel:
    held = stored_features.read(clips, frames=frames)
    of_clips = stored_features.of_clips(held, split.rows_of, len(split.pool))
    if texts is None or not words:
        return ScoredModel(name, of_clips)
    held = stored_features.read(texts)
    of_words = {}
    for word in words:
        try:
            of_words[word] = stored_features.of_texts(held, words_of(split, word))
        except AnnotationError as error:
            raise ConfigError(f"--words {word}: {error}; --words chooses what is needed") from error
    return ScoredModel(name, of_clips, of_words)


def _shift(scenario: FeatureScenario) -> Shift:
    if scenario.severity is None:
        raise ConfigError(f"{scenario.suite}/{scenario.perturbation}: composed retrieval has no {scenario.mix}")
    variant = registry.suite(scenario.suite).variants[0]
    return Shift(suite=scenario.suite, perturbation=scenario.perturbation, severity=scenario.severity, variant=variant)


def _available(split: Split, held: StoredFeatures, *, by_clip: bool) -> Split:
    """The queries whose clip, or whose own id, has features. Raises `AnnotationError` where none has."""
    ids, of_queries = frozenset(held.ids), {q.query_id: q.clip if by_clip else q.query_id for q in split.queries}
    names = frozenset(query for query, name in of_queries.items() if name in ids)
    if others := sorted(ids - {*of_queries.values()}):
        _log.warning("%s: %d ids are of no query of the split, the first %s", held.path, len(others), short(others[0]))
    part = manifests.restricted(split, frozenset(split.rows_of), names)
    if not part.queries:
        raise AnnotationError(
            f"{held.path} has features of no query: ids are those of {'clips' if by_clip else 'queries'}"
        )
    return part


def _of_queries(rows: Floats, split: Split, part: Split) -> Floats:
    place = {query.query_id: number for number, query in enumerate(split.queries)}
    return rows[[place[query.query_id] for query in part.queries]]
