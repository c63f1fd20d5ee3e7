"""Whether an instruction changes what happens, or what it happens to. Standard library only.

EgoCVR's authors prompted GPT-4 (supplement D.4) and published the totals, 1,811 temporal and 484 object, and ten
examples, but no labels. This is a rule of ours for the same question.
"""

from __future__ import annotations

import re

from perturbations.composed.split import ModificationKind

SOURCE = "rule 1"

_PARTICLES = re.compile(
    r"up|down|out|off|away|back|around|together|apart|aside|forwards?|backwards?|sideways|again|left|right"
)
_ELSEWHERE = re.compile(
    r"on|in|into|onto|to|towards?|from|at|under|over|inside|behind|beside|against|across|along|near|by"
    r"|it|them|him|her|he|she|they|one|these|those|this|that|hands?"
)
"""Places, pronouns and hands."""

_OTHER = re.compile(
    r"\b(?:(?:an)?other|different|similar|new)\b(?!\s+(?:hand|hands|side|way|leg|foot|arm|direction)\b)"
)
_CHANGED = re.compile(r"\b(switch|change|replace|swap|make)\b.*\b(?:to|with|into|for)\s+(an?\s|the\s|some\s)?\s*(\w+)")
_USED = re.compile(r"^(?:now )?(?:use|using)\b(?!.*\bhands?\b)")
_SAME = re.compile(r"\bsame\b.*\b(?:with|on|to|for)\b|\bwith (?:an?|the) \w+ instead\b")
_REMOVED = re.compile(
    r"\b(?:remove|add)\s+(?:an?|the)\s+(?:man|woman|person|boy|girl|people|men|women|guy|lady|child)\b"
)
_COLOUR = re.compile(
    r"\b(?:red|orange|yellow|green|blue|purple|violet|pink|brown|black|white|grey|gray|golden|silver|colour|color)\b"
)
_WORD = re.compile(r"[a-z']+")


def kind_of(instruction: str) -> ModificationKind:
    """ "object" where an instruction names another thing, else "temporal"."""
    text = " ".join(instruction.lower().split())
    if _OTHER.search(text) or _USED.search(text) or _SAME.search(text) or _REMOVED.search(text):
        return "object"
    if _COLOUR.search(text) or _becomes_a_thing(text):
        return "object"
    return "object" if _takes_another_thing(text) else "temporal"


def _becomes_a_thing(text: str) -> bool:
    """ "Switch to a screwdriver", "replace it with nylon": to a thing. "Switch to squats": to an action."""
    match = _CHANGED.search(text)
    if match is None or ("hand" in text and "holding" not in text):
        return False
    verb, article, turned = match.groups()
    ends = not text[match.end() :].strip(" .")
    if turned.endswith("ing") and ends and not article:
        return False
    if turned == "holding":
        return True
    return bool(article) or verb != "switch"


def _takes_another_thing(text: str) -> bool:
    """ "Drop the knife instead": the verb and a noun, without a pronoun or a place."""
    words = _WORD.findall(text)
    if "instead" not in words or len(words) < 3:
        return False
    rest = [word for word in words[1:] if word not in ("instead", "the", "a", "an", "some")]
    while rest and _PARTICLES.fullmatch(rest[0]):
        rest.pop(0)
    return bool(rest) and not any(map(_ELSEWHERE.fullmatch, rest))
