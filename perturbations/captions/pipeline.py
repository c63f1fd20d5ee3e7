"""Captions through one perturbation: the generator's key, the backends, the fidelity gate, the rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from perturbations import rng
from perturbations.captions import gate
from perturbations.errors import UnknownPerturbationError
from perturbations.models import text_roles
from perturbations.plan.listed import ListedCaption
from perturbations.suites import registry

# Captions that are in memory, and in the gate, at a time.
_CHUNK = 256


@dataclass(frozen=True)
class PerturbedText:
    """One perturbed caption.

    Attributes:
        text: the caption after the perturbation.
        changed: whether it differs from the original.
        similarity: cosine of the two captions' embeddings; None where no gate asked for it.
        attempts: how often it was drawn.
        accepted: whether the gate let it pass; True where there is none.
        backend: who played the perturbation's roles.
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
    parameters: Mapping[str, Any] | None = None,
) -> Iterator[PerturbedText]:
    """Put captions through one perturbation; a caption's result does not depend on the others.

    Args:
        captions: ids and texts.
        perturbation: `suite/name` of a text perturbation.
        severity: 1 up to what the perturbation has; 0 leaves captions as they are.
        seed, dataset: with a caption's id and the perturbation, the generator's key.
        variant: "released" or "paper".
        backend: "offline" (the default) or "pretrained".
        parameters: the kernel's, in place of the published ones.

    Yields:
        One result per caption, in order.

    Raises:
        UnknownPerturbationError: no such perturbation, severity or variant, or it perturbs no text.
        BackendError: no such backend, or something it needs is missing.
    """
    entry = text_entry(perturbation)
    perturbed = _perturber(entry, severity, variant, backend or "offline", parameters)
    for chunk in _chunks(captions):
        generators = [rng.generator(seed, dataset, caption.caption_id, entry.key) for caption in chunk]
        yield from perturbed([caption.text for caption in chunk], generators)


def text_entry(key: str) -> registry.Perturbation:
    """The declaration of a text perturbation; raises `UnknownPerturbationError` when `key` is none."""
    entry = registry.get(key)
    if entry.kind != "text":
        raise UnknownPerturbationError(f"{key} perturbs videos, not captions; see `perturb list`")
    return entry


def _chunks(captions: Iterable[ListedCaption]) -> Iterator[list[ListedCaption]]:
    remaining = iter(captions)
    while chunk := list(itertools.islice(remaining, _CHUNK)):
        yield chunk


Perturber = Callable[[Sequence[str], Sequence[Any]], list[PerturbedText]]


def _perturber(
    entry: registry.Perturbation, severity: int, variant: str, backend: str, replaced: Mapping[str, Any] | None
) -> Perturber:
    if severity == 0:
        return lambda texts, generators: [PerturbedText(text, False, None, 0, True, "none") for text in texts]
    parameters = entry.parameters(severity, variant) if replaced is None else replaced
    kernel = registry.resolve(entry.kernel)
    roles = {role: text_roles.load(role, backend) for role in entry.roles}
    encoder = text_roles.load("similarity", backend) if entry.gated else None
    played_by = text_roles.names([*entry.roles, *(["similarity"] if entry.gated else [])], backend)
    # Where nothing is random, trying again gives the same text.
    tries = 1 if entry.draw == "none" and backend == "offline" else gate.TRIES

    def perturbed(texts: Sequence[str], generators: Sequence[Any]) -> list[PerturbedText]:
        for player in roles.values():
            if hasattr(player, "prepare"):
                player.prepare(texts)
        draws = [
            partial(kernel, text, generator, **parameters, **roles)
            for text, generator in zip(texts, generators, strict=True)
        ]
        if encoder is None:
            new_texts = [one() for one in draws]
            return [
                PerturbedText(new, new != old, None, 1, True, played_by)
                for old, new in zip(texts, new_texts, strict=True)
            ]
        outcomes = gate.first_accepted(texts, draws, encoder, tries)
        return [
            PerturbedText(one.text, one.text != old, one.similarity, one.attempts, one.accepted, played_by)
            for old, one in zip(texts, outcomes, strict=True)
        ]

    return perturbed
