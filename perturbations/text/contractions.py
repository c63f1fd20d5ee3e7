"""Contractions of English, "it's", "they'll", "should've", as the words that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perturbations.text.tokens import APOSTROPHES, clitic, parts

Tagger = Callable[[list[str]], list[str]]

WRITTEN_OUT = {"'re": "are", "'m": "am", "'ve": "have", "'ll": "will", "'d": "would"}
CLITICS = frozenset((*WRITTEN_OUT, "'s"))
RUN_TOGETHER = {"im": ("i", "am"), "ive": ("i", "have"), **{f"{who}re": (who, "are") for who in ("you", "they")}}
OF_HAVE = frozenset(("been", "got", "gotten", "had"))
"""Participles that occur only with "have": "he's been"."""

_APOSTROPHES = dict.fromkeys(map(ord, APOSTROPHES), "'")


class Clitic(str):
    """A word that is written together with the one before it: the "'s" of "it's"."""

    __slots__ = ()


def separated(words: Sequence[str]) -> list[str]:
    """The words with clitics as words of their own."""
    result = []
    for word in words:
        stem, ending = clitic(word)
        result += [stem, Clitic(ending)] if ending else [word]
    return result


def together(words: Sequence[str]) -> list[str]:
    """Words as they are written: clitics join the word before them."""
    result: list[str] = []
    for word in words:
        if isinstance(word, Clitic) and result:
            result[-1] += word
        else:
            result.append(word)
    return result


def straight(text: str) -> str:
    """A text with straight apostrophes."""
    return text.translate(_APOSTROPHES)


def core_of(word: str) -> str:
    """The word as in word lists, with a straight apostrophe: of a clitic "'s", of others without the marks around."""
    before, bare, _ = map(straight, parts(word.lower()))
    return f"'{bare}" if before == "'" and f"'{bare}" in CLITICS else bare


def written_out(words: Sequence[str], tagger: Tagger) -> list[str]:
    """The words with verbs written out: "she's been" -> "she has been". "'d", which is "had" or "would", stays."""
    apart = separated(words)
    cores, tags = list(map(core_of, apart)), tagger(apart)
    for at, bare in enumerate(cores):
        if isinstance(apart[at], Clitic) and tags[at] != "POS" and bare != "'d":
            verb = "us" if tags[at] == "PRP" else "has" if cores[at + 1 : at + 2] and cores[at + 1] in OF_HAVE else "is"
            apart[at] = with_verb(apart[at], WRITTEN_OUT.get(bare, verb), in_capitals=apart[at - 1].isupper())
    return together(apart)


def with_verb(clitic: str, verb: str, *, in_capitals: bool) -> str:
    """A verb in the place of a clitic, with the marks behind it."""
    _, written, after = parts(clitic)
    return f"{verb.upper() if in_capitals and written.isupper() else verb}{after}"
