"""The fidelity gate: draw again until the caption means the same (Qiu et al., App. 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

TRIES = 100


class Encoder(Protocol):
    """Sentence embeddings of unit length, and the cosine from which on two of them count as the same meaning."""

    threshold: float
    embed: Callable[[Sequence[str]], Any]


@dataclass(frozen=True)
class Outcome:
    """What the gate let through, or the last try when it let nothing through."""

    text: str
    similarity: float
    attempts: int
    accepted: bool


def first_accepted(
    originals: Sequence[str], draws: Sequence[Callable[[], str]], encoder: Encoder, tries: int
) -> list[Outcome]:
    """For each caption, the first of at most `tries` drawn texts that is similar enough to it.

    Captions are embedded together, each round those that still wait. A caption's outcome is the one that it would have
    alone, as long as its embedding is. Similarity is rounded to four places and judged as it is reported.

    Args:
        originals: the clean captions.
        draws: for each caption, a function that draws the next perturbed text.
        encoder: the judge.
        tries: how often a caption may be drawn.
    """
    clean = encoder.embed(originals) if originals else []
    judged: list[dict[str, float]] = [{text: 1.0} for text in originals]
    outcomes: dict[int, Outcome] = {}
    waiting = list(range(len(originals)))
    for attempt in range(1, tries + 1):
        drawn = {at: draws[at]() for at in waiting}
        new = [at for at in waiting if drawn[at] not in judged[at]]
        if new:
            vectors = encoder.embed([drawn[at] for at in new])
            for at, vector in zip(new, vectors, strict=True):
                judged[at][drawn[at]] = round(float(clean[at] @ vector), 4)
        for at in waiting:
            similarity = judged[at][drawn[at]]
            outcomes[at] = Outcome(drawn[at], similarity, attempt, similarity >= encoder.threshold)
        waiting = [at for at in waiting if not outcomes[at].accepted]
        if not waiting:
            break
    return [outcomes[at] for at in range(len(originals))]
