"""Kernels that change characters.

Each kernel first draws the new form of every word, and then which words change. So a higher severity changes all words
that a lower one changes, in the same way.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from perturbations.text import tables
from perturbations.text.tokens import core, parts, rebuild, without_end_mark

_END_MARKS = ("...", ".", ",", ";")
_BRACKETS = (('"', '"'), ("{", "}"), ("[", "]"), ("(", ")"), ("`", "`"), ("【", "】"))

_Generator = np.random.Generator
T = TypeVar("T")
_Noise = Callable[[str, _Generator], str]

_RANDOM_CHARACTERS = string.ascii_letters + string.digits + "!@#$%^&*()_+"


# --- MM-Robustness: a share of the words, and of the characters of each --------------------------------------------


def keyboard(text: str, rng: _Generator, *, ratio: float) -> str:
    """Characters become neighbours on the keyboard, in words of four letters or more (Qiu et al., Tab. 8).

    As in nlpaug, a neighbour is as often upper as lower case, and keys of symbols and digits are neighbours too.
    """
    return _noisy(text, rng, ratio, 4, _from_table(tables.key_errors().get, _share))


def ocr(text: str, rng: _Generator, *, ratio: float) -> str:
    """Characters become others that optical character recognition confuses with them (Qiu et al., Tab. 8)."""
    return _noisy(text, rng, ratio, 1, _from_table(tables.confusions().get, _share))


def char_insert(text: str, rng: _Generator, *, ratio: float) -> str:
    """Random letters, digits and symbols are inserted (Qiu et al., Tab. 8)."""
    return _noisy(text, rng, ratio, 4, _insert)


def char_replace(text: str, rng: _Generator, *, ratio: float) -> str:
    """Characters become random letters, digits and symbols (Qiu et al., Tab. 8)."""
    return _noisy(text, rng, ratio, 4, _replace)


def char_swap(text: str, rng: _Generator, *, ratio: float) -> str:
    """Characters change places with a neighbour (Qiu et al., Tab. 8)."""
    return _noisy(text, rng, ratio, 4, _swap)


def char_delete(text: str, rng: _Generator, *, ratio: float) -> str:
    """Characters are left out (Qiu et al., Tab. 8)."""
    return _noisy(text, rng, ratio, 4, _delete)


def _noisy(text: str, rng: _Generator, ratio: float, shortest: int, noise: _Noise) -> str:
    words = text.split()
    # The reference's own arithmetic: in doubles, 0.05 * 6 * 10 words gives 4, not 3.
    wanted = min(10, max(1, math.ceil(ratio * len(words))))
    return _apply(text, rng, wanted, lambda word: len(parts(word)[1]) >= shortest, noise)


def _share(length: int) -> int:
    return min(10, max(1, math.ceil(0.3 * length)))


def _one_word(length: int) -> int:
    return 1


def _apply(text: str, rng: _Generator, wanted: int, eligible: Callable[[str], bool], noise: _Noise) -> str:
    words = text.split()
    changed = [noise(word, rng) for word in words]
    order = [int(at) for at in rng.permutation(len(words)) if eligible(words[at])]
    for at in order[:wanted]:
        words[at] = changed[at]
    return rebuild(text, words)


def _from_table(candidates: Callable[[str], str | None], count: Callable[[int], int]) -> _Noise:
    def noise(word: str, rng: _Generator) -> str:
        letters = list(word)
        order = [int(at) for at in rng.permutation(len(letters)) if candidates(letters[at])]
        for at in order[: count(len(letters))]:
            letters[at] = _pick(candidates(letters[at]) or letters[at], rng)
        return "".join(letters)

    return noise


def _insert(word: str, rng: _Generator) -> str:
    letters = list(word)
    for at in sorted(_places(len(letters), rng), reverse=True):
        letters.insert(at, _pick(_RANDOM_CHARACTERS, rng))
    return "".join(letters)


def _replace(word: str, rng: _Generator) -> str:
    letters = list(word)
    for at in _places(len(letters), rng):
        letters[at] = _pick(_RANDOM_CHARACTERS.replace(letters[at], ""), rng)
    return "".join(letters)


def _swap(word: str, rng: _Generator) -> str:
    letters = list(word)
    for at in _places(len(letters), rng):
        _exchange(letters, at, rng)
    return "".join(letters)


def _delete(word: str, rng: _Generator) -> str:
    gone = set(_places(len(word), rng)) if len(word) > 1 else set()
    return "".join(letter for at, letter in enumerate(word) if at not in gone)


def _places(length: int, rng: _Generator) -> list[int]:
    return [int(at) for at in rng.permutation(length)[: _share(length)]]


def _exchange(letters: list[str], at: int, rng: _Generator) -> None:
    near = at + int(rng.choice((-1, 1)))
    if not 0 <= near < len(letters):
        near = 2 * at - near
    if 0 <= near < len(letters):
        letters[at], letters[near] = letters[near], letters[at]


def _pick(candidates: Sequence[T], rng: _Generator) -> T:
    return candidates[int(rng.integers(len(candidates)))]


# --- msrvtt_p: a share of the words, one error in each ----------------------------------------------------------------


def keyboard_slip(text: str, rng: _Generator, *, share: float) -> str:
    """One letter becomes its neighbour on the keyboard, in a share of the words (Schiappa et al., App. A.2)."""
    near = _letters_only(tables.neighbours().get)
    return _slips(text, rng, share, lambda word: any(map(near, word)), _from_table(near, _one_word))


def ocr_slip(text: str, rng: _Generator, *, share: float) -> str:
    """One character is recognized wrongly, in a share of the words (Schiappa et al., App. A.2)."""
    alike = tables.confusions().get
    return _slips(text, rng, share, lambda word: any(map(alike, word)), _from_table(alike, _one_word))


def typos(text: str, rng: _Generator, *, share: float) -> str:
    """One letter is inserted, left out, exchanged or replaced, in a share of the words (Schiappa et al., App. A.2)."""
    return _slips(text, rng, share, lambda word: len(core(word)) > 1, _typo)


def spelling_error(text: str, rng: _Generator, *, share: float) -> str:
    """A common misspelling takes the place of a word, in a share of the words (Schiappa et al., App. A.2)."""
    known = tables.misspellings()

    def misspell(word: str, rng: _Generator) -> str:
        before, written, after = parts(word)
        return f"{before}{_pick(known.get(written.lower(), (written,)), rng)}{after}"

    return _slips(text, rng, share, lambda word: core(word) in known, misspell)


def punctuation(text: str, rng: _Generator) -> str:
    """The caption in a pair of brackets, with an end mark of its own (Schiappa et al., App. A.2)."""
    left, right = _pick(_BRACKETS, rng)
    mark = _pick(_END_MARKS, rng)
    body = without_end_mark(text.strip(), ".,;:!?")
    if mark[0] == ".":
        body = body.removesuffix(".")
    return f"{left} {body}{mark} {right}" if text.strip() else text


def _slips(text: str, rng: _Generator, share: float, eligible: Callable[[str], bool], noise: _Noise) -> str:
    wanted = max(1, min(10, int(share * len(text.split()))))
    skipped = tables.closed_class()
    return _apply(text, rng, wanted, lambda word: core(word) not in skipped and eligible(word), noise)


def _letters_only(candidates: Callable[[str], str | None]) -> Callable[[str], str | None]:
    def letters(character: str) -> str | None:
        return "".join(filter(str.isalpha, candidates(character) or "")) or None

    return letters


def _typo(word: str, rng: _Generator) -> str:
    before, written, after = parts(word)
    letters = list(written)
    kind, letter = int(rng.integers(4)), _pick(string.ascii_lowercase, rng)
    at = int(rng.integers(max(1, len(letters))))
    if len(letters) < 2:
        return word
    if kind == 0:
        letters.insert(at, letter)
    elif kind == 1:
        del letters[at]
    elif kind == 2:
        _exchange(letters, at, rng)
    else:
        letters[at] = letter
    return f"{before}{''.join(letters)}{after}"
