"""The distractors of a target, as EgoCVR's authors describe them (Sec. 3.2): hard, usual and easy ones of its video.

Up to six per target: clips of the same long video that are neither a query's nor a target's, nor show the target's own
action; ranked by how similar their narrations are to the target's; one of the lowest tenth, four of the middle, one of
the top tenth. Fewer than six candidates: all, in time order. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

from perturbations.composed.split import PoolClip, Rows, Split, same_action

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
