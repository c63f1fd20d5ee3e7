"""Kernels and helpers for English verbs: tense, negation, voice, register.

These are rules, not a model: they rewrite clear cases and leave every other caption as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from perturbations.text import tables
from perturbations.text.tokens import core, parts, put, rebuild

Generator = np.random.Generator
Tagger = Callable[[list[str]], list[str]]


class Inflector(Protocol):
    """Forms of words."""

    def lemma(self, word: str, tag: str) -> str:
        """The dictionary form of a word with a Penn tag."""

    def inflect(self, lemma: str, tag: str) -> str:
        """The form of a lemma with a Penn tag."""


_BE = frozenset(("am", "is", "are", "was", "were"))
_DO = frozenset(("do", "does", "did"))
_HAVE = frozenset(("has", "have", "had"))
_MODALS = frozenset(["can", "could", "may", "might", "must", "shall", "should", "will", "would"])
_NEGATIONS = {"isn't": "is", "aren't": "are", "wasn't": "was", "weren't": "were", "can't": "can", "won't": "will"}
_FINITE = ("VBZ", "VBP", "VBD")
_OTHER_TENSE = {"VBZ": "VBD", "VBP": "VBD", "VBD": "VBZ", "VB": "VBD", "VBG": "VBD"}
_PAST_AUXILIARIES = {"is": "was", "am": "was", "are": "were", "was": "is", "were": "are", "has": "had", "have": "had"}


# --- tense and negation -----------------------------------------------------------------------------------------------


def tense(text: str, rng: Generator, *, share: float, tagger: Tagger, inflector: Inflector) -> str:
    """A share of the verbs changes tense: present and bare forms become past, past becomes present.

    Schiappa et al., App. A.2. Finite verbs go before others, so that "is talking" becomes "was talking".
    """
    words, tags = text.split(), tagger(text.split())
    wanted = max(1, min(10, int(share * len(words))))
    order = [int(at) for at in rng.permutation(len(words)) if tags[at] in _OTHER_TENSE]
    order.sort(key=lambda at: tags[at] not in _FINITE)
    for at in order[:wanted]:
        verb = core(words[at])
        if verb in _PAST_AUXILIARIES:
            new = _PAST_AUXILIARIES[verb]
        else:
            new = inflector.inflect(inflector.lemma(verb, tags[at]), _OTHER_TENSE[tags[at]])
        words[at] = put(words[at], new)
    return rebuild(text, words)


def reverse_negation(text: str, rng: Generator, *, tagger: Tagger, inflector: Inflector) -> str:
    """A negated caption loses its "not"; another gets one at its first verb (Schiappa et al., App. A.2).

    The reference writes "does not jumps"; here the verb is reduced to its base form.
    """
    words = text.split()
    cores = [core(word).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") for word in words]
    for at, word in enumerate(cores):
        if word in ("not", "never") and len(words) > 1:
            return rebuild(text, words[:at] + words[at + 1 :])
        if word in _NEGATIONS:
            return rebuild(text, [*words[:at], put(words[at], _NEGATIONS[word]), *words[at + 1 :]])
        if word.endswith("n't") and word != "n't":
            return rebuild(text, [*words[:at], put(words[at], word[:-3]), *words[at + 1 :]])
    tags = tagger(words)
    for at, (word, tag) in enumerate(zip(cores, tags, strict=True)):
        helps = word in _BE | _MODALS or (word in _DO | _HAVE and _verb_follows(tags, at))
        if helps:
            return rebuild(text, [*words[: at + 1], "not", *words[at + 1 :]])
        if tag in _FINITE:
            helper = {"VBZ": "does", "VBP": "do", "VBD": "did"}[tag]
            verb = put(words[at].lower(), inflector.lemma(word, tag))
            return rebuild(text, [*words[:at], put(words[at], helper), "not", verb, *words[at + 1 :]])
        if tag == "VB" and at == 0:
            return rebuild(text, [put(words[0], "do"), "not", words[0].lower(), *words[1:]])
    for at, tag in enumerate(tags):
        if tag in ("VBG", "VBN"):
            return rebuild(text, [*words[:at], "not", *words[at:]])
    return text


def _verb_follows(tags: Sequence[str], at: int) -> bool:
    rest = [tag for tag in tags[at + 1 :] if tag != "RB"]
    return bool(rest) and rest[0].startswith("VB")


# --- voice ------------------------------------------------------------------------------------------------------------

_OBJECT_PRONOUNS = {"he": "him", "she": "her", "i": "me", "we": "us", "they": "them", "it": "it", "you": "you"}
_SUBJECT_PRONOUNS = {value: key for key, value in _OBJECT_PRONOUNS.items()}
_PLURAL_PRONOUNS = frozenset(("they", "we", "you", "them", "us"))


def passive(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    """Active to passive: "a girl does gymnastics" -> "gymnastics is done by a girl".

    It knows subject, verb and object of a simple clause, "a man playing a song" -> "a song being played by a man", and
    the instruction "add the oil to the pan" -> "the oil is added to the pan". A caption that another verb or a relative
    clause makes ambiguous stays as it is.
    """
    words = text.split()
    tags = tagger(words)
    if not words or any(parts(word)[2] for word in words[:-1]):
        return text
    if tags[0] == "VB":
        return _passive_instruction(text, words, tags, inflector)
    subject = _phrase(words, tags, 0)
    verb, form = _active_verb(words, tags, subject)
    if not subject or not form:
        return text
    if form == "participle" and "of" in words[:subject]:  # "footage of a man playing": who plays?
        return text
    lemma = inflector.lemma(core(words[verb]), tags[verb])
    end = _phrase(words, tags, verb + 1)
    if lemma in tables.words("no_passive") or end == verb + 1 or not _clause_ends(words, tags, end):
        return text
    patient = words[verb + 1 : end]
    be = _be(patient, tags[verb + 1 : end], past=form.startswith("past"))
    helpers = {"participle": ["being"], "present": [be], "past": [be]}.get(form, [be, "being"])
    by = _as_object(words[:subject])
    return rebuild(text, [*_as_subject(patient), *helpers, inflector.inflect(lemma, "VBN"), "by", *by, *words[end:]])


def _passive_instruction(text: str, words: list[str], tags: list[str], inflector: Inflector) -> str:
    end = _phrase(words, tags, 1)
    lemma = inflector.lemma(core(words[0]), "VB")
    if end == 1 or lemma in tables.words("no_passive") or any(tag.startswith("VB") for tag in tags[end:]):
        return text
    if end < len(words) and tags[end] not in ("IN", "TO", "RB", "RP"):
        return text
    if tags[end : end + 1] == ["RB"] and "CC" in tags[end:]:  # "fry meat together and fish together"
        return text
    helper = _be(words[1:end], tags[1:end], past=False)
    return rebuild(text, [*_as_subject(words[1:end]), helper, inflector.inflect(lemma, "VBN"), *words[end:]])


def active(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    """Passive to active: "a song is sung by a man" -> "a man sings a song". Captions are mostly active already."""
    words = text.split()
    tags = tagger(words)
    # "in the kitchen the chef is interviewed by a lady": words before the subject stay before it
    start = _phrase(words, tags, 1) if tags[:1] == ["IN"] else 0
    subject = _phrase(words, tags, start)
    if subject == start or core(" ".join(words[subject : subject + 1])) not in _BE:
        return text
    past = core(words[subject]) in ("was", "were")
    progressive = core(" ".join(words[subject + 1 : subject + 2])) == "being"
    at = subject + 1 + progressive
    if at + 1 >= len(words) or tags[at] not in ("VBN", "VBD") or core(words[at + 1]) != "by":
        return text
    end = _phrase(words, tags, at + 2)
    if end == at + 2 or (end < len(words) and tags[end] not in ("IN", "TO", "RB", "CC")):
        return text
    agent, lemma = words[at + 2 : end], inflector.lemma(core(words[at]), "VBN")
    agent_tags = tags[at + 2 : end]
    if progressive:
        verbs = [_be(agent, agent_tags, past=past), inflector.inflect(lemma, "VBG")]
    else:
        verbs = [inflector.inflect(lemma, "VBD" if past else "VBP" if _plural(agent, agent_tags) else "VBZ")]
    patient = _as_object(words[start:subject])
    return rebuild(text, [*words[:start], *_as_subject(agent), *verbs, *patient, *words[end:]])


def _as_subject(phrase: list[str]) -> list[str]:
    return [_SUBJECT_PRONOUNS.get(phrase[0], phrase[0])] if len(phrase) == 1 else phrase


def _as_object(phrase: list[str]) -> list[str]:
    return [_OBJECT_PRONOUNS.get(phrase[0], phrase[0])] if len(phrase) == 1 else phrase


def _phrase(words: Sequence[str], tags: Sequence[str], start: int) -> int:
    """The end of the noun phrases from `start` that "of" and "and" join; `start` itself when there is none."""
    end = _noun_phrase(words, tags, start)
    while start < end < len(words) and core(words[end]) in ("of", "and"):
        longer = _noun_phrase(words, tags, end + 1)
        if longer == end + 1:
            break
        end = longer
    return end


def _noun_phrase(words: Sequence[str], tags: Sequence[str], start: int) -> int:
    """The end of the noun phrase from `start`; `start` itself when there is none."""
    at = start
    if at < len(words) and (tags[at] == "PRP" or core(words[at]) in ("someone", "somebody", "something")):
        return at + 1
    while at < len(words) and (tags[at] in ("DT", "PRP$", "CD", "PDT", "VBN") or tags[at].startswith("JJ")):
        if tags[at] == "VBN" and at == start:
            return start
        at += 1
    head = at
    while at < len(words) and tags[at].startswith("NN"):
        at += 1
    return at if at > head else start


def _active_verb(words: Sequence[str], tags: Sequence[str], at: int) -> tuple[int, str]:
    """The place of the main verb after a subject, and its form: "past", "present progressive", ...; "" for no verb."""
    tag = tags[at] if at < len(tags) else ""
    if tag and core(words[at]) in _BE:
        progressive = tags[at + 1 : at + 2] == ["VBG"]
        tense = "past" if core(words[at]) in ("was", "were") else "present"
        return at + 1, f"{tense} progressive" if progressive else ""
    return at, {"VBZ": "present", "VBP": "present", "VBD": "past", "VBG": "participle"}.get(tag, "")


def _clause_ends(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    """Whether the clause ends here: no word follows that could belong to another verb or noun phrase."""
    if at == len(words):
        return True
    return (
        tags[at] in ("IN", "TO", "RB")
        and core(words[at]) not in ("that", "while", "as", "if", "because")
        and not any(tag.startswith(("VB", "CC", "W", "MD")) for tag in tags[at:])
    )


def _plural(words: Sequence[str], tags: Sequence[str]) -> bool:
    if any(core(word) == "and" for word in words):
        return True
    # "a bowl of noodles" is a bowl
    head = next((at for at, word in enumerate(words) if core(word) == "of"), len(words)) - 1
    if core(words[head]) in _SINGULAR:
        return False
    return core(words[head]) in _PLURAL_PRONOUNS | {"people"} or tags[head] in ("NNS", "NNPS")


# Written like plurals, used like singulars.
_SINGULAR = frozenset(["gymnastics", "news", "mathematics", "physics", "politics", "aerobics", "athletics"])


def _be(words: Sequence[str], tags: Sequence[str], *, past: bool) -> str:
    plural = _plural(words, tags)
    return ("were" if plural else "was") if past else ("are" if plural else "is")


# --- register ---------------------------------------------------------------------------------------------------------


def formal(text: str) -> str:
    """Contractions written out, casual words replaced, a capital first and a full stop last."""
    stripped = _replace_phrases(text, tables.pairs("formal")).strip()
    if not stripped:
        return text
    stripped = stripped[:1].upper() + stripped[1:]
    return stripped if stripped[-1] in ".!?" else f"{stripped.rstrip(',;:')}."


def casual(text: str) -> str:
    """Contractions, casual words, no capital and no full stop where the caption's words changed."""
    replaced = _replace_phrases(text, tables.pairs("casual"))
    if replaced == text:
        return text
    return replaced.strip().removesuffix(".")


def _replace_phrases(text: str, table: Mapping[str, str]) -> str:
    longest = max(len(phrase.split()) for phrase in table)
    words = text.split()
    result: list[str] = []
    at = 0
    while at < len(words):
        for length in range(min(longest, len(words) - at), 0, -1):
            after = parts(words[at + length - 1])[2]
            phrase = " ".join(words[at : at + length]).removesuffix(after)
            if phrase.lower() in table:
                new = table[phrase.lower()]
                new = new[:1].upper() + new[1:] if phrase[:1].isupper() else new
                result.extend(f"{new}{after}".split())
                at += length
                break
        else:
            result.append(words[at])
            at += 1
    return rebuild(text, result)
