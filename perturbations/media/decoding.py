"""Decode clips with PyAV, frame by frame. `damage` decides which files count as damaged."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import av.error

from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError
from perturbations.media import damage, opening, pixels
from perturbations.media.clip import SAME_TIME_S, Frame, MediaClip
from perturbations.media.profiles import is_picture


def decode(clip: MediaClip, *, only: Collection[int] | None = None, in_file: bool = False) -> Iterator[Frame]:
    """Decode a clip frame by frame, in constant memory.

    The frames are RGB uint8 H x W x 3. `only` selects the frames at these positions and stops after the last of them;
    other frames are never converted. Times start at 0 and increase strictly; `in_file` they count from the start of the
    file's video. Raises `MediaError` when the file is damaged, ends early, changes its frame size, or has no frame in
    the clip's span. A picture is one frame.
    """
    if is_picture(clip.path):
        if (clip.start_s, clip.end_s) != (None, None):
            raise MediaError("a picture has no span in seconds")
        from perturbations.media import stills  # not at the top: jobs on videos need no module for pictures

        if only is None or 0 in only:
            yield Frame(stills.read(clip.path), 0, 0)
        return
    with opening.opened(clip.path) as container:
        stream = opening.video_stream(clip.path, container)
        if not clip.start_s or _seek(container, stream, clip.start_s):
            yield from _decode_stream(container, stream, clip, only, in_file=in_file)
            return
    with opening.opened(clip.path) as container:
        yield from _decode_stream(container, opening.video_stream(clip.path, container), clip, only, in_file=in_file)


def _seek(container: av.container.InputContainer, stream: av.video.stream.VideoStream, start_s: float) -> bool:
    """Seek to a key frame shown at or before a time in seconds; returns whether the container has one."""
    origin = stream.start_time or 0
    time_base = stream.time_base or Fraction(1, 1000)
    # Containers that index by decoding time, or have no index, may land on a key frame that is shown after the time.
    for margin_s in (0, 10):
        ticks = origin + int((start_s - margin_s) / time_base)
        try:
            container.seek(ticks, stream=stream)
            key = next((frame for frame in container.decode(stream) if frame.key_frame), None)
            if key is not None and key.pts is not None and (key.pts - origin) * time_base <= start_s + 1e-6:
                container.seek(ticks, stream=stream)
                return True
        except av.error.FFmpegError:
            continue  # the seek ended within a frame
    return False


def _decode_stream(
    container: av.container.InputContainer,
    stream: av.video.stream.VideoStream,
    clip: MediaClip,
    only: Collection[int] | None,
    *,
    in_file: bool,
) -> Iterator[Frame]:
    last_wanted = max(only) if only else None
    origin = stream.start_time or 0
    time_base = stream.time_base or Fraction(1, 1000)
    tick = max(1, round(1 / ((opening.frame_rate(stream) or Fraction(25)) * time_base)))
    to_array: Callable[[av.VideoFrame], Image] | None = None
    size = (0, 0)
    pts = origin - tick
    first: int | None = None
    previous = -1
    index = -1
    decoded = 0
    packets = damage.CheckedPackets(clip.path, container, stream)
    for frame in packets.frames():
        decoded += 1
        if to_array is None:
            size = (frame.width, frame.height)
            to_array = pixels.converter(clip.path, stream, frame)
        elif (frame.width, frame.height) != size:
            sizes = f"{size[0]}x{size[1]} to {frame.width}x{frame.height}"
            raise MediaError(f"the frame size changes from {sizes} at frame {decoded - 1}")
        pts = frame.pts if frame.pts is not None else pts + tick
        seconds = float((pts - origin) * time_base)
        if clip.start_s is not None and seconds < clip.start_s - SAME_TIME_S:
            continue
        if clip.end_s is not None and seconds >= clip.end_s - SAME_TIME_S:
            break
        if frame.is_corrupt:  # checked inside the span only: before it, seeking itself breaks references
            raise MediaError(f"frame {decoded - 1} is damaged")
        if first is None:
            first = origin if in_file else pts
        time = pts - first
        if time <= previous:
            time = previous + tick
        previous = time
        index += 1
        if only is None or index in only:
            yield Frame(to_array(frame), time, index)
            if index == last_wanted:
                return
    else:
        if not clip.start_s:
            packets.check_complete(decoded)
    if first is None:
        span = "" if clip.start_s is None else f" between {clip.start_s:g} s and {clip.end_s or float('inf'):g} s"
        raise MediaError(f"no frame{span}")


def decode_stored(path: Path, only: Collection[int]) -> Iterator[Frame]:
    """Some frames, by their positions, of a file that this package has written: the same frames as from `decode`.

    Frames between the wanted ones and the key frames before them are not decoded, so damage there is not noticed.
    Raises `MediaError`.
    """
    frames = [] if is_picture(path) else list(_from_key_frames(path, set(only)))
    yield from frames if len(frames) == len(set(only)) else decode(MediaClip(path), only=only)


def _from_key_frames(path: Path, only: Collection[int]) -> Iterator[Frame]:
    """The frames, decoded from key frames; none where frames are stored in another order than they are shown in."""
    with opening.opened(path) as container:
        stream = opening.video_stream(path, container)
        if stream.codec_context.name != "h264" or stream.codec_context.has_b_frames:
            return
        origin, last_wanted = stream.start_time or 0, max(only, default=-1)
        to_array: Callable[[av.VideoFrame], Image] | None = None
        waiting: list[av.Packet[av.VideoStream]] = []
        packets = (packet for packet in opening.packets(container, stream) if packet.size)
        for position, packet in zip(range(last_wanted + 1), packets, strict=False):
            if packet.is_corrupt:
                raise MediaError("a part of the file is damaged or missing")
            if packet.is_keyframe:
                waiting.clear()
            waiting.append(packet)
            if position in only:
                frame = _last_frame(waiting)
                waiting.clear()
                if frame is None or packet.pts is None or frame.pts != packet.pts:
                    return
                to_array = to_array or pixels.converter(path, stream, frame)
                yield Frame(to_array(frame), packet.pts - origin, position)


def _last_frame(packets: Iterable[av.Packet[av.VideoStream]]) -> av.VideoFrame | None:
    frame = None
    for packet in packets:
        for frame in packet.decode():
            if frame.is_corrupt:
                raise MediaError("a frame is damaged")
    return frame


def frame_times(clip: MediaClip, num_frames: int) -> list[float]:
    """The time of each frame of a clip, in seconds of its file, ascending.

    The times come from the packets of MP4 and Matroska. Other containers are decoded, and so are files whose packets
    do not have the times of `num_frames` frames.
    Raises `MediaError` when the file cannot be read.
    """
    with opening.opened(clip.path) as container:
        stream = opening.video_stream(clip.path, container)
        origin, time_base = stream.start_time or 0, stream.time_base or Fraction(1, 1000)
        shown = (packet for packet in opening.packets(container, stream) if packet.size and not packet.is_discard)
        ticks = [packet.pts for packet in shown]
        has_times = any(name in container.format.name for name in ("mp4", "matroska"))
    if has_times and all(tick is not None for tick in ticks):
        times = sorted(float((tick - origin) * time_base) for tick in ticks if tick is not None)
        low, high = (
            edge if at is None else bisect_left(times, at - SAME_TIME_S)
            for at, edge in ((clip.start_s, 0), (clip.end_s, len(times)))
        )
        if high - low == num_frames:
            return times[low:high]
    first = clip.start_s or 0.0
    return [first + float(frame.pts * time_base) for frame in decode(clip)]


def pick(path: Path, positions: Iterable[int]) -> Iterator[Image]:
    """RGB frames in any order, from a file with key frames only.

    Raises `MediaError` when a frame is not found.
    """
    with opening.opened(path) as container:
        stream = opening.video_stream(path, container)
        packets = opening.packets(container, stream)
        ticks = sorted(packet.pts for packet in packets if packet.size and packet.pts is not None)
        to_array: Callable[[av.VideoFrame], Image] | None = None
        for position in positions:
            container.seek(ticks[position], stream=stream)
            frame = next((frame for frame in container.decode(stream) if frame.pts == ticks[position]), None)
            if frame is None:
                raise MediaError(f"frame {position} is not found")
            to_array = to_array or pixels.converter(path, stream, frame)
            yield to_array(frame)
