"""Perturbs captions: the generator's key, the backends, the fidelity gate, the results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from perturbations import rng
from perturbations.captions import gate
from perturbations.errors import UnknownPerturbationError
from perturbations.models import registry as models
from perturbations.plan.listed import ListedCaption
from perturbations.plan.recipe import Parameters
from perturbations.suites import registry

# How many captions are in memory, and in the gate, at a time.
_CHUNK = 256


@dataclass(frozen=True)
class PerturbedText:
    """One perturbed caption.

    Attributes:
        text: the caption after the perturbation.
        changed: whether it differs from the original.
        similarity: cosine of the two captions' embeddings; None where there is no gate.
        attempts: how often the caption was drawn.
        accepted: whether the gate accepted it; True where there is no gate.
        backend: the models that played the perturbation's roles.
    """

    text: str
    changed: bool
    similarity: float | None
    attempts: int
    accepted: bool
    backend: str


def perturb_captions(
    captions: Iterable[ListedCaption],
    perturbation: str,
    severity: int,
    *,
    seed: int,
    dataset: str,
    variant: str = "released",
    backend: str | None = None,
    parameters: Parameters | None = None,
) -> Iterator[PerturbedText]:
    """Perturb captions; the result of a caption does not depend on the others.

    Args:
        captions: ids and texts.
        perturbation: `suite/name` of a text perturbation.
        severity: 1 up to the highest of the perturbation; 0 leaves captions unchanged.
        seed, dataset: together with a caption's id and the perturbation, the generator's key.
        variant: "released" or "paper".
        backend: "offline" (the default) or "pretrained".
        parameters: the kernel's, in place of the published ones.

    Yields:
        One result per caption, in order.

    Raises:
        UnknownPerturbationError: no such perturbation, severity or variant, or it perturbs no text.
        BackendError: no such backend, or a library, program or file that it needs is missing.
    """
    entry = text_entry(perturbation)
    perturbed = _perturber(entry, severity, variant, backend or "offline", parameters)
    for chunk in _chunks(captions):
        generators = [rng.generator(seed, dataset, caption.caption_id, entry.key) for caption in chunk]
        yield from perturbed([caption.text for caption in chunk], generators)


def text_entry(key: str) -> registry.Perturbation:
    """The declaration of a text perturbation. Raises `UnknownPerturbationError` when `key` names none."""
    entry = registry.get(key)
    if entry.kind != "text":
        raise UnknownPerturbationError(f"{key} perturbs videos, not captions; see `perturb list`")
    return entry


def _chunks(captions: Iterable[ListedCaption]) -> Iterator[list[ListedCaption]]:
    remaining = iter(captions)
    while chunk := list(itertools.islice(remaining, _CHUNK)):
        yield chunk


Perturber = Callable[[Sequence[str], Sequence[np.random.Generator]], list[PerturbedText]]


def _perturber(
    entry: registry.Perturbation, severity: int, variant: str, backend: str, replaced: Parameters | None
) -> Perturber:
    if severity == 0:
        return lambda texts, generators: [PerturbedText(text, False, None, 0, True, "none") for text in texts]
    parameters: Parameters = entry.parameters(severity, variant) if replaced is None else replaced
    kernel = registry.resolve(entry.kernel)
    roles = {role: models.load(role, backend) for role in entry.roles}
    encoder = models.load("similarity", backend) if entry.gated else None
    played_by = models.names([*entry.roles, *(["similarity"] if entry.gated else [])], backend)
    # Where nothing is random, another try gives the same text.
    tries = 1 if entry.draw == "none" and backend == "offline" else gate.TRIES

    def perturbed(texts: Sequence[str], generators: Sequence[np.random.Generator]) -> list[PerturbedText]:
        for player in roles.values():
            if hasattr(player, "prepare"):
                player.prepare(texts)
        draws = [
            partial(kernel, text, generator, **parameters, **roles)
            for text, generator in zip(texts, generators, strict=True)
        ]
        if encoder is None:
            new_texts = [draw() for draw in draws]
            return [
                PerturbedText(new, new != old, None, 1, True, played_by)
                for old, new in zip(texts, new_texts, strict=True)
            ]
        outcomes = gate.first_accepted(texts, draws, encoder, tries)
        return [
            PerturbedText(
                outcome.text, outcome.text != old, outcome.similarity, outcome.attempts, outcome.accepted, played_by
            )
            for old, outcome in zip(texts, outcomes, strict=True)
        ]

    return perturbed
