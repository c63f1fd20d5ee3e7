"""What the tests of captions share."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import needs
import numpy as np

from perturbations.base.errors import BackendError
from perturbations.manifest.rows import CaptionRow
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry

ENTRIES = suite_registry.perturbations(kind="text")
KEYS = [entry.key for entry in ENTRIES]
# The roles whose offline models come with packages of the system.
PACKAGES = {
    **dict.fromkeys(("wordnet", "ambiguous", "masked_lm"), needs.WORDNET),
    "translator": needs.APERTIUM,
}
GIRL = "a little girl does gymnastics"
PERSON = "a person is connecting something to system"


def role(name: str) -> Any:
    """Who plays a role offline; skips the test where that needs a package of the system which is not here."""
    try:
        return models.load(name, "offline")
    except BackendError:
        if name not in PACKAGES:
            raise
        needs.skip(PACKAGES[name])


def kernel(key: str, severity: int = 1, variant: str = "released") -> Any:
    """`function(text, rng)` of a perturbation with its parameters and offline roles."""
    entry = suite_registry.get(key)
    function = entry.kernel
    arguments = {**entry.in_variant(variant).parameters(severity), **{name: role(name) for name in entry.roles}}
    return lambda text, rng: function(text, rng, **arguments)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def outcomes(key: str, text: str, seeds: int, severity: int = 1) -> set[str]:
    """Everything a perturbation makes of a caption under many generators."""
    function = kernel(key, severity)
    return {function(text, generator(seed)) for seed in range(seeds)}


def msrvtt(reference: Path) -> list[CaptionRow]:
    with (reference / "data/msrvtt/MSRVTT_JSFUSION_test.csv").open(encoding="utf-8") as file:
        return [
            CaptionRow(dataset="d", caption_id=row["key"], item_id=row["video_id"], text=row["sentence"])
            for row in csv.DictReader(file)
        ]
