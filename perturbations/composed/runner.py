"""The results of a job of composed retrieval: every scenario, in every way to use a query, in every gallery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perturbations.base.errors import ManifestError
from perturbations.base.records import canonical
from perturbations.composed import scores as composed_scores
from perturbations.composed.features import Features, Floats
from perturbations.composed.manifests import names_of, restricted
from perturbations.composed.planning import ScenarioSettings, Settings
from perturbations.composed.records import Split
from perturbations.composed.rows import COMPOSED_RESULTS, ComposedResultRow
from perturbations.composed.scores import Model, Score, Setting
from perturbations.evaluation import results
from perturbations.manifest.columns import row_from
from perturbations.manifest.kinds import ClipRow, TextRow

log = logging.getLogger("perturbations")

AS_RELEASED = ("global_rows", "global_distinct", "local_released", "global_official", "local_official")
"""Galleries in which a query without any target is a miss, as in the authors' code; in others it is left out."""

Encode = Callable[[Sequence[str]], Floats]
"""Texts -> their features, texts x D."""


@dataclass(frozen=True)
class Encoded:
    """The features that the scenarios of a job share.

    Attributes:
        clips: of the clean clips.
        texts: encodes words.
        checkpoint: a hash of the model's weights.
    """

    clips: Features
    texts: Encode
    checkpoint: str


@dataclass(frozen=True)
class Queries:
    """What a scenario's queries are.

    Attributes:
        clips: features of the perturbed query clips; None: of the clean ones.
        instructions: the accepted perturbed instructions by the queries' ids; None: the clean ones.
        rows: the rows of the perturbed clips or instructions, for the backends that results name.
    """

    clips: Features | None = None
    instructions: Mapping[str, str] | None = None
    rows: Sequence[ClipRow | TextRow] = ()


def evaluate(
    settings: Settings,
    split: Split,
    dataset: str,
    encoded: Encoded,
    asking: Callable[[ScenarioSettings], Queries],
) -> Iterator[ComposedResultRow]:
    """The rows of a job's results.

    Args:
        settings: of `perturbations.composed.planning.settings`.
        split: the whole split, and its dataset's name.
        encoded: features of the clean clips, and how words are encoded.
        asking: what a scenario asks.

    Clips without features count as missing: they are in no gallery, and queries that lack their clip or all targets are
    not asked. Only what a perturbation changes is evaluated: not "text" where clips are perturbed, nor "visual" where
    instructions are.
    Raises `ManifestError` where no query is left.
    """
    tools = canonical(results.tools())
    for scenario in settings.scenarios:
        queries = asking(scenario)
        ids = frozenset(query.query_id for query in split.queries if _is_asked(query.query_id, query.clip, queries))
        part = restricted(split, frozenset(encoded.clips.names), ids)
        log.info("%s: %d of %d queries", _name(scenario), len(part.queries), len(split.queries))
        if not part.queries:
            raise ManifestError(f"{_name(scenario)}: no query is left: clips are quarantined, or words not accepted")
        shared = {
            **_perturbed(scenario),
            "dataset": dataset,
            "model": settings.model,
            "frames": settings.frames,
            "num_frames": settings.num_frames if settings.frames == "mean" else 1,
            "missing_queries": len(split.queries) - len(part.queries),
            "backend": canonical(results.backends(settings.pretrained, queries.rows)),
            "settings": settings.model_copy(update={"scenarios": ()}).text,
            "checkpoint_sha256": encoded.checkpoint,
            "tools": tools,
        }
        model = _model(settings, part, encoded, queries, scenario)
        for score in _scores(settings, part, names_of(split, settings.galleries), model, scenario):
            yield row_from(COMPOSED_RESULTS, {**shared, **_measured(score, settings.shortlist)})


