"""MM-Robustness (Qiu et al.): Sec. 2, Tab. 7-9."""

from __future__ import annotations

from perturbations.registry import Parameters, Perturbation, Suite

_TEXT_SOURCE = "MM-Robustness, Sec. 2, App. 5.3, Tab. 8"

# Severities 3 to 7 are the paper's five levels, 0.15 to 0.35. Products in doubles, as in the released code: the ceiling
# of 0.05 * 6 * 10 words is 4.
_RATIOS = tuple(0.05 * severity for severity in range(1, 8))


def _text(
    name: str,
    level: str,
    kernel: str,
    summary: str,
    released: tuple[Parameters, ...],
    *,
    paper: tuple[Parameters, ...] | None = None,
    differences: str = "",
    roles: tuple[str, ...] = (),
    gated: bool = False,
    random: bool = True,
) -> Perturbation:
    return Perturbation(
        suite="mm_robustness",
        name=name,
        kind="text",
        level=level,
        method="text",
        kernel=f"perturbations.text.{kernel}",
        realization=None,
        version=1,
        released=released,
        paper=paper,
        draw="caption" if random else "none",
        roles=roles,
        gated=gated,
        summary=summary,
        source=_TEXT_SOURCE,
        differences=differences,
    )


def _character(name: str, summary: str) -> Perturbation:
    return _text(name, "character", f"characters:{name}", summary, tuple({"ratio": ratio} for ratio in _RATIOS))


def _word(name: str, summary: str, roles: tuple[str, ...] = ()) -> Perturbation:
    table = tuple({"ratio": ratio} for ratio in _RATIOS)
    return _text(name, "word", f"words:{name}", summary, table, roles=roles, gated=True)


def _style(style: str, summary: str) -> Perturbation:
    table = ({"style": style},)
    kernel = "sentences:restyle"
    return _text(style, "sentence", kernel, summary, table, roles=("styler",), gated=True, random=False)


TEXT = (
    _character("keyboard", "characters become neighbours on the keyboard"),
    _character("ocr", "characters are recognized wrongly"),
    _character("char_insert", "random characters are inserted"),
    _character("char_replace", "characters become random ones"),
    _character("char_swap", "neighbouring characters are exchanged"),
    _character("char_delete", "characters are left out"),
    _word("synonym_replace", "words become synonyms", roles=("wordnet",)),
    _text(
        "word_insert",
        "word",
        "words:word_insert",
        "synonyms are inserted",
        tuple({"ratio": ratio, "skip_stop_words": False} for ratio in _RATIOS),
        paper=tuple({"ratio": ratio, "skip_stop_words": True} for ratio in _RATIOS),
        differences='draws from all words, so that "a" brings in "vitamin a"; the text says: not from stop words',
        roles=("wordnet",),
        gated=True,
    ),
    _word("word_swap", "words change places"),
    _word("word_delete", "words are left out"),
    _word("insert_punctuation", "punctuation marks are inserted"),
    _style("formal", "in a formal style"),
    _style("casual", "in a casual style"),
    _style("passive", "in the passive voice"),
    _style("active", "in the active voice"),
    _text(
        "back_translation",
        "sentence",
        "sentences:back_translation",
        "into another language and back",
        ({},),
        roles=("translator",),
        random=False,
    ),
)

SUITE = Suite(
    name="mm_robustness",
    title="MM-Robustness",
    reference="Qiu et al., Benchmarking Robustness of Multimodal Image-Text Models under Distribution Shift",
    perturbations=TEXT,
)
