"""Part-of-speech taggers: from a caption's words to Penn tags, one per word.

Taggers learn from news, where sentences have capitals and full stops. Captions have neither, are often bare noun
phrases, and recipes use imperatives: `_caption_tagger` corrects the errors that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from perturbations.base.errors import BackendError
from perturbations.models.role_registry import Canary, Model, libraries
from perturbations.text import tables
from perturbations.text.contractions import Tagger
from perturbations.text.tags import with_contractions, without_false_verbs
from perturbations.text.tokens import parts

_BE = frozenset(("am", "is", "are", "was", "were", "be", "been", "being", "'s", "s"))
_HAVE = frozenset(("has", "have", "had"))
_BETWEEN = frozenset(("not", "also", "now", "just"))  # an auxiliary and its verb, beside adverbs in -ly
_FINITE = ("VBZ", "VBP", "VBD", "MD")
_OPENERS = ("DT", "PRP$", "PRP", "CD", "TO", "IN", "RB", "RP", "JJ")


def _caption_tagger() -> Tagger:
    """Brill's rules and lexicon (bundled with TextBlob), and rules for captions."""
    from textblob.en import parser

    @lru_cache(maxsize=4096)
    def tag_once(words: tuple[str, ...]) -> tuple[str, ...]:
        cores = [parts(word)[1] for word in words]
        # The tagger only takes words: anything without a letter or digit is tagged as punctuation.
        places = [at for at, bare in enumerate(cores) if bare]
        tags = ["."] * len(words)
        for at, (_, tag) in zip(places, parser.find_tags([cores[at] for at in places]), strict=True):
            tags[at] = str(tag)
        tags = without_false_verbs(words, tags)
        _mend([bare.lower() for bare in cores], tags)
        return tuple(tags)

    return with_contractions(lambda words: list(tag_once(tuple(words))))


def _mend(words: Sequence[str], tags: list[str]) -> None:
    imperative = bool(words) and _instructs(words, tags)
    if imperative:
        tags[0] = "VB"
    finite = False
    for at in range(len(words)):
        if imperative and at and words[at] in _listed("instructions") and _continues(words, tags, at):
            tags[at] = "VB"
        else:
            tags[at] = _mended(words, tags, at, finite, imperative)
        finite = finite or tags[at] in _FINITE
    if not any(tag.startswith("VB") for tag in tags):
        _find_instruction(words, tags)


def _mended(words: Sequence[str], tags: list[str], at: int, finite: bool, imperative: bool) -> str:
    word, tag = words[at], tags[at]
    before = tags[at - 1] if at else ""
    after = tags[at + 1] if at + 1 < len(tags) else ""
    if tag == "VBD" and (before == "DT" or _helped(words, at, _BE | _HAVE)):
        return "VBN"  # "the boiled eggs", "is being added"
    if word.endswith("ing") and tag in ("NN", "JJ") and _helped(words, at, _BE):
        return "VBG"  # "is dancing"
    if word.endswith("ing") and tag == "NN" and before in ("NN", "NNS") and word not in _listed("ing_nouns"):
        return "NN" if any(earlier.startswith("VB") for earlier in tags[:at]) else "VBG"  # "a girl shopping"
    if tag == "NNS" and word in _third_persons():
        begins_clause = before in ("NN", "NNP", "PRP", "RB", "WP", "WDT", "NNS") and not finite
        return "VBZ" if begins_clause or (before == "CC" and finite) else tag  # "a man talks", "waves and smiles"
    if tag == "NN" and word in _listed("actions") and before == "NNS" and after in _OPENERS and not finite | imperative:
        return "VBP"  # "dogs jump over a fence"
    if tag == "VB" and not imperative and before in ("NN", "JJ", "DT", "PRP$", "VBG"):
        return "NN"  # "video game play"
    if tag == "VB" and not imperative and before in ("NNS", "NNPS"):
        return "VBP"
    if tag == "VBZ" and word not in _BE | _HAVE and words[at + 1 : at + 2] == ["are"]:
        return "NNS"  # "faces are"
    return "POS" if tag == "PRP" and word == "s" else tag  # "a computer s motherboard"


