"""How far perturbed captions are from the originals: corpus BLEU-4, mean METEOR and ROUGE-1 (Schiappa et al., Tab. 6).

BLEU-4 takes the originals as references, METEOR the perturbed captions: only so do the paper's figures come out.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from types import SimpleNamespace

from nltk.stem import PorterStemmer
from nltk.translate.bleu_score import corpus_bleu
from nltk.translate.meteor_score import single_meteor_score

from perturbations.base.errors import BackendError
from perturbations.models import role_registry as models

_Pairs = Sequence[tuple[str, str]]
"""Captions: original, perturbed."""


def bleu4(pairs: _Pairs) -> float | None:
    """Corpus BLEU-4 of the perturbed captions with the originals as references; 0 to 1. None without captions."""
    if not pairs:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about captions that share no run of four words
        return float(corpus_bleu([[old.split()] for old, _ in pairs], [new.split() for _, new in pairs]))


def meteor(pairs: _Pairs) -> float | None:
    """Mean METEOR, 0 to 1; None without captions or where WordNet is not installed.

    The perturbed caption is the reference and the original the hypothesis, as in the paper: added words then reduce
    recall, which METEOR weights nine times as much as precision. In the other direction, AddText
    reaches 0.94 (paper: 0.76).
    """
    try:
        models.load("wordnet", "offline")
    except BackendError:
        return None
    scores = [_meteor(old.lower(), new.lower()) for old, new in pairs]
    return sum(scores) / len(scores) if scores else None


def rouge1(pairs: _Pairs) -> float | None:
    """Mean F1 of ROUGE-1, 0 to 1, over lower-case words without stemming; None without captions."""
    scores = [_rouge1(old, new) for old, new in pairs]
    return sum(scores) / len(scores) if scores else None


def _rouge1(old: str, new: str) -> float:
    before, after = (Counter(re.findall(r"\w+", text.lower())) for text in (old, new))
    every = before.total() + after.total()
    return 2 * (before & after).total() / every if every else 1.0


@lru_cache(maxsize=65_536)  # captions that stay as they are, at every severity
def _meteor(old: str, new: str) -> float:
    return float(single_meteor_score(new.split(), old.split(), stemmer=_Stemmer, wordnet=_WordNet))


class _Stemmer:
    stem = staticmethod(cache(PorterStemmer().stem))


class _WordNet:
    """The part of NLTK's WordNet that METEOR uses. The data of NLTK's own WordNet cannot be shipped."""

    @staticmethod
    @cache
    def synsets(word: str) -> list[SimpleNamespace]:
        names = [name.replace(" ", "_") for name in models.load("wordnet", "offline")(word, None)]
        return [SimpleNamespace(lemmas=lambda: [SimpleNamespace(name=lambda name=name: name) for name in names])]
