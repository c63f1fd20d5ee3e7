"""Kernels and helpers for English verbs: tense, voice, register.

These are rules, not a model: they rewrite clear cases and leave every other caption as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from perturbations.text import tables
from perturbations.text.fluency import known
from perturbations.text.tokens import core, parts, put, rebuild

Generator = np.random.Generator
Tagger = Callable[[list[str]], list[str]]


class Inflector(Protocol):
    """Forms of words."""

    def lemma(self, word: str, tag: str) -> str:
        """The dictionary form of a word with a Penn tag."""

    def inflect(self, lemma: str, tag: str) -> str:
        """The form of a lemma with a Penn tag."""


BE = frozenset(("am", "is", "are", "was", "were"))
DO = frozenset(("do", "does", "did"))
_FINITE = ("VBZ", "VBP", "VBD")
_PAST_AUXILIARIES = {"is": "was", "am": "was", "are": "were", "has": "had", "have": "had", "does": "did", "do": "did"}
_PAST_AUXILIARIES |= {"can": "could", "will": "would", "isn't": "wasn't", "aren't": "weren't", "doesn't": "didn't"}
_OTHER_AUXILIARY = {**_PAST_AUXILIARIES, "was": "is", "were": "are", "had": "has", "did": "does", "could": "can"}
_OTHER_AUXILIARY |= {"would": "will", "wasn't": "isn't", "weren't": "aren't"}
_AUXILIARIES = frozenset([*_OTHER_AUXILIARY, "be", "been", "being"])
_CONJUNCTIONS = ("and", "or", "then")
_NOT = ("not", "n't", "never")
_SUBORDINATORS = ("that", "while", "as", "if", "because")
_SOMETHING = ("someone", "somebody", "something")
_PRESENT = {"had": ("has", "have"), "did": ("does", "do")}  # singular, plural
# Verbs that bare verbs depend on: "let it cool", "help them carry and load".
_GOVERN = frozenset(("let", "lets", "letting", "make", "makes", "making", "help", "helps", "helping", "see", "watch"))


# --- tense ------------------------------------------------------------------------------------------------------------


def tense(text: str, rng: Generator, *, share: float, tagger: Tagger, inflector: Inflector) -> str:
    """A share of the verbs changes tense: present and instructions become past, past becomes present.

    Schiappa et al., App. A.2. Only verbs that carry a tense are changed: "is talking" -> "was talking", "does not jump"
    -> "did not jump", "can swim" -> "could swim". Infinitives, what follows a modal, and participles after "be" and
    "have" stay as they are; a participle that stands for a finite verb ("a man talking") is changed where no verb
    carries a tense. With a verb, those that share its subject are changed too: "bakes and decorates" -> "baked and
    decorated".
    """
    words, tags = text.split(), tagger(text.split())
    cores = [core(word) for word in words]
    wanted = max(1, min(10, int(share * len(words))))
    carrying = [at for at in range(len(words)) if _carries_tense(cores, tags, at)]
    order = [int(at) for at in rng.permutation(len(words)) if at in carrying]
    order.sort(key=lambda at: tags[at] not in (*_FINITE, "MD", "VB"))
    for at in sorted({other for chosen in order[:wanted] for other in _joined(cores, tags, carrying, chosen)}):
        words[at] = put(words[at], _in_other_tense(cores, tags, at, inflector))
    return rebuild(text, words)


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
    if word in _OTHER_AUXILIARY:
        if tag == "MD" and (after[:2] not in ("VB", "RB", "PR") or words[at + 1] == "rather"):
            return False  # "will smith", "would rather"
        return before is None or (tags[before] not in ("TO", "MD") and words[before] not in DO)
    if before is not None and (tags[before] in ("TO", "MD") or words[before] in _AUXILIARIES):
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


def _in_other_tense(words: Sequence[str], tags: Sequence[str], at: int, inflector: Inflector) -> str:
    verb, tag = words[at], tags[at]
    subject = [place for place in range(at) if tags[place][:2] in ("NN", "PR")]
    plural = bool(subject) and (tags[subject[-1]] in ("NNS", "NNPS") or words[subject[-1]] in _PLURAL_PRONOUNS)
    if verb in _PRESENT:
        return _PRESENT[verb][plural]
    if verb in _OTHER_AUXILIARY:
        return _OTHER_AUXILIARY[verb]
    if tag == "VBD":
        return inflector.inflect(inflector.lemma(verb, tag), "VBP" if plural else "VBZ")
    return inflector.inflect(inflector.lemma(verb, tag if tag.startswith("VB") else "VBZ"), "VBD")


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
    if lemma in tables.words("no_passive") or not _clause_ends(words, tags, end):
        return text
    if "PRP" in tags[end:] or core(words[-1]) in _INSTRUCTIONS:  # "soup with noodles in it", "a duck to roast"
        return text
    if not _patient(words, tags, verb + 1, end, inflector):
        return text
    patient = words[verb + 1 : end]
    be = _be(patient, tags[verb + 1 : end], past=form.startswith("past"))
    helpers = {"participle": ["being"], "present": [be], "past": [be]}.get(form, [be, "being"])
    by = _as_object(words[:subject])
    return rebuild(text, [*_as_subject(patient), *helpers, inflector.inflect(lemma, "VBN"), "by", *by, *words[end:]])


def _passive_instruction(text: str, words: list[str], tags: list[str], inflector: Inflector) -> str:
    end = _phrase(words, tags, 1)
    lemma = inflector.lemma(core(words[0]), "VB")
    if lemma in tables.words("no_passive") or any(tag.startswith("VB") for tag in tags[end:]):
        return text
    instructions = tables.words("instructions")
    if any(core(word) in instructions and tag == "DT" for word, tag in zip(words[end:], tags[end + 1 :], strict=False)):
        return text  # "put it on top place some sprouts"
    if not _patient(words, tags, 1, end, inflector):
        return text
    if end < len(words) and tags[end] not in ("IN", "TO", "RP") and not _adverb(words, tags, end):
        return text
    if "CC" in tags[end:] and (_adverb(words, tags, end) or core(words[-1]) in _INSTRUCTIONS):
        return text  # "fry meat together and fish together", "add it to the pan and mix"
    helper = _be(words[1:end], tags[1:end], past=False)
    return rebuild(text, [*_as_subject(words[1:end]), helper, inflector.inflect(lemma, "VBN"), *words[end:]])


def _patient(words: Sequence[str], tags: Sequence[str], start: int, end: int, inflector: Inflector) -> bool:
    """Whether these words are surely a whole noun phrase that can become the subject."""
    if start == end or "PRP$" in tags[start:end]:  # "her bow is shot by the girl": whose?
        return False
    cores = [core(word) for word in words[start:end]]
    of_run = [tag for tag, word in zip(tags[start:end], cores, strict=True) if tag.startswith("NN") or word == "and"]
    last, tag = cores[-1], tags[end - 1]
    if tag == "NN" and "and" not in cores and "of" not in cores and {"NNS", "NNPS"} & set(of_run):
        return False  # "carrots sugar salt": a list, of which number?
    if cores[0] in _ONE and tag == "NNS" and "of" not in cores and "and" not in cores:
        return False  # "a car features"
    if tag == "NNS" and inflector.lemma(last, "VBZ") in tables.words("actions"):
        return False  # "the white top talks": a verb taken for a noun
    if last in _INSTRUCTIONS or last == "live" or not known(last):
        return False
    if tags[start - 1] == "VBG" and end - start == 1 and tag == "NN" and start > 1 and tags[start - 2] == "NN":
        return False  # "high school wrestling match"
    return not (last.endswith("ing") and len(cores) > 1 and last not in tables.words("ing_nouns"))


# Verbs that close a recipe's line, and are taken for nouns there: "add milk and one egg whisk".
_INSTRUCTIONS = frozenset(
    ("whisk", "stir", "mix", "blend", "fry", "cook", "boil", "toss", "heat", "chop", "simmer", "bake", "roast", "sear")
)
_ONE = frozenset(("a", "an", "one", "each", "this", "that", "every", "another"))
_PLACE_ADVERBS = frozenset(
    ("together", "outside", "inside", "over", "up", "down", "out", "off", "away", "around", "in", "on", "aside")
)


def _adverb(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    return tags[at : at + 1] == ["RB"] and (core(words[at]).endswith("ly") or core(words[at]) in _PLACE_ADVERBS)


def active(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    """Passive to active: "a song is sung by a man" -> "a man sings a song". Captions are mostly active already."""
    words = text.split()
    tags = tagger(words)
    # "in the kitchen the chef is interviewed by a lady": words before the subject stay before it
    start = _phrase(words, tags, 1) if tags[:1] == ["IN"] else 0
    subject = _phrase(words, tags, start)
    if subject == start or core(" ".join(words[subject : subject + 1])) not in BE:
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
    if at < len(words) and (tags[at] == "PRP" or core(words[at]) in _SOMETHING):
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
    if tag and core(words[at]) in BE:
        progressive = tags[at + 1 : at + 2] == ["VBG"]
        tense = "past" if core(words[at]) in ("was", "were") else "present"
        return at + 1, f"{tense} progressive" if progressive else ""
    return at, {"VBZ": "present", "VBP": "present", "VBD": "past", "VBG": "participle"}.get(tag, "")


def _clause_ends(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    """Whether the clause ends here: no word follows that could belong to another verb or noun phrase."""
    if at == len(words):
        return True
    return (
        (tags[at] in ("IN", "TO") or _adverb(words, tags, at))
        and not (tags[at] == "TO" and tags[at + 1 : at + 2] == ["VB"])
        and core(words[at]) not in _SUBORDINATORS
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
_SINGULAR = frozenset(
    ["gymnastics", "news", "mathematics", "physics", "politics", "aerobics", "athletics", "macaroni", "pepperoni"]
)


def _be(words: Sequence[str], tags: Sequence[str], *, past: bool) -> str:
    plural = _plural(words, tags)
    return ("were" if plural else "was") if past else ("are" if plural else "is")
