"""Contractions of English, "it's", "they'll", "should've", as the words that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perturbations.text.tokens import APOSTROPHES, clitic, parts

_Tagger = Callable[[list[str]], list[str]]

WRITTEN_OUT = {"'re": "are", "'m": "am", "'ve": "have", "'ll": "will", "'d": "would"}
_TAGS = {"'re": "VBP", "'m": "VBP", "'ve": "VBP", "'ll": "MD", "'d": "MD"}
CLITICS = frozenset((*WRITTEN_OUT, "'s"))
# What stands before an "'s" that is a verb; behind other words it is a possessive, but before a verb or an article.
_SUBJECTS = frozenset(("he", "she", "that", "this", "there", "here", "who", "what", "where", "when", "why", "how"))
_SUBJECTS |= {f"{kind}{of}" for kind in ("every", "some", "no") for of in ("body", "one", "thing")}
OF_HAVE = frozenset(("been", "got", "gotten", "had"))
"""Participles that only stand with "have": "he's been"."""

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


def tagged(words: Sequence[str], tagger: _Tagger) -> tuple[list[str], list[str]]:
    """The cores of separated words and their Penn tags; a possessive "'s", and "its" written "it's", are POS.

    The tagger reads verbs written out, which it knows: "she is happy".
    """
    cores = [core_of(word) for word in words]
    plain = [straight(word) for word in words]
    tags = tagger(plain)
    verbs = {at: WRITTEN_OUT[bare] for at, bare in enumerate(cores) if bare in WRITTEN_OUT and at}
    for at in [at for at, bare in enumerate(cores) if bare == "'s" and at]:
        if cores[at - 1] in ("let", "lets"):
            verbs[at] = "us"
        elif _is_verb(cores[at - 1], cores[at + 1 :], tags[at + 1 :]):
            verbs[at] = "is"
    if verbs:
        tags = tagger([verbs.get(at, word) for at, word in enumerate(plain)])
    for at, bare in enumerate(cores):
        if bare in CLITICS and at:
            tags[at] = "POS" if at not in verbs else "PRP" if verbs[at] == "us" else _TAGS.get(bare, "VBZ")
    return cores, tags


def written_out(words: Sequence[str], tagger: _Tagger) -> list[str]:
    """The words with verbs written out: "she's been" -> "she has been". "'d", which is "had" or "would", stays."""
    apart = separated(words)
    cores, tags = tagged(apart, tagger)
    for at, bare in enumerate(cores):
        if isinstance(apart[at], Clitic) and tags[at] != "POS" and bare != "'d":
            verb = "us" if tags[at] == "PRP" else "has" if cores[at + 1 : at + 2] and cores[at + 1] in OF_HAVE else "is"
            apart[at] = with_verb(apart[at], WRITTEN_OUT.get(bare, verb), in_capitals=apart[at - 1].isupper())
    return together(apart)


def with_verb(clitic: str, verb: str, *, in_capitals: bool) -> str:
    """A verb in the place of a clitic, with the marks behind it."""
    _, written, after = parts(clitic)
    return f"{verb.upper() if in_capitals and written.isupper() else verb}{after}"


def _is_verb(before: str, words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether an "'s" is "is" or "has", by the word before it, and the words behind it with their tags."""
    if before in _SUBJECTS:
        return True
    at = next((at for at, tag in enumerate(tags) if tag != "RB"), None)
    if words and words[0] in ("not", "been", "got", "here", "there"):
        return True
    if at is None:
        return before == "it" and bool(tags)
    before_noun = any(tag.startswith("NN") for tag in tags[at + 1 : at + 2])
    if before == "it" and tags[at] in ("PRP", "EX", "TO", "IN", "VBG"):
        return True
    return tags[at] == "DT" or (tags[at] in ("JJ", "VBN", "VBD", "VBG")[3 * (before != "it") :] and not before_noun)
