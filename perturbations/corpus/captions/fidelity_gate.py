"""The fidelity gate of captions: draw a caption again until its embedding is similar enough to the original's.

A similarity is computed once per job, because the severities of a perturbation draw much the same texts, and every
perturbation compares with the same originals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from perturbations.models.text_similarity import SentenceEncoder

TRIES = 100
"""The most draws of the fidelity gate per caption."""

GateOutcome = tuple[str, float | None, int, bool]
"""The accepted text, or the last try when none was; its similarity, None without a gate; the attempts; accepted?"""

_DIGITS = 4
"""Similarities are rounded to so many digits; the rounded value is compared with the threshold and reported."""

_MOST = 2**15
"""The most embeddings, and the most similarities, that are kept in memory: 64 MB."""

_Vector = NDArray[np.floating]
_Pair = tuple[str, str]


class Similarities:
    """Cosines of pairs of an original and another text, by one encoder.

    Attributes:
        threshold: the encoder's threshold.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.threshold = encoder.threshold
        self._encoder = encoder
        self._cosines: dict[_Pair, float] = {}
        self._originals: dict[str, _Vector] = {}

    def of(self, pairs: Sequence[_Pair]) -> list[float]:
        """The rounded cosine of each pair (original, text)."""
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._cosines]
        vectors = {old: self._originals[old] for old, _ in missing if old in self._originals}
        unknown = [text for text in dict.fromkeys(text for pair in missing for text in pair) if text not in vectors]
        vectors.update(zip(unknown, self._encoder.embed(unknown) if unknown else (), strict=True))
        new = {(old, text): round(float(vectors[old] @ vectors[text]), _DIGITS) for old, text in missing}
        cosines = [new[pair] if pair in new else self._cosines[pair] for pair in pairs]
        if len(self._cosines) < _MOST:
            self._cosines |= new
        if len(self._originals) < _MOST:
            self._originals |= {old: vectors[old] for old, _ in missing}
        return cosines


def first_accepted(
    originals: Sequence[str], draws: Sequence[Callable[[], str]], similarities: Similarities, tries: int
) -> list[GateOutcome]:
    """The fidelity gate: for each caption, the first of at most `tries` drawn texts that is similar enough to it.

    It draws again until the caption keeps its topic (Qiu et al., App. 5.3). Embeddings say what a sentence is about and
    hardly what it claims: a negation passes more often than not (docs/measurements/captions.md).
    Each round judges together the captions that still wait. A caption's outcome does not depend on the others, as long
    as its embedding does not.

    Args:
        originals: the clean captions.
        draws: for each caption, a function that draws the next perturbed text.
        similarities: the judge, and its threshold.
        tries: the largest number of draws per caption.
    """
    judged: list[dict[str, float]] = [{text: 1.0} for text in originals]
    outcomes: dict[int, GateOutcome] = {}
    waiting = list(range(len(originals)))
    for attempt in range(1, tries + 1):
        drawn = {at: draws[at]() for at in waiting}
        new = [at for at in waiting if drawn[at] not in judged[at]]
        for at, similarity in zip(new, similarities.of([(originals[at], drawn[at]) for at in new]), strict=True):
            judged[at][drawn[at]] = similarity
        for at in waiting:
            similarity = judged[at][drawn[at]]
            outcomes[at] = drawn[at], similarity, attempt, similarity >= similarities.threshold
        waiting = [at for at in waiting if not outcomes[at][-1]]
        if not waiting:
            break
    return [outcomes[at] for at in range(len(originals))]
