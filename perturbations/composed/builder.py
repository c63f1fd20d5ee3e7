"""Splits for composed retrieval, built from captioned spans of long videos by EgoCVR's rules. Standard library only.

Two clips of one video make a query where their captions differ in one thing: the action (another verb, shared nouns) or
the object (the same verb, other nouns). EgoCVR's authors chose pairs by hand; these are chosen by words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

from perturbations.composed.instructions import SOURCE, Words, instruction_for, nouns_of, verb_of
from perturbations.composed.sampler import sampled_blocks, tf_idf
from perturbations.composed.split import (
    ComposedQuery,
    ModificationKind,
    PoolClip,
    Split,
    as_text,
    overlap,
    same_action,
)

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
        analyse: a caption's verb and nouns: `instructions.words_of` with a tagger.
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
                instruction_source=SOURCE,
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
