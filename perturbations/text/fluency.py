"""How fluent a caption is: by a small class-based bigram model, not by a neural language model.

A word's probability is that of its class after the class of the word before, times that of the word in its class. The
most frequent words are classes of their own; others share one by their ending. The counts are those of the glosses and
examples of WordNet 3.0 (`docs/fluency_table.py`). It notices unknown words and function words in odd places; it
knows nothing of sense.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import log10

from perturbations.text import tables
from perturbations.text.tokens import core

EDGE = "</s>"
_UNKNOWN = "<unknown>"
_ENDINGS = ("ing", "ed", "ly", "er", "est", "ion", "ness", "ies", "es", "s", "al", "ous", "ive")
# Shares of a class's probability after another: that from pairs, and that from the class alone.
_PAIRS, _SINGLE = 0.9, 0.1
# As rare as a word that occurs once among the model's 1.3 million.
_UNKNOWN_LOG10 = -6.0


@dataclass(frozen=True)
class CountModel:
    """Counts of words, of classes, and of pairs of classes."""

    words: Mapping[str, int]
    frequent: frozenset[str]
    classes: Mapping[str, int]
    pairs: Mapping[tuple[str, str], int]
    first: Mapping[str, int]

    def class_of(self, word: str) -> str:
        """The word itself where it is frequent, its ending, or unknown."""
        if word in self.frequent or word == EDGE:
            return word
        if word not in self.words:
            return _UNKNOWN
        return next((f"-{ending}" for ending in _ENDINGS if word.endswith(ending)), "-")


@lru_cache(maxsize=8192)
def fluency(text: str) -> float | None:
    """Mean decimal logarithm of the probability of a caption's words, below 0; None for a text without words.

    About -2.5 for captions; a word that the model does not know costs about 4 divided by the number of words.
    """
    words = [word for word in map(core, text.split()) if word]
    if not words:
        return None
    model = _model()
    total = sum(map(sum, _log10s(model, words)))
    return round(total / (len(words) + 1), 4)


def fluency_change(original: str, text: str) -> float | None:
    """The fluency of a text, minus that of its original; None where either has no words."""
    after, before = fluency(text), fluency(original)
    return None if after is None or before is None else round(after - before, 4)


def known(word: str) -> bool:
    """Whether the model's table has the word: misspelt words and most names are not in it."""
    return word in _model().words


def _log10s(model: CountModel, words: list[str]) -> Iterator[tuple[float, float]]:
    every = sum(model.classes.values())
    for before, word in pairwise([EDGE, *words, EDGE]):
        last, kind = model.class_of(before), model.class_of(word)
        after = model.first.get(last, 0)
        paired = model.pairs.get((last, kind), 0) / after if after else 0.0
        single = (model.classes.get(kind, 0) + 1) / every
        if kind == _UNKNOWN:
            in_class = _UNKNOWN_LOG10 - log10(single)
        else:
            in_class = 0.0 if kind in (word, EDGE) else log10(model.words[word] / model.classes[kind])
        yield log10(_PAIRS * paired + _SINGLE * single), in_class


@cache
def _model() -> CountModel:
    words = {word: int(count) for word, count in (line.split() for line in tables.lines("fluency_words"))}
    pairs: dict[tuple[str, str], int] = {}
    classes: Counter[str] = Counter()
    first: Counter[str] = Counter()
    for line in tables.lines("fluency_pairs"):
        last, *nexts = line.split()
        for kind, count in _counted(nexts):
            pairs[last, kind] = count
            classes[kind] += count
            first[last] += count
    frequent = frozenset(kind for kind in classes if not kind.startswith(("-", "<")))
    return CountModel(words, frequent, classes, pairs, first)


def _counted(fields: list[str]) -> Iterator[tuple[str, int]]:
    """Word and count of each two fields."""
    return zip(fields[::2], map(int, fields[1::2]), strict=True)
