"""The captions of MM-Robustness (Qiu et al.): 16 perturbations: Sec. 2, App. 5.3, Tab. 8."""

from __future__ import annotations

from functools import partial

from perturbations.base.bounds import SHARE, Choice
from perturbations.base.kernel import Function
from perturbations.suites.suite_registry import Form, Paper, Perturbation, table
from perturbations.text import characters, words
from perturbations.text.languages import Languages

_PAPER = Paper(
    suite="mm_robustness", variants=("paper", "released"), text_source="MM-Robustness, Sec. 2, App. 5.3, Tab. 8"
)

# Products in doubles, as in the released code: the ceiling of 0.05 * 6 * 10 words is 4.
_RATIO = {"ratio": SHARE}
_RATIOS = tuple(0.05 * severity for severity in range(1, 8))
# Its five levels are 0.15 to 0.35; the released code makes seven.
PAPERS = (3, 4, 5, 6, 7)


def _share(
    category: str,
    kernel: Function,
    summary: str,
    languages: Languages = "English",
    *,
    roles: tuple[str, ...] = (),
    version: int = 1,
) -> Perturbation:
    return _PAPER.text(
        kernel.__name__,
        category,
        kernel,
        summary,
        table("ratio", *_RATIOS),
        _RATIO,
        paper_severities=PAPERS,
        roles=roles,
        gated=category == "word",
        languages=languages,
        version=version,
    )


_character = partial(_share, "character")
_word = partial(_share, "word")


def _style(style: str, summary: str, changes: str, version: int = 3) -> Perturbation:
    return _PAPER.text(
        style,
        "sentence",
        words.restyle,
        summary,
        ({"style": style},),
        bounds={"style": Choice((style,))},
        roles=("styler",),
        gated=True,
        random=False,
        version=version,
        not_comparable=f"changes {changes}",
    )


TEXT = (
    _character(characters.keyboard, "characters become neighbours on the keyboard", "Latin letters", version=2),
    _character(characters.ocr, "characters are recognized wrongly", "Latin letters"),
    _character(characters.char_insert, "random characters are inserted", "Latin letters"),
    _character(characters.char_replace, "characters become random ones", "Latin letters"),
    _character(characters.char_swap, "neighbouring characters are exchanged", "any language"),
    _character(characters.char_delete, "characters are left out", "any language"),
    _word(words.synonym_replace, "words become synonyms", roles=("wordnet",), version=2),
    _PAPER.text(
        "word_insert",
        "word",
        words.word_insert,
        "synonyms are inserted",
        tuple({"ratio": ratio, "skip_stop_words": True} for ratio in _RATIOS),
        bounds={**_RATIO, "skip_stop_words": Choice((False, True))},
        paper_severities=PAPERS,
        variants={
            "released": Form(
                table=tuple({"ratio": ratio, "skip_stop_words": False} for ratio in _RATIOS),
                differences='draws from all words, so that "a" brings in "vitamin a"; the text says: not from stop '
                "words",
            )
        },
        roles=("wordnet",),
        gated=True,
        version=2,
    ),
    _word(words.word_swap, "words change places"),
    _word(words.word_delete, "words are left out"),
    _word(words.insert_punctuation, "punctuation marks are inserted", version=2),
    _style("formal", "in a formal style", "26 % of MSR-VTT's captions and 4 % of YouCook2's"),
    _style("casual", "in a casual style", "57 % of MSR-VTT's captions and 7 % of YouCook2's"),
    _style("passive", "in the passive voice", "14 % of MSR-VTT's captions and 39 % of YouCook2's", 4),
    _style("active", "in the active voice", "2 of MSR-VTT's 1,000 captions, which are active already"),
    _PAPER.text(
        "back_translation",
        "sentence",
        words.back_translation,
        "into another language and back",
        ({},),
        roles=("translator",),
        measured=True,
        random=False,
        version=3,
        not_comparable="is no round trip: single words of what comes back are taken, talk -> speak most often, and the "
        "rest is put back. It changes 37 % of MSR-VTT's captions and 15 % of YouCook2's (column `changed`)",
    ),
)
