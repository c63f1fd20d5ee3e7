"""MSRVTT-P and YouCook2-P (Schiappa et al.): App. A.2, Tab. 5."""

from __future__ import annotations

from perturbations.registry import Parameters, Perturbation, Suite

_TEXT_SOURCE = "MSRVTT-P, App. A.2, Tab. 5"

_MISLABELLED = 'takes "female" for a male word and "male" for a female one, which changes 2 captions more and 1 less'


def _text(
    name: str,
    level: str,
    kernel: str,
    summary: str,
    *,
    parameters: Parameters | None = None,
    paper: Parameters | None = None,
    differences: str = "",
    roles: tuple[str, ...] = (),
    random: bool = True,
) -> Perturbation:
    return Perturbation(
        suite="msrvtt_p",
        name=name,
        kind="text",
        level=level,
        method="text",
        kernel=f"perturbations.text.{kernel}",
        realization=None,
        version=1,
        released=(parameters or {},),
        paper=(paper,) if paper is not None else None,
        draw="caption" if random else "none",
        roles=roles,
        summary=summary,
        source=_TEXT_SOURCE,
        differences=differences,
    )


def _gender(name: str, gender: str, summary: str) -> Perturbation:
    return _text(
        name,
        "Bias",
        "bias:to_gender",
        summary,
        parameters={"gender": gender, "mislabelled": True},
        paper={"gender": gender, "mislabelled": False},
        differences=_MISLABELLED,
        random=False,
    )


def _drop(name: str, tags: tuple[str, ...], summary: str, keep: bool = False) -> Perturbation:
    return _text(
        name,
        "DropText",
        f"parts_of_speech:{'keep' if keep else 'drop'}",
        summary,
        parameters={"tags": list(tags)},
        roles=("tagger",),
        random=False,
    )


def _position(name: str, positions: tuple[int, ...], summary: str) -> Perturbation:
    kernel = "parts_of_speech:drop_positions"
    return _text(name, "Positional", kernel, summary, parameters={"positions": list(positions)}, random=False)


def _style(name: str, style: str, summary: str) -> Perturbation:
    kernel = "sentences:restyle"
    return _text(name, "TextStyle", kernel, summary, parameters={"style": style}, roles=("styler",), random=False)


TEXT = (
    _text("insert_adv", "AddText", "words:insert_adv", "an adverb before each verb", roles=("tagger",)),
    _text(
        "append_irr",
        "AddText",
        "words:append_irrelevant",
        "an irrelevant opening phrase; from 10 words on, a proverb at the end too",
        parameters={"closing_from": 10},
    ),
    _gender("gender_female", "f", "male words become female"),
    _gender("gender_male", "m", "female words become male"),
    _text("gender_neutral", "Bias", "bias:to_neutral", "gendered words become neutral", random=False),
    _text("gender_swap", "Bias", "bias:swap", "gendered words change gender", roles=("tagger",), random=False),
    _text(
        "keyboard",
        "ChangeChar",
        "characters:keyboard_slip",
        "a letter slips to a neighbouring key",
        parameters={"share": 0.2},
    ),
    _text("ocr", "ChangeChar", "characters:ocr_slip", "a character is recognized wrongly", parameters={"share": 0.2}),
    _text("prefix_swap", "ChangeChar", "words:prefix_swap", "another first morph, same tag", roles=("tagger",)),
    _text("punctuation", "ChangeChar", "characters:punctuation", "brackets around it, an end mark"),
    _text(
        "spelling_error", "ChangeChar", "characters:spelling_error", "a common misspelling", parameters={"share": 0.3}
    ),
    _text(
        "typos",
        "ChangeChar",
        "characters:typos",
        "a letter more, less, exchanged or replaced",
        parameters={"share": 0.3},
    ),
    _drop("no_nouns", ("NN",), "nouns become [UNK]"),
    _drop("no_verbs", ("VB",), "verbs become [UNK]"),
    _drop("no_nouns_and_no_verbs", ("NN", "VB"), "nouns and verbs become [UNK]"),
    _drop("only_nouns", ("NN",), "all but nouns become [UNK]", keep=True),
    _drop("only_verbs", ("VB",), "all but verbs become [UNK]", keep=True),
    _drop("only_nouns_and_only_verbs", ("NN", "VB"), "all but nouns and verbs become [UNK]", keep=True),
    _text(
        "random_noun",
        "DropText",
        "parts_of_speech:drop_random",
        "one noun becomes [UNK] wherever it stands",
        parameters={"tag": "NN", "otherwise_first": False},
        roles=("tagger",),
    ),
    _text(
        "random_verb",
        "DropText",
        "parts_of_speech:drop_random",
        "one verb becomes [UNK] wherever it stands; without one, the first word",
        parameters={"tag": "VB", "otherwise_first": True},
        roles=("tagger",),
    ),
    _position("drop_first", (0,), "the first word becomes [UNK]"),
    _position("drop_last", (-1,), "the last word becomes [UNK]"),
    _position("drop_first_and_last", (0, -1), "the first and last words become [UNK]"),
    _text("shuffle_order", "Positional", "parts_of_speech:shuffle_order", "the words in a random order"),
    _text(
        "back_trans",
        "SwapText",
        "sentences:back_translation",
        "into another language and back",
        roles=("translator",),
        random=False,
    ),
    _text(
        "mlm_suggestion",
        "SwapText",
        "words:masked_suggestion",
        "words become what a language model puts in their gap",
        parameters={"share": 0.2},
        roles=("tagger", "masked_lm"),
    ),
    _text(
        "multi_pos_swap_JJ",
        "SwapText",
        "words:multi_pos_swap",
        "adjectives become words of several parts of speech",
        parameters={"tag": "JJ"},
        roles=("tagger", "ambiguous"),
    ),
    _text(
        "multi_pos_swap_NN",
        "SwapText",
        "words:multi_pos_swap",
        "nouns become words of several parts of speech",
        parameters={"tag": "NN"},
        roles=("tagger", "ambiguous"),
    ),
    _text(
        "swap_syn_word_embedding",
        "SwapText",
        "words:neighbour_swap",
        "a word becomes its neighbour in an embedding",
        parameters={"share": 0.1},
        roles=("tagger", "inflector", "neighbours"),
    ),
    _text(
        "swap_syn_wordnet",
        "SwapText",
        "words:synonym_swap",
        "a word becomes its WordNet synonym",
        parameters={"share": 0.1},
        roles=("tagger", "wordnet"),
    ),
    _style("active_to_passive", "passive", "active voice becomes passive"),
    _style("casual_to_formal", "formal", "casual style becomes formal"),
    _style("formal_to_casual", "casual", "formal style becomes casual"),
    _text(
        "reverse_neg",
        "TextStyle",
        "grammar:reverse_negation",
        "the statement negated, or its negation undone",
        roles=("tagger", "inflector"),
        random=False,
    ),
    _text(
        "tense",
        "TextStyle",
        "grammar:tense",
        "a verb in another tense",
        parameters={"share": 0.1},
        roles=("tagger", "inflector"),
    ),
)

SUITE = Suite(
    name="msrvtt_p",
    title="MSRVTT-P and YouCook2-P",
    reference="Schiappa et al., Robustness Analysis of Video-Language Models Against Visual and Language Perturbations",
    perturbations=TEXT,
)
