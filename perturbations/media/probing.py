"""Properties of a video file, from its header, its packets and its first frame."""

from __future__ import annotations

import os
import stat
from collections import Counter
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from perturbations.base import storage
from perturbations.base.errors import MediaError
from perturbations.media import damage, opening, pixels, profiles
from perturbations.media.clip import VideoInfo


def sha256(path: Path) -> str:
    """Hex SHA-256 of a video file. Raises `MediaError` when it is missing or not a regular file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise MediaError(f"{path} is not a regular file")
        return storage.sha256(path)
    except FileNotFoundError as error:
        raise MediaError(f"no such file: {path}") from error
    except OSError as error:
        raise MediaError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from error


def probe(path: Path) -> VideoInfo:
    """Read a container's header and its first frame.

    Raises `MediaError` when there is no video to decode, or when its header declares more than `limits` allows. A
    picture is decoded.
    """
    if profiles.is_picture(path):
        from perturbations.media import stills

        return stills.describe(path)
    with opening.opened(path) as container:
        stream = opening.video_stream(path, container)
        frame = next(damage.CheckedPackets(path, container, stream).frames(), None)
        if frame is None:
            raise MediaError("no frame could be decoded")
        return _describe(path, stream, frame)


def _describe(path: Path, stream: av.video.stream.VideoStream, frame: av.VideoFrame) -> VideoInfo:
    rotation = round(frame.rotation / 90) * 90 % 360
    width, height = pixels.upright_size(path, stream, frame)
    aspect = stream.sample_aspect_ratio or Fraction(1)
    return VideoInfo(
        codec=stream.codec_context.codec.canonical_name,  # the name is that of the decoder, such as libdav1d
        pix_fmt=frame.format.name,
        width=width,
        height=height,
        rotation=rotation,
        sample_aspect=1 / aspect if pixels.orientation_of(frame)[0] else aspect,
        primaries=int(frame.color_primaries),
        transfer=int(frame.color_trc),
        losses=_losses(stream, frame),
        frame_rate=opening.frame_rate(stream) or stream.guessed_rate or Fraction(25),
        time_base=stream.time_base or Fraction(1, 1000),
        declared_frames=opening.declared_frames(stream) or None,
        declared_duration_s=opening.declared_duration_s(stream),
    )


_HIGH_RANGE = {16: "PQ", 18: "HLG"}
"""Transfer functions of ITU-T H.273 whose range of brightness does not fit 8 bits."""


def _losses(stream: av.video.stream.VideoStream, frame: av.VideoFrame) -> tuple[str, ...]:
    tracks = Counter(other.type for other in stream.container.streams)
    components = frame.format.components
    bits = max(component.bits for component in components)
    is_transparent = any(component.is_alpha for component in components) or stream.metadata.get("alpha_mode") == "1"
    losses = {
        _HIGH_RANGE.get(int(frame.color_trc), ""): int(frame.color_trc) in _HIGH_RANGE,
        f"{bits} bits": bits > 8,
        "alpha": is_transparent,
        "subtitles": tracks["subtitle"] > 0,
        "further video tracks": len(opening.video_streams(stream.container)) > 1,
        "further audio tracks": tracks["audio"] > 1,
    }
    return tuple(name for name, is_there in losses.items() if is_there)


def is_constant_rate(path: Path) -> bool:
    """Whether a video has a constant frame rate, to a tick of its clock. Decodes nothing.

    Raises `MediaError` when the file cannot be read.
    """
    with opening.opened(path) as container:
        stream = opening.video_stream(path, container)
        listed = [packet.pts for packet in opening.packets(container, stream) if packet.pts is not None]
        rate, time_base = opening.frame_rate(stream), stream.time_base
    if rate is None or time_base is None or not listed:
        return False
    step = 1 / (rate * time_base)
    times = np.sort(np.asarray(listed, dtype=np.int64))
    due = np.arange(len(times)) * step.numerator
    return bool((abs((times - times[0]) * step.denominator - due) <= step.denominator).all())


def file_bitrate(path: Path) -> int:
    """Bits per second of a whole file, sound included. Raises `MediaError` where its length is unknown."""
    with opening.opened(path) as container:
        if container.bit_rate <= 0:
            raise MediaError("the file's bitrate is unknown: it does not say how long it is")
        return container.bit_rate


def video_bitrate(path: Path) -> float | None:
    """Bits per second of the video stream's packets, None without a clock. Raises `MediaError` for a damaged file."""
    if profiles.is_picture(path):
        return None
    with opening.opened(path) as container:
        stream = opening.video_stream(path, container)
        total, end = 0, Fraction(0)
        for packet in opening.packets(container, stream):
            total += packet.size
            if packet.pts is not None:
                end = max(end, (packet.pts + (packet.duration or 0)) * packet.time_base)
    return float(8 * total / end) if end else None
