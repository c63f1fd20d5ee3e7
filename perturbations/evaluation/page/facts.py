"""What the report says of a retrieval in words: how many queries, what is lost, and what methods change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perturbations.evaluation.page.intervals import CLEAN_MEAN, Estimate, ScenarioMean, Scores, mean_of, spans_of
from perturbations.evaluation.page.leaderboard import loss_of
from perturbations.evaluation.page.names import (
    RetrievalChoice,
    listed,
    method_label,
    needs_all_queries,
    span_of_numbers,
)
from perturbations.evaluation.page.tables import number
from perturbations.evaluation.result_sets import RANDOM
from perturbations.evaluation.rows import CLEAN_SCENARIO, ScenarioKey
from perturbations.retrieval.bootstrap import separable
from perturbations.tta.methods import registry as methods

_METRIC = "recall_at_1"
_ROUNDING = 1e-9


def counts(models: Sequence[Scores], retrieval: RetrievalChoice) -> str:
    """The numbers of queries and gallery items of a retrieval."""
    known = [
        own
        for scores in models
        for own in scores.counts(scores.every(retrieval.suite, retrieval.side) or [CLEAN_SCENARIO])
    ]
    queries, _, gallery = (span_of_numbers(own[place] for own in known) for place in range(3))
    says = " Intervals: 95 %; significant: 5 %, with Holm's correction." if models[0].sampled else ""
    return f"{retrieval.title(models[0].dataset)}: N = {queries} queries, gallery of {gallery}.{says}"


def of_models(models: Sequence[Scores], retrieval: RetrievalChoice) -> list[str]:
    """A paragraph per model."""
    return [
        " ".join(_of_model(scores, scores.every(retrieval.suite, retrieval.side), retrieval.suite)) for scores in models
    ]


def _of_model(scores: Scores, keys: Sequence[ScenarioKey], suite: str) -> Iterator[str]:
    """What a model as it is loses, under what most and least, and which methods change it."""
    reference = scores.reference
    is_plain = reference == methods.baseline().name
    clean = scores.value(_METRIC, reference, CLEAN_MEAN)
    text = f"{scores.model}{'' if is_plain else f' by {method_label(reference)}'}: R@1 {clean:.1f} % clean"
    if RANDOM in scores.methods:
        text += f" ({scores.value(_METRIC, RANDOM, CLEAN_MEAN):.1f} % in random order)"
    if not keys:
        yield f"{text}."
        return
    column = mean_of(keys)
    perturbed = scores.estimate(_METRIC, reference, column)
    severities = sorted({key.severity for key in keys if key.severity is not None})
    at = f"severity {listed(severities).replace(' to ', '-')}" if severities else "mixed"
    loss = loss_of(scores, reference, column)
    if np.isnan(loss[0]):
        lost = "; the clean result of the same queries and gallery is not known"
    else:
        lost = f", a loss of {_points(loss, '.1f')}"
        own = float(loss[0] + perturbed[0])
        lost += f" against {own:.1f} % of the same queries unperturbed" if abs(own - clean) > _ROUNDING else ""
    by_name: dict[str, list[ScenarioKey]] = {}
    for key in keys:
        by_name.setdefault(" + ".join(filter(None, (key.perturbation, key.text_perturbation))), []).append(key)
    losses = {name: float(loss_of(scores, reference, mean_of(own))[0]) for name, own in by_name.items()}
    known = {name: value for name, value in losses.items() if value == value}
    if len(known) > 1:
        most, least = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
        lost += (
            f" (most under {most}: {number(known[most], '.1f')}; least under {least}: {number(known[least], '.1f')})"
        )
    yield f"{text}, {perturbed[0]:.1f} % under {suite} ({at}){lost}."
    if is_plain:
        yield from _of_methods(scores, column, perturbed)


def _of_methods(scores: Scores, column: ScenarioMean, baseline: Estimate) -> Iterator[str]:
    """The best method, and which differ significantly from the model as it is."""
    changes = {
        name: scores.estimate(_METRIC, name, column) - baseline
        for name in scores.methods
        if name != methods.baseline().name and not needs_all_queries(name)
    }
    changes = {name: change for name, change in changes.items() if not np.isnan(change[0])}
    if not changes:
        return
    best = max(changes, key=lambda name: changes[name][0])
    if changes[best][0] > 0:
        among = f" of {len(changes)} methods" if len(changes) > 1 else " method"
        yield f"The best{among} is {method_label(best)} ({_points(changes[best])})."
    else:
        yield "No method has a higher R@1."
    if scores.sampled:
        apart = separable(np.stack([change[1:] for change in changes.values()]))
        sure = [name for name, is_apart in zip(changes, apart, strict=True) if is_apart]
        for word, sign in (("better", 1), ("worse", -1)):
            names = ", ".join(method_label(name) for name in sure if sign * changes[name][0] > 0)
            if names or sign > 0:
                yield f"Significantly {word} than {methods.baseline().title}: {names or 'no method'}."


def _points(change: Estimate, form: str = "+.1f") -> str:
    (span,) = spans_of([change])
    interval = f" [{number(span[0], form)}, {number(span[1], form)}]" if span else ""
    return f"{number(float(change[0]), form)} points{interval}"
