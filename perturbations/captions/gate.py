"""The fidelity gate: draw again until the caption keeps its topic (Qiu et al., App. 5.3).

The gate compares embeddings, which say what a sentence is about and hardly what it claims: a negation passes more often
than not. docs/measurements/captions.md has what passes at which threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perturbations.captions.similarities import Similarities

TRIES = 100


@dataclass(frozen=True)
class GateOutcome:
    """The accepted text, or the last try when none was accepted; the similarity is None where there is no gate."""

    text: str
    similarity: float | None
    attempts: int
    accepted: bool


def first_accepted(
    originals: Sequence[str], draws: Sequence[Callable[[], str]], similarities: Similarities, tries: int
) -> list[GateOutcome]:
    """For each caption, the first of at most `tries` drawn texts that is similar enough to it.

    Each round judges together the captions that still wait. A caption's outcome does not depend on the others, as long
    as its embedding does not.

    Args:
        originals: the clean captions.
        draws: for each caption, a function that draws the next perturbed text.
        similarities: the judge, and its threshold.
        tries: the largest number of draws per caption.
    """
    judged: list[dict[str, float]] = [{text: 1.0} for text in originals]
    outcomes: dict[int, GateOutcome] = {}
    waiting = list(range(len(originals)))
    for attempt in range(1, tries + 1):
        drawn = {at: draws[at]() for at in waiting}
        new = [at for at in waiting if drawn[at] not in judged[at]]
        for at, similarity in zip(new, similarities.of([(originals[at], drawn[at]) for at in new]), strict=True):
            judged[at][drawn[at]] = similarity
        for at in waiting:
            similarity = judged[at][drawn[at]]
            outcomes[at] = GateOutcome(drawn[at], similarity, attempt, similarity >= similarities.threshold)
        waiting = [at for at in waiting if not outcomes[at].accepted]
        if not waiting:
            break
    return [outcomes[at] for at in range(len(originals))]
