"""The fidelity gate: draw again until the caption keeps its meaning (Qiu et al., App. 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

TRIES = 100


class Encoder(Protocol):
    """Sentence embeddings of unit length, and the lowest cosine at which two sentences count as equal in meaning."""

    threshold: float
    embed: Callable[[Sequence[str]], NDArray[np.floating]]


@dataclass(frozen=True)
class Outcome:
    """The accepted text, or the last try when none was accepted."""

    text: str
    similarity: float
    attempts: int
    accepted: bool


def first_accepted(
    originals: Sequence[str], draws: Sequence[Callable[[], str]], encoder: Encoder, tries: int
) -> list[Outcome]:
    """For each caption, the first of at most `tries` drawn texts that is similar enough to it.

    Each round embeds together the captions that still wait. A caption's outcome does not depend on the others, as long
    as its embedding does not. The similarity is rounded to four digits, and the rounded value is compared with the
    threshold and reported.

    Args:
        originals: the clean captions.
        draws: for each caption, a function that draws the next perturbed text.
        encoder: the judge.
        tries: the largest number of draws per caption.
    """
    if not originals:
        return []
    clean = encoder.embed(originals)
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
