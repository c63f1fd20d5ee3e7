"""What each query retrieved first: ids and scores, in the column `retrieved` of ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perturbations.base.records import canonical
from perturbations.retrieval.metrics import first_places

_DIGITS = 6


def written(similarities: NDArray[np.number], gallery: Sequence[str], k: int) -> list[str]:
    """The first k items of each query as JSON, [id, score], the best first; a score that is not finite is null."""
    return [
        canonical(
            [[gallery[place], round(float(row[place]), _DIGITS) if np.isfinite(row[place]) else None] for place in own]
        )
        for row, own in zip(similarities, first_places(similarities, k).tolist(), strict=True)
    ]


def read(retrieved: str) -> list[tuple[str, float | None]]:
    """The ids and scores that `written` wrote."""
    return [(str(name), score) for name, score in json.loads(retrieved)]
