"""The order of frames. A plan is an int64 array: i >= 0 is the clip's frame i, i < 0 is the donor's frame ~i."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Plan = npt.NDArray[np.int64]

_CHUNKS = 12


class Scrambling(NamedTuple):
    """One clip's disorder, all values uniform in [0, 1).

    Attributes:
        head: the part of the trim that is cut off the beginning.
        pair: the chunk that changes places with the next one.
        keys: one per chunk; their order pairs the chunks, and shuffles them.
    """

    head: float
    pair: float
    keys: npt.NDArray[np.float64]


def draw_scrambling(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Scrambling:
    """The disorder that all severities share."""
    return Scrambling(rng.random(), rng.random(), rng.random(_CHUNKS))


def temporal_scrambling(drawn: Scrambling, num_frames: int, *, trimmed: float, order: str, pairs: int) -> Plan:
    """Trim a part of the clip, cut the rest into 12 equal chunks, reorder the chunks (MLVP, App. E.3).

    The trim is split between head and tail. `order` is "adjacent" (one chunk and the next change places), "pairs"
    (`pairs` disjoint pairs do) or "shuffled". At least one frame is kept; fewer than 12 kept frames are one chunk each.
    """
    kept = max(1, num_frames - round(trimmed * num_frames))
    start = int(drawn.head * (num_frames - kept + 1))
    chunks = np.array_split(np.arange(start, start + kept), min(_CHUNKS, kept))
    return np.concatenate([chunks[index] for index in _chunk_order(drawn, len(chunks), order, pairs)])


def _chunk_order(drawn: Scrambling, chunks: int, order: str, pairs: int) -> npt.NDArray[np.int64]:
    places = np.arange(chunks)
    shuffled = np.argsort(drawn.keys[:chunks])
    if order == "shuffled":
        return shuffled
    if order == "adjacent":
        swapped = int(drawn.pair * (chunks - 1)) + np.arange(2)[None, :] if chunks > 1 else np.empty((0, 2), int)
    else:
        pairs = min(pairs, chunks // 2)
        swapped = shuffled[: 2 * pairs].reshape(pairs, 2)
    for first, second in swapped:
        places[[first, second]] = places[[second, first]]
    return places


def draw_start(rng: np.random.Generator, num_frames: int, height: int, width: int) -> float:
    """Where in the donor the inserted segment starts, uniform in [0, 1)."""
    return rng.random()


def event_insertion(
    start: float, donor: tuple[int, float], num_frames: int, *, share: float, place: str, donors: int
) -> Plan:
    """Put a segment of another clip in place of a share of the clip's own frames (MLVP, App. E.3).

    The result is as long as the clip and keeps at least one of its frames. With `place` "end" the clip's head is kept
    and the segment follows; with "middle" head and tail are kept and the segment stands between them.

    Args:
        start: where in the donor the segment starts, in [0, 1).
        donor: how many frames the donor has, and how many of them pass per frame of the clip.
        num_frames: of the clip.
        share: the donor segment's share of the result.
        place: "end" or "middle".
        donors: the number of clips among which the donor was searched; the plan does not depend on it.
    """
    inserted = min(max(1, round(share * num_frames)), num_frames - 1)
    donor_frames, step = donor
    segment = (np.arange(inserted) * step).astype(np.int64)
    room = donor_frames - 1 - (int(segment[-1]) if inserted else 0)
    # A donor that is too short is repeated from its beginning.
    segment = (segment + int(start * (room + 1))) if room >= 0 else segment % donor_frames
    kept = num_frames - inserted
    tail = 0 if place == "end" else kept // 2
    own = np.arange(num_frames)
    return np.concatenate([own[: kept - tail], ~segment, own[num_frames - tail :]])


def draw_order(rng: np.random.Generator, num_frames: int, height: int, width: int) -> npt.NDArray[np.float64]:
    """One uniform number in [0, 1) per frame; their order is the shuffled order."""
    return rng.random(num_frames)


def jumble(order: npt.NDArray[np.float64], num_frames: int, *, length: int) -> Plan:
    """Frames shuffled inside each segment of `length` frames; the last may be shorter (MSRVTT-P, App. A.1)."""
    segments = np.arange(num_frames) // length
    return np.lexsort((order, segments)).astype(np.int64, copy=False)


def box_jumble(order: npt.NDArray[np.float64], num_frames: int, *, length: int) -> Plan:
    """Segments of `length` frames, the last may be shorter, in shuffled order (MSRVTT-P, App. A.1)."""
    segments = np.arange(num_frames) // length
    return np.lexsort((np.arange(num_frames), order[segments])).astype(np.int64, copy=False)


def sampling(drawn: None, num_frames: int, *, rate: int) -> Plan:
    """Every `rate`-th frame, held `rate` frames (MSRVTT-P, App. A.1)."""
    return np.arange(num_frames, dtype=np.int64) // rate * rate


def reverse_sampling(drawn: None, num_frames: int, *, rate: int) -> Plan:
    """`sampling`, backwards (MSRVTT-P, App. A.1)."""
    return sampling(None, num_frames, rate=rate)[::-1].copy()


def freeze(order: npt.NDArray[np.float64], num_frames: int, *, kept: float) -> Plan:
    """The first frame and a random share `kept` of all, each held until the next (MSRVTT-P, App. A.1).

    A larger share keeps all frames that a smaller one keeps, and more.
    """
    shown = np.zeros(num_frames, np.int64)
    chosen = np.argsort(order, kind="stable")[: int(kept * num_frames)]
    shown[chosen] = chosen
    return np.maximum.accumulate(shown)
