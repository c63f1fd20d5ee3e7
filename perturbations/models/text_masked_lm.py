"""Models that fill a gap in a caption."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from itertools import pairwise

from perturbations.models.registry import Model
from perturbations.text.tokens import core

Fill = Callable[[list[str], int, str], list[str]]

_CANDIDATES = 10
_EDGE = "</s>"


def ngram_fill() -> Fill:
    """Words between the same neighbours in WordNet's glosses. This counts n-grams; it is no masked language model.

    A candidate's score is the smaller of two counts: after the left neighbour and before the right one. It must occur
    on both sides, and have the part of speech of the word in the gap.
    """
    from perturbations.models.registry import load
    from perturbations.models.text_wordnet import open_wordnet

    tagger = load("tagger", "offline")
    after: dict[str, Counter[str]] = defaultdict(Counter)
    before: dict[str, Counter[str]] = defaultdict(Counter)
    for gloss in open_wordnet().glosses():
        for sentence in re.split(r"[;:()\"]", gloss.lower()):
            words = [_EDGE, *re.findall(r"[a-z]+", sentence), _EDGE]
            for left, right in pairwise(words):
                after[left][right] += 1
                before[right][left] += 1

    def fill(words: list[str], at: int, tag: str) -> list[str]:
        left = core(words[at - 1]) if at else _EDGE
        right = core(words[at + 1]) if at + 1 < len(words) else _EDGE
        following, preceding = after.get(left, Counter()), before.get(right, Counter())
        shared = following.keys() & preceding.keys() - {core(words[at]), _EDGE}
        ranked = sorted(shared, key=lambda word: (-min(following[word], preceding[word]), word))
        fitting = (word for word in ranked[: 4 * _CANDIDATES] if len(word) > 2)
        candidates = []
        for word in fitting:
            if tagger([*words[:at], word, *words[at + 1 :]])[at] == tag:
                candidates.append(word)
            if len(candidates) == _CANDIDATES:
                break
        return candidates

    return fill


def bert(name: str = "bert-base-uncased") -> Fill:
    """The most probable words of the same part of speech by BERT (Schiappa et al., App. A.2, after TextFlint)."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    from perturbations.models.registry import load
    from perturbations.system.hub import pretrained

    tokenizer = pretrained(AutoTokenizer, name)
    model = pretrained(AutoModelForMaskedLM, name).eval()
    tagger = load("tagger", "offline")

    @cache
    def words_by_tag() -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for word, number in sorted(tokenizer.get_vocab().items()):
            if word.isalpha() and len(word) > 1:
                table.setdefault(tagger([word])[0][:2], []).append(number)
        return table

    def fill(words: list[str], at: int, tag: str) -> list[str]:
        allowed = words_by_tag().get(tag[:2], [])
        if not allowed:
            return []
        # The gap with as many words around it as the model can read.
        near = [*words[max(0, at - 60) : at], tokenizer.mask_token, *words[at + 1 : at + 61]]
        tokens = tokenizer(" ".join(near), return_tensors="pt", truncation=True)
        places = (tokens["input_ids"][0] == tokenizer.mask_token_id).nonzero()
        if not len(places):
            return []
        with torch.inference_mode():
            logits = model(**tokens).logits[0, int(places[0])]
        best = logits[allowed].topk(min(_CANDIDATES, len(allowed))).indices.tolist()
        return [str(word) for word in tokenizer.convert_ids_to_tokens([allowed[at] for at in best])]

    return fill


MODELS = (
    Model(
        role="masked_lm",
        backends=("offline",),
        name="ngram-fill",
        weights="the package's own sentences",
        licence="as the package",
        load=ngram_fill,
    ),
    Model(
        role="masked_lm",
        backends=("pretrained",),
        name="bert-base-uncased",
        weights="model hub",
        licence="Apache-2.0",
        load=bert,
    ),
)
