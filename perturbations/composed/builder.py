"""Splits for composed retrieval, built from captioned spans of long videos by EgoCVR's rules. Standard library only.

Two clips of one video make a query where their captions differ in one thing: the action (another verb, shared nouns) or
the object (the same verb, other nouns). EgoCVR's authors chose pairs by hand; these are chosen by words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from perturbations.composed.instructions import SOURCE, Words, instruction_for
from perturbations.composed.modifications import ComposedQuery, ModificationKind, PoolClip, Split, overlap, same_action
from perturbations.composed.sampler import sampled_blocks, tf_idf

_LEAST_SHARED = 0.2
"""The share of all nouns of two captions that both have, from which on they are of the same things."""


@dataclass(frozen=True)
class _Candidate:
    """A clip of a video, with the words of its caption."""

    row: int
    clip: PoolClip
    words: Words


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
        videos.setdefault(clip.video_id, []).append(_Candidate(row, clip, analyse(clip.narration)))
    queries = [query for members in videos.values() for member in members for query in _queries(member, members)]
    split = Split(tuple(clips), tuple(queries), {})
    alike = tf_idf([clip.narration for clip in clips])
    blocks = sampled_blocks(split, alike, seed=seed, dataset=dataset, annotated_too=True)
    return Split(split.pool, split.queries, blocks, frozenset(blocks))


def _queries(query: _Candidate, members: Sequence[_Candidate]) -> list[ComposedQuery]:
    """The query of each kind for which the video has a target."""
    others = [member for member in members if _apart(query.clip, member.clip)]
    kinds: dict[ModificationKind, list[_Candidate]] = {"temporal": [], "object": []}
    for other in others:
        if kind := _difference(query.words, other.words):
            kinds[kind].append(other)
    queries = []
    for kind, candidates in kinds.items():
        if not candidates:
            continue
        target = max(candidates, key=partial(_closeness, query))
        same = same_action(target.clip.narration)
        targets = [target, *(other for other in others if other.row != target.row)]
        queries.append(
            ComposedQuery(
                query_id=f"{query.clip.clip_id}:{kind}",
                clip=query.clip.clip_id,
                targets=tuple(other.clip.clip_id for other in targets if same_action(other.clip.narration) == same),
                instruction=instruction_for(query.words, target.words),
                narration=query.clip.narration,
                target_narration=target.clip.narration,
                kind=kind,
                kind_source="rule of the pair",
                instruction_source=SOURCE,
            )
        )
    return queries


def _difference(query: Words, target: Words) -> ModificationKind | None:
    if not query.verb or not target.verb:
        return None
    shared, every = query.nouns & target.nouns, query.nouns | target.nouns
    if query.verb != target.verb:
        return "temporal" if shared and len(shared) >= _LEAST_SHARED * len(every) else None
    return "object" if target.nouns and not shared else None


def _closeness(query: _Candidate, other: _Candidate) -> tuple[float, float, int]:
    """The larger the share of words in both captions, then the nearer in time, then the later in the list."""
    gap = abs((other.clip.start_s or 0.0) - (query.clip.start_s or 0.0))
    words, others = {*query.words.words}, {*other.words.words}
    return len(words & others) / len(words | others), -gap, other.row


def _apart(first: PoolClip, second: PoolClip) -> bool:
    """Whether two clips share no moment; clips whose spans are not known share all."""
    return None not in (first.start_s, first.end_s, second.start_s, second.end_s) and not overlap(first, second)
