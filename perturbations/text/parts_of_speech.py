"""Kernels that drop words by part of speech or position (Schiappa et al., App. A.2, "DropText", "Positional").

A dropped word becomes `[UNK]`, so that the caption keeps its length. Parts of speech are prefixes of Penn tags.
"""

from __future__ import annotations

from collections.abc import Sequence

from perturbations.text.contractions import Tagger
from perturbations.text.grammar import Generator
from perturbations.text.tokens import UNKNOWN, core, rebuild


def drop(text: str, rng: Generator, *, tags: Sequence[str], tagger: Tagger) -> str:
    """Words with one of the tags are dropped."""
    words = text.split()
    return rebuild(text, [UNKNOWN if _is(tag, tags) else word for word, tag in zip(words, tagger(words), strict=True)])


def keep(text: str, rng: Generator, *, tags: Sequence[str], tagger: Tagger) -> str:
    """Words with none of the tags are dropped."""
    words = text.split()
    return rebuild(text, [word if _is(tag, tags) else UNKNOWN for word, tag in zip(words, tagger(words), strict=True)])


def drop_random(text: str, rng: Generator, *, tag: str, otherwise_first: bool, tagger: Tagger) -> str:
    """One word with the tag is drawn and dropped at all its places; without such a word, the first word or none."""
    words = text.split()
    tagged = [core(word) for word, own_tag in zip(words, tagger(words), strict=True) if _is(own_tag, (tag,))]
    if tagged:
        gone = tagged[int(rng.integers(len(tagged)))]
        return rebuild(text, [UNKNOWN if core(word) == gone else word for word in words])
    return drop_positions(text, rng, positions=[0]) if otherwise_first else text


def drop_positions(text: str, rng: Generator, *, positions: Sequence[int]) -> str:
    """The words at the positions are dropped; negative positions count from the end. Missing positions are skipped."""
    words = text.split()
    gone = {range(len(words))[at] for at in positions if -len(words) <= at < len(words)}
    return rebuild(text, [UNKNOWN if at in gone else word for at, word in enumerate(words)])


def shuffle_order(text: str, rng: Generator) -> str:
    """The words in a random order."""
    words = text.split()
    return rebuild(text, [words[at] for at in rng.permutation(len(words))])


def _is(tag: str, prefixes: Sequence[str]) -> bool:
    return tag.startswith(tuple(prefixes))
