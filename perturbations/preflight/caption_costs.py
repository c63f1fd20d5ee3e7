"""What perturbed captions take: CPU seconds per job and per caption.

`caption_costs.csv` has a line per perturbation and severity with the offline players, which `benchmarks/costs.py`
measured on captions of MSR-VTT; a severity that was not measured lies between its neighbours. What pretrained players
take was not measured: their order is guessed from the sizes of their models. No NumPy: Snakemake imports this room.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from perturbations.suites import registry


@dataclass(frozen=True)
class Cost:
    """The cost of a job of perturbed captions.

    Attributes:
        start_s: CPU seconds per job: the start of its process, its imports, and what it loads.
        caption_s: CPU seconds per caption.
    """

    start_s: float
    caption_s: float


CORPUS_S = 3.0
"""CPU seconds of a dataset's and suite's manifests and page of perturbed captions."""

_PRETRAINED_S = {"styler": 3.0, "translator": 4.0, "masked_lm": 0.3, "similarity": 0.1}
"""CPU seconds per caption that a pretrained player adds: five sampled answers of a T5, two translations with a beam, a
BERT, and the embeddings of a few draws."""

_WEIGHTS_S = 10.0
"""CPU seconds of loading such a player."""

RANGE = 3.0
"""A guess may be too high or too low by this factor."""


@cache
def table() -> Mapping[str, Mapping[int, Cost]]:
    """The measured costs, by perturbation (`suite/name`) and severity."""
    text = resources.files("perturbations.plan").joinpath("caption_costs.csv").read_text(encoding="utf-8")
    costs: dict[str, dict[int, Cost]] = {}
    for line in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        of_severity = Cost(float(line["start_s"]), float(line["caption_s"]))
        costs.setdefault(line["perturbation"], {})[int(line["severity"])] = of_severity
    return costs


def is_guess(entry: registry.Perturbation, backend: str) -> bool:
    """Whether what a perturbation takes was not measured: with players that need pretrained weights."""
    return backend == "pretrained" and any(role in _PRETRAINED_S for role in entry.players)


def cost(entry: registry.Perturbation, severity: int, backend: str) -> Cost:
    """The cost of a perturbation at a severity, with the players of a backend."""
    offline = _offline(entry, severity)
    if not is_guess(entry, backend):
        return offline
    roles = [role for role in entry.players if role in _PRETRAINED_S]
    seconds = sum(_PRETRAINED_S[role] for role in roles)
    return Cost(offline.start_s + _WEIGHTS_S * len(roles), offline.caption_s + seconds)


def _offline(entry: registry.Perturbation, severity: int) -> Cost:
    measured = table().get(entry.key)
    if not measured:
        return _UNKNOWN
    below = max((other for other in measured if other <= severity), default=min(measured))
    above = min((other for other in measured if other >= severity), default=max(measured))
    share = (severity - below) / (above - below) if above > below else 0.0
    low, high = measured[below], measured[above]
    return Cost(
        low.start_s + share * (high.start_s - low.start_s), low.caption_s + share * (high.caption_s - low.caption_s)
    )


_UNKNOWN = Cost(1.5, 0.005)
"""Of a perturbation that is not in the table: as most of them."""
