"""Results of features or similarities that any program computed: the same rows, ranks and page as an evaluation's."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.base.errors import AnnotationError, ConfigError, short
from perturbations.base.records import canonical, digest
from perturbations.evaluation.features import feature_reading, feature_sets
from perturbations.evaluation.features.feature_reading import StoredFeatures
from perturbations.evaluation.features.feature_sets import Answers, FeatureSet
from perturbations.evaluation.plan.method_settings import AS_IT_IS, parameters_of
from perturbations.evaluation.plan.planned_runs import DirectionName
from perturbations.evaluation.result_rows import (
    CHOICES,
    CLEAN_SCENARIO,
    FEATURES,
    PUBLISHED_BATCH,
    WHOLE_GALLERY,
    Finished,
    RankRow,
    ResultRow,
    ScenarioKey,
    Side,
    banks_key,
    rows_of,
    run_of_named_model,
)
from perturbations.evaluation.result_sets import Blocks, result_of_scores, with_clean
from perturbations.retrieval.scoring import cosines
from perturbations.tta.methods import method_registry as methods_registry

_log = logging.getLogger("perturbations")

_SHOWN = 3

_FAR_BELOW, _SEVERAL = 10.0, 3
"""Percent points of R@1, and queries: a clean result so far below a perturbed result must be of other rows."""

_ENOUGH = 50
"""The number of queries and items from which chance can be told from a model."""


def scored(
    queries: Path,
    gallery: Path | None = None,
    *,
    dataset: str,
    model: str,
    direction: DirectionName = "t2v",
    relevant: Path | None = None,
    choices: Path | None = None,
    sides: Sequence[Side] | None = None,
    methods: Sequence[str] = (),
    bank: Path | None = None,
    gallery_bank: Path | None = None,
    top_k: int | None = None,
    protocol: str | None = None,
) -> tuple[list[ResultRow], list[RankRow]]:
    """The results and ranks of features: clean, perturbed queries, perturbed galleries, and both.

    The arguments are those of `perturb score`; without a `gallery`, `queries` holds similarities. Without answers an
    item answers the query of its own id. A listed query without features, or without an answer in the gallery, counts
    as missing. Raises `AnnotationError` for ids that repeat, ids that no answer lists, features of other widths, NaN
    and rows of zeros, and `ConfigError` for a method that is unknown, learns, or lacks its bank.
    """
    chosen = None if choices is None else feature_sets.read_answers(choices)
    warned = defaultdict[str, list[str]](list)
    given = gallery is None
    asks = feature_sets.located(queries)
    answers = asks if gallery is None else feature_sets.located(gallery)
    files = {name: path for name, path in (("bank", bank), ("gallery_bank", gallery_bank)) if path is not None}
    banks = {name: _read(path).rows for name, path in files.items()}
    hashes = {name: storage.sha256_of(rows.tobytes()) for name, rows in banks.items()}
    settings: dict[str, Any] = {"compared": "similarities" if given else "cosine"}
    if given:
        ids = feature_reading.read_similarities(asks[None])[0].ids
    else:
        clean = {path: _in_order(path) for path in (asks[None], answers[None])}
        if asks[None].samefile(answers[None]):
            raise AnnotationError(
                f"{asks[None]} and {answers[None]} are the same file: every query would find itself; give the "
                "features of the queries, then those of the gallery"
            )
        ids, numbers = clean[asks[None]].ids, clean[answers[None]].rows.shape[1]
        settings |= {"numbers": int(numbers)} | {name: storage.sha256(path) for name, path in files.items()}
        for name, path in files.items():
            if (own := banks[name].shape[1]) != numbers:
                raise AnnotationError(f"{path} has {own} numbers each, the gallery's items {numbers}")
    listed: Answers = {name: (name,) for name in ids}
    if relevant is not None:
        listed = feature_sets.read_answers(relevant, direction)
    source, answers_sha256 = relevant or asks[None], digest([listed, chosen])
    of_all = {"method": AS_IT_IS, "gallery_name": WHOLE_GALLERY if chosen is None else CHOICES}
    runs: list[Finished] = []
    for scenario, *paths in _cases(direction, sides, asks, answers):
        planned = run_of_named_model(dataset, model, scenario, direction, FEATURES, **of_all)
        if given:
            asking, answering = feature_reading.read_similarities(paths[0])
            items = StoredFeatures(paths[0], answering, asking.rows)
        else:
            asking, items = (clean.get(path) or _in_order(path) for path in paths)
        asking, targets = _answered(asking, items, listed, source, chosen, warned)
        files_sha256 = {name: storage.sha256(path) for name, path in zip(("queries", "gallery"), paths, strict=True)}
        for method in dict.fromkeys((AS_IT_IS, *methods)):
            declared = methods_registry.method(method)
            uses = {"bank": declared.needs_bank, "gallery_bank": declared.takes_gallery_bank}
            run = replace(
                planned,
                method=method,
                label=methods_registry.title_of(method),
                parameters=parameters_of(method, {}, direction),
                code=methods_registry.code(method),
                banks_sha256=banks_key({name: sha256 for name, sha256 in hashes.items() if uses[name]}),
                batch_size=None if method == AS_IT_IS else PUBLISHED_BATCH,
            )
            about: dict[str, Any] = {
                "protocol": protocol,
                "missing_queries": len(listed) - len(asking.ids),
                "settings": canonical(settings),
                "backend": canonical({"retrieval": "features"}),
                "queries_sha256": files_sha256["queries"],
                "manifest_sha256": files_sha256["gallery"],
                "tools": canonical({"numpy": np.__version__}),
                "recipe_id": digest([run.columns(), files_sha256, answers_sha256]),
            }
            blocks: Blocks = [(slice(len(asking.ids)), asking.rows)]
            if not given:
                blocks = _blocks(method, direction, asking, items, banks)
            if chosen is not None:
                of_query = [chosen[name] for name in asking.ids]
                blocks = _chosen(blocks, of_query, items.ids)
                mean = float(np.mean([*map(len, of_query)]))
                about |= {"gallery": round(mean), "gallery_mean": mean}
            all_of = run, asking.ids, items.ids, blocks, targets, top_k
            try:
                results = result_of_scores(*all_of, has_hubs=chosen is None, **about)
            except (ValueError, RuntimeError) as error:
                raise AnnotationError(f"{' and '.join(map(str, paths))}: {error}") from error
            if planned.side == "none" and method == AS_IT_IS and chosen is None:
                warned["chance"] += _as_chance(results[1][1], targets, len(items.ids))
            runs.append(results)
    rows, ranks = rows_of(runs)
    _warn(rows, warned)
    return with_clean(rows, ranks), ranks


def _as_chance(ranks: Sequence[int], targets: Sequence[Sequence[int]], gallery: int) -> Iterator[str]:
    """A warning where ranks are no better than those of a random order."""
    recall = 100 * float(np.mean([rank <= 10 for rank in ranks]))
    answers = float(np.mean([len(own) for own in targets]))
    chance = 100 * (1 - max(0, 1 - 10 / gallery) ** answers)
    if min(len(ranks), gallery) >= _ENOUGH and recall < 1.5 * chance:
        yield (
            f"R@10 is {recall:.1f} clean, and chance gives {chance:.1f}: are the rows of both files in the order of "
            "their ids, and of one model?"
        )


def _warn(rows: Sequence[ResultRow], warned: Mapping[str, list[str]]) -> None:
    """Log the warnings, one line per kind."""
    as_it_is = [row for row in rows if row.method == AS_IT_IS]
    order = [
        f"R@1 is {own.recall_at_1:.1f} clean, and {row.recall_at_1:.1f} under {row.suite}/{row.perturbation}: are the "
        "rows of the clean features in the order of their ids?"
        for own in as_it_is
        for row in as_it_is
        if own.side == "none" and row.side != "none"
        if row.recall_at_1 - own.recall_at_1 > max(_FAR_BELOW, 100 * _SEVERAL / row.queries)
    ]
    for texts in filter(None, (*warned.values(), order)):
        _log.warning("%s%s", texts[0], f" (and so in {len(texts) - 1:,} more scenarios)" if len(texts) > 1 else "")


# --- scenarios --------------------------------------------------------------------------------------------------------


def _cases(
    direction: DirectionName, sides: Sequence[Side] | None, queries: FeatureSet, gallery: FeatureSet
) -> Iterator[tuple[ScenarioKey, Path, Path]]:
    """The scenarios of some sides with their files of queries and gallery; for both sides, what suites combine.

    A file of similarities has both sides. Where both are perturbed, captions have columns of their own. Raises
    `AnnotationError` where perturbed clips are the side of captions, or perturbed captions that of clips.
    """
    given = queries is gallery
    sides = sides or (["query"] if given else ["query", "gallery"])
    if given and (len(sides) > 1 or "both" in sides):
        raise ConfigError("--similarities have one perturbed side: query or gallery")
    turn = 1 if direction == "v2t" else -1  # clips come first
    asking, answering = feature_sets.perturbed(queries), feature_sets.perturbed(gallery)
    pairs: list[tuple[str, ScenarioKey | None, ScenarioKey | None]] = [("none", None, None)]
    pairs += [("query", own, None) for own in asking if "query" in sides]
    pairs += [("gallery", None, own) for own in answering if "gallery" in sides]
    for both in feature_sets.combined(*(asking, answering)[::turn]) if "both" in sides else ():
        query, item = both[::turn]
        pairs.append(("both", query, item))
    for side, *pair in pairs:
        first, second = pair if not given else [pair[0] or pair[1]] * 2
        paths = queries[first], gallery[second]
        (clips, texts), (of_clips, of_texts) = pair[::turn], paths[::turn]
        for medium, what, own, path in (("video", "clips", clips, of_clips), ("text", "captions", texts, of_texts)):
            if own is not None and feature_sets.medium_of(own) != medium:
                raise AnnotationError(
                    f"{own.suite}/{own.perturbation} is no perturbation of {what}, which {direction} has on the "
                    f"side of {path}: give another --direction"
                )
        scenario = clips or texts or CLEAN_SCENARIO
        if clips and texts:
            scenario = clips._replace(text_perturbation=texts.perturbation, text_severity=texts.severity)
        yield scenario._replace(side=side), *paths


def _answered(
    held: StoredFeatures,
    items: StoredFeatures,
    listed: Answers,
    source: Path,
    choices: Answers | None,
    warned: Mapping[str, list[str]],
) -> tuple[StoredFeatures, list[list[int]]]:
    """The queries that have an answer among the items, and its places. Raises `AnnotationError` where none has.

    `source` is the file that lists the queries. In multiple choice the answer is one of the query's items, and all of
    these must be there. Warnings are added to `warned`.
    """
    place = {name: row for row, name in enumerate(items.ids)}
    if unknown := [name for name in held.ids if name not in listed]:
        is_turned = {*unknown} <= {item for own in listed.values() for item in own}
        turned = "; it lists them as items: give the other --direction" if is_turned else ""
        raise AnnotationError(f"{held.path}: {source} does not list the queries {_some(unknown)}{turned}")
    targets = [[place[item] for item in listed[name] if item in place] for name in held.ids]
    if choices is not None:
        of_query = [choices.get(name, ()) for name in held.ids]
        complete = [all(item in place for item in own) for own in of_query]
        targets = [
            [row for row in rows if whole and items.ids[row] in own]
            for rows, own, whole in zip(targets, of_query, complete, strict=True)
        ]
    kept = [row for row, own in enumerate(targets) if own]
    if not kept:
        asked, answer = held.ids[0], next(iter(listed[held.ids[0]]), "")
        raise AnnotationError(
            f"{items.path} holds no answer to any query of {held.path}: by {source}, {short(answer)} answers "
            f"{short(asked)}, and ids of the gallery are {_some(items.ids)}; --relevant FILE says which item answers "
            "which query"
        )
    if lacking := [name for name, own in zip(held.ids, targets, strict=True) if not own]:
        text = f"{items.path} has no answer to the queries {_some(lacking)} of {held.path}; they count as missing"
        warned["answers"].append(text)
    if choices is not None and (single := [held.ids[row] for row in kept if len(choices[held.ids[row]]) == 1]):
        text = f"the queries {_some(single)} choose among one item: they are right, whatever the model"
        warned["choices"].append(text)
    if len(items.ids) == 1:
        warned["gallery"].append(f"{items.path} is a gallery of one item: every rank is 1, whatever the model")
    own_ids = tuple(held.ids[row] for row in kept)
    return replace(held, ids=own_ids, rows=held.rows[kept]), [targets[row] for row in kept]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(map(short, names[:_SHOWN]))}{more}"


# --- similarities and what they give ----------------------------------------------------------------------------------


def _read(path: Path) -> StoredFeatures:
    held = feature_reading.read(path).unique()
    some = held.rows.any(axis=1)
    if not some.all():
        raise AnnotationError(f"{held.place(int(some.argmin()))} is all zeros, which has no direction: leave it out")
    return held


def _in_order(path: Path) -> StoredFeatures:
    """The features of a file, sorted by id (the order `LISTED`): some methods remember earlier queries."""
    held = _read(path)
    rows = sorted(range(len(held.ids)), key=held.ids.__getitem__)
    return replace(held, ids=tuple(held.ids[row] for row in rows), rows=held.rows[rows])


def _blocks(
    method: str,
    direction: DirectionName,
    query: StoredFeatures,
    items: StoredFeatures,
    banks: Mapping[str, NDArray[np.float32]],
) -> Blocks:
    """The similarities by a method, block by block, computed when a block is taken."""
    if method == AS_IT_IS:
        yield from cosines(query.rows, items.rows)
        return
    from perturbations.tta.adaptation import scores_of_features

    scores = scores_of_features(method, direction, query.rows, items.rows, PUBLISHED_BATCH, **banks)
    yield slice(len(query.ids)), scores


def _chosen(blocks: Blocks, choices: Sequence[Sequence[str]], gallery: Sequence[str]) -> Blocks:
    """The scores, with minus infinity for items that a query does not choose among."""
    place = {name: column for column, name in enumerate(gallery)}
    for part, scores in blocks:
        chosen = np.full(scores.shape, -np.inf, np.result_type(scores, np.float32))
        for row, own in enumerate(choices[part]):
            columns = [place[name] for name in own]
            chosen[row, columns] = scores[row, columns]
        yield part, chosen
