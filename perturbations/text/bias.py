"""Kernels that change the gender of a caption's words (Schiappa et al., App. A.2, "Bias").

A word with a clitic, "the girl's" or "she'll", is the word: it changes as it would alone, and keeps the clitic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perturbations.text import tables
from perturbations.text.contractions import OF_HAVE, Tagger
from perturbations.text.grammar import Generator, Inflector
from perturbations.text.tokens import APOSTROPHES, clitic, core, parts, put, rebuild

_OTHER = {"m": "f", "f": "m"}


def to_gender(text: str, rng: Generator, *, gender: str, mislabelled: bool) -> str:
    """Every word of the other gender becomes its counterpart.

    `mislabelled` keeps the published table's mistake, which takes "female" for a male word and "male" for a female one.
    """
    genders = tables.caption_genders()

    def counterpart(_at: int, word: str) -> str | None:
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
    neutral = _replace(text, lambda _at, word: genders[word][2] if word in genders else None)
    if not agreeing or neutral == text:
        return neutral
    words, tags = neutral.split(), tagger(text.split())
    cores, clitics = [], []
    for word in text.split():
        stem, ending = clitic(word)
        cores.append(core(stem))
        clitics.append(core(ending))
    for at, bare in enumerate(cores):
        if bare in ("his", "her"):
            words[at] = put(words[at], "their" if _before_noun(tags, at) else "theirs" if bare == "his" else "them")
        elif bare == "him":
            words[at] = put(words[at], "them")
        elif bare in ("he", "she") and clitics[at]:
            if clitics[at] == "s":
                stem, ending = clitic(words[at])
                words[at] = stem + _their_verb(ending, cores[at + 1 : at + 2])
        elif bare in ("he", "she"):
            verb = next((place for place in range(at + 1, len(cores)) if tags[place] != "RB"), at)
            if cores[verb] == "s":  # "he 's", "he s"
                words[verb] = _their_verb(words[verb], cores[verb + 1 : verb + 2])
            elif cores[verb] in _OF_THEY:
                words[verb] = put(words[verb], _OF_THEY[cores[verb]])
            elif tags[verb] == "VBZ":
                words[verb] = put(words[verb], inflector.lemma(cores[verb], "VBZ"))
    return rebuild(text, words)


_OF_THEY = {"is": "are", "was": "were", "has": "have", "does": "do", "isn't": "aren't", "wasn't": "weren't"}
_OF_THEY |= {"doesn't": "don't", "hasn't": "haven't"}


def _their_verb(ending: str, after: Sequence[str]) -> str:
    """The "'s" of "they's" as "'re"; as "'ve" where a participle follows that occurs only with "have"."""
    before, written, marks = parts(ending)
    verb = "ve" if after and after[0] in OF_HAVE else "re"
    return f"{before}{verb.upper() if written == 'S' else verb}{marks}"


def _before_noun(tags: Sequence[str], at: int) -> bool:
    """Whether a noun phrase follows, so that "his" or "her" is a possessive."""
    return at + 1 < len(tags) and tags[at + 1][:2] in ("NN", "JJ", "CD", "VB")


def swap(text: str, rng: Generator, *, tagger: Tagger) -> str:
    """Every gendered word becomes its counterpart. "her" becomes "his" before a noun phrase, "him" elsewhere."""
    counterparts = tables.gender_swaps()
    tags: list[str] = []

    def counterpart(at: int, word: str) -> str | None:
        if word not in ("his", "her", "hers"):
            return counterparts.get(word)
        if word == "hers":
            return "his"
        tags[:] = tags or tagger(text.split())
        attributive, alone = ("his", "him") if word == "her" else ("her", "hers")
        return attributive if _before_noun(tags, at) else alone

    return _replace(text, counterpart)


def _replace(text: str, replacement: Callable[[int, str], str | None]) -> str:
    """The text with other words: `replacement` takes a word's place and core without a clitic; None keeps the word."""
    words = text.split()
    for at, word in enumerate(words):
        stem, ending = clitic(word)
        new = replacement(at, core(stem))
        if new is not None:
            words[at] = _exchanged(stem, new, ending)
    return rebuild(text, words)


def _exchanged(word: str, new: str, ending: str) -> str:
    """A word's replacement with its clitic. Plurals in -s get an apostrophe alone: "the guys' car", "the people's"."""
    replaced = put(word, new)
    before, old, after = parts(word)
    if not before and not ending and after[:1] in APOSTROPHES and old[-1] in "sS" and new[-1] != "s":
        mark = len(replaced) - len(after) + 1
        return f"{replaced[:mark]}{'S' if old.isupper() else 's'}{replaced[mark:]}"
    if new.endswith("ies") and core(ending) == "s":  # "the gentlemen's", "the ladies'"
        return replaced + ending[0] + ending[2:]
    return replaced + ending
