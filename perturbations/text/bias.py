"""Kernels that change the gender of a caption's words (Schiappa et al., App. A.2, "Bias")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perturbations.text import tables
from perturbations.text.grammar import Generator, Inflector, Tagger
from perturbations.text.tokens import core, put, rebuild

_OTHER = {"m": "f", "f": "m"}


def to_gender(text: str, rng: Generator, *, gender: str, mislabelled: bool) -> str:
    """Every word of the other gender becomes its counterpart.

    `mislabelled` keeps the published table's mistake, which takes "female" for a male word and "male" for a female one.
    """
    genders = tables.caption_genders()

    def counterpart(word: str) -> str | None:
        if word not in genders:
            return None
        own, opposite, _ = genders[word]
        if mislabelled and word in ("male", "female"):
            own = _OTHER[own]
        return opposite if own != gender else None

    return _replace(text, counterpart)


def to_neutral(text: str, rng: Generator, *, agreeing: bool, tagger: Tagger, inflector: Inflector) -> str:
    """Every gendered word becomes its neutral form.

    `agreeing`: the verb after a "they" is its own ("he hits" -> "they hit"), and "his" and "her" become "their" before
    a noun phrase, "her" and "him" else "them". The published captions have "they hits", "theirs dog" and "they book".
    """
    genders = tables.caption_genders()
    neutral = _replace(text, lambda word: genders[word][2] if word in genders else None)
    if not agreeing or neutral == text:
        return neutral
    words, cores, tags = neutral.split(), [core(word) for word in text.split()], tagger(text.split())
    for at, bare in enumerate(cores):
        if bare in ("his", "her"):
            words[at] = put(words[at], "their" if _before_noun(tags, at) else "theirs" if bare == "his" else "them")
        elif bare == "him":
            words[at] = put(words[at], "them")
        elif bare in ("he", "she"):
            verb = next((place for place in range(at + 1, len(cores)) if tags[place] != "RB"), at)
            if cores[verb] in _OF_THEY:
                words[verb] = put(words[verb], _OF_THEY[cores[verb]])
            elif tags[verb] == "VBZ":
                words[verb] = put(words[verb], inflector.lemma(cores[verb], "VBZ"))
    return rebuild(text, words)


_OF_THEY = {"is": "are", "was": "were", "has": "have", "does": "do", "isn't": "aren't", "wasn't": "weren't"}
_OF_THEY |= {"doesn't": "don't", "hasn't": "haven't"}


def _before_noun(tags: Sequence[str], at: int) -> bool:
    """Whether a noun phrase follows, so that "his" or "her" is a possessive."""
    return at + 1 < len(tags) and tags[at + 1][:2] in ("NN", "JJ", "CD", "VB")


def swap(text: str, rng: Generator, *, tagger: Tagger) -> str:
    """Every gendered word becomes its counterpart. "her" becomes "his" before a noun phrase, "him" elsewhere."""
    counterparts = tables.gender_swaps()
    words = text.split()
    if not any(core(word) in counterparts or core(word) in ("his", "her", "hers") for word in words):
        return text
    tags = tagger(words)
    for at, word in enumerate(words):
        bare = core(word)
        possessive = _before_noun(tags, at)
        if bare == "her":
            words[at] = put(word, "his" if possessive else "him")
        elif bare == "his":
            words[at] = put(word, "her" if possessive else "hers")
        elif bare == "hers":
            words[at] = put(word, "his")
        elif bare in counterparts:
            words[at] = put(word, counterparts[bare])
    return rebuild(text, words)


def _replace(text: str, replacement: Callable[[str], str | None]) -> str:
    words = text.split()
    for at, word in enumerate(words):
        new = replacement(core(word))
        if new is not None:
            words[at] = put(word, new)
    return rebuild(text, words)
