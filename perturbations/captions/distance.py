"""How far perturbed captions are from the originals: corpus BLEU-4 and mean METEOR (Schiappa et al., Tab. 6)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from nltk.stem import PorterStemmer
from nltk.translate.bleu_score import corpus_bleu
from nltk.translate.meteor_score import single_meteor_score

from perturbations.errors import BackendError
from perturbations.models import text_roles

Pairs = Sequence[tuple[str, str]]
"""Captions: original, perturbed."""


def bleu4(pairs: Pairs) -> float | None:
    """Corpus BLEU-4 of the perturbed captions, the originals being the references; 0 to 1. None without captions."""
    if not pairs:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about captions that share no run of four words
        return float(corpus_bleu([[old.split()] for old, _ in pairs], [new.split() for _, new in pairs]))


def meteor(pairs: Pairs) -> float | None:
    """Mean METEOR, 0 to 1; None without captions or where WordNet is not installed.

    The paper's is that of the original against the perturbed caption: words that were added cost recall, which METEOR
    weighs nine times as much as precision. The other way round, AddText would come to .94.
    """
    try:
        text_roles.load("wordnet", "offline")
    except BackendError:
        return None
    scores = [_meteor(old.lower(), new.lower()) for old, new in pairs]
    return sum(scores) / len(scores) if scores else None


@cache
def _meteor(old: str, new: str) -> float:
    return float(single_meteor_score(new.split(), old.split(), stemmer=_Stemmer, wordnet=_WordNet))


class _Stemmer:
    stem = staticmethod(cache(PorterStemmer().stem))


class _WordNet:
    """What NLTK's METEOR asks of its own WordNet, whose data cannot be shipped."""

    @staticmethod
    @cache
    def synsets(word: str) -> list[Any]:
        names = [name.replace(" ", "_") for name in text_roles.load("wordnet", "offline")(word, None)]
        return [SimpleNamespace(lemmas=lambda: [SimpleNamespace(name=lambda name=name: name) for name in names])]
