"""What the results of a model show, in words: its loss, the most harmful perturbations, and the best methods."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from perturbations.evaluation.page.displayed_names import (
    method_label,
    method_labels,
    needs_all_queries,
    severities_text,
)
from perturbations.evaluation.page.marks import Estimate, is_seen, span_of
from perturbations.evaluation.page.page_tables import number
from perturbations.evaluation.page.scores import Scores, mean_of
from perturbations.evaluation.result_sets import RANDOM
from perturbations.retrieval.bootstrap import separable
from perturbations.tta.methods import method_registry as methods

_R1 = "recall_at_1"


def findings_of(scores: Scores, board: pd.DataFrame, suite: str) -> Iterator[str]:
    """A model's loss without adaptation, the perturbations with most and least loss, and what methods change."""
    reference = scores.reference
    is_plain = reference == methods.baseline().name
    clean = scores.estimate(_R1, reference, scores.clean)[0]
    parts = [f"{clean:.1f} % clean"] if clean == clean else []
    if parts and RANDOM in scores.methods:
        parts[0] += f" ({scores.estimate(_R1, RANDOM, scores.clean)[0]:.1f} % in random order)"
    column = mean_of(board)
    perturbed = scores.estimate(_R1, reference, column)
    if len(board):
        parts.append(_under(scores, board, suite, float(perturbed[0]), clean))
    yield f"{scores.model}{'' if is_plain else f' by {method_label(reference)}'}: R@1 {', '.join(parts) or 'unknown'}."
    if is_plain and len(board):
        yield from _of_methods(scores, column, perturbed)


def _under(scores: Scores, board: pd.DataFrame, suite: str, perturbed: float, clean: float) -> str:
    """The mean under a suite, and its loss."""
    severities = sorted({own for own in board["severity"] if own is not None})
    at = f"severity {severities_text(severities).replace(' to ', '-')}" if severities else "mixed"
    if perturbed != perturbed:
        return f"without a mean under {suite} ({at}), as it was not run in every scenario"
    text = f"{perturbed:.1f} % under {suite} ({at})"
    loss = scores.loss(scores.reference, mean_of(board))
    if np.isnan(loss[0]):
        return f"{text}; the clean result of the same queries and gallery is not known"
    same = float(loss[0] + perturbed)
    text += f", a loss of {_points(loss, '.1f')}"
    text += f" against {same:.1f} % of the same queries unperturbed" if abs(same - clean) > 1e-9 else ""
    names = board["perturbation"].str.cat(board["text_perturbation"].map(lambda name: f" + {name}" if name else ""))
    losses = {name: scores.loss(scores.reference, mean_of(own))[0] for name, own in board.groupby(names, sort=False)}
    most, least = max(losses, key=losses.__getitem__), min(losses, key=losses.__getitem__)
    high, low = number(losses[most], ".1f"), number(losses[least], ".1f")
    return text if high == low else f"{text} (most under {most}: {high}; least under {least}: {low})"


def _of_methods(scores: Scores, column: pd.Series, baseline: Estimate) -> Iterator[str]:
    """The best method, and the methods that differ significantly from the model without adaptation."""
    plain = methods.baseline()
    names = [name for name in scores.methods if name != plain.name and not needs_all_queries(name)]
    changes = {name: scores.estimate(_R1, name, column) - baseline for name in names}
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
        apart = separable(np.stack([change[1:] for change in changes.values()]), scores.units(column))
        sure = [name for name, is_apart in zip(changes, apart, strict=True) if is_apart]
        better, worse = (method_labels(name for name in sure if sign * changes[name][0] > 0) for sign in (1, -1))
        yield (
            f"Significantly better than {plain.title}: {better}."
            if better
            else f"No method is significantly better than {plain.title}."
        )
        if worse:
            yield f"Significantly worse than {plain.title}: {worse}."


def _points(change: Estimate, form: str = "+.1f") -> str:
    span = span_of(change)
    interval = f" [{number(span[0], form)}, {number(span[1], form)}]" if span and is_seen(form, *span) else ""
    return f"{number(float(change[0]), form)} points{interval}"
