"""A caption's words: its parts between white space."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

UNKNOWN = "[UNK]"

_WORD = re.compile(r"\S+")
_PARTS = re.compile(r"([\W_]*)(.*?)([\W_]*)", re.DOTALL)
_QUOTES = ("\N{LEFT SINGLE QUOTATION MARK}", "\N{RIGHT SINGLE QUOTATION MARK}")
APOSTROPHES = ("'", "`", "\N{ACUTE ACCENT}", "\N{MODIFIER LETTER APOSTROPHE}", *_QUOTES)
"""What keyboards and word processors write."""

_ABBREVIATED = re.compile(
    r"[^\W\d_]{1,2}\.(?:[^\W\d_]\.)*[^\W\d_]|al|approx|capt|dr|etc|feat|ft|hrs?|inc|jr|lbs?|ltd|mrs?|ms|oz|prof|sr|st|"
    "tbsps?|tsps?|vs",
    re.IGNORECASE,
)
"""Words with a full stop of their own, without their last one: "a.m", "Ph.D", and those that end few sentences."""

_CLITIC = re.compile(rf"(.*\w)([{''.join(APOSTROPHES)}](?:s|d|m|ll|re|ve))", re.DOTALL | re.IGNORECASE)


def rebuild(text: str, words: Sequence[str]) -> str:
    """`text` with other words. Its white space stays if the number of words does; else it becomes single spaces."""
    old = text.split()
    if list(words) == old:
        return text
    if len(old) != len(words):
        return " ".join(words)
    new = iter(words)
    return _WORD.sub(lambda _: next(new), text)


def parts(word: str) -> tuple[str, str, str]:
    """The punctuation before a word, the word itself, and the punctuation after it.

    The full stop of an abbreviation belongs to the word: "a.m.", "etc.".
    """
    match = _PARTS.fullmatch(word)
    assert match is not None
    before, core, after = match.groups()
    if after[:1] == "." and _ABBREVIATED.fullmatch(core):
        return before, f"{core}.", after[1:]
    return before, core, after


def core(word: str) -> str:
    """A word without the punctuation around it, in lower case, as in word lists: "mr" of "Mr."."""
    return parts(word)[1].lower().removesuffix(".")


def without_end_mark(text: str, marks: str) -> str:
    """A text without the marks and the white space at its end; the full stop of an abbreviation stays."""
    body = text.rstrip(f"{marks} \t\n")
    abbreviates = text.startswith(".", len(body)) and parts(f"{body}.".split()[-1])[1].endswith(".")
    return f"{body}." if abbreviates else body


def clitic(word: str) -> tuple[str, str]:
    """A word without the "'s", "'d", "'m", "'ll", "'re" or "'ve" at its end, and that; "" where it has none."""
    before, written, after = parts(word)
    match = _CLITIC.fullmatch(written)
    return (word, "") if match is None else (before + match[1], match[2] + after)


def put(word: str, replacement: str) -> str:
    """A word whose core is replaced by `replacement`, with the same capitals: "Mrs." or "Mister" for "Mr."."""
    before, old, after = parts(word)
    if old.endswith("."):
        old, after = old[:-1], f".{after}" if _ABBREVIATED.fullmatch(replacement) else after
    if old[:1].isupper():
        replacement = (
            replacement.upper() if len(old) > 1 and old.isupper() else replacement[:1].upper() + replacement[1:]
        )
    return f"{before}{replacement}{after}"


def differs(text: str, other: str) -> bool:
    """Whether two texts differ in more than capitals, punctuation and white space."""
    return _plain(text) != _plain(other)


def _plain(text: str) -> str:
    letters = (letter for letter in text.lower() if unicodedata.category(letter)[0] != "P")
    return " ".join("".join(letters).split())


def encodable(text: str) -> str:
    """The text with "?" for lone surrogates, which JSON can hold and libraries refuse."""
    return text.encode("utf-8", "replace").decode("utf-8")
