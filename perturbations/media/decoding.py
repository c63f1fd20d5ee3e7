"""Decode clips with PyAV, frame by frame, and detect damaged and missing data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import av.error

from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError
from perturbations.base.storage import is_picture
from perturbations.media import containers, opening, pixels, walks
from perturbations.media.clip import SAME_TIME_S, Frame, MediaClip


def decode(clip: MediaClip, *, only: Collection[int] | None = None, in_file: bool = False) -> Iterator[Frame]:
    """Decode a clip frame by frame, in constant memory.

    The frames are RGB uint8 H x W x 3. `only` selects the frames at these positions and stops after the last: the
    others are never converted.
    Times start at 0 and increase strictly; `in_file` they count from the start of the file's video. Raises `MediaError`
    when the file is damaged, ends early, changes its frame size, or has no frame in the clip's span. A picture is one
    frame.
    """
    if is_picture(clip.path):
        if (clip.start_s, clip.end_s) != (None, None):
            raise MediaError("a picture has no span in seconds")
        from perturbations.media import stills  # not at the top: of a video, a job needs none of it

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
    # Containers that index by decoding time, or not at all, may land on a key frame that is shown after the time.
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
    packets = _CountedPackets(clip.path, container, stream)
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
    """Some frames, by their positions, of a file that this package has written: the same as `decode` gives.

    Frames between the wanted ones and the key frames before them are not decoded, so damage there is not noticed.
    Raises `MediaError`.
    """
    frames = [] if is_picture(path) else list(_from_key_frames(path, set(only)))
    yield from frames if len(frames) == len(set(only)) else decode(MediaClip(path), only=only)


def _from_key_frames(path: Path, only: Collection[int]) -> Iterator[Frame]:
    """Ends at once in a file whose frames are stored in another order than they are shown in."""
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
        for frame in opening.decode_packet(packet)[0]:
            if frame.is_corrupt:
                raise MediaError("a frame is damaged")
    return frame


_LOST = "a part of the file is damaged or missing"
_MISSING = "the file is damaged: a picture is missing that others refer to"
_UNDECLARED = (containers.MP4, "mpegts", "mpeg")
"""Containers whose streams' length in seconds is not declared, or that declare their number of frames."""


