"""Open a container and its video stream within the limits, and read the stream's packets.

Decoders run on one thread: the jobs already fill the cores.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import av.error
import av.logging

from perturbations.base import limits, supervise, tars
from perturbations.base.errors import MediaError, cut
from perturbations.media import containers

# libav reads `img%03d.png` as a sequence of files in that folder; a playlist makes it open other files or addresses;
# a file's extension does not matter. So the containers that are read are listed, and only files are opened.
_DEMUXERS = (
    *("mov", "matroska", "avi", "mpeg", "mpegts", "mpegvideo", "asf", "flv", "ogg", "gif", "apng", "mxf", "nut"),
    *("yuv4mpegpipe", "dv", "ivf", "h264", "hevc", "m4v", "obu", "wtv", "rm"),
)
_PICTURES = re.compile("avi[fs]|hei[cxms]|m[is]f1")
"""Brands of ISO/IEC 23008-12 and of AVIF."""
_INPUT_OPTIONS = {"format_whitelist": ",".join(_DEMUXERS)}


@contextmanager
def opened(path: Path) -> Iterator[av.container.InputContainer]:
    """A container, open for reading. Raises `MediaError` for unsupported files, and for libav's errors inside."""
    listen()
    try:
        file, offset, length = tars.at(path)
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise MediaError("not a regular file")
        if length == 0:
            raise MediaError("the file is empty")
        containers.check_length(path)
        # To learn about a stream, libav decodes its first frames, of any size unless `max_pixels` is set.
        # The prefix keeps it from reading a name such as "concat:..." or "http:..." as a protocol.
        address, protocols = f"file:{file}", "file"
        if offset:
            address, protocols = f"subfile,,start,{offset},end,{offset + length},,:{address}", "file,subfile"
        options = {**_INPUT_OPTIONS, "protocol_whitelist": protocols}
        options["max_pixels"] = str(limits.current()["frame_pixels"])
        try:
            with av.logging.Capture() as lines:
                container = av.open(address, "r", metadata_errors="replace", options=options)
        except av.error.ArgumentError as error:
            raise MediaError(
                "not a video: a picture, a text, a list of other files, or of a format that is not read"
            ) from error
        with container:
            if _PICTURES.search(container.metadata.get("compatible_brands", "")):  # libav shows only the first picture
                raise MediaError("not a video: a picture, or an animation of pictures (AVIF, HEIF)")
            if any(source == container.format.name for _, source, _ in lines):
                _check_packets(address, options)
            yield container
    except FileNotFoundError as error:
        raise MediaError("no such file") from error
    except av.error.MemoryError as error:
        if not supervise.memory_is_left():
            raise
        raise MediaError(f"cannot be decoded: {error.strerror or error}") from None  # a damaged file
    except av.error.FFmpegError as error:
        if size := re.search(r"Picture size (\d+)x(\d+)", str(error.log)):  # a frame has too many pixels
            limits.check_size(int(size[1]), int(size[2]))
        raise MediaError(f"cannot be decoded: {error.strerror or error}") from error
    except OSError as error:
        raise MediaError(f"cannot be read: {os.strerror(error.errno or 0)}") from error


def _check_packets(address: str, options: dict[str, str]) -> None:
    """Raise `MediaError` where a demuxer reports an error of a packet.

    libav also reports problems in headers that it does not need, so it must not analyse streams here.
    """
    with av.open(address, "r", metadata_errors="replace", options={**options, "probesize": "32"}) as container:
        for _ in _demuxed(container, *container.streams):
            pass


def video_stream(path: Path, container: av.container.InputContainer) -> av.video.stream.VideoStream:
    """The video stream that ffmpeg takes by default. Raises `MediaError` without one, or beyond the limits."""
    streams = video_streams(container)
    if not streams:
        raise MediaError("there is no video stream")
    stream = max(streams, key=_rank)
    if stream.codec_context is None:
        raise MediaError("its codec is not known")
    stream.thread_type = "NONE"
    stream.codec_context.thread_count = 1
    stream.codec_context.options = {
        "err_detect": "crccheck+bitstream+buffer" + "+explode" * (stream.codec_context.name == "mjpeg"),
        "max_pixels": str(limits.current()["frame_pixels"]),
    }
    _check_limits(stream)
    return stream


def video_streams(container: av.container.Container) -> list[av.video.stream.VideoStream]:
    """The video streams that are not a cover picture."""
    cover = int(av.stream.Disposition.attached_pic)
    return [stream for stream in container.streams.video if not int(stream.disposition) & cover]


_BY_DEFAULT = 5_000_000
"""In ffmpeg's choice of a stream, the disposition `default` counts as this many pixels."""


def _rank(stream: av.video.stream.VideoStream) -> tuple[bool, int]:
    """ffmpeg's order of video streams: the largest first, empty streams last; among equals, the first in the file."""
    is_default = bool(int(stream.disposition) & int(av.stream.Disposition.default))
    context = stream.codec_context
    return stream.frames > 0, (context.width * context.height if context else 0) + _BY_DEFAULT * is_default


