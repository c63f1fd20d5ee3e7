"""A round trip through another language: what goes out, and what of the result is taken.

Rule-based translators make the same errors again and again: "play" comes back as "touch", "she" as "it", "meat" as
"flesh", instructions as nouns. Before the trip a caption's verbs are made plain (pre-editing). After it, only those
differences to the original are taken that keep its meaning (post-editing); every other word is put back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from perturbations.text import tables
from perturbations.text.contractions import CLITICS, Tagger, core_of
from perturbations.text.grammar import Inflector
from perturbations.text.tokens import core, parts, put, rebuild

_PLAIN_VERBS = frozenset(("is", "am", "are", "was", "were", "has", "have", "had", "do", "does", "did"))
_SPEAK = frozenset(("talk", "speak"))
_SPELLED_OUT = {f"{verb}n't": f"{verb} not" for verb in _PLAIN_VERBS | {"could", "should", "would"}}
_SPELLED_OUT |= {"can't": "cannot", "won't": "will not"}
_PREPOSITIONS = frozenset(("in", "on", "to", "into", "onto", "from"))
_PUT = frozenset(("add", "pour", "put", "place", "crack", "break", "drop", "throw"))


def pre_edited(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    """The caption with verbs that no translator takes for nouns.

    "heat some oil" -> "you must heat some oil", "a man works" -> "a man is working", "a girl singing" -> "a girl is
    singing". `post_edited` takes none of the added words.
    """
    words, tags = text.split(), tagger(text.split())
    result: list[str] = []
    for at, (word, tag) in enumerate(zip(words, tags, strict=True)):
        bare, before = core(word), tags[at - 1] if at else ""
        if tag == "VB" and (at == 0 or core(words[at - 1]) in ("and", "then")):
            result += ["you", "must", word]
        elif (
            tag in ("VBZ", "VBP")
            and bare not in _PLAIN_VERBS
            and core_of(word) not in CLITICS
            and before[:2] in ("NN", "PR")
        ):
            result += ["is" if tag == "VBZ" else "are", put(word, inflector.inflect(inflector.lemma(bare, tag), "VBG"))]
        elif tag == "VBG" and before[:2] == "NN":
            result += ["are" if before.endswith("S") else "is", word]
        else:
            result.append(word)
    return " ".join(result)


def post_edited(original: str, translated: str, *, tagger: Tagger, inflector: Inflector) -> str:
    """The original with those of the round trip's changes that keep its meaning.

    Taken are the exchanges of words that `data/round_trip.txt` allows, inflected as the original's words, articles
    before nouns, "is not" for "isn't", some prepositions, and relative clauses ("a man playing" -> "a man that plays").
    Pronouns, and so their gender, negations, names, numbers and the order of the words stay the original's.
    """
    words = original.split()
    tags = tagger(words)
    back = [core(word) for word in translated.split() if core(word)]
    places = _matched(words, tags, back, inflector)
    result = list(words)
    present = {core(word) for word in words}
    for at, place in places.items():
        if back[place] not in present:
            result[at] = _exchanged(words[at], tags[at], back[place], inflector)
            if at and result[at] != words[at] and core(words[at - 1]) in ("a", "an"):
                result[at - 1] = put(words[at - 1], "an" if core(result[at])[:1] in "aeio" else "a")
    for at, word in enumerate(words):
        if core(word) in _SPELLED_OUT and "not" in back:
            result[at] = put(word, _SPELLED_OUT[core(word)])
    anchors = [at for at, word in enumerate(words) if core(word) and core(word) not in tables.stop_words()]
    gaps: dict[int, list[str]] = {}
    for before, after in zip([-1, *anchors], anchors, strict=False):
        between = _between(places, back, before, after)
        if between is None:
            continue
        old = [core(word) for word in words[before + 1 : after]]
        if any(parts(word)[0] or parts(word)[2] for word in words[max(before, 0) : after]):
            continue
        new = _gap(old, between, words, tags, before, after, inflector)
        if new is not None:
            gaps[after] = new
            if new == ["that"]:
                plural = tags[before] in ("NNS", "NNPS")
                lemma = inflector.lemma(core(result[after]), "VBG")
                result[after] = put(words[after], inflector.inflect(lemma, "VBP" if plural else "VBZ"))
    return rebuild(original, _assembled(words, result, anchors, gaps))


def _matched(words: Sequence[str], tags: Sequence[str], back: Sequence[str], inflector: Inflector) -> dict[int, int]:
    """The place in the round trip's result of each of the original's words that came back, as itself or exchanged."""
    free = [at for at, word in enumerate(back) if word not in tables.stop_words()]
    places: dict[int, int] = {}
    for allowed in (_same, _exchangeable):
        for at, word in enumerate(words):
            bare = core(word)
            if at in places or not bare or bare in tables.stop_words():
                continue
            match = next((place for place in free if allowed(bare, tags[at], back[place], inflector)), None)
            if match is not None:
                places[at] = match
                free.remove(match)
    return places


def _same(word: str, tag: str, other: str, inflector: Inflector) -> bool:
    return word == other or inflector.lemma(word, tag) == inflector.lemma(other, tag)


def _exchangeable(word: str, tag: str, other: str, inflector: Inflector) -> bool:
    return inflector.lemma(other, tag) in _exchanges().get((tag[:2], inflector.lemma(word, tag)), ())


@cache
def _exchanges() -> Mapping[tuple[str, str], frozenset[str]]:
    table: dict[tuple[str, str], frozenset[str]] = {}
    for line in tables.lines("round_trip"):
        tag, *group = line.split()
        for word in group:
            table[tag, word] = table.get((tag, word), frozenset()) | set(group) - {word}
    return table


def _exchanged(word: str, tag: str, other: str, inflector: Inflector) -> str:
    if _same(core(word), tag, other, inflector):
        return word
    return put(word, inflector.inflect(inflector.lemma(other, tag), tag))


def _between(places: Mapping[int, int], back: Sequence[str], before: int, after: int) -> list[str] | None:
    """The function words in the result between two words that came back; None if other words are there."""
    start, end = places.get(before, -1) if before >= 0 else -1, places.get(after)
    if end is None or start >= end or (before >= 0 and before not in places):
        return None
    between = list(back[start + 1 : end])
    return between if all(word in tables.stop_words() for word in between) else None


def _gap(
    old: Sequence[str],
    new: Sequence[str],
    words: Sequence[str],
    tags: Sequence[str],
    before: int,
    after: int,
    inflector: Inflector,
) -> list[str] | None:
    """The function words to take between two words; None to leave the original's."""
    verb = inflector.lemma(core(words[before]), tags[before]) if before >= 0 and tags[before][:2] == "VB" else ""
    if list(new) == [*old, "the"]:
        return list(new) if _takes_article(old, tags, before, after) else None
    if old[:1] == ["about"] and new[:1] == ["on"] and verb in _SPEAK and old[1:] == new[1:]:
        return list(new)
    if old[:1] == ["into"] and verb in _PUT and new[:1] in (["in"], ["to"]):
        return ["in" if verb != "add" else "to", *old[1:]]
    # "a man playing": of the first noun only, whose number the verb then has
    relative = not old and list(new) == ["that"] and tags[after] == "VBG" and before >= 0
    if relative and tags[before] in ("NN", "NNS") and not any(tag[:2] in ("VB", "IN", "CC") for tag in tags[:before]):
        return None if any(tag.startswith("VB") for tag in tags[after + 1 :]) else ["that"]
    return None


def _takes_article(old: Sequence[str], tags: Sequence[str], before: int, after: int) -> bool:
    """Whether "the" may be put before a word: a caption's first noun phrase, a verb's object, "in oven"."""
    if not old:
        begins = before < 0 or tags[before] in ("VB", "VBZ", "VBP", "VBD", "VBG")
        return begins and tags[after] in ("NN", "NNS", "JJ")
    return len(old) == 1 and old[0] in _PREPOSITIONS and tags[after] == "NN"


def _assembled(
    words: Sequence[str], result: Sequence[str], anchors: Sequence[int], gaps: Mapping[int, Sequence[str]]
) -> list[str]:
    assembled: list[str] = []
    begin = 0
    for at in anchors:
        assembled += gaps.get(at, list(result[begin:at]))
        assembled.append(result[at])
        begin = at + 1
    return [*assembled, *result[begin:]]
