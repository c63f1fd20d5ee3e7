"""Perturbed captions: the generator's key, the backends, the fidelity gate; their rows, and statistics of these."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from perturbations.base import rng
from perturbations.base.records import canonical
from perturbations.corpus.captions.fidelity_gate import TRIES, GateOutcome, Similarities, first_accepted
from perturbations.corpus.plan.caption_recipes import text_id
from perturbations.corpus.plan.recipe import TextRecipe
from perturbations.manifest.rows import CaptionRow, TextRow, TextStatisticsRow
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry
from perturbations.text import languages
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
        unchanged: why it is the original; None where it is changed.
        similarity: cosine of the two captions' embeddings; None where it is not measured.
        fluency_change: mean log10 probability per word by a bigram model, minus the original's; None without words.
        attempts: how often the caption was drawn.
        accepted: whether the gate accepted it; True where there is no gate.
        backend: the models of the perturbation's roles.
    """

    text: str
    changed: bool
    effective_change: bool
    unchanged: str | None
    similarity: float | None
    fluency_change: float | None
    attempts: int
    accepted: bool
    backend: str


def perturb_captions(
    recipe: TextRecipe, dataset: str, captions: Iterable[CaptionRow], judge: Similarities | None = None
) -> Iterator[PerturbedText]:
    """Perturb captions by a recipe, one result per caption, in order; none depends on the other captions.

    `dataset`, a caption's id and the recipe's seed and perturbation are the generator's key. `judge` has the
    similarities of the backend's encoder, and remembers what it computed for calls on the same captions; without it, a
    new one is made. It changes no result. Raises `BackendError` when a library, program or file that the backend needs
    is missing.
    """
    entry, backend = suite_registry.get(recipe.key, recipe.variant), recipe.backend
    similarities = None
    if "similarity" in entry.used_roles:
        similarities = judge or Similarities(models.load("similarity", backend))
    roles = {role: models.load(role, backend) for role in entry.roles}
    made_by = models.names(entry.makers, backend)
    # Where nothing is random, another try gives the same text.
    tries = 1 if not entry.gated or (entry.draw == "none" and backend == "offline") else TRIES
    remaining = iter(captions)
    while chunk := list(itertools.islice(remaining, _CHUNK)):
        texts = [caption.text for caption in chunk]
        for model in roles.values():
            if hasattr(model, "prepare"):
                model.prepare(texts)
        generators = [rng.generator(recipe.seed, dataset, caption.caption_id, entry.key) for caption in chunk]
        draws = [
            partial(entry.kernel, text, generator, **recipe.params, **roles)
            if languages.is_written_for(entry.languages, text)
            else partial(str, text)
            for text, generator in zip(texts, generators, strict=True)
        ]
        if similarities is None:
            outcomes: list[GateOutcome] = [(draw(), None, 1, True) for draw in draws]
        else:
            outcomes = first_accepted(texts, draws, similarities, tries)
        for old, (new, similarity, attempts, accepted) in zip(texts, outcomes, strict=True):
            outcome = new, similarity, attempts, accepted or not entry.gated
            yield _result(old, outcome, made_by, reason_of_no_change(entry, old, new))


def reason_of_no_change(entry: suite_registry.Perturbation, old: str, new: str) -> str | None:
    """Why a perturbation left a caption as it is; None where it changed the text."""
    if new != old:
        return None
    if not languages.is_written_for(entry.languages, old):
        return f"it is made for {entry.languages}"
    if "translator" in entry.roles:
        return "the round trip gave the caption back: it is no back-translation"
    return f"{entry.name} found nothing to change"


def unchanged_text(text: str, reason: str) -> PerturbedText:
    """A caption that nothing perturbed, and why."""
    return _result(text, (text, None, 0, True), "none", reason)


def _result(old: str, outcome: GateOutcome, made_by: str, reason: str | None) -> PerturbedText:
    new, similarity, attempts, accepted = outcome
    return PerturbedText(
        text=new,
        changed=new != old,
        effective_change=differs(old, new),
        unchanged=reason,
        similarity=similarity,
        fluency_change=fluency_change(old, new),
        attempts=attempts,
        accepted=accepted,
        backend=made_by,
    )


# --- rows of captions -------------------------------------------------------------------------------------------------

_SHARED = ("dataset", "suite", "perturbation", "severity", "level", "variant", "backend")
"""Columns that the captions of a scenario share."""


def rows_of(
    recipe: TextRecipe, dataset: str, captions: Sequence[CaptionRow], judge: Similarities | None = None
) -> Iterator[TextRow]:
    """Yield the row of every caption, which `perturb_captions` perturbs. Raises `BackendError` as it does."""
    results = perturb_captions(recipe, dataset, captions, judge)
    names = ("suite", "perturbation", "severity", "variant", "seed", "language")
    of_recipe: dict[str, Any] = {name: getattr(recipe, name) for name in names}
    of_recipe |= {
        "level": suite_registry.get(recipe.key).category,
        "params": canonical(recipe.params),
        "recipe": recipe.text,
    }
    for caption, result in zip(captions, results, strict=True):
        yield TextRow(
            dataset=dataset,
            caption_id=caption.caption_id,
            item_id=caption.item_id,
            source_text=caption.text,
            recipe_id=text_id(recipe, dataset, caption),
            **of_recipe,
            **vars(result),
        )


def statistics(rows: Sequence[TextRow]) -> TextStatisticsRow:
    """How many captions of one scenario changed, the gate's statistics, and the distances. There is at least one row.

    BLEU-4 takes the originals as references, METEOR the perturbed captions: so Schiappa et al. computed their Tab. 6.
    """
    from perturbations.corpus.captions import distances  # NLTK takes a second to import

    pairs = [(row.source_text, row.text) for row in rows]
    similarities = [row.similarity for row in rows if row.similarity is not None]
    return TextStatisticsRow(
        **{name: getattr(rows[0], name) for name in _SHARED},
        changed=sum(row.changed for row in rows),
        effectively_changed=sum(row.effective_change for row in rows),
        accepted=sum(row.accepted for row in rows),
        captions=len(rows),
        similarity_mean=_mean(similarities),
        similarity_min=min(similarities, default=None),
        fluency_change_mean=_mean([row.fluency_change for row in rows if row.fluency_change is not None]),
        attempts_mean=_mean([row.attempts for row in rows]),
        attempts_max=max(row.attempts for row in rows),
        bleu4=distances.bleu4(pairs),
        meteor=distances.meteor(pairs),
        rouge1=distances.rouge1(pairs),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
