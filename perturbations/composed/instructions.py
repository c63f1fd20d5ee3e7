"""The instruction that leads from one caption to another, by rule. Standard library only.

EgoCVR's were written by GPT-4 (supplement D.2): the shortest sentence that says the change, what stays as "it".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

SOURCE = "rule 1"

_BEFORE = ("DT", "PRP$", "JJ", "JJR", "JJS", "CD", "VBN", "VBG")
"""Tags of words that stand before a noun and go with it."""
_EDGES = ".,;:!?\"'()"


Words = Sequence[tuple[str, str, str]]
"""A caption's words in order, lower case, without punctuation: each with its Penn tag and, of nouns and verbs, its base
form; other words are their own."""


def words_of(caption: str, tagger: Callable[[list[str]], list[str]], lemma: Callable[[str, str], str]) -> Words:
    """A caption's words, tagged. `lemma` is (word, Penn tag) -> base form."""
    words = [word for word in (part.strip(_EDGES).lower() for part in caption.split()) if word]
    tags = tagger(words) if words else []
    return [
        (word, tag, lemma(word, tag) if tag.startswith(("NN", "VB")) else word)
        for word, tag in zip(words, tags, strict=True)
    ]


def verb_of(words: Words) -> str:
    """The first verb's base form; empty where there is none."""
    return next((base for _, tag, base in words if tag.startswith("VB")), "")


def nouns_of(words: Words) -> frozenset[str]:
    """The base forms of all nouns."""
    return frozenset(base for _, tag, base in words if tag.startswith("NN"))


def instruction_for(query: Words, target: Words) -> str:
    """What to do instead: the target's caption from its verb on, with "it" or "them" for the first thing both name.

    "peel the red onion", "cut the red onion into rings": "Cut it into rings instead."
    """
    start = next((place for place, (_, tag, _) in enumerate(target) if tag.startswith("VB")), 0)
    known = nouns_of(query)
    words: list[str] = []
    place = start
    while place < len(target):
        end = place + 1 if place == start else _phrase(target, place)
        part = target[place:end]
        nouns = nouns_of(part)
        if nouns and nouns <= known and not {"it", "them"} & {*words}:
            words.append("them" if part[-1][1] == "NNS" else "it")
        else:
            words += [base if place == start and tag.startswith("VB") else word for word, tag, base in part]
        place = end
    text = " ".join(words)
    return f"{text[:1].upper()}{text[1:]} instead."


def _phrase(target: Words, place: int) -> int:
    """One after the end of the noun phrase that begins at a place; the place itself plus one where none does."""
    tags = [tag for _, tag, _ in target]
    end = place
    while end < len(tags) and tags[end] in _BEFORE:
        end += 1
    first_noun = end
    while end < len(tags) and tags[end].startswith("NN"):
        end += 1
    return end if end > first_noun else place + 1
