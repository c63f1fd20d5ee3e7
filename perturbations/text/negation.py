"""The negation of a caption, put in or taken out."""

from __future__ import annotations

from collections.abc import Sequence

from perturbations.text import tables
from perturbations.text.contractions import CLITICS, WRITTEN_OUT, Clitic, Tagger, core_of, separated, together
from perturbations.text.grammar import BE, DO, HAVE, Generator, Inflector
from perturbations.text.tokens import APOSTROPHES, core, parts, put, rebuild
from perturbations.text.voice import noun_phrase

_MODALS = frozenset(["can", "could", "may", "might", "must", "shall", "should", "will", "would"])
_HELPERS = {"VBZ": "does", "VBP": "do", "VBD": "did"}

_AFFIRMED = {f"{verb}nt": verb for verb in BE | DO | HAVE | _MODALS}
_AFFIRMED |= {"aint": "is", "cannot": "can", "cant": "can", "shant": "shall", "wont": "will"}
# "No" where a noun follows, "neither" with its "nor".
_SOME = {"no": "some", "none": "some", "nobody": "somebody", "noone": "someone", "nothing": "something"}
_SOME |= {"nowhere": "somewhere", "neither": "either", "nor": "or"}
_BE_OF = {"i": "am", "you": "are", "we": "are", "they": "are"}
_NO_AND = {"one": "someone", "longer": "still"}
_APOSTROPHES = dict.fromkeys(map(ord, APOSTROPHES))


def reverse_negation(text: str, rng: Generator, *, tagger: Tagger, inflector: Inflector) -> str:
    """A negated caption loses its first denial; another gets a "not" at its first verb (Schiappa et al., App. A.2).

    Denials are "not" and "never", "no" before a noun, "nobody" and its like, and auxiliaries with "n't" however they
    are spelled: "doesn't", "doesnt", "doesn t", "does n't". Exclamations and questions of "what" and "how" stay. The
    reference writes "does not jumps"; here the verb is reduced to its base form. "it's" is "it is", and in a question
    the "not" follows the subject: "is the man not eating".
    """
    words = separated(text.split())
    cores = [core_of(word) if core_of(word) in CLITICS else core(word).translate(_APOSTROPHES) for word in words]
    if cores[:1] in (["what"], ["how"]) and (text.rstrip()[-1:] in ("!", "?") or cores[1:2] in (["a"], ["an"])):
        return text  # "what a goal!" claims nothing that could be denied
    tags = tagger(words)
    for at in range(len(words)):
        end, affirmed = _affirmed(words, cores, tags, at)
        if end > at:
            rest = [put(word, "or") if core(word) == "nor" else word for word in words[end:]]
            if not at and not affirmed and words[0][:1].isupper():
                rest[0] = rest[0][:1].upper() + rest[0][1:]
            return rebuild(text, together([*words[:at], *affirmed, *rest]))
    for at, (word, tag) in enumerate(zip(cores, tags, strict=True)):
        if _helps(cores, tags, at):
            return rebuild(text, _denied(words, _place_of_not(words, cores, tags, at)))
        if tag in _HELPERS and word.replace("-", "").isalpha() and tags[at + 1 : at + 2] != ["POS"]:
            verb = put(words[at].lower(), inflector.lemma(word, tag))
            before = at - (at > 1 and tags[at - 1] == "RB")  # "constantly scratches"
            denied = [put(words[at], _HELPERS[tag]), "not", *words[before:at], verb]
            return rebuild(text, together([*words[:before], *denied, *words[at + 1 :]]))
        if tag == "VB" and at == 0:
            if cores[:2] == ["let", "'s"]:
                return rebuild(text, _denied(words, 2))
            return rebuild(text, together([put(words[0], "do"), "not", words[0].lower(), *words[1:]]))
    for at, tag in enumerate(tags):
        if tag in ("VBG", "VBN") and cores[at - 1 : at] != ["without"]:
            return rebuild(text, _denied(words, at))
    return text


def _helps(cores: Sequence[str], tags: Sequence[str], at: int) -> bool:
    """Whether the word at a place is an auxiliary, or a form of "be"."""
    word = cores[at]
    if word in ("'s", "'re", "'m", "'ll", "'d"):
        return tags[at] in ("VBZ", "VBP", "MD")
    if word in DO and at == 0 and _subject_end(cores, tags, 1) < len(cores):
        return word != "do" or tags[1] == "PRP"  # "does the man jump", not "do the dishes"
    is_auxiliary = word in BE | _MODALS and not tags[at].startswith("NN")  # "8 am", "a can"
    return is_auxiliary or (word in {*DO, *HAVE, "'ve"} and _verb_follows(tags, at))


def _place_of_not(words: Sequence[str], cores: Sequence[str], tags: Sequence[str], at: int) -> int:
    """The place of a "not": behind the auxiliary, and in a question behind its subject."""
    asks = at == 0 or (at == 1 and tags[0].startswith("W"))
    end = _subject_end(cores, tags, at + 1) if asks else at + 1
    ends_clause = any(parts(word)[2] for word in words[at:end]) or end == len(words)
    return at + 1 if ends_clause or (at and not tags[end].startswith("VB")) else end


def _subject_end(cores: Sequence[str], tags: Sequence[str], start: int) -> int:
    """The end of the subject from `start`, without a verb that was taken for its last noun: "does the man jump"."""
    end = noun_phrase(cores, tags, start)
    return end - (end > start + 1 and tags[end - 2].startswith("NN") and cores[end - 1] in tables.words("actions"))


def _denied(words: Sequence[str], at: int) -> list[str]:
    """The words with a "not" before a place; a clitic behind it is written out."""
    rest = list(words[at:])
    if rest and isinstance(rest[0], Clitic):
        rest[0] = WRITTEN_OUT[core_of(rest[0])]
    return together([*words[:at], "not", *rest])


def _affirmed(words: Sequence[str], cores: Sequence[str], tags: Sequence[str], at: int) -> tuple[int, list[str]]:
    """Where a denial that begins at a place ends, and the words to put in its place; `at` itself where none begins."""
    bare, after = cores[at], cores[at + 1] if at + 1 < len(words) else ""
    if after in ("t", "nt") and bare + after in _AFFIRMED:
        return at + 2, [put(words[at], _AFFIRMED[bare + after]) + parts(words[at + 1])[2]]
    if bare in ("not", "never"):
        return (at + 1, []) if len(words) > 1 else (at, [])
    if bare == "no" and after in _NO_AND:
        return at + 2, [put(words[at], _NO_AND[after]) + parts(words[at + 1])[2]]
    if bare == "no" and tags[at + 1 : at + 2] and not tags[at + 1].startswith(("NN", "JJ", "VBG")):
        return at, []  # "a man says no to the food"
    affirmed = _AFFIRMED.get(bare) or (_SOME.get(bare) if len(words) > 1 else None)
    if bare == "aint" and at and cores[at - 1] in _BE_OF:
        affirmed = _BE_OF[cores[at - 1]]
    return (at, []) if affirmed is None else (at + 1, [put(words[at], affirmed)])


def _verb_follows(tags: Sequence[str], at: int) -> bool:
    rest = [tag for tag in tags[at + 1 :] if tag != "RB"]
    return bool(rest) and rest[0].startswith("VB")
