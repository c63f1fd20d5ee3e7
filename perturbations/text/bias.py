"""Kernels that change the gender of a caption's words (Schiappa et al., App. A.2, "Bias")."""

from __future__ import annotations

from collections.abc import Callable

from perturbations.text import tables
from perturbations.text.grammar import Generator, Tagger
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


def to_neutral(text: str, rng: Generator) -> str:
    """Every gendered word becomes its neutral form."""
    genders = tables.caption_genders()
    return _replace(text, lambda word: genders[word][2] if word in genders else None)


def swap(text: str, rng: Generator, *, tagger: Tagger) -> str:
    """Every gendered word becomes its counterpart. "her" becomes "his" before a noun phrase, "him" elsewhere."""
    counterparts = tables.gender_swaps()
    words = text.split()
    if not any(core(word) in counterparts or core(word) in ("his", "her", "hers") for word in words):
        return text
    tags = tagger(words)
    for at, word in enumerate(words):
        bare = core(word)
        possessive = at + 1 < len(words) and tags[at + 1][:2] in ("NN", "JJ", "CD", "VB")
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