def _instructs(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether the caption begins with a recipe's instruction: a verb that can be an instruction, without a subject."""
    if words[0] not in _listed("instructions") or len(words) == 1:
        return tags[0] == "VB"
    return not (tags[1] in _FINITE and words[1] not in _listed("instructions"))


def _continues(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    """Whether an imperative's next verb is here: after "and", "then", an adverb or "let it", before an object."""
    last = at + 1 == len(words)
    after = "" if last else tags[at + 1]
    if tags[at - 1] in ("CC", "RB") or words[at - 1] == "then":
        return last or after in _OPENERS or (after.startswith("NN") and words[at - 1] in ("and", "then"))
    if tags[at - 1] in ("PRP", "NN", "NNS") and "let" in words[:at]:
        return last or after in ("IN", "CC", "RB", "TO")
    return words[at - 1] == "to" and after in ("DT", "PRP$", "PRP")


def _find_instruction(words: Sequence[str], tags: list[str]) -> None:
    """The verb of "in a bowl mix two eggs": an instruction between a noun and a determiner."""
    for at in range(1, len(words) - 1):
        stands_so = (
            tags[at] == "NN" and tags[at - 1].startswith(("NN", "RB")) and tags[at + 1] in ("DT", "CD", "PRP", "PRP$")
        )
        if words[at] in _listed("instructions") and stands_so:
            tags[at] = "VB"
            return


def _helped(words: Sequence[str], at: int, helpers: frozenset[str]) -> bool:
    before = at - 1
    if before > 0 and (words[before].endswith("ly") or words[before] in _BETWEEN):
        before -= 1
    return before >= 0 and words[before] in helpers


@cache
def _listed(name: str) -> frozenset[str]:
    """Verbs that the tagger takes for nouns ("actions", "instructions"), or nouns that end like verbs ("ing_nouns")."""
    return frozenset(tables.words(name))


@cache
def _third_persons() -> frozenset[str]:
    return frozenset(map(_third_person, tables.words("actions")))


def _third_person(verb: str) -> str:
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{verb}s"


def perceptron() -> Tagger:
    """NLTK's averaged perceptron, the papers' tagger, from NLTK's data folders.

    Raises `BackendError` when its weights are not downloaded.
    """
    from nltk.tag import PerceptronTagger

    _find_perceptron()
    model = PerceptronTagger()

    def tag(words: list[str]) -> list[str]:
        tags = [str(tag) for _, tag in model.tag([parts(word)[1] or word for word in words])]
        return without_false_verbs(words, tags)

    return with_contractions(tag)


def _find_perceptron() -> None:
    """Raise `BackendError` where the weights of NLTK's tagger are missing in NLTK's data folders."""
    from nltk import data

    try:
        data.find("taggers/averaged_perceptron_tagger_eng/")
    except LookupError:
        raise BackendError(
            "NLTK's tagger is not downloaded: `python -m nltk.downloader averaged_perceptron_tagger_eng`, or use the "
            "backend `offline`"
        ) from None


_CANARY = Canary(
    sentence="a man plays the guitar",
    answer=lambda tagger, sentence: tagger(sentence.split()),
    holds=lambda answer, sentence: [tag[:2] for tag in answer] == ["DT", "NN", "VB", "DT", "NN"],
    expected="the tags of a determiner, a noun, a verb, a determiner and a noun",
)

MODELS = (
    Model(
        role="tagger",
        backends=("offline",),
        name="textblob",
        weights="bundled with TextBlob",
        licence="MIT",
        load=_caption_tagger,
        needs=(libraries("textblob"),),
        canary=_CANARY,
    ),
    Model(
        role="tagger",
        name="nltk/averaged_perceptron_tagger_eng",
        weights="nltk data",
        licence="Apache-2.0",
        load=perceptron,
        needs=(libraries("nltk"), _find_perceptron),
        canary=_CANARY,
    ),
)