def _check_limits(stream: av.video.stream.VideoStream) -> None:
    """Raise `MediaError` when what a header declares is more than the limits allow."""
    context = stream.codec_context
    limits.check_size(context.width, context.height)
    if context.format is not None:
        bits = context.format.padded_bits_per_pixel
        limits.check_decoder(context.width, context.height, bits, intra=context.codec.intra_only)
    limits.check_frames(declared_frames(stream))
    limits.check_seconds(declared_duration_s(stream) or 0.0)


def packets(
    container: av.container.InputContainer, stream: av.video.stream.VideoStream, *beside: av.stream.Stream
) -> Iterator[av.Packet[av.VideoStream]]:
    """The packets of a stream and of the streams `beside` it.

    Raises `MediaError` when the number or the time of the stream's own packets goes beyond the limits.
    """
    allowed = limits.current()
    time_base = stream.time_base or Fraction(1, 1000)
    last = (stream.start_time or 0) + allowed["seconds"] / time_base
    count = 0
    for packet in _on_one_clock(_demuxed(container, stream, *beside), stream):
        if packet.stream_index != stream.index:
            yield packet
            continue
        count += packet.size > 0
        if count > allowed["frames"]:
            limits.check_frames(count)
        if packet.pts is not None and packet.pts > last:
            limits.check_seconds(float((packet.pts - (stream.start_time or 0)) * time_base))
        yield packet


def _demuxed(container: av.container.InputContainer, *streams: av.stream.Stream) -> Iterator[av.Packet[Any]]:
    try:
        packets = container.demux(*streams)
        reported = ""
        # The name of a raw stream's demuxer is also that of its parser, which may complain of what no picture needs.
        names = {container.format.name} - {stream.codec_context.name for stream in streams if stream.codec_context}
        while True:
            with av.logging.Capture() as lines:
                packet = next(packets, None)
            # A demuxer may complain of what is behind the last packet.
            reported = reported or next((text for _, source, text in lines if source in names), "")
            if packet is None:
                return
            if reported and packet.size:
                raise MediaError(f"{containers.LOST}: {cut(reported.strip())}")
            yield packet
    except IndexError as error:  # PyAV lists the streams of a file when it opens it
        raise MediaError("the file is damaged: another stream begins within it") from error


JUMP = object()
"""The value of a packet's `opaque` where the clock jumped."""
_RESTARTING = ("mpegts", "mpeg")
_BACK_S, _ON_S = 0.1, 10
"""Larger jumps of a clock are not from the recording: ffmpeg's program corrects the same jumps."""


def _on_one_clock(packets: Iterator[av.Packet[Any]], stream: av.video.stream.VideoStream) -> Iterator[av.Packet[Any]]:
    """Let the clock of a stream continue where it jumps, as in MPEG files that were joined."""
    if stream.container.format.name not in _RESTARTING or stream.time_base is None:
        yield from packets
        return
    least, most = -_BACK_S / stream.time_base, _ON_S / stream.time_base
    shift = 0
    due: int | None = None
    for packet in packets:
        if packet.stream_index == stream.index and packet.dts is not None:
            if due is not None and not least <= packet.dts + shift - due <= most:
                shift = due - packet.dts
                packet.opaque = JUMP
            packet.dts += shift
            packet.pts = None if packet.pts is None else packet.pts + shift
            due = packet.dts + (packet.duration or 0)
        yield packet


def frame_rate(stream: av.video.stream.VideoStream) -> Fraction | None:
    """The mean frame rate; None where it is not known. For raw DV, libav gives 60,000 ticks per second."""
    if stream.container.format.name == "dv":
        return stream.guessed_rate
    return stream.average_rate


_NO_NUMBERS = (1 << 30, (1 << 32) - 1)
"""Declared numbers of frames in files whose writer could not go back to the header of an AVI or an IVF."""


def declared_frames(stream: av.video.stream.VideoStream) -> int:
    """The number of frames that a header declares; 0 without a number. In IVF, it may be the number of ticks."""
    return 0 if stream.frames in _NO_NUMBERS or stream.container.format.name == "ivf" else stream.frames


def declared_duration_s(stream: av.video.stream.VideoStream) -> float | None:
    """The length in seconds that a header declares; None without a length."""
    if stream.frames in _NO_NUMBERS:
        return None
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    tag = stream.metadata.get("DURATION", "")
    hours, _, rest = tag.partition(":")
    minutes, _, seconds = rest.partition(":")
    try:
        return 3600 * float(hours) + 60 * float(minutes) + float(seconds)
    except ValueError:
        return None


# --- what libav says -------------------------------------------------------------------------------------------------

_quiet = logging.getLogger("libav")  # PyAV's default; raised errors say what is not captured
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


def listen() -> None:
    """Let each libav error reach the code that captures it, and nothing else: a program may have changed this."""
    if av.logging.get_level() != av.logging.ERROR:
        av.logging.set_level(av.logging.ERROR)
    if av.logging.get_skip_repeated():
        av.logging.set_skip_repeated(False)
