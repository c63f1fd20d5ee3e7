"""Languages and scripts of captions: what a perturbation is made for, and what captions are written in."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from perturbations.text import tables
from perturbations.text.fluency import known
from perturbations.text.tokens import clitic, core

Languages = Literal["English", "Latin letters", "words between spaces", "any language"]
"""What a perturbation of captions is made for, from the narrowest to the widest."""

SCRIPTS = tables.scripts()
"""Language -> its scripts."""

_WITHOUT_SPACES = frozenset(("ja", "km", "lo", "my", "th", "zh"))
_TITLES = {"CJK": "Chinese characters"}


def problem_of(made_for: Languages, language: str) -> str | None:
    """Why a perturbation means nothing for captions in a language; None where it does."""
    fits = {
        "English": language == "en",
        "Latin letters": SCRIPTS[language] == {"LATIN"},
        "words between spaces": language not in _WITHOUT_SPACES,
        "any language": True,
    }
    return None if fits[made_for] else f"made for {made_for}"


# Function words of English that are none in other languages: "a", "in", "is", "to" are.
_ENGLISH = frozenset(("the", "and", "with", "of", "from", "into", "while", "this", "that", "who", "are", "being"))
_ENGLISH |= {"his", "her", "their", "its", "they", "she", "someone", "has", "does"}
_ENDINGS = ("s", "es", "ed", "d", "er", "ers", "ing", "ly", "y")


def is_written_for(made_for: Languages, caption: str) -> bool:
    """Whether a caption looks like one that a perturbation is made for.

    A caption is English where the list of English words has half of its words; a quarter suffices beside function words
    that only English has. Frequent words of other languages speak against it. Names, misspelt words and those that are
    written together are few enough in captions. Without any word of letters, there is nothing to say against it.
    """
    if made_for != "English":
        return True
    if _script(caption) not in (None, "LATIN"):
        return False
    words = [bare for word in re.split(r"[\s/-]+", caption) if (bare := _plain(word)).isalpha()]
    if not words:
        return True
    kinds = Counter(map(_kind, words))
    english = kinds["function"] + kinds["known"]
    if kinds["other"] > kinds["function"]:
        return english > 0.75 * len(words)
    if kinds["function"] and not kinds["other"]:
        return english >= 0.25 * len(words)
    return english >= (0.5 if kinds["other"] or len(words) < 5 else 0.4) * len(words)


@lru_cache(maxsize=65_536)
def _kind(word: str) -> str:
    """What a word is: English "function" or "known", of an "other" language, or "unknown"."""
    if word in _ENGLISH:
        return "function"
    if word in tables.other_languages():
        return "unknown" if known(word) else "other"
    return "known" if _is_english(word) else "unknown"


def _is_english(word: str) -> bool:
    """Whether a word is a form of a listed one, or two listed ones together: "gameplay"."""
    stems = {word.removesuffix(ending) for ending in ("", *_ENDINGS)} - {word[:1]} | {word}
    if any(_is_listed(stem) or (len(stem) > 2 and _is_listed(f"{stem}e")) for stem in stems) or _is_listed(f"{word}g"):
        return True
    return any(known(stem[:at]) and known(stem[at:]) for stem in stems for at in range(3, len(stem) - 2))


def _is_listed(word: str) -> bool:
    return known(word) or word in tables.english_words()


def _plain(word: str) -> str:
    """A word without its clitic: "man" of "man's", "do" of "don't"."""
    return core(clitic(word)[0]).replace("n't", "").replace("n\N{RIGHT SINGLE QUOTATION MARK}t", "")


def other_script(captions: Iterable[str], language: str) -> tuple[str, float] | None:
    """The script that most captions have, and their share, where it is none of the language's; otherwise None.

    A caption's script is that of most of its letters; captions without letters do not count.
    """
    counts = Counter(script for caption in captions if (script := _script(caption)) is not None)
    if not counts:
        return None
    script, number = counts.most_common(1)[0]
    others = sum(count for name, count in counts.items() if name not in SCRIPTS[language])
    total = sum(counts.values())
    if script in SCRIPTS[language] or 2 * others <= total:
        return None
    return _TITLES.get(script, script.capitalize()), number / total


def _script(caption: str) -> str | None:
    names = (unicodedata.name(letter, "").split(" ")[0] for letter in caption if letter.isalpha())
    counts = Counter(name for name in names if name)
    return counts.most_common(1)[0][0] if counts else None
