"""What `perturb score --direction composed` does."""

from __future__ import annotations

import argparse

from perturbations.base import shown
from perturbations.base.errors import ConfigError
from perturbations.composed import split_scores as composed_scoring
from perturbations.composed.audit import compared
from perturbations.evaluation import feature_scores
from perturbations.evaluation.rows import RankRow, ResultRow


def score(options: argparse.Namespace) -> tuple[list[ResultRow], list[RankRow]]:
    """Print what holds of the split and each result; returns the rows and the ranks. Raises `ConfigError`."""
    if options.split is None or options.relevant is not None:
        raise ConfigError("--direction composed needs --split, which says what answers a query, and no --relevant")
    split = composed_scoring.read_split(options.split)
    for comparison in compared(split):
        print(shown.line(comparison.words()))
    wanted = composed_scoring.WantedScores(
        dataset=options.dataset,
        model=options.model,
        first_stage=options.first_stage,
        galleries=options.galleries,
        words=options.words,
        strategies=options.strategies,
        frames=options.frames,
        shortlist=options.shortlist,
        deduplicate=options.deduplicate,
    )
    texts, clips = feature_scores.located(options.queries), feature_scores.located(options.gallery)
    rows, ranks = composed_scoring.scored(split, texts, clips, wanted)
    for row in rows:
        ks = (1, 5, 10) if "@global" in row.model_key else (1, 2, 3)
        recalls = ", ".join(f"R@{k} {getattr(row, f'recall_at_{k}'):.2f}" for k in ks)
        scenario = "" if row.side == "none" else f", {row.suite}/{row.perturbation} {row.severity}"
        print(shown.line(f"{row.model_key}: {row.method}{scenario}: {recalls} ({row.queries:,} queries)"))
    return rows, ranks
