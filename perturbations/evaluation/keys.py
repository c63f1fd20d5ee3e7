"""The key of a result: all that a number is of. Two results are the same if and only if their keys are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from perturbations.base.records import digest
from perturbations.evaluation.rows import CLEAN_SCENARIO, ScenarioColumns

CHOICES = "choices"
"""`gallery_name` of multiple choice: a few items of its own for each query."""

LISTED = "listed"
"""`order` of queries that are sorted by their ids."""

PUBLISHED_SEED = 42
"""The seed of the published runs, whose loaders do not shuffle: its order is `LISTED`."""


_NAMES: dict[str, Any] = {"dataset": "", "model_key": "", "label": None}
"""What the user calls a dataset, a model and a method: a key has none of these."""

KEY_COLUMNS = tuple(column.name for column in fields(ScenarioColumns) if column.name not in _NAMES)
_NUMBERS = ("severity", "text_severity", "num_frames", "steps", "batch_size", "seed")


def key_of(row: ScenarioColumns | Mapping[Any, Any]) -> ScenarioColumns:
    """The key of a row of results or ranks: its columns without the user's names.

    Of a table's row too, whose empty cells may be NaN.
    """
    if isinstance(row, Mapping):
        known: dict[str, Any] = {name: None if row[name] != row[name] else row[name] for name in KEY_COLUMNS}
        known |= {name: int(known[name]) for name in _NUMBERS if known[name] is not None}
    else:
        known = {name: getattr(row, name) for name in KEY_COLUMNS}
    return ScenarioColumns(**_NAMES, **known)


def clean_key(key: ScenarioColumns) -> ScenarioColumns:
    """The key of the result with nothing perturbed, and all else the same."""
    unperturbed: dict[str, Any] = CLEAN_SCENARIO._asdict()
    return replace(key, **unperturbed)


def banks_key(hashes: Mapping[str, str]) -> str | None:
    """`banks_sha256` of a method: of a hash of the features of each bank that it uses, by name; None without one."""
    return digest(dict(hashes)) if hashes else None


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
