"""Kernels that change a caption's register: formal, casual. Rules and word lists, not a model."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perturbations.text import tables
from perturbations.text.contractions import Tagger, straight, written_out
from perturbations.text.grammar import Inflector
from perturbations.text.tokens import core, differs, parts, put, rebuild, without_end_mark
from perturbations.text.voice import noun_phrase

_NUMERALS = {"1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "8": "eight"}
_NUMERALS["9"] = "nine"
_PLURALS = ("people", "children", "men", "women")
_MUCH = "a large amount of"
_ONE = ("1", "one", "a", "half", "1/2", "1/3", "1/4", "3/4")
_ONE_UNIT = {"tablespoons": "tablespoon", "teaspoons": "teaspoon"}


def formal(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    """Contractions and abbreviations written out, casual words and verbs replaced, small numbers as words.

    A caption that any of these rules changes also gets a capital first and a full stop last; another one stays as it
    is.
    """
    words = _with_verbs(_asking(written_out(text.split(), tagger), tagger), "formal_verbs", tagger, inflector)
    replaced = _with_phrases(" ".join(words), tables.pairs("formal"))
    replaced = _spelled_out(_many(replaced, tagger))
    if not differs(text, replaced):
        return text
    replaced = replaced[:1].upper() + replaced[1:]
    return replaced if replaced[-1] in ".!?" else f"{replaced.rstrip(',;:')}."


def _asking(words: list[str], tagger: Tagger) -> list[str]:
    """Words that ask with a denial, which then follows the subject: "aren't they" as "are they not"."""
    first = straight(words[0].lower()) if words else ""
    if not first.endswith("n't") or first in ("can't", "won't", "shan't"):
        return words
    tags = tagger([put(words[0], first[:-3]), *words[1:]])
    end = noun_phrase(words, tags, 1)
    if end in (1, len(words)) or any(parts(word)[2] for word in words[:end]) or (first == "don't" and tags[1] != "PRP"):
        return words
    return [words[0][:-3], *words[1:end], "not", *words[end:]]


def casual(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    """Contractions, casual words and verbs; no full stop where the caption's words changed.

    No word gains a gender, and none loses it: "a person" becomes "someone", "man" becomes "guy".
    """
    tags = tagger(text.split())
    words = _with_verbs(text.split(), "casual_verbs", tagger, inflector)
    if len(words) == len(tags):
        words = _contracted(words, tags)
    replaced = _with_phrases(" ".join(words), tables.pairs("casual"))
    if replaced == " ".join(text.split()):
        return text
    return without_end_mark(replaced, ".")


def _with_verbs(words: list[str], table: str, tagger: Tagger, inflector: Inflector) -> list[str]:
    """The words with verbs replaced, each in the form that it had."""
    replacements, tags = tables.pairs(table), tagger(words)
    result: list[str] = []
    at = 0
    while at < len(words):
        bare, tag = core(words[at]), tags[at]
        lemma = inflector.lemma(bare, tag) if tag.startswith("VB") else ""
        following = core(words[at + 1]) if at + 1 < len(words) else ""
        phrase = f"{lemma} {following}"
        whole = lemma and phrase in replacements and not parts(words[at])[2]
        new = replacements.get(phrase if whole else lemma)
        if new is None or not _has_object(whole or lemma in _WITHOUT_OBJECT, tags, at):
            result.append(words[at])
            at += 1
            continue
        verb, *rest = new.split()
        last = words[at + 1] if whole else words[at]
        form = [put(words[at] if not whole else parts(words[at])[1], inflector.inflect(verb, tag)), *rest]
        after = parts(last)[2]
        form[-1] = parts(form[-1])[1] + after if after else form[-1]
        result += form
        at += 2 if whole else 1
    return result


# Verbs whose counterpart may have no object.
_WITHOUT_OBJECT = frozenset(("talk", "speak", "chat", "converse", "start", "begin"))


def _has_object(free: object, tags: list[str], at: int) -> bool:
    """Whether an object follows, which a verb needs to be exchanged: "is used by" and "helps to" are left alone."""
    return bool(free) or (at + 1 < len(tags) and tags[at + 1][:2] in ("DT", "NN", "PR", "JJ", "CD"))


def _contracted(words: list[str], tags: list[str]) -> list[str]:
    """ "going to" and "want to" before a verb, contracted; "going to school" stays."""
    result = list(words)
    for at in range(len(words) - 2):
        pair = f"{core(words[at])} {core(words[at + 1])}"
        if pair in _TO_VERB and tags[at + 2] == "VB":
            result[at : at + 2] = [put(words[at], _TO_VERB[pair]), ""]
    return [word for word in result if word]


_TO_VERB = {"going to": "gonna", "want to": "wanna", "have to": "gotta"}


def _many(text: str, tagger: Tagger) -> str:
    """ "a large amount of people" as "many people"."""
    words = text.split()
    tags = tagger(words)
    amount = _MUCH.split()
    for at in range(len(words) - len(amount)):
        noun = at + len(amount)
        while noun < len(words) and tags[noun] in ("JJ", "NN") and tags[noun + 1 : noun + 2] == ["NNS"]:
            noun += 1
        bare = [core(word) for word in words[at : at + len(amount)]]
        plural = noun < len(words) and (tags[noun] == "NNS" or core(words[noun]) in _PLURALS)
        if bare == amount and plural:
            return " ".join([*words[:at], put(words[at], "many"), *words[at + len(amount) :]])
    return text


def _spelled_out(text: str) -> str:
    """Numbers from 1 to 9 as words, but for fractions and dimensions; the singular of a unit after 1."""
    words = text.split()
    result = list(words)
    for at, word in enumerate(words):
        alone = re.fullmatch(r"[1-9]", word) and not any(
            re.search(r"\d", other) for other in (*words[max(at - 1, 0) : at], *words[at + 1 : at + 2])
        )
        if alone:
            result[at] = _NUMERALS[word]
        if word in _ONE_UNIT and at and words[at - 1] in _ONE:
            result[at] = _ONE_UNIT[word]
    return " ".join(result)


def _with_phrases(text: str, table: Mapping[str, str]) -> str:
    longest = max(len(phrase.split()) for phrase in table)
    words = text.split()
    result: list[str] = []
    at = 0
    while at < len(words):
        for length in range(min(longest, len(words) - at), 0, -1):
            after = parts(words[at + length - 1])[2]
            phrase = straight(" ".join(words[at : at + length])).removesuffix(after)
            plain = phrase.lower().removesuffix(".")  # of "tbsp."
            if plain in table:
                new = table[plain]
                new = new[:1].upper() + new[1:] if phrase[:1].isupper() else new
                new = new.upper() if "'" in phrase and phrase.isupper() else new
                result.extend(f"{new}{after}".split())
                at += length
                break
        else:
            result.append(words[at])
            at += 1
    return rebuild(text, result)
