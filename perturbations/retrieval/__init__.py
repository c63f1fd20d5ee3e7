"""How good a matrix of similarities is: recall and ranks, robustness scores, intervals, hubness, composed retrieval.

Needs NumPy alone; similarities may be NumPy arrays or torch tensors.
"""

from __future__ import annotations

from perturbations.retrieval.bootstrap import draws, interval, resampled_recall
from perturbations.retrieval.composed import average_precisions, composed_places, composed_scores
from perturbations.retrieval.hubs import hubness, hubness_of, k_occurrence
from perturbations.retrieval.metrics import gamma_a, gamma_r, mmi, ranks, recall_at_k, summary, summary_of_ranks
from perturbations.retrieval.scoring import score

__all__ = [
    "average_precisions",
    "composed_places",
    "composed_scores",
    "draws",
    "gamma_a",
    "gamma_r",
    "hubness",
    "hubness_of",
    "interval",
    "k_occurrence",
    "mmi",
    "ranks",
    "recall_at_k",
    "resampled_recall",
    "score",
    "summary",
    "summary_of_ranks",
]
