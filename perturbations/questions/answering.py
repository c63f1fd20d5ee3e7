"""How a question is put to a model, and which option its response names. Standard library only: exports hold a copy."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from string import ascii_uppercase

LETTERS = ascii_uppercase
PROMPT = "own_v1"
"""The name of the prompt, which rows record; a changed prompt needs another name."""


def prompt(question: str, options: Sequence[str]) -> str:
    """The question, a lettered option per line, and the request for the letter alone."""
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return "\n".join([question, *lines, "Answer with the letter of one option only."])


_LETTER = r"[(\[]?([A-Za-z])[)\]]?[.:]?"
_LABEL = re.compile(r"^(?:[(\[]([A-Za-z])[)\]]|([A-Z])[.:)])(?=\s|$|[^\w\s])", re.MULTILINE)
_SAID = re.compile(
    r"(?i:\b(?:answer|option|choice)(?:\s+(?:is|would be|must be))?\s*:?\s*(?:(?:option|choice)\s*)?)"
    r"(?:[(\[]([A-Za-z])[)\]]|([A-Z])(?=\s*(?:$|[.,;:!)\]\n]|because\b|since\b|as\b))|([B-HJ-Z])(?!\w|')"
    r"|([a-z])(?=[.!]?\s*$))"
)


def parsed(response: str, options: Sequence[str]) -> int | None:
    """The option that a response names, counted from 0; None where it names no option, or several.

    The forms are tried in this order: a letter alone, `B`; a whole option; `the answer is B`; a marked letter, `(B)`,
    `B.` or `B:`, at the beginning, if no other letter is marked in brackets or at the beginning of a line. Text before
    `</think>` does not count.
    """
    text = unicodedata.normalize("NFKC", response).rpartition("</think>")[2]
    text = re.sub(r"[*`]+|\\boxed|[{}]", "", text).strip().strip("\"'").strip()
    if match := re.fullmatch(_LETTER, text):
        return _place({match[1]}, options)
    wanted = _folded(text)
    same = [place for place, option in enumerate(options) if _folded(option) == wanted]
    if wanted and same:
        return same[0] if len(same) == 1 else None
    if letters := _letters(_SAID.finditer(text)):
        return _place(letters, options)
    marked = [*_LABEL.finditer(text), *re.finditer(r"[(\[]([A-Za-z])[)\]]", text)]
    return _place(_letters(marked), options) if _LABEL.match(text) else None


def _letters(matches: Iterable[re.Match[str]]) -> set[str]:
    return {next(filter(None, match.groups())).upper() for match in matches}


def _place(letters: set[str], options: Sequence[str]) -> int | None:
    """The place of a single letter, if there is such an option."""
    places = {LETTERS.index(letter.upper()) for letter in letters}
    return places.pop() if len(places) == 1 and max(places) < len(options) else None


def _folded(text: str) -> str:
    """A text without differences that do not matter for options: case, spaces, a full stop at the end."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".!")