def _scores(
    settings: Settings, split: Split, names: Sequence[str], model: Model, scenario: ScenarioSettings
) -> Iterator[Score]:
    """The scores of a scenario in every gallery of `names`; unanswerable queries count in the released galleries."""
    wanted = [
        setting
        for setting in composed_scores.settings(
            [model],
            strategies=settings.strategies,
            words=settings.words,
            averages=settings.average,
            shortlist_strategies=settings.first_stage,
        )
        if _is_affected(setting, scenario)
    ]
    for as_released in (True, False):
        galleries = [name for name in names if (name in AS_RELEASED) is as_released]
        if galleries:
            yield from composed_scores.evaluate(
                split,
                [model],
                wanted,
                galleries,
                deduplicate=settings.deduplicate,
                answerable_only=not as_released,
                shortlist=settings.shortlist,
            )


def _measured(score: Score, shortlist: int) -> dict[str, object]:
    """The columns that a score fills."""
    setting = score.setting
    columns: dict[str, object] = {
        "gallery": score.gallery,
        "deduplicated": score.deduplicate,
        "strategy": setting.strategy,
        "words": setting.words or None,
        "average": setting.average or None,
        "first_stage": setting.shortlist_strategy or None,
        "first_model": setting.shortlist_model or None,
        "shortlist": shortlist if setting.shortlist_strategy else None,
        "queries": score.queries,
        "skipped": score.skipped,
        "unanswerable": score.unanswerable,
        "gallery_mean": score.mean_size,
        "gallery_max": score.max_size,
    }
    for k, (recall, low, high, chance) in score.recalls.items():
        columns |= {f"r{k}": recall, f"r{k}_low": low, f"r{k}_high": high, f"chance_r{k}": chance}
    return columns


def _is_asked(query_id: str, clip: str, queries: Queries) -> bool:
    has_clip = queries.clips is None or clip in queries.clips.place
    return has_clip and (queries.instructions is None or query_id in queries.instructions)


def _model(settings: Settings, split: Split, encoded: Encoded, queries: Queries, scenario: ScenarioSettings) -> Model:
    """The features of a scenario, for the rows and queries of a split."""
    texts: dict[str, Floats] = {}
    for words in settings.words if scenario.instructions is None else ("instruction",):
        lines = composed_scores.words_of(split, words)
        if queries.instructions is not None:
            lines = [queries.instructions[query.query_id] for query in split.queries]
        if all(lines):
            texts[words] = encoded.texts(lines)
    return Model(
        name=settings.model,
        clips=_chosen(encoded.clips, [clip.name for clip in split.pool]),
        texts=texts,
        queries=None if queries.clips is None else _chosen(queries.clips, [query.clip for query in split.queries]),
    )


def _chosen(features: Features, names: Sequence[str]) -> Floats:
    return np.asarray(features.rows[[features.place[name] for name in names]], np.float32)


def _is_affected(setting: Setting, scenario: ScenarioSettings) -> bool:
    """Whether a scenario's perturbation changes the result."""
    halves = {setting.strategy, setting.shortlist_strategy}
    if setting.strategy == "two_stage":
        halves.add("text")
    by_clip, by_words = bool(halves & {"visual", "average"}), bool(halves & {"text", "average"})
    return (scenario.clips is None or by_clip) and (scenario.instructions is None or by_words)


def _perturbed(scenario: ScenarioSettings) -> dict[str, object]:
    columns: dict[str, object] = {"perturbed": scenario.perturbed}
    for prefix, shift in (("", scenario.clips), ("text_", scenario.instructions)):
        if shift is not None:
            columns |= {f"{prefix}{name}": value for name, value in shift.model_dump().items()}
    return columns


def _name(scenario: ScenarioSettings) -> str:
    shifts = [shift for shift in (scenario.clips, scenario.instructions) if shift is not None]
    shown = " with ".join(f"{shift.suite}/{shift.perturbation} {shift.severity}" for shift in shifts)
    return f"composed, perturbed: {scenario.perturbed} {shown}".strip()
