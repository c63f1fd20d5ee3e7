"""A quick look at a dataset's clips before a run: which files cannot be videos, and how much video the others are.

Nothing is decoded but a few frames of a few clips.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perturbations.plan.costs import Clean, Volume
from perturbations.plan.listed import ListedClip
from perturbations.system.storage import PROFILES, sha256_of

if TYPE_CHECKING:
    from perturbations.arrays import Image

MOST_SAMPLED = 20
"""Clips whose header is read, and of which a few frames are decoded and encoded."""
_MOST_PIXELS = 16_000_000
"""Of all decoded and encoded frames: about a second."""
_MOST_DECODED = 150_000_000
"""Likewise of frames that are only decoded, for the sample that lies behind them."""
_FRAMES = 8
"""Frames in a row that are encoded: a key frame, and frames that are predicted."""
_GROUP = {"released": 12}
_FRAMES_PER_SAMPLE = 3
"""Frames per sample up to which a clip is short: there, the measured clips of 1 s have one frame in several samples."""
_LONGEST_GROUP = 250
"""Frames from one key frame to the next, in the other profiles."""
_OF_WHOLE_CLIPS = {"compatible": 1.16}
"""Bytes of a whole clip per byte that snippets tell, of an encoder that looks far ahead: measured on three clips."""

# --- files that are no videos -----------------------------------------------------------------------------------------

_HEAD = 64
_TEXTS_OF_VIDEOS = (b"YUV4MPEG2", b"nut/multimedia")


def unreadable(clips: Sequence[ListedClip]) -> dict[str, str]:
    """Path -> why a file is surely no video: by its size and its first bytes. It may be damaged all the same."""
    reasons = {}
    for clip in {clip.path: clip for clip in clips}.values():
        if clip.bytes is None:
            continue  # not drawn yet
        if reason := _problem(clip.path):
            reasons[clip.path] = reason
    return reasons


def _problem(path: str) -> str | None:
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(_HEAD)
    except OSError as error:
        return str(error.strerror)
    if not head:
        return "the file is empty"
    if not any(head):
        return "the file begins with zeros"
    is_text = all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head)
    if is_text and not head.startswith(_TEXTS_OF_VIDEOS):
        return "the file is a text"
    return None


# --- how much video ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What the sampled clips of a collection are like.

    Attributes:
        seconds_per_byte: of their files.
        pixels_per_second: of their frames.
        pixels_per_frame: the mean over clips.
        clean: of a clip that is stored unchanged in the tier; None where none could be decoded.
    """

    seconds_per_byte: float
    pixels_per_second: float
    pixels_per_frame: float
    clean: Clean | None

    def volume(self, clip: ListedClip, stored_frames: int | None) -> Volume:
        """How much video a clip probably is."""
        seconds = (clip.bytes or 0) * self.seconds_per_byte
        if clip.end_s is not None:
            seconds = clip.end_s - (clip.start_s or 0.0)
        pixels = seconds * self.pixels_per_second
        stored = pixels if stored_frames is None else self.pixels_per_frame * stored_frames
        return Volume(1, pixels, seconds, stored, self.pixels_per_frame)


@dataclass(frozen=True)
class _Clip:
    seconds: float
    file_seconds: float
    file_bytes: int
    pixels_per_frame: int
    rate: float
    clean: Clean | None

    @property
    def pixels(self) -> float:
        return self.seconds * self.rate * self.pixels_per_frame


