"""Perturbed captions as a corpus: the rows of a shard under one perturbation, and statistics of all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from perturbations.base.records import canonical
from perturbations.corpus.captions.pipeline import perturb_captions
from perturbations.corpus.captions.similarities import Similarities
from perturbations.corpus.plan.caption_recipes import text_id
from perturbations.corpus.plan.recipe import TextRecipe
from perturbations.manifest.rows import CaptionRow, TextRow, TextStatisticsRow
from perturbations.suites import suite_registry

_SHARED = ("dataset", "suite", "perturbation", "severity", "level", "variant", "backend")
"""Columns that the captions of a scenario share."""


def run(
    recipe: TextRecipe, dataset: str, captions: Sequence[CaptionRow], judge: Similarities | None = None
) -> Iterator[TextRow]:
    """Yield the row of every caption; `judge` is as in `perturb_captions`.

    Raises `BackendError` when a library, program or file that the backend needs is missing.
    """
    results = perturb_captions(
        captions,
        recipe.key,
        recipe.severity,
        seed=recipe.seed,
        dataset=dataset,
        variant=recipe.variant,
        backend=recipe.backend,
        parameters=recipe.params,
        judge=judge,
    )
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
