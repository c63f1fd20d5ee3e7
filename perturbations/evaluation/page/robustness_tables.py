"""The report's robustness scores: of the metric of a suite's own paper, against clean results of the same queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perturbations.evaluation.page import overview
from perturbations.evaluation.page.intervals import Estimate, Scores, marks, mean_of, spans_of
from perturbations.evaluation.page.page_tables import PageTable
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    METRICS,
    SIDES,
    Group,
    PagePart,
    RetrievalChoice,
    Views,
    method_label,
    named,
    titled,
)
from perturbations.evaluation.protocols import registry as protocols
from perturbations.evaluation.rows import ScenarioKey
from perturbations.retrieval import gamma_a, gamma_r, mmi

TEXT = (
    "Absolute robustness is 1 - (clean - perturbed) / 100, relative robustness 1 - (clean - perturbed) / clean, "
    "MultiModal Impact (MMI) (clean - perturbed) / clean. Clean is the clean result of the same method over the "
    "scenario's own queries and in a gallery of the same size; without one there is no score. A score is the mean over "
    "perturbations of each one's severities, ± the sample deviation over all perturbations x severities, with the 95 % "
    "interval of the mean over queries."
)

NONE = "No score: the paper of this suite defines none, or results that it needs are missing."

FORMULAS: Mapping[str, tuple[str, Callable[..., object]]] = {
    "gamma_a": ("absolute robustness", gamma_a),
    "gamma_r": ("relative robustness", gamma_r),
    "mmi": ("MMI", mmi),
}


@dataclass(frozen=True)
class Compared:
    """What a table is of: the summed results of its members, each with its scenarios by category.

    `what` is a direction and a side, or both directions of one perturbed modality; `scores` are those of the suite's
    paper, and `source` is where it defines them, if it does so for such a retrieval.
    """

    members: Sequence[tuple[Scores, Mapping[str, Sequence[ScenarioKey]]]]
    what: str
    metric: str
    scores: Sequence[str]
    source: str

    @property
    def categories(self) -> list[str]:
        """The categories that all members have."""
        return [name for name in self.members[0][1] if all(name in own for _, own in self.members)]

    def cells(self, score: str, categories: Sequence[str], method: str) -> list[tuple[ScenarioKey, float, Estimate]]:
        """The scenarios of categories that the members share, their weights in the mean, and their scores over seeds.

        The directions' queries are drawn apart.
        """
        by_member = [
            {
                (key.perturbation, key.severity, key.text_perturbation): key
                for category in categories
                for key in own[category]
            }
            for _, own in self.members
        ]
        shared = [key for name, key in by_member[0].items() if all(name in other for other in by_member)]
        cells = []
        for key, weight in mean_of(shared):
            name = key.perturbation, key.severity, key.text_perturbation
            pairs = [
                scores.pairs(self.metric, method, own[name])
                for (scores, _), own in zip(self.members, by_member, strict=True)
            ]
            seeds = min(len(own) for _, own in pairs)
            clean, perturbed = (sum((own[:seeds] for own in side), np.zeros(())) for side in zip(*pairs, strict=True))
            cells.append((key, weight, np.mean(np.asarray(FORMULAS[score][1](clean, perturbed)), axis=0)))
        return cells


def tables(of_directions: Mapping[str, Sequence[Scores]], views: Views) -> list[PagePart]:
    """The robustness scores of a dataset: per retrieval a table per score and model; models stand side by side.

    A suite whose paper defines no score has none, which is said.
    """
    parts: list[PagePart] = []
    for retrieval in views.retrievals:
        models = of_directions.get(retrieval.direction, ())
        every = [(scores, compared(scores, of_directions, retrieval)) for scores in models]
        known = [(scores, own) for scores, own in every if own is not None and own.categories]
        scored: list[PagePart] = []
        for name in known[0][1].scores if known else ():
            of_models = [
                _table(scores, own, name, scores.model if len(models) > 1 else "", retrieval.suite)
                for scores, own in known
            ]
            title = FORMULAS[name][0]
            scored.append(Group(of_models, title[0].upper() + title[1:] if scored else ""))
        if models:
            explained = [TEXT, *scored] if scored else [NONE]
            parts.append(Group(explained, views=views.of(models[0].dataset, *retrieval)))
    return parts


def compared(
    scores: Scores, of_directions: Mapping[str, Sequence[Scores]], retrieval: RetrievalChoice
) -> Compared | None:
    """What the scores of a retrieval are of; None where it was not run, or the suite's paper defines no score."""
    direction, side, suite = retrieval
    own, paper = scores.scenarios(suite, side), protocols.of_suite(suite)
    if not own or paper is None or not paper.scores:
        return None
    where = titled(DIRECTIONS[direction], SIDES.get(side, ""))
    if paper.metric != "rsum":
        # A table of the paper is of its direction alone: MSRVTT-P asks with captions.
        metric = "recall_at_1" if scores.by_choice else paper.metric
        return Compared([(scores, own)], where, metric, paper.scores, paper.source if direction == "t2v" else "")
    # The same modality is perturbed in the other direction, where it is the other side.
    other_side = {"query": "gallery", "gallery": "query"}.get(side, side)
    for other in of_directions.get("t2v" if direction == "v2t" else "v2t", ()):
        if other.model_key == scores.model_key and (theirs := other.scenarios(suite, other_side)):
            modality = "videos" if (direction == "v2t") == (side == "query") else "captions"
            what = f"both directions, {modality} perturbed" if side != "both" else "both directions, both perturbed"
            return Compared([(scores, own), (other, theirs)], what, paper.metric, paper.scores, paper.source)
    return Compared([(scores, own)], where, paper.metric, paper.scores, "")


def _table(scores: Scores, known: Compared, score: str, model: str, suite: str) -> PageTable:
    data = [((suite, name), _parts(scores, known, score, name)) for name in known.categories]
    metric = METRICS[known.metric] + (" of both directions" if len(known.members) > 1 else "")
    caption = f"{titled(scores.dataset, model, suite, known.what)}: {FORMULAS[score][0]} of {metric}"
    note = f"As {known.source} defines it." if known.source else "No published table is of this metric here."
    scenarios = [scenario for _, own in known.members for members in own.values() for scenario in members]
    note = f"{note} {overview.note_of([own for own, _ in known.members], scenarios)}"
    names = map(method_label, scores.methods)
    return PageTable(caption, named(data, names, "method"), ".2f", note, stacked=True)


def _parts(scores: Scores, known: Compared, score: str, category: str) -> dict[str, Sequence[object]]:
    """The parts of the column of a category."""
    own, spreads = zip(*(score_of(known, score, [category], method) for method in scores.methods), strict=True)
    estimates = np.stack(own)
    marked = marks(scores.competing(estimates, scores.methods), ".2f", lower=score == "mmi")
    return {"value": estimates[:, 0].tolist(), "std": spreads, **overview.ends(spans_of(estimates)), "mark": marked}


def score_of(known: Compared, score: str, categories: Sequence[str], method: str) -> tuple[Estimate, float]:
    """The mean of categories, and the sample deviation over its cells; a cell is the mean over seeds.

    MSRVTT-P does not define its sigma: this gives 24 of the 25 of Tab. 9 for videos, and 31 of 32 for captions.
    """
    cells = known.cells(score, categories, method)
    if not cells:
        return np.full(1, np.nan), float("nan")
    total: Estimate = sum((weight * cell for _, weight, cell in cells), np.zeros(()))
    return total, float(np.std([cell[0] for *_, cell in cells], ddof=1)) if len(cells) > 1 else float("nan")
