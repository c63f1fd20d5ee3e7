"""The sound of a stored clip: the packets of the source's first audio stream beside the video, not encoded again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import Any

import av

from perturbations.base.errors import MediaError
from perturbations.base.storage import output_errors
from perturbations.media import decoding, opening
from perturbations.media.clip import MediaClip

NONE = "none: "
"""What the row's cell begins with where a clip has no sound; the reason follows."""

UNWANTED = f"{NONE}storage.audio"
"""The cell where the configuration wants no sound."""

_IN_TIME = ", in time"
"""What the cell ends with where there is sound; that of earlier versions lagged by up to a frame, and says it not."""

TIMES = f"{NONE}the perturbation changes times"
"""The cell where there never is any."""

_STORED_IN_MP4 = ("aac", "ac3", "alac", "eac3", "flac", "mp3", "opus")
_PREROLL_S = Fraction(1, 10)
"""Decoders need the packets of this long before a span: the overlap of AAC, Opus's 80 ms, the reservoir of MP3.

They are stored at times below 0, which MP4 keeps as an edit list: readers decode them and show none of them.
"""

_NOT_COPIED = f"{NONE}the source's sound cannot be copied"


def add(stored: Path, clip: MediaClip, target: Path) -> str:
    """Write a stored video to `target`, an MP4, with the packets of the source's sound in the clip's span.

    Returns the column's cell: the codec, or "none: " and why there is no sound: then nothing of use may lie at
    `target`. The video's packets and their times are the same in both files. Raises `OutputError` when the disk
    refuses.
    """
    try:
        with opening.opened(clip.path) as source, opening.opened(stored) as silent:
            if not source.streams.audio:
                return f"{NONE}the source has no sound"
            stream = source.streams.audio[0]
            codec = stream.codec_context.codec.canonical_name if stream.codec_context else "an unknown codec"
            if codec not in _STORED_IN_MP4:
                return f"{NONE}{codec} cannot be stored in MP4"
            shown = silent.streams.video[0]
            packets = _within(clip, source, stream, (shown.start_time or 0) * (shown.time_base or Fraction(1)))
            first = next(packets, None)
            if first is None:
                return f"{NONE}no sound in the clip's span"
            with output_errors(target), av.open(f"file:{target}", "w", format="mp4") as container:
                video = container.add_stream_from_template(silent.streams.video[0], opaque=True)
                audio = container.add_stream_from_template(stream, opaque=True)
                pictures: Iterator[tuple[av.stream.Stream, av.Packet[Any]]] = (
                    (video, packet) for packet in silent.demux(silent.streams.video[0]) if packet.size
                )
                sounds = ((audio, packet) for packet in chain([first], packets))
                for into, packet in merge(pictures, sounds, key=lambda pair: (pair[1].dts or 0) * pair[1].time_base):
                    packet.stream = into
                    container.mux(packet)
        return f"{codec}{_IN_TIME}" if _packets(target, "video") == _packets(stored, "video") else _NOT_COPIED
    except (MediaError, ValueError):  # PyAV's own refusals are values' errors
        return _NOT_COPIED


def is_wanted(cells: Iterable[str | None]) -> bool:
    """Whether the configuration that made most of some rows wanted sound, by their column `audio`."""
    unwanted = [cell == UNWANTED for cell in cells if cell not in (None, TIMES)]
    return sum(unwanted) <= len(unwanted) / 2


def is_other(cell: str | None, *, with_sound: bool) -> bool:
    """Whether a clip's cell is not the one that a first run with the configuration of now would give it.

    Also where the file would stay the same: `is_wanted` counts the cells.
    """
    return cell == UNWANTED if with_sound else cell not in (None, TIMES, UNWANTED)


def _within(
    clip: MediaClip, source: av.container.InputContainer, stream: av.AudioStream, shown: Fraction
) -> Iterator[av.Packet[av.AudioStream]]:
    """The packets of the clip's span and those before it that a decoder needs, counted from the clip's first frame.

    `shown` is the stored video's own start. Raises `MediaError`.
    """
    video = opening.video_stream(clip.path, source)
    video_base = video.time_base or Fraction(1, 1000)
    first = next(decoding.decode(clip, only={0}, in_file=True)).pts * video_base
    origin = (video.start_time or 0) * video_base
    time_base = stream.time_base or Fraction(1, 1000)
    fine = Fraction(1, stream.sample_rate or 48000)  # a container's own may be as coarse as a packet
    start = origin + first - shown
    end = None if clip.end_s is None else origin + Fraction(clip.end_s)
    before: list[av.Packet[av.AudioStream]] = []
    for packet in source.demux(stream):
        if not packet.size:
            continue
        if packet.pts is None:
            raise MediaError("a packet has no time")
        begin = packet.pts * time_base
        if end is not None and begin >= end:
            return
        if begin >= start - _PREROLL_S:
            if packet.is_corrupt:
                raise MediaError("a packet is damaged")
            packet.pts = packet.dts = round((begin - start) / fine)
            end_of_packet = begin + (packet.duration or 0) * time_base
            packet.duration = round((packet.duration or 0) * time_base / fine)
            packet.time_base = fine
            before.append(packet)
            if end_of_packet > start:
                yield from before
                before.clear()


def _packets(path: Path, kind: str) -> str:
    """A hash of the packets of a file's first stream of a kind, with their times; "" without. Raises `MediaError`."""
    with opening.opened(path) as container:
        streams = [stream for stream in container.streams if stream.type == kind][:1]
        if not streams:
            return ""
        digest = hashlib.sha256()
        for packet in container.demux(streams):
            if packet.size:
                seconds = (packet.pts or 0) * packet.time_base
                digest.update(f"{seconds} {packet.size} {packet.is_keyframe} ".encode() + bytes(packet))
        return digest.hexdigest()
