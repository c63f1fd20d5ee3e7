"""Part-of-speech taggers: from a caption's words to Penn tags, one a word.

Taggers learn from news, where sentences have capitals and full stops. Captions have neither, are often bare noun
phrases, and recipes speak in imperatives: `caption_tagger` mends what that breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from perturbations.errors import BackendError
from perturbations.text import tables
from perturbations.text.tokens import parts

Tagger = Callable[[list[str]], list[str]]

_BE = frozenset(("am", "is", "are", "was", "were", "be", "been", "being", "'s", "s"))
_HAVE = frozenset(("has", "have", "had"))
_FINITE = ("VBZ", "VBP", "VBD", "MD")
_OPENERS = ("DT", "PRP$", "PRP", "CD", "TO", "IN", "RB", "RP", "JJ")


def caption_tagger() -> Tagger:
    """Brill's rules and lexicon (bundled with TextBlob), and rules for captions."""
    from textblob.en import parser

    actions = {form for verb in tables.words("actions") for form in _third_person(verb)}
    instructions = frozenset(tables.words("instructions"))

    @lru_cache(maxsize=4096)
    def tag_once(words: tuple[str, ...]) -> tuple[str, ...]:
        cores = [parts(word)[1] for word in words]
        # The tagger wants words: what has no letter or digit is tagged as punctuation.
        spoken = [at for at, found in enumerate(cores) if found]
        tags = ["."] * len(words)
        for at, (_, tag) in zip(spoken, parser.find_tags([cores[at] for at in spoken]), strict=True):
            tags[at] = str(tag)
        _mend([found.lower() for found in cores], tags, actions, instructions)
        return tuple(tags)

    return lambda words: list(tag_once(tuple(words)))


def _mend(words: Sequence[str], tags: list[str], actions: set[str], instructions: frozenset[str]) -> None:
    imperative = bool(words) and _instructs(words, tags, 0, instructions)
    if imperative:
        tags[0] = "VB"
    finite = False
    ing_nouns = tables.words("ing_nouns")
    for at, word in enumerate(words):
        before = tags[at - 1] if at else ""
        if (tags[at] == "VBD" and _helped(words, at, _BE | _HAVE)) or (tags[at] == "VBD" and before == "DT"):
            tags[at] = "VBN"
        elif word.endswith("ing") and tags[at] in ("NN", "JJ") and _helped(words, at, _BE):
            tags[at] = "VBG"
        elif word.endswith("ing") and tags[at] == "NN" and before in ("NN", "NNS") and word not in ing_nouns:
            verbs = [tag for tag in tags[:at] if tag.startswith("VB")]
            tags[at] = "NN" if verbs else "VBG"
        elif tags[at] == "NNS" and word in actions and before in ("NN", "NNP", "PRP", "CC", "RB", "WP", "WDT", "NNS"):
            subject_waits = not finite and before != "CC"
            if subject_waits or (finite and before == "CC"):
                tags[at] = "VBZ"
        elif imperative and at and word in instructions and _continues(words, tags, at):
            tags[at] = "VB"
        elif tags[at] == "VB" and not imperative and at and before in ("NN", "JJ", "DT", "PRP$", "VBG"):
            tags[at] = "NN"
        elif tags[at] == "VB" and at and before in ("NNS", "NNPS") and not imperative:
            tags[at] = "VBP"
        elif tags[at] == "VBZ" and word.endswith("s") and word not in _BE | _HAVE and words[at + 1 : at + 2] == ["are"]:
            tags[at] = "NNS"
        elif tags[at] == "PRP" and word == "s":
            tags[at] = "POS"
        finite = finite or tags[at] in _FINITE
    if not any(tag.startswith("VB") for tag in tags):
        _find_instruction(words, tags, instructions)


def _instructs(words: Sequence[str], tags: Sequence[str], at: int, instructions: frozenset[str]) -> bool:
    """Whether a recipe's instruction begins here: a verb that can be one, and not the subject of another verb."""
    if words[at] not in instructions or len(words) == at + 1:
        return tags[at] == "VB"
    return not (tags[at + 1] in _FINITE and words[at + 1] not in instructions)


def _continues(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    """Whether an imperative's next verb stands here: after "and", "then", an adverb or "let it", before an object."""
    last = at + 1 == len(words)
    after = "" if last else tags[at + 1]
    if tags[at - 1] in ("CC", "RB") or words[at - 1] == "then":
        return last or after in _OPENERS or (after.startswith("NN") and words[at - 1] in ("and", "then"))
    if tags[at - 1] in ("PRP", "NN", "NNS") and "let" in words[:at]:
        return last or after in ("IN", "CC", "RB", "TO")
    return words[at - 1] == "to" and after in ("DT", "PRP$", "PRP")


def _find_instruction(words: Sequence[str], tags: list[str], instructions: frozenset[str]) -> None:
    """The verb of "in a bowl mix two eggs": an instruction between a noun and a determiner."""
    for at in range(1, len(words) - 1):
        stands_so = (
            tags[at] == "NN" and tags[at - 1].startswith(("NN", "RB")) and tags[at + 1] in ("DT", "CD", "PRP", "PRP$")
        )
        if words[at] in instructions and stands_so:
            tags[at] = "VB"
            return


def _helped(words: Sequence[str], at: int, helpers: frozenset[str]) -> bool:
    before = at - 1
    if before > 0 and (words[before].endswith("ly") or words[before] in ("not", "also", "now", "just")):
        before -= 1
    return before >= 0 and words[before] in helpers


def _third_person(verb: str) -> tuple[str, ...]:
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return (f"{verb[:-1]}ies",)
    return (f"{verb}es",) if verb.endswith(("s", "x", "z", "ch", "sh", "o")) else (f"{verb}s",)


def perceptron(folder: str | None = None) -> Tagger:
    """NLTK's averaged perceptron, the papers' tagger, from NLTK's own data or a folder.

    Raises `BackendError` when its weights are not downloaded.
    """
    from nltk.tag import PerceptronTagger

    try:
        model = PerceptronTagger(load=folder is None)
        if folder is not None:
            model.load_from_json(loc=folder)
    except LookupError as error:
        raise BackendError(
            "NLTK's tagger is not downloaded: `python -m nltk.downloader averaged_perceptron_tagger_eng`"
        ) from error

    def tag(words: list[str]) -> list[str]:
        return [str(found) for _, found in model.tag([parts(word)[1] or word for word in words])]

    return tag
