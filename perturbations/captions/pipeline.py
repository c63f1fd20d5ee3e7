"""Perturbs captions: the generator's key, the backends, the fidelity gate, the results."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from perturbations.base import rng
from perturbations.base.errors import UnknownPerturbationError
from perturbations.captions import gate
from perturbations.captions.similarities import Similarities
from perturbations.models import registry as models
from perturbations.plan.listed import ListedCaption
from perturbations.plan.recipe import RecipeParameters
from perturbations.suites import registry
from perturbations.text.fluency import fluency_change
from perturbations.text.tokens import differs

# How many captions are in memory, and in the gate, at a time.
_CHUNK = 1024


@dataclass(frozen=True)
class PerturbedText:
    """One perturbed caption.

    Attributes:
        text: the caption after the perturbation.
        changed: whether it differs from the original.
        effective_change: whether it still does after lower-casing and stripping punctuation.
        similarity: cosine of the two captions' embeddings; None where it is not measured.
        fluency_change: mean log10 probability per word by a bigram model, less the original's; None without words.
        attempts: how often the caption was drawn.
        accepted: whether the gate accepted it; True where there is no gate.
        backend: the models of the perturbation's roles.
    """

    text: str
    changed: bool
    effective_change: bool
    similarity: float | None
    fluency_change: float | None
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
    variant: str | None = None,
    backend: str | None = None,
    parameters: RecipeParameters | None = None,
    known_similarities: Path | None = None,
) -> Iterator[PerturbedText]:
    """Perturb captions; the result of a caption does not depend on the others.

    Args:
        captions: ids and texts.
        perturbation: `suite/name` of a text perturbation.
        severity: 1 up to the highest of the perturbation; 0 leaves captions unchanged.
        seed, dataset: together with a caption's id and the perturbation, the generator's key.
        variant: which of the suite's variants; None: its first.
        backend: "offline" (the default) or "pretrained".
        parameters: the kernel's, in place of the published ones.
        known_similarities: a folder in which jobs on the same captions leave similarities to each other. It may be
            empty or missing, and changes no result.

    Yields:
        One result per caption, in order.

    Raises:
        UnknownPerturbationError: no such perturbation, severity or variant, or it perturbs no text.
        BackendError: no such backend, or a library, program or file that it needs is missing.
    """
    entry = text_entry(perturbation, variant)
    if severity == 0:
        untouched = gate.GateOutcome("", None, 0, True)
        yield from (_result(caption.text, caption.text, untouched, "none") for caption in captions)
        return
    backend = backend or "offline"
    encoder = models.load("similarity", backend) if "similarity" in entry.used_roles else None
    similarities = Similarities(encoder, known_similarities) if encoder else None
    values: RecipeParameters = entry.parameters(severity) if parameters is None else parameters
    kernel = registry.resolve(entry.kernel)
    roles = {role: models.load(role, backend) for role in entry.roles}
    made_by = models.names(entry.makers, backend)
    # Where nothing is random, another try gives the same text.
    tries = 1 if not entry.gated or (entry.draw == "none" and backend == "offline") else gate.TRIES
    remaining = iter(captions)
    while chunk := list(itertools.islice(remaining, _CHUNK)):
        texts = [caption.text for caption in chunk]
        for model in roles.values():
            if hasattr(model, "prepare"):
                model.prepare(texts)
        generators = [rng.generator(seed, dataset, caption.caption_id, entry.key) for caption in chunk]
        draws = [
            partial(kernel, text, generator, **values, **roles)
            for text, generator in zip(texts, generators, strict=True)
        ]
        if similarities is None:
            outcomes = [gate.GateOutcome(draw(), None, 1, True) for draw in draws]
        else:
            outcomes = gate.first_accepted(texts, draws, similarities, tries)
        if not entry.gated:
            outcomes = [replace(outcome, accepted=True) for outcome in outcomes]
        for old, outcome in zip(texts, outcomes, strict=True):
            yield _result(old, outcome.text, outcome, made_by)
    if similarities is not None:
        similarities.save()


def text_entry(key: str, variant: str | None = None) -> registry.Perturbation:
    """The declaration of a text perturbation, as a variant makes it.

    Raises `UnknownPerturbationError` when `key` names none.
    """
    entry = registry.get(key, variant)
    if entry.kind != "text":
        raise UnknownPerturbationError(f"{key} perturbs videos, not captions; see `perturb list`")
    return entry


def _result(old: str, new: str, outcome: gate.GateOutcome, made_by: str) -> PerturbedText:
    return PerturbedText(
        text=new,
        changed=new != old,
        effective_change=differs(old, new),
        similarity=outcome.similarity,
        fluency_change=fluency_change(old, new),
        attempts=outcome.attempts,
        accepted=outcome.accepted,
        backend=made_by,
    )
