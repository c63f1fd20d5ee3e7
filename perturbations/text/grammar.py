"""Kernels and helpers for English verbs: tense, auxiliaries, pronouns.

These are rules, not a model: they rewrite clear cases and leave every other caption as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from perturbations.text.contractions import CLITICS, OF_HAVE, Clitic, Tagger, core_of, separated, together, with_verb
from perturbations.text.tokens import APOSTROPHES, parts, put, rebuild

Generator = np.random.Generator


class Inflector(Protocol):
    """Forms of words."""

    def lemma(self, word: str, tag: str) -> str:
        """The dictionary form of a word with a Penn tag."""

    def inflect(self, lemma: str, tag: str) -> str:
        """The form of a lemma with a Penn tag, by rules where the dictionary has none."""

    def is_verb(self, word: str) -> bool:
        """Whether the dictionary has the word, as it is written, as a form of a verb."""


BE = frozenset(("am", "is", "are", "was", "were"))
DO = frozenset(("do", "does", "did"))
HAVE = frozenset(("has", "have", "had"))
PLURAL_PRONOUNS = frozenset(("they", "we", "you", "them", "us"))
_FINITE = ("VBZ", "VBP", "VBD")
_PAST_AUXILIARIES = {"is": "was", "am": "was", "are": "were", "has": "had", "have": "had", "does": "did", "do": "did"}
_PAST_AUXILIARIES |= {"can": "could", "will": "would", "isn't": "wasn't", "aren't": "weren't", "doesn't": "didn't"}
_PAST_AUXILIARIES |= {"don't": "didn't", "hasn't": "hadn't", "haven't": "hadn't", "can't": "couldn't"}
_PAST_AUXILIARIES |= {"won't": "wouldn't", "'s": "was", "'re": "were", "'m": "was", "'ve": "had", "'ll": "would"}
_OTHER_AUXILIARY = {**_PAST_AUXILIARIES, "was": "is", "were": "are", "had": "has", "did": "does", "could": "can"}
_OTHER_AUXILIARY |= {"would": "will", "wasn't": "isn't", "weren't": "aren't", "couldn't": "can't", "wouldn't": "won't"}
_AUXILIARIES = frozenset([*_OTHER_AUXILIARY, "be", "been", "being", "'d"])
_CONJUNCTIONS = ("and", "or", "then")
_NOT = ("not", "n't", "never")
# Singular, plural.
_PRESENT = {
    "had": ("has", "have"),
    "did": ("does", "do"),
    "hadn't": ("hasn't", "haven't"),
    "didn't": ("doesn't", "don't"),
}
_NEVER = frozenset(("gonna", "gotta", "wanna"))  # contractions without other forms
# Verbs that bare verbs depend on: "let it cool", "help them carry and load".
_GOVERN = frozenset(("let", "lets", "letting", "make", "makes", "making", "help", "helps", "helping", "see", "watch"))


# --- tense ------------------------------------------------------------------------------------------------------------


def tense(text: str, rng: Generator, *, share: float, tagger: Tagger, inflector: Inflector) -> str:
    """A share of the verbs changes tense: present and instructions become past, past becomes present.

    Schiappa et al., App. A.2. Only verbs that carry a tense are changed: "is talking" -> "was talking", "does not jump"
    -> "did not jump", "can swim" -> "could swim". Infinitives, what follows a modal, and participles after "be" and
    "have" stay as they are; a participle in place of a finite verb ("a man talking") is changed where no verb
    carries a tense. With a verb, those that share its subject are changed too: "bakes and decorates" -> "baked and
    decorated". Contractions are the words that they are made of: "she's happy" -> "she was happy", and in "the bird
    flaps it's wings" no verb.
    """
    words = separated(text.split())
    cores, tags = list(map(core_of, words)), tagger(words)
    wanted = max(1, min(10, int(share * len(text.split()))))
    carrying = [at for at in range(len(words)) if not _is_aside(words, tags, at) and _carries_tense(cores, tags, at)]
    forms = {at: _in_other_tense(cores, tags, at, inflector) for at in carrying}
    carrying = [at for at in carrying if forms[at]]
    order = [int(at) for at in rng.permutation(len(words)) if at in carrying]
    order.sort(key=lambda at: tags[at] not in (*_FINITE, "MD", "VB"))
    for at in sorted({other for chosen in order[:wanted] for other in _joined(cores, tags, carrying, chosen)}):
        words[at] = _inflected(words, at, forms[at] or words[at])
    return rebuild(text, together(words))


def _inflected(words: Sequence[str], at: int, verb: str) -> str:
    """The word at a place with another verb: in capitals where a clitic's word is, with a denial's own apostrophe."""
    if core_of(words[at]) in CLITICS and at:
        return with_verb(words[at], verb, in_capitals=words[at - 1].isupper())
    mark = next((mark for mark in APOSTROPHES if mark in words[at]), "'")
    return put(words[at], verb.replace("'", mark))


def _joined(words: Sequence[str], tags: Sequence[str], carrying: Sequence[int], chosen: int) -> list[int]:
    """The places of a verb and of those that share its subject: "bakes and decorates", all instructions."""
    if tags[chosen] == "VB":
        return [at for at in carrying if tags[at] == "VB"]
    first = chosen
    group = []
    for at in carrying:
        if at == first or (words[at - 1] in _CONJUNCTIONS and at > 0):
            group.append(at)
        elif chosen in group:
            break
        else:
            group = [at]
    return group


def _carries_tense(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    word, tag = words[at], tags[at]
    before = _before(words, tags, at)
    after = tags[at + 1] if at + 1 < len(tags) else ""
    if tag == "POS" or word in _NEVER or (tag.startswith("NN") and word in _AUXILIARIES):  # "8 am", "a can"
        return False
    if word in _OTHER_AUXILIARY or word in _PRESENT:
        if tag == "MD" and word.isalpha() and (after[:2] not in ("VB", "RB", "PR") or words[at + 1] == "rather"):
            return False  # "will smith", "would rather"
        return before is None or (tags[before] not in ("TO", "MD") and words[before] not in DO)
    if not word.replace("-", "").isalpha():
        return False
    if before is not None and (tags[before] in ("TO", "MD") or _is_auxiliary(words[before], tags[before])):
        return False
    if tag == "VB":
        return _instructs_here(words, tags, at)
    if before is None:
        return tag in ("VBZ", "VBP")
    if "VB" in tags[:at]:
        # of a caption with instructions, participles and plurals are too often taken for such verbs
        return tag in ("VBZ", "VBP", "VBD") and tags[before] == "PRP"
    if tag == "VBP" and _GOVERN & set(words[max(before - 2, 0) : before]):  # "letting people convince him"
        return False
    joined = words[before] in _CONJUNCTIONS
    if tag == "VBG" and "of" in words[:at]:  # "views of persons working": who does what?
        return False
    if tag == "VBG":
        alone = not any(other in (*_FINITE, "MD") for other in tags)
        return alone and ((joined and "VBG" in tags[:before]) or tags[before] in ("NN", "NNS"))
    if tag == "VBD":
        # "ingredients used in a recipe" is no past tense, nor is "oil grated ginger"
        reduced = tags[before].startswith("NN") and (after == "IN" or after.startswith("NN"))
        return tags[before][:2] in ("PR", "NN") and not reduced
    if joined and tag == "NNS":  # "bakes and decorates a cake"
        return "VBZ" in tags[:before] and after in ("DT", "PRP$", "PRP")
    if joined and tag == "VBZ" and tags[before - 1].startswith("NN"):  # "workout and exercises for women"
        return word != "exercises"
    return tag in ("VBZ", "VBP") and tags[before][:2] not in ("VB", "DT", "JJ", "IN") and tags[before] != "PRP$"


def _is_auxiliary(word: str, tag: str) -> bool:
    return (word in _AUXILIARIES and not tag.startswith("NN")) or word.endswith("n't")


def _is_aside(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    """Whether a participle is between commas, "a man wearing a mask, fuses metal", or a word has a possessive."""
    if words[at + 1 : at + 2] and isinstance(words[at + 1], Clitic) and tags[at + 1] == "POS":
        return True
    if tags[at] != "VBG":
        return False
    marks = [parts(word)[2][:1] for word in words[at:-1]]
    return words[at - 1].endswith(",") or next(filter(None, marks), "") == ","


def _before(words: Sequence[str], tags: Sequence[str], at: int) -> int | None:
    """The place of the last word before `at` that is no adverb."""
    places = (place for place in range(at - 1, -1, -1) if tags[place] != "RB" and words[place] not in _NOT)
    return next(places, None)


def _instructs_here(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    """Whether a bare verb is an instruction: no infinitive, nor joined to one, nor "let it cool"."""
    if any(word in _GOVERN for word in words[:at]):
        return False
    if at and words[at - 1] in _CONJUNCTIONS:
        last = next((place for place in range(at - 1, -1, -1) if tags[place] == "VB"), None)
        governed = last is not None and last > 0 and (tags[last - 1] in ("TO", "MD") or words[last - 1] in DO)
        return not governed
    if at and tags[at - 1].startswith("NN"):
        return at + 1 < len(words) and tags[at + 1] in ("DT", "CD", "PRP", "PRP$")
    return at == 0 or tags[at - 1] not in ("TO", "MD", "PRP", "PRP$", "DT", "JJ", "IN", "VB")


def _in_other_tense(words: Sequence[str], tags: Sequence[str], at: int, inflector: Inflector) -> str | None:
    verb, tag = words[at], tags[at]
    subject = [place for place in range(at) if tags[place][:2] in ("NN", "PR")]
    plural = bool(subject) and (tags[subject[-1]] in ("NNS", "NNPS") or words[subject[-1]] in PLURAL_PRONOUNS)
    if verb in _PRESENT:
        return _PRESENT[verb][plural]
    if verb == "'s" and words[at + 1 : at + 2] and words[at + 1] in OF_HAVE:
        return "had"
    if verb in _OTHER_AUXILIARY:
        return _OTHER_AUXILIARY[verb]
    lemma = inflector.lemma(verb, tag if tag.startswith("VB") else "VBZ")
    return verb_form(lemma, "VBD" if tag != "VBD" else "VBP" if plural else "VBZ", inflector)


# LemmInflect has "sauted".
_PAST = {"saute": "sauteed"}


def verb_form(lemma: str, tag: str, inflector: Inflector) -> str | None:
    """A form that a dictionary has; None for what is no verb ("karate student"), or a misspelt one."""
    if tag in ("VBD", "VBN") and lemma in _PAST:
        return _PAST[lemma]
    form = inflector.inflect(lemma, tag)
    return form if inflector.is_verb(form) else None
