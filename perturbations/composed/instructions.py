"""The instruction that leads from one caption to another, by rule. Standard library only.

EgoCVR's were written by GPT-4 (supplement D.2): the shortest sentence that says the change, what stays as "it".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SOURCE = "rule 1"

_BEFORE = ("DT", "PRP$", "JJ", "JJR", "JJS", "CD", "VBN", "VBG")
"""Tags of words that stand before a noun and go with it."""
_EDGES = ".,;:!?\"'()"


@dataclass(frozen=True)
class Words:
    """A caption's words.

    Attributes:
        words: in order, without punctuation, lower case.
        tags: the Penn tag of each.
        lemmas: the base form of each noun and verb; other words as they are.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    lemmas: tuple[str, ...]

    @property
    def verb(self) -> str:
        """The first verb's base form; empty where there is none."""
        return next((lemma for lemma, tag in zip(self.lemmas, self.tags, strict=True) if tag.startswith("VB")), "")

    @property
    def nouns(self) -> frozenset[str]:
        """The base forms of all nouns."""
        return frozenset(lemma for lemma, tag in zip(self.lemmas, self.tags, strict=True) if tag.startswith("NN"))


def words_of(caption: str, tagger: Callable[[list[str]], list[str]], lemma: Callable[[str, str], str]) -> Words:
    """A caption's words, tagged. `lemma` is (word, Penn tag) -> base form."""
    words = [word for word in (part.strip(_EDGES).lower() for part in caption.split()) if word]
    tags = tagger(words) if words else []
    lemmas = [lemma(word, tag) if tag.startswith(("NN", "VB")) else word for word, tag in zip(words, tags, strict=True)]
    return Words(tuple(words), tuple(tags), tuple(lemmas))


def instruction_for(query: Words, target: Words) -> str:
    """What to do instead: the target's caption from its verb on, with "it" or "them" for the first thing both name.

    "peel the red onion", "cut the red onion into rings": "Cut it into rings instead."
    """
    start = next((place for place, tag in enumerate(target.tags) if tag.startswith("VB")), 0)
    words: list[str] = []
    place = start
    while place < len(target.words):
        end = place + 1 if place == start else _phrase(target, place)
        nouns = {target.lemmas[at] for at in range(place, end) if target.tags[at].startswith("NN")}
        if nouns and nouns <= query.nouns and not {"it", "them"} & {*words}:
            words.append("them" if target.tags[end - 1] == "NNS" else "it")
        else:
            words.extend(_base(target, at) if at == start else target.words[at] for at in range(place, end))
        place = end
    text = " ".join(words)
    return f"{text[:1].upper()}{text[1:]} instead."


def _base(target: Words, place: int) -> str:
    return target.lemmas[place] if target.tags[place].startswith("VB") else target.words[place]


def _phrase(target: Words, place: int) -> int:
    """One after the end of the noun phrase that begins at a place; the place itself plus one where none does."""
    end = place
    while end < len(target.tags) and target.tags[end] in _BEFORE:
        end += 1
    first_noun = end
    while end < len(target.tags) and target.tags[end].startswith("NN"):
        end += 1
    return end if end > first_noun else place + 1
