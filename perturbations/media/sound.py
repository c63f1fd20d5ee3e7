"""The sound of a stored clip: the packets of the source's first audio stream beside the video, not encoded again."""

from __future__ import annotations

import os
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
"""The beginning of the row's cell where a clip has no sound; the reason follows."""

UNWANTED = f"{NONE}storage.audio"
"""The cell where the configuration asks for no sound."""

TIMES = f"{NONE}the perturbation changes times"
"""The cell where the perturbation never keeps the sound."""

_STORED_IN_MP4 = ("aac", "ac3", "alac", "eac3", "flac", "mp3", "opus")
_PREROLL_S = Fraction(1, 10)
"""Decoders need the packets of this long before a span: the overlap of AAC, Opus's 80 ms, the reservoir of MP3.

They are stored at times below 0, which MP4 keeps as an edit list: readers decode these packets but do not play them.
"""

_NOT_COPIED = f"{NONE}the source's sound cannot be copied"


def add(stored: Path, clip: MediaClip, scratch: Path) -> str:
    """Add the packets of the source's sound in the clip's span to a stored MP4; the video's packets are not changed.

    Returns the column's cell: the codec, or "none: " with the reason; without sound, the file is not changed.
    `scratch` is an unused path in the same folder. Raises `OutputError` when the disk refuses.
    """
    try:
        with opening.opened(clip.path) as source, opening.opened(stored) as silent:
            if not source.streams.audio:
                return f"{NONE}the source has no sound"
            stream = source.streams.audio[0]
            codec = stream.codec_context.codec.canonical_name if stream.codec_context else "an unknown codec"
            if codec not in _STORED_IN_MP4:
                return f"{NONE}{codec} cannot be stored in MP4"
            packets = _within(clip, source, stream, _start_s(silent.streams.video[0]))
            first = next(packets, None)
            if first is None:
                return f"{NONE}no sound in the clip's span"
            with output_errors(scratch), av.open(f"file:{scratch}", "w", format="mp4") as container:
                video = container.add_stream_from_template(silent.streams.video[0], opaque=True)
                audio = container.add_stream_from_template(stream, opaque=True)
                pictures: Iterable[tuple[av.stream.Stream, av.Packet[Any]]] = (
                    (video, packet) for packet in silent.demux(silent.streams.video[0]) if packet.size
                )
                sounds = ((audio, packet) for packet in chain([first], packets))
                for into, packet in merge(pictures, sounds, key=lambda pair: (pair[1].dts or 0) * pair[1].time_base):
                    packet.stream = into
                    container.mux(packet)
        if _packets(scratch) != _packets(stored):
            return _NOT_COPIED
        os.replace(scratch, stored)
        return codec
    except (MediaError, ValueError):  # PyAV's own refusals are values' errors
        return _NOT_COPIED
    finally:
        scratch.unlink(missing_ok=True)


def _within(
    clip: MediaClip, source: av.container.InputContainer, stream: av.AudioStream, shown_s: Fraction
) -> Iterator[av.Packet[av.AudioStream]]:
    """The packets of the clip's span, and earlier packets that a decoder needs, with times from the clip's first frame.

    `shown_s` is when the stored video shows it. Raises `MediaError`.
    """
    video = opening.video_stream(clip.path, source)
    first = next(decoding.decode(clip, only={0}, in_file=True)).pts * (video.time_base or Fraction(1, 1000))
    start = _start_s(video) + first - shown_s
    end = None if clip.end_s is None else _start_s(video) + Fraction(clip.end_s)
    time_base = stream.time_base or Fraction(1, 1000)
    fine = Fraction(1, stream.sample_rate or 48000)  # a container's own may be as coarse as a packet
    before: list[av.Packet[av.AudioStream]] = []
    for packet in source.demux(stream):
        if not packet.size:
            continue
        if packet.pts is None:
            raise MediaError("a packet has no time")
        begin, length = packet.pts * time_base, (packet.duration or 0) * time_base
        if end is not None and begin >= end:
            return
        if begin < start - _PREROLL_S:
            continue
        if packet.is_corrupt:
            raise MediaError("a packet is damaged")
        packet.pts = packet.dts = round((begin - start) / fine)
        packet.duration = round(length / fine)
        packet.time_base = fine
        before.append(packet)
        if begin + length > start:
            yield from before
            before.clear()


def _start_s(stream: av.VideoStream) -> Fraction:
    return (stream.start_time or 0) * (stream.time_base or Fraction(1, 1000))


def _packets(path: Path) -> list[tuple[Fraction, int, bool]]:
    """The time, the size and the kind of each packet of a file's video. Raises `MediaError`."""
    with opening.opened(path) as container:
        packets = [packet for packet in container.demux(container.streams.video[0]) if packet.size]
        return [((packet.pts or 0) * packet.time_base, packet.size, packet.is_keyframe) for packet in packets]


def is_other(cell: str | None, *, with_sound: bool) -> bool:
    """Whether a clip's cell differs from the cell that the current configuration would give."""
    return cell == UNWANTED if with_sound else cell not in (None, TIMES, UNWANTED)
