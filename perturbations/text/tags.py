"""Penn tags of a caption's words, where a tagger of plain words fails: contractions, and words that look like verbs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from perturbations.text import tables
from perturbations.text.contractions import CLITICS, RUN_TOGETHER, WRITTEN_OUT, Tagger, core_of, separated, straight
from perturbations.text.tokens import core, parts

_TAGS = {"'re": "VBP", "'m": "VBP", "'ve": "VBP", "'ll": "MD", "'d": "MD"}
_PRONOUNS = frozenset(("i", "you", "he", "she", "it", "we", "they"))
# The words before an "'s" that is a verb. After other words it is a possessive, but before a verb or an article.
_SUBJECTS = frozenset(("he", "she", "that", "this", "there", "here", "who", "what", "where", "when", "why", "how"))
_SUBJECTS |= {f"{kind}{of}" for kind in ("every", "some", "no") for of in ("body", "one", "thing")}
_NOUNS_TOO = frozenset(("can", "may", "might", "must", "will"))
_DENYING = frozenset(f"{verb}n" for verb in tables.words("auxiliaries")) | {"ain", "can", "won"}
_ARTICLES = frozenset(("a", "an", "the", "another", "every"))
_BEFORE_CLAUSES = frozenset(("that", "as", "than", "if", "because", "while", "until", "so", "whether"))


def with_contractions(tagger: Tagger) -> Tagger:
    """A tagger that also knows contractions: each word gets the tag of its first part, "she's" that of "she".

    The tagger itself reads verbs written out, which it knows: "she is happy". A clitic alone is a verb, or
    POS: a possessive "'s", "its" written "it's", and what is left of a contraction without its apostrophe, "they re".
    """

    def tag(words: list[str]) -> list[str]:
        apart = [RUN_TOGETHER.get(core(word)) or separated([word]) for word in words]
        tags = _tagged([part for word in apart for part in word], tagger)
        return [tags[at - len(word)] for word, at in zip(apart, accumulate(map(len, apart)), strict=True)]

    return tag


def _tagged(words: Sequence[str], tagger: Tagger) -> list[str]:
    cores, plain = list(map(core_of, words)), list(map(straight, words))
    tags = tagger(plain)
    verbs = {at: WRITTEN_OUT[bare] for at, bare in enumerate(cores) if bare in WRITTEN_OUT and at}
    for at, (before, bare) in enumerate(pairwise(cores), start=1):
        if bare == "'s" and before in ("let", "lets"):
            verbs[at] = "us"
        elif bare == "'s" and _is_verb(before, cores[at + 1 :], tags[at + 1 :]):
            verbs[at] = "is"
        elif before in _PRONOUNS and f"'{bare}" in WRITTEN_OUT:
            verbs[at] = WRITTEN_OUT[f"'{bare}"]
    if verbs:
        tags = tagger([verbs.get(at, word) for at, word in enumerate(plain)])
    for at, bare in enumerate(cores):
        if at in verbs or (bare in CLITICS and at):
            is_verb = at in verbs and bare in CLITICS
            tags[at] = "POS" if not is_verb else "PRP" if verbs[at] == "us" else _TAGS.get(bare, "VBZ")
    return tags


def _is_verb(before: str, words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether an "'s" is "is" or "has", by the word before it, and the words behind it with their tags."""
    if before in _SUBJECTS:
        return True
    at = next((at for at, tag in enumerate(tags) if tag != "RB"), None)
    if words and words[0] in ("not", "been", "got", "here", "there"):
        return True
    if at is None:
        return before == "it" and bool(tags)
    before_noun = any(tag.startswith("NN") for tag in tags[at + 1 : at + 2])
    if before == "it" and tags[at] in ("PRP", "EX", "TO", "IN", "VBG"):
        return True
    return tags[at] == "DT" or (tags[at] in ("JJ", "VBN", "VBD", "VBG")[3 * (before != "it") :] and not before_noun)


def without_false_verbs(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    """The tags, in which words that only look like verbs are nouns: "8 am", "in May", "a can", "Will Smith".

    A tagger knows "am" and the modals as verbs alone. Times of day, months and names become NNP, others NN.
    """
    cores, mended = list(map(core, words)), list(tags)
    for at, bare in enumerate(cores):
        if bare in ("am", "pm", "a.m", "p.m"):
            if bare != "am" or not _is_of_first_person(cores, tags, at):
                mended[at] = "NNP"
        elif bare in _DENYING and cores[at + 1 : at + 2] == ["t"]:
            mended[at : at + 2] = "MD", "RB"  # "don t jump"
        elif bare == "don":
            mended[at] = "NNP"
        elif tags[at] == "MD" and bare in _NOUNS_TOO and (noun := _noun_for_modal(words, cores, mended, at)):
            mended[at] = noun
            if bare == "must" and tags[at + 1 : at + 2] and tags[at + 1].startswith("VB"):
                mended[at + 1] = "NN"  # "a must have"
    return mended


def _is_of_first_person(cores: Sequence[str], tags: Sequence[str], at: int) -> bool:
    """Whether an "am" is the verb: it has an "I", or another subject by mistake ("he am"). A time has a number."""
    before = next((place for place in range(at - 1, -1, -1) if tags[place] != "RB"), None)
    if "i" in cores[at + 1 : at + 2]:
        return True
    if before is None:
        return tags[at + 1 : at + 2] != [] and not tags[at + 1].startswith("NN")
    has_subject = "i" in cores[:before] and tags[before] not in ("CD", "DT", "IN")
    return has_subject or tags[before] == "PRP" or cores[before] in _PRONOUNS


def _noun_for_modal(words: Sequence[str], cores: Sequence[str], tags: Sequence[str], at: int) -> str | None:
    """The tag of a "can", "may", "might", "must" or "will" that is a noun or a name; None for an auxiliary."""
    bare, before = cores[at], tags[at - 1] if at else ""
    behind = next((place for place in range(at + 1, len(cores)) if tags[place] != "RB"), len(cores))
    after = tags[behind] if behind < len(cores) else ""
    is_name = at > 0 and words[at].istitle() and words[at - 1].islower() and not parts(words[at - 1])[2]
    if is_name or cores[at - 1 : at] in (["named"], ["called"]) or (bare == "may" and after == "CD"):
        return "NNP"
    if not at:  # "Will Smith dances", "may flowers": in a question a verb follows, as it does behind a pronoun
        alone = after.startswith("NN") and not any(tag in ("VB", "VBP") for tag in tags[behind:])
        return "NNP" if bare in ("will", "may") and (alone or after in ("VBZ", "CC", "POS")) else None
    if before == "IN" and cores[at - 1] not in _BEFORE_CLAUSES and (after != "VB" or bare == "may"):
        return "NNP" if bare == "may" else "NN"
    if cores[at - 1] in _ARTICLES or before in ("PRP$", "POS"):
        return "NN"
    if after == "VBZ" or (after in ("VBD", "VBN", "VBP") and cores[behind].endswith(("ed", "are", "was", "were"))):
        return "NN"
    ends = after in ("", "IN", "TO", "VBG", "NNS") or (after == "CC" and tags[behind + 1 : behind + 2] != ["MD"])
    return "NN" if before.startswith(("NN", "JJ")) and ends else None
