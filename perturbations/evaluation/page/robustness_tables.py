"""The report's robustness scores: of the metric of a suite's own paper, against clean results of the same queries.

A suite whose paper has no such score gets the formulas of MSRVTT-P with R@1, which no paper's table compares with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perturbations.evaluation.page import overview
from perturbations.evaluation.page.intervals import Scores, marks, mean_column, spans_of
from perturbations.evaluation.page.page_tables import PageTable
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    SIDES,
    Group,
    PagePart,
    method_label,
    named,
    online,
    titled,
)
from perturbations.evaluation.page.ranks import ScenarioKey
from perturbations.evaluation.page.views import RetrievalChoice, Views
from perturbations.evaluation.protocols import registry as protocols
from perturbations.retrieval import gamma_a, gamma_r, mmi
from perturbations.retrieval.bootstrap import Samples

TEXT = (
    "Absolute robustness is 1 - (clean - perturbed) / 100, relative robustness 1 - (clean - perturbed) / clean, "
    "MultiModal Impact (MMI) (clean - perturbed) / clean. Clean is the clean result of the same method over the "
    "scenario's own queries. A score is the mean over perturbations of each one's severities, ± the sample deviation "
    "over all perturbations x severities, with the 95 % interval of the mean over queries."
)

_FORMULAS: Mapping[str, tuple[str, Callable[..., object]]] = {
    "gamma_a": ("absolute robustness", gamma_a),
    "gamma_r": ("relative robustness", gamma_r),
    "mmi": ("MMI", mmi),
}
_METRICS = {"recall_at_1": "R@1", "recall_at_5": "R@5", "rsum": "RSUM"}


@dataclass(frozen=True)
class _Compared:
    """What a table is of: the summed results of its members, each with its scenarios by category.

    `what` is a direction and a side, or both directions of one perturbed modality; `source` is where a paper defines
    scores of the metric, if one does.
    """

    members: Sequence[tuple[Scores, Mapping[str, Sequence[ScenarioKey]]]]
    what: str
    metric: str
    source: str

    @property
    def categories(self) -> list[str]:
        """The categories that all members have."""
        return [name for name in self.members[0][1] if all(name in own for _, own in self.members)]


def tables(of_directions: Mapping[str, Sequence[Scores]], views: Views) -> list[PagePart]:
    """The robustness scores of a dataset: per retrieval a table per score and model; models stand side by side."""
    parts: list[PagePart] = []
    for retrieval in views.retrievals:
        models = of_directions.get(retrieval.direction, ())
        paper = protocols.of_suite(retrieval.suite)
        names = paper.scores if paper is not None and paper.scores else tuple(_FORMULAS)
        every = [(scores, _compared(scores, of_directions, retrieval)) for scores in models]
        compared = [(scores, own) for scores, own in every if own is not None and own.categories]
        scored: list[PagePart] = []
        for name in names if compared else ():
            of_models = [
                _table(scores, own, name, scores.model if len(models) > 1 else "", retrieval.suite)
                for scores, own in compared
            ]
            title = _FORMULAS[name][0]
            scored.append(Group(of_models, title[0].upper() + title[1:] if scored else ""))
        if scored:
            parts.append(Group(scored, views=views.of(models[0].dataset, *retrieval)))
    return parts


def _compared(
    scores: Scores, of_directions: Mapping[str, Sequence[Scores]], retrieval: RetrievalChoice
) -> _Compared | None:
    direction, side, suite = retrieval
    own = scores.scenarios(suite, side)
    if not own:
        return None
    paper = protocols.of_suite(suite)
    metric = paper.metric if paper is not None and paper.scores else "recall_at_1"
    where = titled(DIRECTIONS[direction], SIDES.get(side, ""))
    if paper is None or metric != "rsum":
        # A table of the paper is of its direction alone: MSRVTT-P asks with captions.
        published = paper is not None and bool(paper.scores) and direction == "t2v"
        return _Compared([(scores, own)], where, metric, paper.source if published and paper is not None else "")
    # The same modality is perturbed in the other direction, where it is the other side.
    other_side = {"query": "gallery", "gallery": "query"}.get(side, side)
    for other in of_directions.get("t2v" if direction == "v2t" else "v2t", ()):
        if other.model_key == scores.model_key and (theirs := other.scenarios(suite, other_side)):
            modality = "videos" if (direction == "v2t") == (side == "query") else "captions"
            what = f"both directions, {modality} perturbed" if side != "both" else "both directions, both perturbed"
            return _Compared([(scores, own), (other, theirs)], what, metric, paper.source)
    return _Compared([(scores, own)], where, metric, "")


def score_of(
    scores: Scores,
    of_directions: Mapping[str, Sequence[Scores]],
    retrieval: RetrievalChoice,
    score: str,
    category: str,
    method: str,
) -> tuple[float, float, Samples | None] | None:
    """A robustness score of a retrieval, of a category or of all: the value, its deviation, and the resamples.

    None where nothing of the category was run.
    """
    compared = _compared(scores, of_directions, retrieval)
    if compared is None or method not in scores.methods:
        return None
    members = [name for name in compared.categories if category in (name, "all", "multimodal")]
    if not members:
        return None
    return *_score(compared, score, members, method), _samples(compared, score, members, method)


def _table(scores: Scores, compared: _Compared, score: str, model: str, suite: str) -> PageTable:
    data = [((suite, name), _parts(scores, compared, score, name)) for name in compared.categories]
    metric = _METRICS[compared.metric] + (" of both directions" if len(compared.members) > 1 else "")
    caption = f"{titled(scores.dataset, model, suite, compared.what)}: {_FORMULAS[score][0]} of {metric}"
    note = f"As {compared.source} defines it." if compared.source else "No published table is of this metric here."
    scenarios = [scenario for _, own in compared.members for members in own.values() for scenario in members]
    counts = overview.counted([own for own, _ in compared.members], scenarios)
    names = map(method_label, scores.methods)
    return PageTable(caption, named(data, names, "method"), ".2f", f"{note} {counts}", stacked=True)


def _parts(scores: Scores, compared: _Compared, score: str, category: str) -> dict[str, Sequence[object]]:
    """The parts of the column of a category."""
    values, spreads = zip(*(_score(compared, score, [category], method) for method in scores.methods), strict=True)
    samples = [_samples(compared, score, [category], method) for method in scores.methods]
    marked = marks(online(values, scores.methods), samples, ".2f", lower=score == "mmi")
    return {"value": values, "std": spreads, **overview.ends(spans_of(samples)), "mark": marked}


def _score(compared: _Compared, score: str, categories: Sequence[str], method: str) -> tuple[float, float]:
    """The mean of categories, and the sample deviation over its cells; a cell is the mean over seeds.

    MSRVTT-P does not define its sigma: this gives 24 of the 25 of Tab. 9 for videos, and 31 of 32 for captions.
    """
    formula = _FORMULAS[score][1]
    cells, weights = [], []
    for scenarios, weight in _paired(compared, categories):
        pairs = [
            own.pairs(compared.metric, method, scenario)
            for (own, _), scenario in zip(compared.members, scenarios, strict=True)
        ]
        of_seeds = [np.sum(seed, axis=0) for seed in zip(*pairs, strict=False)]
        cells.append(float(np.mean([formula(*pair) for pair in of_seeds])) if of_seeds else float("nan"))
        weights.append(weight)
    if not cells:
        return float("nan"), float("nan")
    return float(np.dot(cells, weights)), float(np.std(cells, ddof=1)) if len(cells) > 1 else float("nan")


def _samples(compared: _Compared, score: str, categories: Sequence[str], method: str) -> Samples | None:
    """The mean of categories in each resample; the directions' queries are drawn apart."""
    formula = _FORMULAS[score][1]
    total: Samples | None = None
    for scenarios, weight in _paired(compared, categories):
        pairs = [
            own.pair_samples(compared.metric, method, scenario)
            for (own, _), scenario in zip(compared.members, scenarios, strict=True)
        ]
        if any(pair is None for pair in pairs):
            return None
        of_seeds = [np.sum(seed, axis=0) for seed in zip(*(pair or [] for pair in pairs), strict=False)]
        cell = weight * np.mean([np.asarray(formula(clean, own)) for clean, own in of_seeds], axis=0)
        total = cell if total is None else total + cell
    return total


def _paired(compared: _Compared, categories: Sequence[str]) -> list[tuple[list[ScenarioKey], float]]:
    """The scenarios that the members share, each member's own, and their weights in the mean of categories."""
    by_member = [
        {
            (key.perturbation, key.severity, key.text_perturbation): key
            for category in categories
            for key in own[category]
        }
        for _, own in compared.members
    ]
    shared = [key for name, key in by_member[0].items() if all(name in other for other in by_member)]
    return [
        ([other[key.perturbation, key.severity, key.text_perturbation] for other in by_member], weight)
        for key, weight in mean_column("", shared).weights
    ]
