"""What jobs of composed retrieval would miss on this machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from perturbations.config import sections as configuration
from perturbations.engine import needs


def problems(config: configuration.Config, rules: Collection[str], local: bool) -> Iterator[str]:
    """What is missing, a line each."""
    writer = config.composed.language_model
    if writer is not None and "composed_split" in rules:
        yield from needs.of_weights("composed.language_model.model", writer.model, tokenizer=True)


def work(rules: Collection[str]) -> Iterator[str]:
    """What a run evaluates, a line."""
    if {"composed_clips", "composed_queries", "composed_evaluate"} & {*rules}:
        yield "to evaluate: composed retrieval"
