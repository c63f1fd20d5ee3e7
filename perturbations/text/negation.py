"""The negation of a caption, put in or taken out."""

from __future__ import annotations

from collections.abc import Sequence

from perturbations.text.grammar import BE, DO, HAVE, Generator, Inflector, Tagger
from perturbations.text.tokens import core, parts, put, rebuild

_MODALS = frozenset(["can", "could", "may", "might", "must", "shall", "should", "will", "would"])
_HELPERS = {"VBZ": "does", "VBP": "do", "VBD": "did"}

_AFFIRMED = {f"{verb}nt": verb for verb in BE | DO | HAVE | _MODALS}
_AFFIRMED |= {"aint": "is", "cannot": "can", "cant": "can", "shant": "shall", "wont": "will"}
# "No" where a noun follows, "neither" with its "nor".
_SOME = {"no": "some", "none": "some", "nobody": "somebody", "noone": "someone", "nothing": "something"}
_SOME |= {"nowhere": "somewhere", "neither": "either", "nor": "or"}
_NO_AND = {"one": "someone", "longer": "still"}
_APOSTROPHES = dict.fromkeys(map(ord, "'`\N{ACUTE ACCENT}\N{MODIFIER LETTER APOSTROPHE}"))
_APOSTROPHES |= dict.fromkeys(map(ord, "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"))


def reverse_negation(text: str, rng: Generator, *, tagger: Tagger, inflector: Inflector) -> str:
    """A negated caption loses its first denial; another gets a "not" at its first verb (Schiappa et al., App. A.2).

    Denials are "not" and "never", "no" before a noun, "nobody" and its like, and auxiliaries with "n't" however they
    are spelled: "doesn't", "doesnt", "doesn t", "does n't". Exclamations and questions of "what" and "how" stay. The
    reference writes "does not jumps"; here the verb is reduced to its base form.
    """
    words = text.split()
    cores = [core(word).translate(_APOSTROPHES) for word in words]
    if cores[:1] in (["what"], ["how"]) and (text.rstrip()[-1:] in ("!", "?") or cores[1:2] in (["a"], ["an"])):
        return text  # "what a goal!" claims nothing that could be denied
    tags = tagger(words)
    for at in range(len(words)):
        end, affirmed = _affirmed(words, cores, tags, at)
        if end > at:
            rest = [put(word, "or") if core(word) == "nor" else word for word in words[end:]]
            if not at and not affirmed and words[0][:1].isupper():
                rest[0] = rest[0][:1].upper() + rest[0][1:]
            return rebuild(text, [*words[:at], *affirmed, *rest])
    for at, (word, tag) in enumerate(zip(cores, tags, strict=True)):
        helps = word in BE | _MODALS or (word in DO | HAVE and _verb_follows(tags, at))
        if helps:
            return rebuild(text, [*words[: at + 1], "not", *words[at + 1 :]])
        if tag in _HELPERS:
            verb = put(words[at].lower(), inflector.lemma(word, tag))
            before = at - (at > 1 and tags[at - 1] == "RB")  # "constantly scratches"
            denied = [put(words[at], _HELPERS[tag]), "not", *words[before:at], verb]
            return rebuild(text, [*words[:before], *denied, *words[at + 1 :]])
        if tag == "VB" and at == 0:
            return rebuild(text, [put(words[0], "do"), "not", words[0].lower(), *words[1:]])
    for at, tag in enumerate(tags):
        if tag in ("VBG", "VBN") and cores[at - 1 : at] != ["without"]:
            return rebuild(text, [*words[:at], "not", *words[at:]])
    return text


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
    return (at, []) if affirmed is None else (at + 1, [put(words[at], affirmed)])


def _verb_follows(tags: Sequence[str], at: int) -> bool:
    rest = [tag for tag in tags[at + 1 :] if tag != "RB"]
    return bool(rest) and rest[0].startswith("VB")
