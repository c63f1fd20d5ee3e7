"""Models that fill a gap in a caption."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise

from perturbations.models.checkpoints import find_weights, pretrained
from perturbations.models.role_registry import Canary, Model, libraries, load
from perturbations.text import tables
from perturbations.text.tokens import core

_Fill = Callable[[list[str], int, str], list[str]]

_CANDIDATES = 10


def _lexical_fields() -> _Fill:
    """Words of the same kind as the one in the gap, from a word list. This is no language model: it reads no context.

    A candidate has the word's part of speech and form ("dogs" -> "cats"), and its gender. Nouns beside other nouns are
    left alone ("soy sauce"), as are words of no field. After "a" and "an", candidates begin like the word, with a vowel
    or a consonant.
    """
    tagger, inflector = load("tagger", "offline"), load("inflector", "offline")
    fields = _fields()

    def fill(words: list[str], at: int, tag: str) -> list[str]:
        word, tags = core(words[at]), tagger(words)
        if _in_phrase(words, at):
            return []
        beside = [tags[place] for place in (at - 1, at + 1) if 0 <= place < len(words)]
        if tag == "VBG" and 0 < at < len(words) - 1 and tags[at - 1] in ("DT", "JJ") and tags[at + 1].startswith("NN"):
            return []  # "a mixing bowl"
        if tag.startswith("NN") and any(other.startswith(("NN", "POS")) for other in beside):
            return []
        lemma = inflector.lemma(word, tag) if tag[:2] in ("NN", "VB") else word
        if tag == "NNS" and (plurals := fields.get(("NNS", word))):
            candidates = list(plurals)
        elif tag == "NN" and (singulars := fields.get(("NN/", word))):
            candidates = list(singulars)
        else:
            kind = tag if tag == "CD" else tag[:2]
            plain = fields.get((kind, lemma), ())
            candidates = [inflector.inflect(other, tag) if kind in ("NN", "VB") else other for other in plain]
        present = {core(other) for other in words}
        follows_article = at > 0 and core(words[at - 1]) in ("a", "an")
        return [
            other
            for other in candidates
            if other not in present and not (follows_article and (other[0] in _VOWELS) != (word[:1] in _VOWELS))
        ]

    return fill


_VOWELS = "aeiou"
# Words of fixed phrases ("black pepper", "running water") are left alone.
_PHRASES = frozenset(
    f"{first} {second}"
    for firsts, seconds in (
        ("black white green red hot cayenne", "pepper peppers"),
        ("green red white spring yellow", "onion onions"),
        ("running boiling hot cold warm", "water"),
        ("hot", "dog dogs"),
        ("olive sesame vegetable coconut peanut", "oil"),
        ("blue", "sky"),
        ("green red yellow", "bell"),
        ("little", "bit"),
        ("white red", "wine"),
        ("green", "bean beans pea peas"),
    )
    for first in firsts.split()
    for second in seconds.split()
)


def _in_phrase(words: Sequence[str], at: int) -> bool:
    near = [core(word) for word in words[max(at - 1, 0) : at + 2]]
    return any(f"{first} {second}" in _PHRASES for first, second in pairwise(near))


@cache
def _fields() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """(Kind, word) -> words of its field, from `data/fields.txt`: each line gives the words for its first word."""
    table: dict[tuple[str, str], tuple[str, ...]] = {}
    for line in tables.lines("fields"):
        kind, word, *others = line.split()
        table[kind, word] = (*table.get((kind, word), ()), *others)
    return table


_BERT = "bert-base-uncased"
_AROUND = 60
"""Words on each side of a gap that BERT reads: about as many as it can."""


def bert(name: str = _BERT) -> _Fill:
    """The most probable words of the same part of speech by BERT (Schiappa et al., App. A.2, after TextFlint)."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

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
        near = [*words[max(0, at - _AROUND) : at], tokenizer.mask_token, *words[at + 1 : at + 1 + _AROUND]]
        tokens = tokenizer(" ".join(near), return_tensors="pt", truncation=True)
        places = (tokens["input_ids"][0] == tokenizer.mask_token_id).nonzero()
        if not len(places):
            return []
        with torch.inference_mode():
            logits = model(**tokens).logits[0, int(places[0])]
        best = logits[allowed].topk(min(_CANDIDATES, len(allowed))).indices.tolist()
        return [str(word) for word in tokenizer.convert_ids_to_tokens([allowed[at] for at in best])]

    return fill


_CANARY = Canary(
    sentence="a little girl",
    answer=lambda fill, phrase: fill(phrase.split(), 1, "JJ"),
    holds=lambda answer, phrase: len(answer) > 0 and all(word.isalpha() for word in answer),
    expected="words for the place of `little`",
)

MODELS = (
    Model(
        role="masked_lm",
        backends=("offline",),
        name="lexical-fields",
        weights="the package's own word list",
        licence="as the package",
        load=_lexical_fields,
        needs=(libraries("textblob", "lemminflect"),),
        canary=_CANARY,
    ),
    Model(
        role="masked_lm",
        name=_BERT,
        licence="Apache-2.0",
        load=bert,
        needs=(libraries("torch", "transformers", "textblob"), partial(find_weights, _BERT)),
        canary=_CANARY,
    ),
)
