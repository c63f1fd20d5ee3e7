"""The captions of MSRVTT-P and YouCook2-P (Schiappa et al.): App. A.2 and Tab. 5."""

from __future__ import annotations

from functools import partial

from perturbations.base.bounds import SHARE, Bound, Choice, Several, whole
from perturbations.base.kernel import Function
from perturbations.suites.suite_registry import Form, Paper, ParameterValue, Perturbation
from perturbations.text import bias, characters, grammar, negation, parts_of_speech, words
from perturbations.text.languages import Languages

_PAPER = Paper(
    suite="msrvtt_p", variants=("released", "released_online", "paper"), text_source="MSRVTT-P, App. A.2, Tab. 5"
)

_MISLABELLED = 'takes "female" for a male word and "male" for a female one, which changes 2 captions more and 1 less'
_EITHER = Choice((False, True))

# Penn tags, and what begins several of them.
_PENN = """
CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT
WP WP$ WRB
"""
_TAGS = tuple(_PENN.split())


def _text(
    category: str,
    kernel: Function,
    name: str,
    summary: str,
    roles: str = "",
    *,
    random: bool = True,
    version: int = 1,
    not_comparable: str = "",
    languages: Languages = "English",
    **fixed: ParameterValue,
) -> Perturbation:
    """A kernel whose parameters are `fixed`, but for a share."""
    bounds = {key: _bound(key, value) for key, value in fixed.items()}
    return _PAPER.text(
        name,
        category,
        kernel,
        summary,
        (fixed,),
        bounds,
        roles=tuple(roles.split()),
        measured=category in _MEANING,
        random=random,
        version=version,
        not_comparable=not_comparable,
        languages=languages,
    )


# The categories that should keep a caption's meaning.
_MEANING = ("SwapText", "TextStyle")


def _bound(name: str, value: ParameterValue) -> Bound:
    if name == "tags":
        return Several(Choice(_TAGS), len(_TAGS))
    if name == "positions":
        return Several(whole(-1000, 999), 100)
    if isinstance(value, bool):
        return _EITHER
    return Choice((value,)) if isinstance(value, str) else whole(0, 1_000_000) if isinstance(value, int) else SHARE


def _gender(name: str, gender: str, summary: str) -> Perturbation:
    released, paper = ({"gender": gender, "mislabelled": mislabelled} for mislabelled in (True, False))
    bounds = {"gender": Choice((gender,)), "mislabelled": _EITHER}
    return _PAPER.text(
        name,
        "Bias",
        bias.to_gender,
        summary,
        (released,),
        bounds,
        variants={"paper": Form(table=(paper,))},
        differences=_MISLABELLED,
        random=False,
    )


_character = partial(_text, "ChangeChar")
_letter = partial(_character, languages="Latin letters")
_drop = partial(_text, "DropText", parts_of_speech.drop, roles="tagger", random=False, version=2)
_keep = partial(_text, "DropText", parts_of_speech.keep, roles="tagger", random=False, version=2)
_drop_one = partial(_text, "DropText", parts_of_speech.drop_random, roles="tagger", version=2)
_position = partial(_text, "Positional", languages="words between spaces")
_drop_at = partial(_position, parts_of_speech.drop_positions, random=False)
_swap = partial(_text, "SwapText")
_swap_part = partial(_swap, words.multi_pos_swap, roles="tagger ambiguous", version=2)
_style = partial(_text, "TextStyle", version=3)


def _restyled(name: str, style: str, summary: str, msrvtt: int, youcook2: int, *, version: int = 3) -> Perturbation:
    """A style, and how many percent of the datasets' captions the offline rules change."""
    changes = f"changes {msrvtt} % of MSR-VTT's captions and {youcook2} % of YouCook2's"
    return _style(
        words.restyle,
        name,
        summary,
        "styler",
        random=False,
        style=style,
        not_comparable=changes,
        version=version,
    )