def look(
    clips: Sequence[ListedClip],
    tier: str,
    folder: Path,
    *,
    seed: int = 0,
    num_frames: int = 12,
    most: int = MOST_SAMPLED,
) -> Look | None:
    """Sample clips, the same ones in each run; None where none could be read. `folder` takes temporary files.

    `num_frames` is how many frames of a clip the tier "frames" stores.
    """
    chosen = sorted(clips, key=lambda clip: sha256_of(f"{seed} {clip.item_id!r} {clip.path!r}".encode()))
    sampled: list[_Clip] = []
    pixels, decoded = 0, 0.0
    for clip in chosen[:most]:
        positions = max(1, min(6, MOST_SAMPLED // max(1, len(chosen[:most]))))
        between = _MOST_DECODED - decoded
        seen = _look_at(
            clip, tier, folder, positions, decodes=pixels < _MOST_PIXELS, num_frames=num_frames, most=between
        )
        if seen:
            sampled.append(seen)
            pixels += seen.pixels_per_frame * (num_frames if tier == "frames" else _FRAMES * positions)
            decoded += seen.pixels if seen.pixels <= between else 0.0
    total = sum(clip.seconds for clip in sampled)
    if not total:
        return None
    encoded = [clip for clip in sampled if clip.clean is not None]
    return Look(
        sum(clip.file_seconds for clip in sampled) / sum(clip.file_bytes for clip in sampled),
        sum(clip.pixels for clip in sampled) / total,
        sum(clip.pixels_per_frame for clip in sampled) / len(sampled),
        _mean_of(encoded),
    )


def _mean_of(clips: Sequence[_Clip]) -> Clean | None:
    """The mean of clips that were encoded, by their pixels."""
    weighted = [(clip.clean, clip.pixels) for clip in clips if clip.clean is not None]
    total = sum(pixels for _, pixels in weighted)
    if not total:
        return None
    bytes_, keys = (sum(getattr(clean, name) * pixels for clean, pixels in weighted) for name in ("per_pixel", "keys"))
    return Clean(bytes_ / total, keys / total)


def _look_at(
    clip: ListedClip, tier: str, folder: Path, positions: int, *, decodes: bool, num_frames: int, most: float
) -> _Clip | None:
    """A clip, which is decoded up to its sample where it has at most `most` pixels; else key frames are sampled."""
    from perturbations.errors import MediaError
    from perturbations.media import opening

    path = Path(clip.path)
    try:
        with opening.opened(path) as container:
            stream = opening.video_stream(path, container)
            rate = opening.frame_rate(stream) or stream.guessed_rate or Fraction(25)
            length = opening.declared_duration_s(stream) or (container.duration or 0) / 1e6
            if not length and opening.declared_frames(stream):
                length = float(opening.declared_frames(stream) / rate)
            size = stream.codec_context.width * stream.codec_context.height
            start = clip.start_s or 0.0
            seconds = max(0.0, min(clip.end_s or math.inf, length) - start)
            if not seconds or not size:
                return None
            clean = None
            if decodes and tier != "recipe":
                count, run = (num_frames, 1) if tier == "frames" else (positions, _FRAMES)
                places = [start + seconds * (2 * place + 1) / (2 * count) for place in range(count)]
                every = float(seconds * rate) * size <= most
                runs = _decoded(container, stream, places, run) if every else _keys(container, stream, places, run)
                file = folder / "sample.mp4"
                frames = max(1, round(seconds * rate))  # a span may be shorter than a frame
                clean = _stored(runs, frames, file) if tier == "frames" else _clean(runs, tier, rate, frames, file)
            return _Clip(seconds, length, path.stat().st_size, size, float(rate), clean)
    except (MediaError, OSError, ValueError):
        return None


def _decoded(container: Any, stream: Any, places: Sequence[float], length: int) -> list[list[Image]]:
    """At most `length` frames in a row from each place on, which are times in ascending order."""
    time_base, first = stream.time_base or Fraction(1, 1000), stream.start_time or 0
    container.seek(int(places[0] / time_base) + first, stream=stream)
    runs: list[list[Image]] = []
    for frame in container.decode(stream):
        at = float(((frame.pts or 0) - first) * time_base)
        if len(runs) < len(places) and at >= places[len(runs)] - 1e-3:
            runs.append([])
        if runs and len(runs[-1]) < length:
            runs[-1].append(frame.to_ndarray(format="rgb24"))
        elif len(runs) == len(places):
            break
    return runs


def _keys(container: Any, stream: Any, places: Sequence[float], length: int) -> list[list[Image]]:
    """At most `length` frames in a row from the key frame at or before each place; each key frame once."""
    time_base = stream.time_base or Fraction(1, 1000)
    runs: dict[int, list[Image]] = {}
    for place in places:
        container.seek(int(place / time_base) + (stream.start_time or 0), stream=stream)
        frames: Iterator[Any] = islice(container.decode(stream), length)
        for key in islice(frames, 1):
            if (key.pts or 0) not in runs:
                runs[key.pts or 0] = [frame.to_ndarray(format="rgb24") for frame in (key, *frames)]
    return list(runs.values())


def _stored(runs: list[list[Image]], frames: int, path: Path) -> Clean | None:
    """What frames take that are stored, of a clip of `frames` frames."""
    import numpy as np

    from perturbations.media import framefile

    images = [image for run in runs for image in run]
    if not images:
        return None
    framefile.write(path, np.stack(images))
    per_pixel = path.stat().st_size / (np.stack(images).size / 3)
    return Clean(per_pixel, per_pixel * share_of_keys(len(images), frames))


def _clean(snippets: list[list[Image]], tier: str, rate: Fraction, frames: int, path: Path) -> Clean | None:
    """What a clip of `frames` frames takes that is stored unchanged, by snippets of it."""
    from perturbations.media import encoding
    from perturbations.media.clip import Frame, Timing

    snippets = [snippet for snippet in snippets if snippet]
    if not snippets:
        return None
    key_frame, predicted, pixels = 0.0, [], snippets[0][0].size / 3
    for snippet in snippets:
        clock = Timing(1 / rate, rate)
        encoding.encode(
            (Frame(image, place, place) for place, image in enumerate(snippet)), path, PROFILES[tier], clock
        )
        sizes = [size for size, _ in packets(path)]
        key_frame += sizes[0] / len(snippets)
        predicted += sizes[1:]
    keys = min(frames, math.ceil(frames / _GROUP.get(tier, _LONGEST_GROUP)) + (PROFILES[tier].key_frames or 0))
    mean = sum(predicted) / len(predicted) if predicted else key_frame
    of_keys, of_others = keys * key_frame / (frames * pixels), max(0, frames - keys) * mean / (frames * pixels)
    factor = _OF_WHOLE_CLIPS.get(tier, 1.0)
    return Clean((of_keys + of_others) * factor, of_keys * factor)


def packets(path: Path) -> list[tuple[int, bool]]:
    """The bytes of each frame of a file, and whether it is a key frame."""
    import av

    with av.open(str(path)) as container:
        return [(packet.size, packet.is_keyframe) for packet in container.demux(video=0) if packet.size]


def share_of_keys(num_frames: int, frames: float) -> float:
    """The part of the bytes of sampled frames that counts as that of key frames: all in short clips, none in long ones.

    There, a perturbation that repeats frames gives the same frame to several samples.
    """
    return min(1.0, _FRAMES_PER_SAMPLE * num_frames / max(1.0, frames))
