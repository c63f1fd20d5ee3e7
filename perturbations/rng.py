"""The only place where a random generator is born."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def generator(
    seed: int, dataset: str, item_id: str, perturbation: str, frame: int | None = None
) -> np.random.Generator:
    """The generator of one realization: equal keys give equal streams, other keys unrelated ones.

    The key is (seed, dataset, item, `suite/name`), and the frame's position where a suite draws a frame at a time.
    Severity, variant, shard, order and worker are not part of it.

    PCG64 by name and not `default_rng`, whose algorithm NumPy may replace: NumPy keeps PCG64's stream of bits fixed
    for good, it is fast, and its seeding mixes all 256 bits of the key. How a Generator turns bits into normals may
    change between NumPy versions, so the version is pinned and the tests hold known values.
    """
    key = json.dumps([seed, dataset, item_id, perturbation, frame], ensure_ascii=True, separators=(",", ":"))
    digest = hashlib.sha256(key.encode("ascii")).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
