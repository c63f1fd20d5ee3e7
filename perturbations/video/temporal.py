"""The order of frames. A plan is an int64 array: i >= 0 is the clip's frame i, i < 0 is the donor's frame ~i."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import SAMPLED, uniform_indices
from perturbations.base.bounds import SHARE, Choice, whole
from perturbations.base.errors import MediaError
from perturbations.base.kernel import Kernel, draw_unit

FrameOrder = npt.NDArray[np.int64]

_CHUNKS = 12


class Scrambling(NamedTuple):
    """One clip's disorder, all values uniform in [0, 1).

    Attributes:
        head: the part of the trim that is cut off the beginning.
        pair: the chunk that changes places with the next one.
        keys: one per chunk; their order pairs the chunks, and shuffles them.
        places: one per sampled frame: its place in a sequence that is too short to sample.
    """

    head: float
    pair: float
    keys: npt.NDArray[np.float64]
    places: npt.NDArray[np.float64]


def draw_scrambling(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Scrambling:
    """The disorder that all severities share."""
    return Scrambling(rng.random(), rng.random(), rng.random(_CHUNKS), rng.random(SAMPLED))


def temporal_scrambling(drawn: Scrambling, num_frames: int, *, trimmed: float, order: str, pairs: int) -> FrameOrder:
    """Trim a part of the clip, cut the rest into 12 equal chunks, reorder the chunks (MLVP, App. E.3).

    The trim is split between head and tail. `order` is "adjacent" (one chunk and the next change places), "pairs"
    (`pairs` disjoint pairs do) or "shuffled". At least one frame is kept; fewer than 12 kept frames are one chunk each.
    """
    return _scrambled(drawn, num_frames, num_frames - round(trimmed * num_frames), order, pairs)


def scrambling_released(drawn: Scrambling, num_frames: int, *, trimmed: float, order: str, pairs: int) -> FrameOrder:
    """`temporal_scrambling` as MLVP's code does it: the trim is rounded down."""
    return _scrambled(drawn, num_frames, num_frames - int(trimmed * num_frames), order, pairs)


def scrambling_sampled(drawn: Scrambling, num_frames: int, *, trimmed: float, order: str, pairs: int) -> FrameOrder:
    """The 12 frames that MLVP's code gives a model of `scrambling_released`.

    They are evenly spaced, first and last included. A sequence of fewer frames gives 12 random ones, with repetitions.
    """
    sequence = scrambling_released(drawn, num_frames, trimmed=trimmed, order=order, pairs=pairs)
    length = len(sequence)
    places = np.linspace(0, length - 1, SAMPLED) if length >= SAMPLED else drawn.places * length
    return sequence[places.astype(np.int64)]


def _scrambled(drawn: Scrambling, num_frames: int, kept: int, order: str, pairs: int) -> FrameOrder:
    kept = max(1, kept)
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


def event_insertion(
    start: float, donor: tuple[int, float], num_frames: int, *, share: float, place: str, donors: int
) -> FrameOrder:
    """Put a segment of another clip in place of a share of the clip's own frames (MLVP, App. E.3).

    The result is as long as the clip and keeps at least one of its frames. With `place` "end" the clip's head is kept
    and the segment follows; with "middle" head and tail are kept and the segment is between them.

    `start`, in [0, 1), is where in the donor the segment starts; `donor` is how many frames the donor has, and how many
    of them pass per frame of the clip; `donors` is the number of clips among which it was searched: the plan does not
    depend on it.
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


def insertion_released(
    drawn: None, donor: tuple[int, float], num_frames: int, *, share: float, donors: int
) -> FrameOrder:
    """`event_insertion` as MLVP's code does it: the clip's head, then the whole of another clip, squeezed.

    Of 12 equal spans of the result, round(12 share) are the donor's, at least one and at most 11. Its frames are evenly
    spaced over the whole of it, whatever its length: 12 uniform samples of the result are those of `insertion_sampled`,
    or frames close to them, if the clip has 12 or more. At least one frame of the clip is kept.
    The donor's speed does not matter.
    """
    kept = max(1, num_frames * (SAMPLED - _inserted(share)) // SAMPLED)
    return np.concatenate([np.arange(kept), ~_middles(num_frames - kept, donor[0])])


def insertion_sampled(
    drawn: None, donor: tuple[int, float], num_frames: int, *, share: float, donors: int
) -> FrameOrder:
    """The 12 frames that MLVP's code gives a model: the first uniform samples of the clip, then those of the donor."""
    inserted = _inserted(share)
    own = uniform_indices(SAMPLED, num_frames)[: SAMPLED - inserted]
    return np.concatenate([np.array(own), ~np.array(uniform_indices(inserted, donor[0]))])


