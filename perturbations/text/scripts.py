"""Languages and scripts of captions: what a perturbation is made for, and what captions are written in."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from perturbations.text import tables
from perturbations.text.fluency import known
from perturbations.text.tokens import core

Languages = Literal["English", "Latin letters", "words between spaces", "any language"]
"""What a perturbation of captions is made for, from the narrowest to the widest."""

# Language -> the first words of its letters' Unicode names. ISO 639-1.
_LATIN = (
    "af az ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv ms nb nl no pl pt ro sk sl sq sv sw tl tr vi"
)
_OTHERS = {
    "CYRILLIC": "be bg kk mk mn ru sr uk",
    "GREEK": "el",
    "ARABIC": "ar fa ps ur",
    "HEBREW": "he",
    "DEVANAGARI": "hi mr ne",
    "BENGALI": "bn",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "KHMER": "km",
    "MYANMAR": "my",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "ETHIOPIC": "am",
    "HANGUL": "ko",
    "CJK": "zh",
}
SCRIPTS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_LATIN.split(), frozenset({"LATIN"})),
    **{language: frozenset({script}) for script, languages in _OTHERS.items() for language in languages.split()},
    "ja": frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
}
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


_NUMBERS = frozenset(("one", "two", "three", "four", "five"))


def is_written_for(made_for: Languages, caption: str) -> bool:
    """Whether a caption looks like one that a perturbation is made for; of short ones, only the letters tell.

    An English caption of four words or more has enough that the list of English words knows: more than a quarter, or
    where none of them is a function word more than a half, and of five at the most, which may be names, two.
    """
    if made_for != "English":
        return True
    if _script(caption) not in (None, "LATIN"):
        return False
    words = [bare for word in caption.split() if (bare := core(word)).isalpha()]
    if len(words) < 4:
        return True
    share = sum(known(word) or known(word.removesuffix("s")) for word in words) / len(words)
    if (tables.stop_words() | _NUMBERS) & set(words):
        return share > 0.25
    return share > 0.5 if len(words) > 5 else share >= 0.4


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
