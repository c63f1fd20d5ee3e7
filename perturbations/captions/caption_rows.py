"""Perturbed captions as a corpus: the rows of a shard under one perturbation, and statistics of all rows."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from perturbations.base.records import canonical, digest
from perturbations.captions.pipeline import perturb_captions
from perturbations.captions.similarities import Similarities
from perturbations.manifest.kinds import TextRow, TextStatisticsRow
from perturbations.plan.caption_recipes import text_id
from perturbations.plan.listed import ListedCaption
from perturbations.plan.recipe import TextRecipe
from perturbations.suites import registry

_EXAMPLES = 10
_OF_FIRST = ("dataset", "suite", "perturbation", "severity", "level", "variant", "backend")
"""Columns that the captions of a scenario share."""


def run(
    recipe: TextRecipe, dataset: str, captions: Sequence[ListedCaption], judge: Similarities | None = None
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
    for caption, result in zip(captions, results, strict=True):
        columns = {"dataset": dataset, "caption_id": caption.caption_id, "item_id": caption.item_id, **vars(result)}
        yield TextRow(**columns, **of_recipe(recipe, dataset, caption))


def of_recipe(recipe: TextRecipe, dataset: str, caption: ListedCaption) -> dict[str, Any]:
    """The columns that follow from a recipe and the caption that it perturbs."""
    return {
        "suite": recipe.suite,
        "perturbation": recipe.perturbation,
        "severity": recipe.severity,
        "level": registry.get(recipe.key).category,
        "variant": recipe.variant,
        "params": canonical(recipe.params),
        "seed": recipe.seed,
        "language": recipe.language,
        "source_text": caption.text,
        "recipe": recipe.text,
        "recipe_id": text_id(recipe, dataset, caption),
    }


def statistics(rows: Iterable[TextRow]) -> Iterator[TextStatisticsRow]:
    """One row per perturbation and severity: how many captions changed, the gate's statistics, and the distances.

    The rows of a scenario follow each other. BLEU-4 takes the originals as references, METEOR the perturbed captions:
    so Schiappa et al. computed their Tab. 6.
    """
    return (tallied(members).summary().statistics for members in by_scenario(rows))


def by_scenario(rows: Iterable[TextRow]) -> Iterator[Iterator[TextRow]]:
    """The rows of each scenario; they follow each other, and are read before those of the next one."""
    return (members for _, members in groupby(rows, lambda row: (row.perturbation, row.severity)))


@dataclass(frozen=True)
class CaptionSummary:
    """What is said of the captions under one perturbation at one severity.

    Attributes:
        first: the first row.
        statistics: of all rows.
        examples: up to ten changed ones, in the order of a hash of their ids.
    """

    first: TextRow
    statistics: TextStatisticsRow
    examples: Sequence[TextRow]


class CaptionTally:
    """The captions under one perturbation at one severity, counted: rows themselves are not held."""

    def __init__(self) -> None:
        self._first: TextRow | None = None
        self._counts = dict.fromkeys(("changed", "effectively_changed", "accepted"), 0)
        self._pairs: list[tuple[str, str]] = []
        self._values: dict[str, list[float]] = {"similarity": [], "fluency_change": [], "attempts": []}
        self._examples: list[tuple[str, TextRow]] = []

    def add(self, row: TextRow) -> None:
        """Count a row."""
        self._first = self._first or row
        self._counts["changed"] += row.changed
        self._counts["effectively_changed"] += row.effective_change
        self._counts["accepted"] += row.accepted
        self._pairs.append((row.source_text, row.text))
        for name, values in self._values.items():
            if (value := getattr(row, name)) is not None:
                values.append(value)
        if row.changed:
            insort(self._examples, (digest(row.caption_id), row), key=itemgetter(0))
            del self._examples[_EXAMPLES:]

    def summary(self) -> CaptionSummary:
        """The summary of the rows. Raises `ValueError` without any."""
        from perturbations.captions import distance  # NLTK takes a second to import

        if self._first is None:
            raise ValueError("a scenario without captions has no statistics")
        similarities, attempts = self._values["similarity"], self._values["attempts"]
        row = TextStatisticsRow(
            **{name: getattr(self._first, name) for name in _OF_FIRST},
            changed=self._counts["changed"],
            effectively_changed=self._counts["effectively_changed"],
            accepted=self._counts["accepted"],
            captions=len(self._pairs),
            similarity_mean=_mean(similarities),
            similarity_min=min(similarities, default=None),
            fluency_change_mean=_mean(self._values["fluency_change"]),
            attempts_mean=_mean(attempts),
            attempts_max=int(max(attempts)),
            bleu4=distance.bleu4(self._pairs),
            meteor=distance.meteor(self._pairs),
            rouge1=distance.rouge1(self._pairs),
        )
        return CaptionSummary(self._first, row, [example for _, example in self._examples])


def tallied(rows: Iterable[TextRow]) -> CaptionTally:
    """The tally of the rows of one scenario."""
    tally = CaptionTally()
    for row in rows:
        tally.add(row)
    return tally


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