class _CountedPackets:
    """Demuxes and decodes a stream and counts its packets, to detect a file that was cut short."""

    def __init__(self, path: Path, container: av.container.InputContainer, stream: av.video.stream.VideoStream) -> None:
        self._path = path
        self._format = container.format.name
        self._container = container
        self._stream = stream
        # The index of an AVI leaves out dropped frames, which the stream's header counts.
        indexed = sum(entry.size > 0 for entry in stream.index_entries) if self._format == "avi" else 0
        self._indexed = indexed if indexed > 1 else 0  # without an index there is an entry for the first packet
        self._declared = self._indexed or opening.declared_frames(stream)
        if self._format == containers.MP4 and stream.index_entries:  # without those that its edit list cuts off
            self._declared = min(self._declared, len(stream.index_entries))
        self._duration_s = opening.declared_duration_s(stream)
        self._beside: list[av.stream.Stream] = []
        if self._format == "flv" and container.duration:  # it has one duration for all of its streams
            self._duration_s = container.duration / av.time_base
            self._beside = [other for other in container.streams if other.index != stream.index]
        self._discarded = 0
        self._count = 0
        self._end_s = 0.0
        self._absence = _Absence(stream)

    def frames(self) -> Iterator[av.VideoFrame]:
        for packet in self._packets():
            frames, complaint = opening.decode_packet(packet)
            if packet.size:
                self._absence.hear(packet, complaint)
            for frame in frames:
                self._absence.show(frame.pts)
                yield frame
        self._absence.end()

    def _packets(self) -> Iterator[av.Packet[av.VideoStream]]:
        packets = opening.packets(self._container, self._stream, *self._beside)
        for packet in walks.proven(self._path, self._stream, packets):
            if packet.size:
                if packet.is_corrupt and self._format != "mpegts":  # whose gaps may be where another file begins
                    raise MediaError(_LOST)
                if packet.pts is not None and packet.time_base is not None:
                    self._end_s = max(self._end_s, float((packet.pts + (packet.duration or 0)) * packet.time_base))
            if packet.stream.index != self._stream.index or (not packet.size and packet.pts is not None):
                continue  # in Theora, the last frame stays; PyAV would treat this packet as an error
            self._count += packet.size > 0
            self._discarded += packet.is_discard
            yield packet

    def check_complete(self, decoded: int) -> None:
        if self._count < self._indexed:
            raise MediaError(f"the file is damaged: {self._count} of {self._indexed} indexed frames are found")
        declared = self._declared - self._discarded
        # A packet of AVI may hold no frame, or two; a packet of MP4 holds one.
        if decoded < declared - (max(2, declared // 50) if self._format == "avi" else 0):
            if self._count < self._declared:
                how = "ends early"
            elif self._absence.late() >= declared - decoded:
                how = "begins late"
            else:
                how = "is damaged"
            raise MediaError(f"the file {how}: {decoded} of {declared} declared frames")
        # Each packet of VP9 shows one frame; its decoder silently skips packets that it cannot read.
        if self._stream.codec_context.name.endswith("vp9") and decoded < self._count - self._discarded:
            raise MediaError(f"the file is damaged: {decoded} of {self._count} frames can be decoded")
        # The length of an MPEG stream is not declared: libav takes the last time in it.
        if self._format not in _UNDECLARED and self._end_s < (self._duration_s or 0.0) - 1.0:
            raise MediaError(f"the file ends early: {self._end_s:.2f} of {self._duration_s:.2f} declared seconds")


_REORDERED = 5
"""A picture may be decoded so many gaps before one that is shown earlier."""


class _Absence:
    """Tells pictures that are missing from those before a cut, by the times of the pictures that are shown.

    Where a decoder misses a picture that it is to forget, or to refer to, this picture may lie before the file's begin:
    then nothing is missing. Otherwise its place among those that are shown is empty.
    """

    def __init__(self, stream: av.video.stream.VideoStream) -> None:
        time_base = stream.time_base or Fraction(1, 1000)
        self._gap = Fraction(3, 2) / ((opening.frame_rate(stream) or Fraction(25)) * time_base)
        self._near = 1 / time_base
        self._first: int | None = None
        self._shown: int | None = None  # the latest time
        self._begins_with_key: bool | None = None
        self._waiting: set[int] = set()  # times of pictures that are not shown, from before the first that is
        self._complains = False
        self._complaint: int | None = None  # the latest time of one that a picture is absent
        self._empty: int | None = None  # the end of the latest gap
        self._joined: int | None = None  # the time of the first picture of the latest file that was joined
        self._unreferenced: set[int] = set()

    def late(self) -> int:
        """The number of pictures that belong before the first that is shown, and are not."""
        return len(self._waiting)

    def hear(self, packet: av.Packet[av.VideoStream], complaint: opening.Complaint) -> None:
        """Take note of a packet with a picture. Raises `MediaError`."""
        if self._begins_with_key is None:
            self._begins_with_key = packet.is_keyframe
        if packet.is_discard:
            return
        is_absent = complaint in ("absent", "unreferenced")
        if packet.pts is None:
            if is_absent and self._first is not None:
                raise MediaError(_MISSING)
            return
        if self._first is None or packet.pts < self._first:
            self._waiting.add(packet.pts)
        self._complains |= complaint != "none"
        if packet.opaque is opening.JUMP:
            self._joined = packet.pts
        if complaint == "unreferenced" and (self._joined is None or packet.pts >= self._joined):
            self._unreferenced.add(packet.pts)  # not those that lead the first picture of another file
        if is_absent:
            self._complaint = packet.pts
            self._compare()

    def show(self, pts: int | None) -> None:
        """Take note of a picture that is shown. Raises `MediaError`."""
        if pts is None:
            self._first = self._first or 0
            return
        if self._first is None:
            self._first = pts
            self._waiting = {waiting for waiting in self._waiting if waiting < pts}
        self._waiting.discard(pts)
        if pts in self._unreferenced:
            raise MediaError(_MISSING)
        if self._shown is not None and pts - self._shown > self._gap and pts != self._joined:
            self._empty = pts
            self._compare()
        self._shown = max(pts, self._shown or pts)

    def _compare(self) -> None:
        if self._complaint is None or self._empty is None:
            return
        if -_REORDERED * self._gap < self._complaint - self._empty < self._near:  # not long before the gap
            raise MediaError(_MISSING)

    def end(self) -> None:
        """Raise `MediaError` where the file begins in the middle, or a picture that lacks its reference is missing."""
        if not self._complains or self._first is None:
            return
        if self._waiting and not self._begins_with_key:
            raise MediaError(f"the file begins late: its first {self.late()} frames cannot be decoded")
        if any(pts > self._first for pts in self._unreferenced):
            raise MediaError(_MISSING)


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
