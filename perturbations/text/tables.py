"""The word lists in `data/`, one file per list; lines that start with "# " name its source."""

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
    """Function words, with auxiliaries."""
    return frozenset(words("stop_words") + words("auxiliaries"))


@cache
def closed_class() -> frozenset[str]:
    """Function words without auxiliaries: msrvtt_p's paper perturbs auxiliaries ("does" -> "dofs", Tab. 5)."""
    return frozenset(words("stop_words"))


@cache
def other_languages() -> frozenset[str]:
    """Frequent words of other languages with Latin letters."""
    return frozenset(word for line in lines("other_languages") for word in line.split()[1:])


@cache
def phrases(name: str) -> tuple[str, ...]:
    """A list with one entry per line."""
    return tuple(lines(name))


@cache
def words(name: str) -> tuple[str, ...]:
    """A list with several words per line."""
    return tuple(word for line in lines(name) for word in line.split())


@cache
def confusions() -> Mapping[str, str]:
    """Character -> the characters that optical character recognition confuses with it."""
    table: dict[str, str] = {}
    for line in lines("ocr"):
        first, second = line.split()
        table[first] = table.get(first, "") + second
        table[second] = table.get(second, "") + first
    return table


@cache
def key_errors() -> Mapping[str, str]:
    """Letter or key -> what is typed in its place: neighbours, in both cases, and symbols above them."""
    table: dict[str, str] = {}
    for line in lines("key_errors"):
        key, near = line[0], line[1:]
        both = {*near, *near.upper()}
        table[key] = "".join(sorted(both - {key}))
        table[key.upper()] = "".join(sorted(both - {key.upper()}))
    return table


@cache
def neighbours() -> Mapping[str, str]:
    """Key of the keyboard -> the keys that touch it, upper case for upper case."""
    rows = lines("keyboard")
    keys = {(row, column): key for row, line in enumerate(rows) for column, key in enumerate(line)}
    near = {
        key: "".join(other for (y, x), other in sorted(keys.items()) if max(abs(y - row), abs(x - column)) == 1)
        for (row, column), key in keys.items()
    }
    return near | {key.upper(): value.upper() for key, value in near.items()}


@cache
def misspellings() -> Mapping[str, tuple[str, ...]]:
    """Word -> its common misspellings."""
    entries = [line.split() for line in lines("spelling_errors")]
    return {entry[0]: tuple(entry[1:]) for entry in entries}


@cache
def scripts() -> Mapping[str, frozenset[str]]:
    """Language -> the first words of its letters' Unicode names."""
    entries = [line.split() for line in lines("scripts")]
    languages = dict.fromkeys(language for _, *those in entries for language in those)
    return {language: frozenset(script for script, *those in entries if language in those) for language in languages}


@cache
def language_codes() -> Mapping[str, str]:
    """Language -> ISO 639-3 and script, as catalogues of data have it: "de" -> "deu-Latn"."""
    entries = [line.split() for line in lines("language_codes")]
    pairs = [(pair.split(":"), script) for script, *those in entries for pair in those]
    return {language: f"{code}-{script}" for (language, code), script in pairs}


@cache
def english_words() -> frozenset[str]:
    """The words of the lists of English words, and their common misspellings."""
    spelled = {form.lower() for word, forms in misspellings().items() for form in (word, *forms)}
    fields = {word for line in lines("fields") for word in line.split()[1:]}
    gendered = {*gender_swaps(), *gender_swaps().values()}
    rewritten = {word for name in ("casual", "formal") for line in lines(name) for word in line.split()}
    joined = {first + rest for _, rest, *firsts in map(str.split, lines("morphs")) for first in firsts}
    return frozenset(spelled | fields | gendered | rewritten | joined)


@cache
def morphs() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """(Penn tag, word) -> words of that tag that only differ from it in the first morph."""
    table = {}
    for line in lines("morphs"):
        tag, rest, *firsts = line.split()
        for first in firsts:
            table[tag, first + rest] = tuple(morph + rest for morph in firsts if morph != first)
    return table


@cache
def pairs(name: str) -> Mapping[str, str]:
    """A list of replacements, `this = that`."""
    entries = [line.partition(" = ") for line in lines(name)]
    return {old: new for old, _, new in entries}


@cache
def caption_genders() -> Mapping[str, tuple[str, str, str]]:
    """Gendered word of MSR-VTT's captions -> "m" or "f", its counterpart, its neutral form."""
    entries = [line.split() for line in lines("gender_captions")]
    return {word: (gender, counterpart, neutral) for word, gender, counterpart, neutral in entries}


@cache
def gender_swaps() -> Mapping[str, str]:
    """Gendered word -> the word of the other gender."""
    table: dict[str, str] = {}
    for line in lines("gender_swap"):
        word, *arrow, counterpart = line.split()
        table[word] = counterpart
        if not arrow:
            table.setdefault(counterpart, word)
    return table
