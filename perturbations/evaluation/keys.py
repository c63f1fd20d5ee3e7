"""The key of a result: all that a number is of. Two results are the same if and only if their keys are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from perturbations.base.records import digest
from perturbations.evaluation.rows import ScenarioColumns

WHOLE_GALLERY = "dataset"
"""`gallery_name` of ordinary retrieval: every usable item of the dataset."""

CHOICES = "choices"
"""`gallery_name` of multiple choice: a few items of its own for each query."""

LISTED = "listed"
"""`order` of queries that are sorted by their ids."""

PUBLISHED_SEED = 42
"""The seed of the published runs, whose loaders do not shuffle: its order is `LISTED`."""


@dataclass(frozen=True, kw_only=True)
class ResultKey:
    """All that a result is of, but for its metric. None where an earlier version did not record it.

    Attributes:
        adapter, listed_sha256: of the dataset, whatever the user calls it: how it is read, and a hash of the listed
            items and captions.
        suite, perturbation, severity, text_perturbation, text_severity, mix, share: of the scenario.
        direction, side: which modality is the query, and what is perturbed.
        gallery_name: `WHOLE_GALLERY`, `CHOICES`, or the name of a composed gallery.
        model, pooling, pretrained, checkpoint_sha256, num_frames, precision, setting: the model, its weights, and what
            it was trained on.
        method, parameters, banks_sha256, steps, batch_size, continual: the method; `parameters` is the canonical JSON
            of all of them, and `banks_sha256` a hash of the banks' features, None without a bank.
        seed, order: the seed, and the order of queries that it stands for.
    """

    adapter: str | None
    listed_sha256: str | None
    suite: str
    perturbation: str
    severity: int | None
    text_perturbation: str | None
    text_severity: int | None
    mix: str | None
    share: float | None
    direction: str
    side: str
    gallery_name: str | None
    model: str
    pooling: str | None
    pretrained: str | None
    checkpoint_sha256: str | None
    num_frames: int | None
    precision: str | None
    setting: str | None
    method: str
    parameters: str | None
    banks_sha256: str | None
    steps: int | None
    batch_size: int | None
    continual: bool | None
    seed: int
    order: str | None


KEY_COLUMNS = tuple(column.name for column in fields(ResultKey))
_NUMBERS = ("severity", "text_severity", "num_frames", "steps", "batch_size", "seed")


def key_of(row: ScenarioColumns | Mapping[Any, Any]) -> ResultKey:
    """The key of a row of results, ranks or pictures; of a table's row too, whose empty cells may be NaN."""
    if isinstance(row, Mapping):
        known: dict[str, Any] = {name: None if row[name] != row[name] else row[name] for name in KEY_COLUMNS}
        known |= {name: int(known[name]) for name in _NUMBERS if known[name] is not None}
    else:
        known = {name: getattr(row, name) for name in KEY_COLUMNS}
    return ResultKey(**known)


def clean_key(key: ResultKey) -> ResultKey:
    """The key of the result with nothing perturbed, and all else the same."""
    return replace(
        key,
        suite="clean",
        perturbation="clean",
        severity=0,
        text_perturbation=None,
        text_severity=None,
        mix=None,
        share=None,
        side="none",
    )


def order_of(seed: int) -> str:
    """The name of the order of queries that a seed stands for: `LISTED`, or a permutation of its own."""
    return LISTED if seed == PUBLISHED_SEED else f"seed {seed}"


def places_of(query_ids: Sequence[str], seed: int) -> list[int]:
    """The places of queries, which are sorted by their ids, in the order of a seed.

    Each query draws a number of its own, so that a missing one leaves the order of the others.
    """
    places = range(len(query_ids))
    if order_of(seed) == LISTED:
        return [*places]
    return sorted(places, key=lambda place: digest([seed, query_ids[place]]))