TEXT = (
    _text("AddText", words.insert_adv, "insert_adv", "an adverb before each verb", "tagger", version=2),
    _text(
        "AddText",
        words.append_irrelevant,
        "append_irr",
        "an irrelevant opening phrase; from 10 words on, a proverb at the end too",
        closing_from=10,
    ),
    _gender("gender_female", "f", "male words become female"),
    _gender("gender_male", "m", "female words become male"),
    _PAPER.text(
        "gender_neutral",
        "Bias",
        bias.to_neutral,
        "gendered words become neutral",
        ({"agreeing": False},),
        {"agreeing": _EITHER},
        variants={"paper": Form(table=({"agreeing": True},))},
        differences='leaves the verbs of "he" and "she", and puts "theirs" and "they" before nouns, as the published '
        "captions do",
        roles=("tagger", "inflector"),
        random=False,
        version=2,
    ),
    _text("Bias", bias.swap, "gender_swap", "gendered words change gender", "tagger", random=False, version=2),
    _letter(characters.keyboard_slip, "keyboard", "a letter slips to a neighbouring key", share=0.2),
    _letter(characters.ocr_slip, "ocr", "a character is recognized wrongly", share=0.2),
    _character(words.prefix_swap, "prefix_swap", "another first morph, same tag", "tagger", version=2),
    _character(
        characters.punctuation, "punctuation", "brackets around it, an end mark", languages="any language", version=2
    ),
    _character(characters.spelling_error, "spelling_error", "a common misspelling", share=0.3),
    _letter(characters.typos, "typos", "a letter is added, left out, exchanged or replaced", share=0.3),
    _drop("no_nouns", "nouns become [UNK]", tags=["NN"]),
    _drop("no_verbs", "verbs become [UNK]", tags=["VB"]),
    _drop("no_nouns_and_no_verbs", "nouns and verbs become [UNK]", tags=["NN", "VB"]),
    _keep("only_nouns", "all but nouns become [UNK]", tags=["NN"]),
    _keep("only_verbs", "all but verbs become [UNK]", tags=["VB"]),
    _keep("only_nouns_and_only_verbs", "all but nouns and verbs become [UNK]", tags=["NN", "VB"]),
    _drop_one("random_noun", "one noun becomes [UNK] wherever it occurs", tag="NN", otherwise_first=False),
    _drop_one(
        "random_verb",
        "one verb becomes [UNK] wherever it occurs; without one, the first word",
        tag="VB",
        otherwise_first=True,
    ),
    _drop_at("drop_first", "the first word becomes [UNK]", positions=[0]),
    _drop_at("drop_last", "the last word becomes [UNK]", positions=[-1]),
    _drop_at("drop_first_and_last", "the first and last words become [UNK]", positions=[0, -1]),
    _position(parts_of_speech.shuffle_order, "shuffle_order", "the words in a random order"),
    _swap(
        words.back_translation,
        "back_trans",
        "into another language and back",
        "translator",
        random=False,
        version=3,
        not_comparable="is no round trip: single words of what comes back are taken, talk -> speak most often, and the "
        "rest is put back. It changes 37 % of MSR-VTT's captions and 15 % of YouCook2's (column `changed`); corpus "
        "BLEU-4 on MSR-VTT is 0.89, where the paper's table implies about 0.43",
    ),
    _swap(
        words.masked_suggestion,
        "mlm_suggestion",
        "words become what a language model puts in their gap",
        "tagger masked_lm",
        share=0.2,
        version=3,
        not_comparable="words come from a list of similar words, not from a model that reads the gap's context",
    ),
    _swap_part("multi_pos_swap_JJ", "adjectives become words of several parts of speech", tag="JJ"),
    _swap_part("multi_pos_swap_NN", "nouns become words of several parts of speech", tag="NN"),
    _swap(
        words.neighbour_swap,
        "swap_syn_word_embedding",
        "a word becomes its neighbour in an embedding",
        "tagger inflector neighbours",
        share=0.1,
        version=2,
        not_comparable="takes words that occur in like places, not synonyms: snake -> crocodile, dog -> horse",
    ),
    _swap(
        words.synonym_swap,
        "swap_syn_wordnet",
        "a word becomes its WordNet synonym",
        "tagger wordnet",
        share=0.1,
        version=2,
        not_comparable="takes synonyms of any sense of a word, in their base form: dogs -> wiener",
    ),
    _restyled("active_to_passive", "passive", "active voice becomes passive", 14, 39, version=4),
    _restyled("casual_to_formal", "formal", "casual style becomes formal", 26, 4),
    _restyled("formal_to_casual", "casual", "formal style becomes casual", 57, 7),
    _style(
        negation.reverse_negation,
        "reverse_neg",
        "the statement negated, or its negation undone",
        "tagger inflector",
        random=False,
    ),
    _style(grammar.tense, "tense", "a verb in another tense", "tagger inflector", share=0.1),
)
