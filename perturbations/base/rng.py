"""The only place where a random generator is made."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


def generator(
    seed: int, dataset: str, item_id: str, perturbation: str, frame: int | None = None
) -> np.random.Generator:
    """The generator of one realization: equal keys give equal streams, other keys unrelated ones.

    The key is (seed, dataset, item, `suite/name`), and the frame's position where a suite draws per frame.
    Severity, variant, shard, order and worker are not part of it. The seed is a whole number from 0 to 2**63 - 1
    (`perturbations.base.bounds.SEEDS`): what a manifest can store.

    PCG64 by name and not `default_rng`, whose algorithm NumPy may replace: NumPy keeps PCG64's stream of bits fixed
    for good, it is fast, and its seeding mixes all 256 bits of the key. How a Generator turns bits into normals may
    change between NumPy versions, so the version is pinned and the tests hold known values.
    """
    key = json.dumps([seed, dataset, item_id, perturbation, frame], ensure_ascii=True, separators=(",", ":"))
    digest = hashlib.sha256(key.encode("ascii")).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


@contextmanager
def seeded_globals(rng: np.random.Generator) -> Iterator[None]:
    """For libraries that draw from a global generator: those of `random`, NumPy and torch, seeded from `rng`.

    Afterwards each has the state it had before. torch is left out while it is not imported.
    """
    seed = int(rng.integers(2**32))
    torch = sys.modules.get("torch")
    python_state, numpy_state = random.getstate(), np.random.get_state()
    torch_state = torch.random.get_rng_state() if torch else None
    random.seed(seed)
    np.random.seed(seed)
    if torch:
        torch.random.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        if torch:
            torch.random.set_rng_state(torch_state)
