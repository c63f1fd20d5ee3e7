"""Similarities of captions to their perturbed forms, each computed once per job.

The severities of a perturbation draw much the same texts, and every perturbation compares with the same originals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from perturbations.models.text_similarity import SentenceEncoder

_DIGITS = 4
"""Similarities are rounded to so many; the rounded value is compared with the threshold and reported."""

# Of what is kept in memory.
_MOST_BYTES = 64 * 2**20
_KEY_BYTES = 16

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
        self._cosines: dict[bytes, float] = {}
        self._originals: dict[bytes, _Vector] = {}
        self._held_bytes = 0

    def of(self, pairs: Sequence[_Pair]) -> list[float]:
        """The rounded cosine of each pair (original, text)."""
        keys = [_key(*pair) for pair in pairs]
        known = {key: self._cosines[key] for key in keys if key in self._cosines}
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known}
        if missing:
            vectors = self._vectors(missing.values())
            for key, (original, text) in missing.items():
                known[key] = round(float(vectors[original] @ vectors[text]), _DIGITS)
                self._keep(self._cosines, key, known[key], 8)
        return [known[key] for key in keys]

    def _vectors(self, pairs: Collection[_Pair]) -> dict[str, _Vector]:
        """The embeddings of all texts of the pairs."""
        originals = {original: _key(original) for original, _ in pairs}
        vectors = {text: self._originals[key] for text, key in originals.items() if key in self._originals}
        unknown = [text for text in dict.fromkeys(text for pair in pairs for text in pair) if text not in vectors]
        vectors.update(zip(unknown, self._encoder.embed(unknown) if unknown else (), strict=True))
        for text, key in originals.items():
            self._keep(self._originals, key, vectors[text], vectors[text].nbytes)
        return vectors

    def _keep(self, table: dict[bytes, _Vector] | dict[bytes, float], key: bytes, value: object, size: int) -> None:
        if key not in table and self._held_bytes + size + _KEY_BYTES <= _MOST_BYTES:
            table[key] = value  # type: ignore[assignment]
            self._held_bytes += size + _KEY_BYTES


def _key(*texts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=_KEY_BYTES)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.digest()
