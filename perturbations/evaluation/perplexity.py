"""How improbable captions are to a causal language model (Schiappa et al., App. A.3, whose model is GPT-3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from perturbations.manifest.kinds import TextRow

OUTLIER = 500.0
"""The perplexity above which the paper leaves a caption out of its second mean."""

ORIGINAL = "original"

_Row = tuple[str, int, int, float, float, float | None]


COLUMNS = ("perturbation", "severity", "captions", "mean", "above", "mean_below")
"""What `of_rows` gives: the perturbation and severity (`ORIGINAL` and 0 of the captions as they were), how many
captions have a perplexity, its mean, the share above `OUTLIER`, and the mean without those, None where all are."""


def of_rows(rows: Iterable[TextRow], perplexity: Callable[[str], float | None]) -> Iterator[_Row]:
    """The perplexities, as `COLUMNS`, of a manifest of perturbed captions; each different text is measured once."""
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
            yield name, severity, len(values), mean, above, mean_below