def _inserted(share: float) -> int:
    """How many of 12 sampled frames are the donor's."""
    return min(max(1, round(SAMPLED * share)), SAMPLED - 1)


def _middles(count: int, total: int) -> FrameOrder:
    """The middle of each of `count` equal parts of `total` frames; frames are repeated where there are fewer."""
    # floor((j + 1/2) total / count), in whole numbers
    middles: FrameOrder = (2 * np.arange(count, dtype=np.int64) + 1) * total // max(1, 2 * count)
    return middles


def draw_order(rng: np.random.Generator, num_frames: int, height: int, width: int) -> npt.NDArray[np.float64]:
    """One uniform number in [0, 1) per frame; their order is the shuffled order."""
    return rng.random(num_frames)


def jumble(order: npt.NDArray[np.float64], num_frames: int, *, length: int) -> FrameOrder:
    """Frames shuffled inside each segment of `length` frames; the last may be shorter (MSRVTT-P, App. A.1)."""
    segments = np.arange(num_frames) // length
    return np.lexsort((order, segments)).astype(np.int64, copy=False)


def box_jumble(order: npt.NDArray[np.float64], num_frames: int, *, length: int) -> FrameOrder:
    """Segments of `length` frames, the last may be shorter, in shuffled order (MSRVTT-P, App. A.1)."""
    segments = np.arange(num_frames) // length
    return np.lexsort((np.arange(num_frames), order[segments])).astype(np.int64, copy=False)


def lowered_rate(drawn: None, times: npt.NDArray[np.float64], num_frames: int, *, rate: int) -> FrameOrder:
    """The clip at 1/`rate` of its own mean frame rate: each frame is held until the next of the lower rate.

    `times` are those of its frames, in seconds, ascending. What is shown at a frame's time is the newest frame at the
    last tick of the lower rate: frames 0, `rate`, 2 `rate`, ... where times are even.
    """
    return _newest(times, rate * _interval(times))


def frame_rate(drawn: None, times: npt.NDArray[np.float64], num_frames: int, *, fps: float) -> FrameOrder:
    """The clip at `fps` frames per second; a clip that has no more keeps its own rate. Otherwise as `lowered_rate`."""
    return _newest(times, max(1 / fps, _interval(times)))


def _interval(times: npt.NDArray[np.float64]) -> float:
    """Seconds from frame to frame, on average."""
    return float(times[-1] - times[0]) / max(1, len(times) - 1)


def _newest(times: npt.NDArray[np.float64], period: float) -> FrameOrder:
    """The newest frame at the last tick. Ticks are `period` seconds apart, from the first frame on."""
    if period <= _interval(times):
        return np.arange(len(times))
    slack = 0.1 * _interval(times)  # times are rounded to a container's clock, which may count milliseconds
    since = times - times[0]
    ticks = np.floor((since + slack) / period) * period
    plan: FrameOrder = np.searchsorted(since, ticks + slack, side="right") - 1
    return plan


def sampling(drawn: None, num_frames: int, *, rate: int, backwards: bool = False) -> FrameOrder:
    """Every `rate`-th frame, held `rate` frames; forwards, or `backwards` (MSRVTT-P, App. A.1)."""
    plan = np.arange(num_frames, dtype=np.int64) // rate * rate
    return plan[::-1].copy() if backwards else plan


