"""What proves that a video file is damaged.

A file is undamaged if ffmpeg and PyAV get every declared picture from it, whatever the decoder prints: pictures decide,
not messages. Each of these proves damage, and nothing else does:

- The container: it has fewer bytes than it declares (`containers.check_length`), a checksum, a counter or a size in it
  differs (`walks.undamaged_packets`), libav's demuxer reports an error before another packet (`opening.packets`), it
  marks a packet as damaged, an index names packets that are not there.
- A number or a length is declared and not reached: pictures, or seconds. Packets that show no picture, such as messages
  and invisible frames, do not count (`units`). In IVF, the number may count ticks.
- A decoder refuses a packet that holds a picture.
- A decoder gives a picture that it marks as damaged.
- A decoder complains of a picture, not of other units in its packet, and never shows it, although it shows earlier
  pictures. Exception: a picture that leads the first picture of a file, or of a joined file, may lack its references.
- A decoder complains of a picture and shows it, and either the decoder neither refuses nor marks damaged pictures
  (decoders that do are `_TOLD_BY_PICTURES`), or the picture is the file's first and refers to another picture.
- A decoder of H.264 complains of a picture, and the place just before it is empty: a picture is missing. Without an
  empty place, such complaints mean no damage: after a cut, the pictures that it should forget never existed.

Further evidence from a container belongs into `containers` or `opening`, with a line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import av.error
import av.logging
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType

from perturbations.base.errors import MediaError, cut
from perturbations.media import containers, opening, walks
from perturbations.media.units import Units

_MISSING = "the file is damaged: a picture is missing that others refer to"
_TOLD_BY_PICTURES = frozenset(
    ("av1", "flv1", "h263", "h264", "mjpeg", "mpeg1video", "mpeg2video", "mpeg4", "prores", "vp8", "vp9", "vvc")
)
"""Codecs whose damaged pictures libavcodec refuses or marks. Its other messages prove nothing."""
_ONE_PER_PACKET = ("av1", "vp8", "vp9")
"""Codecs whose packets show at most one picture each, in any container."""
_UNDECLARED = (containers.MP4, "mpegts", "mpeg")
"""Containers that do not declare the length of a stream in seconds, or that declare its number of frames."""


class CheckedPackets:
    """Demuxes and decodes a stream, and looks for damage."""

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
            self._declared = min(self._declared, sum(entry.size > 0 for entry in stream.index_entries))
        self._duration_s = opening.declared_duration_s(stream)
        self._beside: list[av.stream.Stream] = []
        if self._format == "flv" and container.duration:  # it has one duration for all of its streams
            self._duration_s = container.duration / av.time_base
            self._beside = [other for other in container.streams if other.index != stream.index]
        self._discarded = 0
        self._count = 0
        self._end_s = 0.0
        self._first_tick: int | None = None
        self._last_tick = 0
        self._units = Units(stream)
        self._decoder_of_others: VideoCodecContext | None = None
        self._absence = _Absence(stream)

    def frames(self) -> Iterator[av.VideoFrame]:
        """The frames of a stream, in the order of their times. Raises `MediaError` where one is damaged or missing."""
        for packet in self._packets():
            frames, complaint = self._decode(packet)
            if packet.size and (frames or self._units.shows_picture(packet)):
                self._absence.hear(packet, complaint)
            for frame in frames:
                self._absence.show(frame)
                yield frame
        self._absence.end()

    def _decode(self, packet: av.Packet[av.VideoStream]) -> tuple[list[av.VideoFrame], str]:
        """The frames that a packet completes, and the decoder's first message about a picture, if there is one."""
        with av.logging.Capture() as lines:  # of this thread
            try:
                frames = packet.decode()
            except av.error.InvalidDataError:
                if not packet.size or self._units.holds_picture(packet):
                    raise
                return [], ""
        words = [text.strip() for _, _, text in lines]
        of_others = self._complaints_of_others(packet) if words and packet.size else set()
        return frames, next((text for text in words if text not in of_others), "")

    def _complaints_of_others(self, packet: av.Packet[av.VideoStream]) -> set[str]:
        """The decoder's messages about the stream's header, and about units of a packet that no picture needs."""
        context = self._stream.codec_context
        with av.logging.Capture() as lines, suppress(av.error.FFmpegError):
            if self._decoder_of_others is None:
                decoder = av.CodecContext.create(context.name, "r")
                assert isinstance(decoder, VideoCodecContext)
                decoder.extradata, decoder.options, decoder.thread_count = context.extradata, context.options, 1
                decoder.open()
                self._decoder_of_others = decoder
            others = self._units.others(packet)
            if others:
                self._decoder_of_others.decode(av.Packet(others))
        return {text.strip() for _, _, text in lines}

    def _packets(self) -> Iterator[av.Packet[av.VideoStream]]:
        packets = opening.packets(self._container, self._stream, *self._beside)
        for packet in walks.undamaged_packets(self._path, self._stream, packets):
            if packet.size:
                if packet.is_corrupt and self._format != "mpegts":  # whose gaps may be where another file begins
                    raise MediaError(containers.LOST)
                if packet.pts is not None and packet.time_base is not None:
                    self._end_s = max(self._end_s, float((packet.pts + (packet.duration or 0)) * packet.time_base))
            if packet.stream.index != self._stream.index or (not packet.size and packet.pts is not None):
                continue  # in Theora, the last frame stays; PyAV would treat this packet as an error
            if packet.pts is not None:
                self._first_tick = packet.pts if self._first_tick is None else self._first_tick
                self._last_tick = packet.pts
            self._count += packet.size > 0
            self._discarded += packet.is_discard
            yield packet

    def check_complete(self, decoded: int) -> None:
        """Raise `MediaError` where a stream has fewer frames than declared; call it when all packets are read."""
        if self._count < self._indexed:
            raise MediaError(f"the file is damaged: {self._count} of {self._indexed} indexed frames are found")
        if self._format == "ivf":
            self._check_ivf()
        expected = self._declared - self._discarded
        if self._stream.codec_context.codec.canonical_name in _ONE_PER_PACKET:
            expected = max(expected, self._count - self._discarded)
        # A packet of AVI may hold no frame, or two; a packet of MP4 holds one.
        allowed = max(2, expected // 50) if self._format == "avi" else 0
        if decoded < expected - allowed and self._count >= self._declared:
            expected -= self._packets_without_picture()
        if decoded < expected - allowed:
            if self._count < self._declared:
                how = "ends early"
            elif self._absence.late() >= expected - decoded:
                how = "begins late"
            else:
                how = "is damaged"
            raise MediaError(f"the file {how}: {decoded} of {expected} declared frames")
        # The length of an MPEG stream is not declared: libav takes the last time in it.
        if self._format not in _UNDECLARED and self._end_s < (self._duration_s or 0.0) - 1.0:
            raise MediaError(f"the file ends early: {self._end_s:.2f} of {self._duration_s:.2f} declared seconds")

    def _check_ivf(self) -> None:
        """Raise `MediaError` where the number in an IVF's header is neither the number of packets nor of ticks."""
        declared, count = self._stream.frames, self._count
        if self._first_tick is None or self._duration_s is None or count >= declared:
            return
        step = (self._last_tick - self._first_tick) / max(1, count - 1)
        ends = (step * count, self._last_tick + step)  # as ffmpeg counts, and as a clock does
        if all(abs(end - declared) >= max(1, step / 2) for end in ends):
            raise MediaError(f"the file ends early: {count} of {declared} declared frames")

    def _packets_without_picture(self) -> int:
        """The number of packets that show no picture, by what they hold."""
        with opening.opened(self._path) as container:
            stream = opening.video_stream(self._path, container)
            units = Units(stream)
            packets = (packet for packet in opening.packets(container, stream) if packet.size and not packet.is_discard)
            return sum(not units.shows_picture(packet) for packet in packets)


_REORDERED = 5
"""A picture may be decoded at most so many gaps before a picture that is shown earlier."""


class _Absence:
    """Distinguishes missing pictures from pictures before a cut, by the times of the shown pictures.

    Where a decoder misses a picture that it should forget, or refer to, this picture may lie before the beginning of
    the file: then nothing is missing. Otherwise its place among the shown pictures is empty, or a shown picture refers
    to it.
    """

    def __init__(self, stream: av.video.stream.VideoStream) -> None:
        time_base = stream.time_base or Fraction(1, 1000)
        self._gap = Fraction(3, 2) / ((opening.frame_rate(stream) or Fraction(25)) * time_base)
        self._near = 1 / time_base
        self._first: int | None = None
        self._shown: int | None = None  # the latest time
        self._begins_with_key: bool | None = None
        self._waiting: set[int] = set()  # times of pictures that are not shown, before the first shown picture
        codec = stream.codec_context.codec.canonical_name
        self._by_gaps = codec == "h264"
        self._by_words = codec not in _TOLD_BY_PICTURES
        self._complains = False
        self._complaint: int | None = None  # the time of the latest complaint about a picture
        self._empty: int | None = None  # the end of the latest gap
        self._joined: int | None = None  # the time of the first picture of the latest file that was joined
        self._complaints: dict[int, str] = {}  # complaints by the times of their pictures

    def late(self) -> int:
        """The number of pictures that belong before the first shown picture, and are not shown."""
        return len(self._waiting)

    def hear(self, packet: av.Packet[av.VideoStream], complaint: str) -> None:
        """Take note of a packet with a picture, and of the decoder's message about it. Raises `MediaError`."""
        if self._begins_with_key is None:
            self._begins_with_key = packet.is_keyframe
        if packet.is_discard:
            return
        if packet.pts is None:
            if complaint and self._first is not None and (self._by_words or self._by_gaps):
                raise MediaError(f"the file is damaged: {cut(complaint)}")
            return
        if self._first is None or packet.pts < self._first:
            self._waiting.add(packet.pts)
        if packet.opaque is opening.JUMP:
            self._joined = packet.pts
        if not complaint:
            return
        self._complains |= self._by_words or self._by_gaps
        if self._joined is None or packet.pts >= self._joined:
            self._complaints[packet.pts] = complaint  # unless it leads another file's first
        if self._by_gaps:
            self._complaint = packet.pts
            self._compare()

    def show(self, frame: av.VideoFrame) -> None:
        """Take note of a picture that is shown. Raises `MediaError`."""
        pts = frame.pts
        begins_within = self._first is None and frame.pict_type != PictureType.I
        if pts is None:
            self._first = self._first or 0
            return
        if self._first is None:
            self._first = pts
            self._waiting = {waiting for waiting in self._waiting if waiting < pts}
        self._waiting.discard(pts)
        complaint = self._complaints.pop(pts, "")
        if complaint and (self._by_words or begins_within):
            raise MediaError(f"the file is damaged: {cut(complaint)}")
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
        if self._first is None:
            return
        if self._complains and self._waiting and not self._begins_with_key:
            raise MediaError(f"the file begins late: its first {self.late()} frames cannot be decoded")
        for pts, complaint in self._complaints.items():
            if pts > self._first:
                raise MediaError(f"the file is damaged: {cut(complaint)}")
