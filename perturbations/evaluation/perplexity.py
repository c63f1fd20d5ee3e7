"""How improbable captions are to a causal language model (Schiappa et al., App. A.3, whose model is GPT-3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from perturbations.manifest.kinds import TextRow

OUTLIER = 500.0
"""The perplexity above which the paper leaves a caption out of its second mean."""

ORIGINAL = "original"


class PerplexityRow(NamedTuple):
    """The perplexity of the captions under a perturbation at a severity; of the originals too.

    Attributes:
        perturbation, severity: `ORIGINAL` and 0 for the captions as they were.
        captions: those that have a perplexity.
        mean: over them.
        above: the share above `OUTLIER`.
        mean_below: without those above; None where all are.
    """

    perturbation: str
    severity: int
    captions: int
    mean: float
    above: float
    mean_below: float | None


def of_rows(rows: Iterable[TextRow], perplexity: Callable[[str], float | None]) -> Iterator[PerplexityRow]:
    """The perplexities of a manifest of perturbed captions; each different text is measured once."""
    texts: dict[tuple[str, int], list[str]] = defaultdict(list)
    originals: dict[str, str] = {}
    for row in rows:
        originals[row.caption_id] = row.source_text
        texts[row.perturbation, row.severity].append(row.text)
    known = cache(perplexity)
    for (name, severity), own in {(ORIGINAL, 0): [*originals.values()], **texts}.items():
        values = [value for text in own if (value := known(text)) is not None]
        below = [value for value in values if value <= OUTLIER]
        if values:
            mean_below = sum(below) / len(below) if below else None
            mean, above = sum(values) / len(values), 1 - len(below) / len(values)
            yield PerplexityRow(name, severity, len(values), mean, above, mean_below)
