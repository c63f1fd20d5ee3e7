"""Forms of words, by LemmInflect's tables and rules."""

from __future__ import annotations

from functools import cache
from typing import Any

from perturbations.models.role_registry import BACKENDS, Canary, Model, libraries

_UPOS = {"VB": "VERB", "NN": "NOUN", "JJ": "ADJ", "RB": "ADV"}


# LemmInflect's first form of these is rare: "blent", "lighted".
_COMMON_PAST = {"blend": "blended", "light": "lit"}


class _Inflector:
    """Lemmas and inflections of words with Penn tags."""

    def __init__(self, library: Any) -> None:
        self._library = library  # LemmInflect has no types
        self.lemma = cache(self._lemma)
        self.inflect = cache(self._inflect)
        self.is_verb = cache(self._is_verb)

    def _lemma(self, word: str, tag: str) -> str:
        lemmas = self._library.getLemma(word, upos=_UPOS.get(tag[:2], "NOUN"))
        return str(lemmas[0]) if lemmas else word

    def _inflect(self, lemma: str, tag: str) -> str:
        if tag in ("VBD", "VBN") and lemma in _COMMON_PAST:
            return _COMMON_PAST[lemma]
        forms = self._library.getInflection(lemma, tag=tag)
        return str(forms[0]) if forms else lemma

    def _is_verb(self, word: str) -> bool:
        return bool(self._library.getAllLemmas(word, upos="VERB"))


def lemminflect() -> _Inflector:
    """LemmInflect 0.2."""
    import lemminflect as library

    return _Inflector(library)


MODELS = (
    Model(
        role="inflector",
        backends=BACKENDS,
        name="lemminflect",
        weights="bundled with LemmInflect",
        licence="MIT",
        load=lemminflect,
        needs=(libraries("lemminflect"),),
        canary=Canary(
            sentence="sings",
            answer=lambda inflector, word: (inflector.lemma(word, "VBZ"), inflector.inflect("sing", "VBD")),
            holds=lambda answer, word: answer == ("sing", "sang"),
            expected="its lemma and its past: sing, sang",
        ),
    ),
)