def sampling_released(drawn: None, num_frames: int, *, rate: int, backwards: bool = False) -> FrameOrder:
    """Every `rate`-th frame `rate` times, the last one too: up to `rate - 1` frames more (MSRVTT-P's two programs).

    `backwards` the last sampled frame comes first, `rate` times.
    """
    plan = np.arange(0, num_frames, rate, dtype=np.int64).repeat(rate)
    return plan[::-1].copy() if backwards else plan


def freeze(order: npt.NDArray[np.float64], num_frames: int, *, kept: float) -> FrameOrder:
    """The first frame and a random share `kept` of all, each held until the next (MSRVTT-P, App. A.1).

    A larger share keeps all frames that a smaller one keeps, and more.
    """
    shown = np.zeros(num_frames, np.int64)
    chosen = np.argsort(order, kind="stable")[: int(kept * num_frames)]
    shown[chosen] = chosen
    return np.maximum.accumulate(shown)


def freeze_released(
    order: npt.NDArray[np.float64], num_frames: int, *, kept: float, least: int, opening: str
) -> FrameOrder:
    """A random share `kept` of the frames, but `least` frames at least, each held until the next (MSRVTT-P's programs).

    What comes before the first of them shows frame 0 with `opening` "first"; with "lost" the clip begins later, and
    is empty where no frame is chosen. Raises `MediaError` where more frames are to be chosen than there are.
    """
    count = max(int(kept * num_frames), least)
    if count > num_frames:
        raise MediaError(f"{count} frames are to be chosen of {num_frames}: the authors' program fails here too")
    chosen = np.sort(np.argsort(order, kind="stable")[:count])
    if opening == "first" and 0 not in chosen:
        chosen = np.concatenate([[0], chosen])
    return chosen.repeat(np.diff(chosen, append=num_frames)).astype(np.int64, copy=False)


# --- declarations ----------------------------------------------------------------------------------------------------

_FRAMES = whole(1, 1_000_000)
EVENT_INSERTION = Kernel(
    kernel=event_insertion,
    realization=draw_unit,
    method="temporal",
    guide="donor",
    bounds={"share": SHARE, "place": Choice(("end", "middle")), "donors": _FRAMES},
)
EVENT_INSERTION_RELEASED = Kernel(
    kernel=insertion_released,
    sampled=insertion_sampled,
    method="temporal",
    guide="donor",
    version=2,
    bounds={"share": SHARE, "donors": _FRAMES},
)
TEMPORAL_SCRAMBLING = Kernel(
    kernel=temporal_scrambling,
    realization=draw_scrambling,
    method="temporal",
    # Of 12 chunks.
    bounds={"trimmed": SHARE, "order": Choice(("adjacent", "pairs", "shuffled")), "pairs": whole(0, 6)},
)
TEMPORAL_SCRAMBLING_RELEASED = replace(
    TEMPORAL_SCRAMBLING, kernel=scrambling_released, sampled=scrambling_sampled, version=2
)
JUMBLE = Kernel(kernel=jumble, realization=draw_order, method="temporal", bounds={"length": _FRAMES})
BOX_JUMBLE = replace(JUMBLE, kernel=box_jumble)
SAMPLING = Kernel(kernel=sampling, method="temporal", bounds={"rate": _FRAMES})
REVERSE_SAMPLING = replace(SAMPLING, kernel=partial(sampling, backwards=True))
SAMPLING_RELEASED = replace(SAMPLING, kernel=sampling_released, version=2)
REVERSE_SAMPLING_RELEASED = replace(REVERSE_SAMPLING, kernel=partial(sampling_released, backwards=True), version=2)
FREEZE = Kernel(kernel=freeze, realization=draw_order, method="temporal", bounds={"kept": SHARE})
FREEZE_RELEASED = Kernel(
    kernel=freeze_released,
    realization=draw_order,
    method="temporal",
    version=2,
    bounds={"kept": SHARE, "least": whole(0, 100), "opening": Choice(("lost", "first"))},
)
