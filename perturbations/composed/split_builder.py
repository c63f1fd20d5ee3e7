"""Splits for composed retrieval, built from captioned spans of long videos by EgoCVR's rules. Standard library only.

Two clips of one video make a query where their captions differ in one thing: the action (another verb, shared nouns) or
the object (the same verb, other nouns). EgoCVR's authors chose pairs by hand; these are chosen by words. Their
instructions were written by GPT-4 (supplement D.2): the shortest sentence that says the change, what stays as "it";
here by rule.

Distractors are those that the authors describe (Sec. 3.2): up to six per target, clips of the same long video that are
neither a query's nor a target's, nor show the target's own action; ranked by how similar their narrations are to the
target's; one of the lowest tenth, four of the middle, one of the top tenth. Fewer than six candidates: all, in time
order.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

from perturbations.composed.split import (
    ComposedQuery,
    ModificationKind,
    PoolClip,
    Rows,
    Split,
    as_text,
    overlap,
    same_action,
)

INSTRUCTION_SOURCE = "rule 1"
"""The rules that write instructions, and their version, as rows record them."""

_BEFORE = ("DT", "PRP$", "JJ", "JJR", "JJS", "CD", "VBN", "VBG")
"""Tags of words that come before a noun and belong to it."""
_EDGES = ".,;:!?\"'()"


Words = Sequence[tuple[str, str, str]]
"""A caption's words in order, lower case, without punctuation: each with its Penn tag and, of nouns and verbs, its base
form; other words are their own."""

_LEAST_SHARED = 0.2
"""The share of all nouns of two captions that both have, from which on they are of the same things."""


_Candidate = tuple[int, PoolClip, Words]
"""A row of the pool, its clip, and the words of the clip's caption."""


def build(
    clips: Sequence[PoolClip],
    analyse: Callable[[str], Words],
    *,
    seed: int,
    dataset: str,
) -> Split:
    """The split of all queries that the clips' captions allow.

    Args:
        clips: captioned spans of long videos, names unique; those without a span are alone in time.
        analyse: a caption's verb and nouns: `words_of` with a tagger.
        seed, dataset: the key of the distractors that are drawn.

    Each clip asks at most two queries: the most similar clip of another action, and of another object. Targets are all
    clips of the video with that caption. Unlike EgoCVR's, distractors may be clips of other queries: here nearly every
    clip is one.
    Raises ValueError when a name repeats.
    """
    if len({clip.clip_id for clip in clips}) < len(clips):
        raise ValueError("clips of a split have names of their own")
    videos: dict[str, list[_Candidate]] = {}
    for row, clip in enumerate(clips):
        videos.setdefault(clip.video_id, []).append((row, clip, analyse(clip.narration)))
    queries = [query for members in videos.values() for member in members for query in _queries(member, members)]
    split = Split(tuple(clips), tuple(queries), {})
    alike = tf_idf([clip.narration for clip in clips])
    blocks = sampled_blocks(split, alike, seed=seed, dataset=dataset, annotated_too=True)
    return Split(split.pool, split.queries, blocks, frozenset(blocks))


def _queries(query: _Candidate, members: Sequence[_Candidate]) -> list[ComposedQuery]:
    """The query of each kind for which the video has a target."""
    _, clip, words = query
    others = [other for other in members if _apart(clip, other[1])]
    queries = []
    for change in get_args(ModificationKind):
        candidates = [other for other in others if _difference(words, other[2]) == change]
        if not candidates:
            continue
        row, target, target_words = max(candidates, key=partial(_closeness, query))
        action = same_action(target.narration)
        same = [other.clip_id for place, other, _ in others if place != row and same_action(other.narration) == action]
        queries.append(
            ComposedQuery(
                query_id=f"{clip.clip_id}:{change}",
                clip_id=clip.clip_id,
                targets=as_text([target.clip_id, *same]),
                instruction=instruction_for(words, target_words),
                narration=clip.narration,
                target_narration=target.narration,
                change=change,
                change_source="rule of the pair",
                instruction_source=INSTRUCTION_SOURCE,
            )
        )
    return queries


def _difference(query: Words, target: Words) -> ModificationKind | None:
    verb, other = verb_of(query), verb_of(target)
    if not verb or not other:
        return None
    nouns, others = nouns_of(query), nouns_of(target)
    shared, every = nouns & others, nouns | others
    if verb != other:
        return "temporal" if shared and len(shared) >= _LEAST_SHARED * len(every) else None
    return "object" if others and not shared else None


def _closeness(query: _Candidate, other: _Candidate) -> tuple[float, float, int]:
    """The larger the share of words in both captions, then the nearer in time, then the later in the list."""
    (_, clip, words), (row, other_clip, other_words) = query, other
    gap = abs((other_clip.start_s or 0.0) - (clip.start_s or 0.0))
    own, others = ({word for word, _, _ in some} for some in (words, other_words))
    return len(own & others) / len(own | others), -gap, row


def _apart(first: PoolClip, second: PoolClip) -> bool:
    """Whether two clips share no moment; clips whose spans are not known share all."""
    return None not in (first.start_s, first.end_s, second.start_s, second.end_s) and not overlap(first, second)


# --- instructions -----------------------------------------------------------------------------------------------------


