"""The only place where a random generator is born."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def generator(
    seed: int, dataset: str, item_id: str, perturbation: str, frame: int | None = None
) -> np.random.Generator:
    """The generator of one realization; equal keys give equal streams.

    The key is (seed, dataset, item, suite/perturbation), and the frame's position where a suite draws a frame at a
    time. Severity, shard, order and worker are not part of it. PCG64, because NumPy promises its stream for good
    and 128 bits of state leave no room for two clips to meet.
    """
    key = json.dumps([seed, dataset, item_id, perturbation, frame], ensure_ascii=True)
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(key.encode()).digest())))
