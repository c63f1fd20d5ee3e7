"""The word lists in `data/`, one file each; lines that start with "# " say where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources


def lines(name: str) -> list[str]:
    """The entries of `data/<name>.txt`."""
    text = resources.files("perturbations.text").joinpath("data", f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("# ")]


@cache
def stop_words() -> frozenset[str]:
    """Function words, auxiliaries among them."""
    return frozenset(words("stop_words") + words("auxiliaries"))


@cache
def closed_class() -> frozenset[str]:
    """Function words without auxiliaries, which msrvtt_p's paper perturbs ("does" -> "dofs", Tab. 5)."""
    return frozenset(words("stop_words"))


@cache
def phrases(name: str) -> tuple[str, ...]:
    """A list with one entry a line."""
    return tuple(lines(name))


@cache
def words(name: str) -> tuple[str, ...]:
    """A list with several words a line."""
    return tuple(word for line in lines(name) for word in line.split())


@cache
def confusions() -> Mapping[str, str]:
    """For a character, those that optical character recognition takes it for."""
    table: dict[str, str] = {}
    for line in lines("ocr"):
        one, other = line.split()
        table[one] = table.get(one, "") + other
        table[other] = table.get(other, "") + one
    return table


@cache
def neighbours() -> Mapping[str, str]:
    """For a key, those that touch it, upper case for upper case."""
    rows = lines("keyboard")
    keys = {(row, column): key for row, line in enumerate(rows) for column, key in enumerate(line)}
    near = {
        key: "".join(keys[at] for at in sorted(keys) if at != (row, column) and _touches(at, row, column))
        for (row, column), key in keys.items()
    }
    return near | {key.upper(): value.upper() for key, value in near.items()}


def _touches(at: tuple[int, int], row: int, column: int) -> bool:
    return abs(at[0] - row) <= 1 and abs(at[1] - column) <= 1


@cache
def misspellings() -> Mapping[str, tuple[str, ...]]:
    """For a word, how people misspell it."""
    entries = [line.split() for line in lines("spelling_errors")]
    return {entry[0]: tuple(entry[1:]) for entry in entries}


@cache
def morphs() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """For (Penn tag, word), words of that tag that differ from it in the first morph only."""
    table = {}
    for line in lines("morphs"):
        tag, rest, *firsts = line.split()
        for first in firsts:
            table[tag, first + rest] = tuple(other + rest for other in firsts if other != first)
    return table


@cache
def pairs(name: str) -> Mapping[str, str]:
    """A list of replacements, `this = that`."""
    entries = [line.partition(" = ") for line in lines(name)]
    return {old: new for old, _, new in entries}


@cache
def caption_genders() -> Mapping[str, tuple[str, str, str]]:
    """For a gendered word of MSR-VTT's captions: "m" or "f", its counterpart, its neutral form."""
    entries = [line.split() for line in lines("gender_captions")]
    return {word: (gender, other, neutral) for word, gender, other, neutral in entries}


@cache
def gender_swaps() -> Mapping[str, str]:
    """For a gendered word, the one of the other gender."""
    table: dict[str, str] = {}
    for line in lines("gender_swap"):
        one, *arrow, other = line.split()
        table[one] = other
        if not arrow:
            table.setdefault(other, one)
    return table
