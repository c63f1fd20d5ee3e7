"""Forms of words, by LemmInflect's tables and rules."""

from __future__ import annotations

from functools import cache
from typing import Any

_UPOS = {"VB": "VERB", "NN": "NOUN", "JJ": "ADJ", "RB": "ADV"}


class Inflector:
    """Lemmas and inflections of words with Penn tags."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.lemma = cache(self._lemma)
        self.inflect = cache(self._inflect)

    def _lemma(self, word: str, tag: str) -> str:
        found = self._library.getLemma(word, upos=_UPOS.get(tag[:2], "NOUN"))
        return str(found[0]) if found else word

    def _inflect(self, lemma: str, tag: str) -> str:
        found = self._library.getInflection(lemma, tag=tag)
        return str(found[0]) if found else lemma


def lemminflect() -> Inflector:
    """LemmInflect 0.2."""
    import lemminflect as library

    return Inflector(library)
