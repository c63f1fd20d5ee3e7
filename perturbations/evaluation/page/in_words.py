"""What the report says first, in words: what a model loses under perturbation, and what methods change about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from perturbations.evaluation.page.intervals import (
    CLEAN_MEAN,
    RECALLS,
    Estimate,
    ScenarioMean,
    Scores,
    mean_of,
    spans_of,
)
from perturbations.evaluation.page.overview import listed, span_of_numbers
from perturbations.evaluation.page.page_tables import number
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    SIDES,
    Group,
    PagePart,
    RetrievalChoice,
    Views,
    method_label,
    needs_all_queries,
    titled,
)
from perturbations.evaluation.rows import CLEAN_SCENARIO, ScenarioKey
from perturbations.retrieval.bootstrap import separable
from perturbations.tta.methods import registry as methods

_METRIC = "recall_at_1"
_ROUNDING = 1e-9


def of_direction(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """A paragraph per view of a dataset and direction, with the sentences of each model."""
    parts: list[PagePart] = []
    for retrieval in views.retrievals:
        if retrieval.direction == models[0].direction:
            side = SIDES.get(retrieval.side, "")
            where = titled(models[0].dataset, DIRECTIONS[retrieval.direction], side)
            sentences = (
                _in_full(models[0], retrieval) if len(models) == 1 else [_in_brief(own, retrieval) for own in models]
            )
            text = " ".join(sentences)
            counts = [own for scores in models for own in scores.counts(_scenarios(scores, retrieval))]
            queries, _, gallery = (span_of_numbers(own[place] for own in counts) for place in range(3))
            says = "Intervals: 95 %; significant: 5 %, with Holm's correction. " if models[0].sampled else ""
            text = f"On {where}: {text} {says}N = {queries} queries, gallery of {gallery}."
            parts.append(Group([text], views=views.of(models[0].dataset, *retrieval)))
    return parts


def _scenarios(scores: Scores, retrieval: RetrievalChoice) -> list[ScenarioKey]:
    return scores.every(retrieval.suite, retrieval.side) or [CLEAN_SCENARIO]


def _in_brief(scores: Scores, retrieval: RetrievalChoice) -> str:
    """What a model among others loses, and how many methods are of help."""
    clean, perturbed, column = _estimates(scores, retrieval)
    text = f"{_subject(scores)}: R@1 {clean[0]:.1f} % clean"
    if column is None:
        return f"{text}."
    own = _own_clean(scores, column)[0]
    same = f", where the same queries have {own:.1f} % clean" if abs(own - clean[0]) > _ROUNDING else ""
    text += f", {perturbed[0]:.1f} % under {retrieval.suite} ({_at(_scenarios(scores, retrieval))}{same})"
    changes = _changes(scores, column, perturbed)
    if not changes:
        return f"{text}."
    best = max(changes, key=lambda name: changes[name][0])
    better = [name for name in _separable(changes) if changes[name][0] > 0]
    count = f"{len(better)} of {len(changes)} methods are significantly better, " if scores.sampled else ""
    if changes[best][0] <= 0:
        return f"{text}; {count}none has a higher R@1."
    return f"{text}; {count}the best is {method_label(best)} ({_points(changes[best])})."


def _subject(scores: Scores, as_it_is: str = "") -> str:
    """What a sentence is of: the model as it is, or by its method of composed retrieval."""
    is_plain = scores.reference == methods.baseline().name
    return scores.model + as_it_is if is_plain else f"{scores.model} by {method_label(scores.reference)}"


def _estimates(scores: Scores, retrieval: RetrievalChoice) -> tuple[Estimate, Estimate, ScenarioMean | None]:
    """R@1 of the model as it is, of clean and of perturbed queries, and the column of these; None where none are."""
    baseline = scores.reference
    clean = scores.estimate(_METRIC, baseline, CLEAN_MEAN)
    scenarios = scores.every(retrieval.suite, retrieval.side)
    if not scenarios:
        return clean, clean, None
    column = mean_of(scenarios)
    return clean, scores.estimate(_METRIC, baseline, column), column


def _own_clean(scores: Scores, column: ScenarioMean) -> Estimate:
    """Clean R@1 of the model as it is over the queries that each scenario of a column has; NaN where it is not known.

    A loss is the difference to this one: of a scenario that lacks a query, all clean queries are others.
    """
    return scores.estimate(f"clean_{_METRIC}", scores.reference, column)


def _in_full(scores: Scores, retrieval: RetrievalChoice) -> list[str]:
    """What the only model loses, under what, and what each method changes about it."""
    clean, perturbed, column = _estimates(scores, retrieval)
    clean_sentence = f"{_subject(scores, ' as it is')} finds the right item first for {clean[0]:.1f} % of clean queries"
    if column is None:
        return [f"{clean_sentence}."]
    scenarios = _scenarios(scores, retrieval)
    own_clean = _own_clean(scores, column)
    less = own_clean - perturbed
    lost = f": {_points(less, '.1f')} less" if less[0] > 0 else f": {_points(-less)}"
    if np.isnan(less[0]):
        lost = "; clean results of the same queries and gallery are not known"
    elif abs(own_clean[0] - clean[0]) > _ROUNDING:
        lost += f" than the same queries unperturbed, which have {own_clean[0]:.1f} %"
    sentences = [f"{clean_sentence}, and for {perturbed[0]:.1f} % under {retrieval.suite} ({_at(scenarios)}){lost}."]
    by_name: dict[str, list[ScenarioKey]] = {}
    for key in scenarios:
        by_name.setdefault(titled(key.perturbation, key.text_perturbation or ""), []).append(key)
    losses = {
        name: float((scores.estimate(_METRIC, scores.reference, own) - _own_clean(scores, own))[0])
        for name, own in ((name, mean_of(keys)) for name, keys in by_name.items())
    }
    known = {name: loss for name, loss in losses.items() if not np.isnan(loss)}
    if len(known) > 1:
        worst, least = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
        sentences.append(
            f"{worst} costs most ({number(known[worst], '+.1f')}), {least} least ({number(known[least], '+.1f')})."
        )
    return [*sentences, *_of_methods(scores, column, perturbed)]


def _at(scenarios: Sequence[ScenarioKey]) -> str:
    severities = sorted({key.severity for key in scenarios if key.severity is not None})
    return f"severity {listed(severities).replace(' to ', '-')}" if severities else "mixed"


def _points(change: Estimate, form: str = "+.1f") -> str:
    (span,) = spans_of([change])
    interval = f" [{number(span[0], form)}, {number(span[1], form)}]" if span else ""
    return f"{number(float(change[0]), form)} points{interval}"


def _changes(scores: Scores, column: ScenarioMean, baseline: Estimate) -> dict[str, Estimate]:
    """The change of the perturbed result by each method that competes."""
    changes = {
        name: scores.estimate(_METRIC, name, column) - baseline
        for name in scores.methods
        if scores.reference == methods.baseline().name != name and not needs_all_queries(name)
    }
    return {name: change for name, change in changes.items() if not np.isnan(change[0])}


def _separable(changes: Mapping[str, Estimate]) -> list[str]:
    """The methods whose change is off zero; none without resamples."""
    if not changes or any(len(change) == 1 for change in changes.values()):
        return []
    apart = separable(np.stack([change[1:] for change in changes.values()]))
    return [name for name, is_apart in zip(changes, apart, strict=True) if is_apart]


def _of_methods(scores: Scores, column: ScenarioMean, baseline: Estimate) -> list[str]:
    """Which methods change the perturbed result, and which change nothing."""
    changes = _changes(scores, column, baseline)
    still = [name for name in changes if _changes_nothing(scores, name, column)]
    moved = {name: change for name, change in changes.items() if name not in still}
    sentences = []
    if moved and scores.sampled:
        sure = _separable(changes)
        for word, sign in (("better", 1), ("worse", -1)):
            named = sorted(
                (name for name in sure if sign * moved[name][0] > 0), key=lambda name: -sign * moved[name][0]
            )
            if named:
                listed = ", ".join(f"{method_label(name)} {_points(moved[name])}" for name in named)
                sentences.append(f"Significantly {word} than {methods.baseline().title}: {listed}.")
        if unsure := [name for name in moved if name not in sure]:
            listed = ", ".join(f"{method_label(name)} {number(float(moved[name][0]), '+.1f')}" for name in unsure)
            sentences.append(f"No significant difference: {listed}.")
    elif moved:
        best = max(moved, key=lambda name: moved[name][0])
        sentences.append(f"The best of {len(changes)} methods is {method_label(best)}: {_points(moved[best])}.")
    if still:
        names = ", ".join(f"{method_label(name)}{_rate(scores, name)}" for name in still)
        sentences.append(f"No R@k changes at all by {names}: the updates are too small here to move a query.")
    return sentences


def _changes_nothing(scores: Scores, name: str, column: ScenarioMean) -> bool:
    """Whether a method leaves every R@k as it is, in each resample too."""
    baseline = methods.baseline().name
    return all(
        np.array_equal(scores.estimate(metric, name, own), scores.estimate(metric, baseline, own), equal_nan=True)
        for metric in RECALLS
        for own in (column, CLEAN_MEAN)
    )


def _rate(scores: Scores, name: str) -> str:
    """A method's learning rate, where it has one."""
    rows = scores.rows[scores.rows["applied"] == name]
    rate = json.loads(rows["parameters"].iloc[0] or "{}").get("lr")
    return f" (learning rate {rate:g})" if isinstance(rate, float) else ""