def words_of(caption: str, tagger: Callable[[list[str]], list[str]], lemma: Callable[[str, str], str]) -> Words:
    """A caption's words, tagged. `lemma` is (word, Penn tag) -> base form."""
    words = [word for word in (part.strip(_EDGES).lower() for part in caption.split()) if word]
    tags = tagger(words) if words else []
    return [
        (word, tag, lemma(word, tag) if tag.startswith(("NN", "VB")) else word)
        for word, tag in zip(words, tags, strict=True)
    ]


def verb_of(words: Words) -> str:
    """The first verb's base form; empty where there is none."""
    return next((base for _, tag, base in words if tag.startswith("VB")), "")


def nouns_of(words: Words) -> frozenset[str]:
    """The base forms of all nouns."""
    return frozenset(base for _, tag, base in words if tag.startswith("NN"))


def instruction_for(query: Words, target: Words) -> str:
    """What to do instead: the target's caption from its verb on, with "it" or "them" for the first thing both name.

    "peel the red onion", "cut the red onion into rings": "Cut it into rings instead."
    """
    start = next((place for place, (_, tag, _) in enumerate(target) if tag.startswith("VB")), 0)
    known = nouns_of(query)
    words: list[str] = []
    place = start
    while place < len(target):
        end = place + 1 if place == start else _phrase(target, place)
        part = target[place:end]
        nouns = nouns_of(part)
        if nouns and nouns <= known and not {"it", "them"} & {*words}:
            words.append("them" if part[-1][1] == "NNS" else "it")
        else:
            words += [base if place == start and tag.startswith("VB") else word for word, tag, base in part]
        place = end
    text = " ".join(words)
    return f"{text[:1].upper()}{text[1:]} instead."


def _phrase(target: Words, place: int) -> int:
    """One after the end of the noun phrase that begins at a place; the place itself plus one where none does."""
    tags = [tag for _, tag, _ in target]
    end = place
    while end < len(tags) and tags[end] in _BEFORE:
        end += 1
    first_noun = end
    while end < len(tags) and tags[end].startswith("NN"):
        end += 1
    return end if end > first_noun else place + 1


# --- distractors ------------------------------------------------------------------------------------------------------

_DISTRACTORS = 6
_MIDDLE = 4

SimilarityOf = Callable[[str, Sequence[str]], Sequence[float]]
"""(the target's narration, others) -> how similar each is."""

_WORD = re.compile(r"\w+")


def sampled_blocks(
    split: Split, similarities: SimilarityOf, *, seed: int, dataset: str, annotated_too: bool = False
) -> dict[str, Rows]:
    """The rows of each target's distractors, by the target's name: lowest, four of the middle, top.

    What is drawn depends on the seed, the dataset and the target alone: not on other targets, nor on their order.
    `annotated_too` lets clips of other queries and targets be distractors, where nearly every clip is one.
    """
    members = {
        video: [row for row in rows if annotated_too or split.pool[row].clip_id not in split.annotated]
        for video, rows in split.last_of_video.items()
    }
    return {
        target.clip_id: _block(split, target, members.get(target.video_id, []), similarities, (seed, dataset))
        for target in split.targets()
    }


def _block(
    split: Split, target: PoolClip, rows: Sequence[int], similarities: SimilarityOf, key: tuple[int, str]
) -> Rows:
    action = same_action(target.narration)
    candidates = [row for row in rows if same_action(split.pool[row].narration) != action]
    if len(candidates) < _DISTRACTORS:
        return tuple(sorted(candidates, key=lambda row: (split.pool[row].start_s or 0.0, split.pool[row].clip_id)))
    scores = similarities(target.narration, [split.pool[row].narration for row in candidates])
    names = [split.pool[row].clip_id for row in candidates]
    ranked = [row for _, _, row in sorted(zip(scores, names, candidates, strict=True))]
    tenth = max(1, len(ranked) // 10)
    lowest, middle, top = ranked[:tenth], ranked[tenth:-tenth], ranked[-tenth:]

    def drawn(members: Sequence[int], count: int) -> list[int]:
        return sorted(members, key=lambda row: _draw(key, target.clip_id, split.pool[row].clip_id))[:count]

    return (*drawn(lowest, 1), *drawn(middle, _MIDDLE), *drawn(top, 1))


def _draw(key: tuple[int, str], target: str, name: str) -> bytes:
    return hashlib.sha256(json.dumps(["distractor", *key, target, name]).encode()).digest()


def tf_idf(corpus: Sequence[str]) -> SimilarityOf:
    """Similarities by the words that narrations share, rare ones counting more: cosine of TF-IDF vectors.

    `corpus` is every narration of the split. A dozen lines, where a library would bring SciPy into every plan.
    """
    documents = Counter(word for text in corpus for word in {*_words(text)})

    def vector(text: str) -> dict[str, float]:
        counts = Counter(_words(text))
        weights = {word: count * math.log((1 + len(corpus)) / (1 + documents[word])) for word, count in counts.items()}
        length = math.sqrt(sum(weight * weight for weight in weights.values()))
        return {word: weight / length for word, weight in weights.items()} if length else {}

    def similarities(narration: str, others: Sequence[str]) -> list[float]:
        target = vector(narration)
        return [
            round(sum(weight * target.get(word, 0.0) for word, weight in vector(text).items()), 9) for text in others
        ]

    return similarities


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
