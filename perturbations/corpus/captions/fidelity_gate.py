"""Similarities of captions to their perturbed forms, each computed once per job.

The severities of a perturbation draw much the same texts, and every perturbation compares with the same originals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perturbations.models.text_similarity import SentenceEncoder

_DIGITS = 4
"""Similarities are rounded to so many; the rounded value is compared with the threshold and reported."""

_MOST = 2**15
"""With so many embeddings or similarities in memory, 64 MB, no others are kept."""

_Vector = NDArray[np.floating]
_Pair = tuple[str, str]


class Similarities:
    """Cosines of pairs of an original and another text, by one encoder.

    Attributes:
        threshold: the encoder's.
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
