"""The only place that decodes or encodes: PyAV in process, ffmpeg (through ffmpeg-python) for codec perturbations.

Frames are RGB uint8 arrays, H x W x 3, upright (a container's rotation is applied). Every decoder and encoder runs
on one thread: results of libx264 depend on the thread count, and the jobs already fill the cores.
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import stat
import subprocess
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import av
import av.error
import av.filter
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray

from perturbations.errors import CrashError, MediaError, OutputError, PerturbationError, ToolError
from perturbations.media import containers, formats
from perturbations.system import limits, processes, storage
from perturbations.system.storage import OUTPUT_ERRNOS, Profile, output_errors

Image = NDArray[np.uint8]

av.logging.set_level(av.logging.PANIC)  # libav writes to stderr what the raised errors already say


class Frame(NamedTuple):
    """One frame: RGB uint8 H x W x 3, its time in ticks of the clip's `time_base`, its position in the clip."""

    image: Image
    pts: int
    position: int


@dataclass(frozen=True)
class VideoInfo:
    """What a container says of its video stream. Sizes are upright; nothing here is proof of what decodes."""

    codec: str
    pix_fmt: str
    width: int
    height: int
    rotation: int
    frame_rate: Fraction
    time_base: Fraction
    declared_frames: int | None
    declared_duration_s: float | None


def sha256(path: Path) -> str:
    """Hex SHA-256 of a video file. Raises `MediaError` when there is none, or something that is no regular file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise MediaError(f"{path} is not a regular file")
        return storage.sha256(path)
    except FileNotFoundError as error:
        raise MediaError(f"no such file: {path}") from error
    except OSError as error:
        raise MediaError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from error


def uniform_indices(num_frames: int, total: int) -> list[int]:
    """Which `num_frames` of `total` frames stand for a clip: the middle of each of `num_frames` equal spans.

    The sampling of X-Pool and MLVP; a clip with fewer frames gives all of them and repeats the last one.
    Raises `ValueError` when `total` is below 1.
    """
    if total < 1:
        raise ValueError(f"a clip has at least one frame, not {total}")
    spans = min(num_frames, total)
    edges = np.linspace(0, total, spans + 1).astype(int).tolist()
    middles = [(start + end - 1) // 2 for start, end in pairwise(edges)]
    return middles + [middles[-1]] * (num_frames - spans)


def probe(path: Path) -> VideoInfo:
    """Read a container's header and its first frame.

    Raises `MediaError` when there is no video to decode, or when it is larger or longer than `limits` allows; frames
    that the header does not declare are counted.
    """
    with _open(path) as container:
        stream = _video_stream(path, container)
        countable = not _declared_frames(stream) and path.stat().st_size > _LEAST_FRAME_BYTES * limits.current().frames
        info: VideoInfo | None = None
        for packet in _packets(container, stream):
            if info is None and (packet.size or packet.pts is None):
                info = next((_describe(stream, frame) for frame in packet.decode()), None)
            if info is not None and not countable:
                break
        if info is None:
            raise MediaError("no frame could be decoded")
        return info


@dataclass(frozen=True)
class Clip:
    """A video, or the part of it between two times in seconds (the end excluded)."""

    path: Path
    start_s: float | None = None
    end_s: float | None = None


SAME_TIME_S = 1e-6
"""A frame so little before a span's edge counts as on it: spans are decimal, clocks are not."""


def decode(clip: Clip, *, pix_fmt: str = "rgb24", only: Collection[int] | None = None) -> Iterator[Frame]:
    """Decode a clip frame by frame, in constant memory.

    The frames are RGB uint8 H x W x 3; with another 8-bit planar `pix_fmt` they are PyAV's packing of its planes.
    `only` gives the frames at these positions and stops after the last: the others are never converted.
    Times start at 0 and increase strictly. Raises `MediaError` when the file is damaged, ends early, changes its
    frame size, or has no frame in the clip's span.
    """
    with _open(clip.path) as container:
        stream = _video_stream(clip.path, container)
        if not clip.start_s or _seek(container, stream, clip.start_s):
            yield from _decode_stream(container, stream, clip, pix_fmt, only)
            return
    with _open(clip.path) as container:
        yield from _decode_stream(container, _video_stream(clip.path, container), clip, pix_fmt, only)


def _seek(container: av.container.InputContainer, stream: av.video.stream.VideoStream, start_s: float) -> bool:
    """Go to a key frame shown at or before a time in seconds; False where the container finds none."""
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
            continue  # it landed within a frame
    return False


def _decode_stream(
    container: av.container.InputContainer,
    stream: av.video.stream.VideoStream,
    clip: Clip,
    pix_fmt: str,
    only: Collection[int] | None,
) -> Iterator[Frame]:
    last_wanted = max(only) if only else None
    origin = stream.start_time or 0
    time_base = stream.time_base or Fraction(1, 1000)
    tick = max(1, round(1 / ((stream.average_rate or Fraction(25)) * time_base)))
    to_array: Callable[[av.VideoFrame], NDArray[np.uint8]] | None = None
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
            to_array = _converter(stream, frame, pix_fmt)
        elif (frame.width, frame.height) != size:
            sizes = f"{size[0]}x{size[1]} to {frame.width}x{frame.height}"
            raise MediaError(f"the frame size changes from {sizes} at frame {decoded - 1}")
        pts = frame.pts if frame.pts is not None else pts + tick
        seconds = float((pts - origin) * time_base)
        if clip.start_s is not None and seconds < clip.start_s - SAME_TIME_S:
            continue
        if clip.end_s is not None and seconds >= clip.end_s - SAME_TIME_S:
            break
        if frame.is_corrupt:  # looked at here only: before the span, seeking itself breaks references
            raise MediaError(f"frame {decoded - 1} is damaged")
        if first is None:
            first = pts
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
        packets.check_structure()
        if not clip.start_s:
            packets.check_complete(decoded)
    if first is None:
        span = "" if clip.start_s is None else f" between {clip.start_s:g} s and {clip.end_s or float('inf'):g} s"
        raise MediaError(f"no frame{span}")


def frame_times(clip: Clip, num_frames: int) -> list[float]:
    """When each frame of a clip is shown, in seconds of its file, ascending.

    Read from the packets of MP4 and Matroska; of other containers, and where the packets do not tell the times of
    `num_frames` frames, by decoding.
    Raises `MediaError` when the file cannot be read.
    """
    with _open(clip.path) as container:
        stream = _video_stream(clip.path, container)
        origin, time_base = stream.start_time or 0, stream.time_base or Fraction(1, 1000)
        shown = (one for one in _packets(container, stream) if one.size and not one.is_discard)
        ticks = [one.pts for one in shown]
        tells = any(name in container.format.name for name in ("mp4", "matroska"))
    if tells and all(one is not None for one in ticks):
        times = sorted(float((one - origin) * time_base) for one in ticks if one is not None)
        low, high = (
            edge if at is None else bisect_left(times, at - SAME_TIME_S)
            for at, edge in ((clip.start_s, 0), (clip.end_s, len(times)))
        )
        if high - low == num_frames:
            return times[low:high]
    first = clip.start_s or 0.0
    return [first + float(frame.pts * time_base) for frame in decode(clip)]


def pick(path: Path, positions: Iterable[int]) -> Iterator[Image]:
    """RGB frames in any order, of a file that has key frames only.

    Raises `MediaError` when a frame is not found.
    """
    with _open(path) as container:
        stream = _video_stream(path, container)
        ticks = sorted(one.pts for one in _packets(container, stream) if one.size and one.pts is not None)
        to_array: Callable[[av.VideoFrame], NDArray[np.uint8]] | None = None
        for position in positions:
            container.seek(ticks[position], stream=stream)
            frame = next((one for one in container.decode(stream) if one.pts == ticks[position]), None)
            if frame is None:
                raise MediaError(f"frame {position} is not found")
            to_array = to_array or _converter(stream, frame, "rgb24")
            yield to_array(frame)


class _CountedPackets:
    """Demuxes and decodes a stream, counting packets, so that a silently shortened file is noticed."""

    def __init__(self, path: Path, container: av.container.InputContainer, stream: av.video.stream.VideoStream) -> None:
        self._path = path
        self._format = container.format.name
        self._container = container
        self._stream = stream
        # The index of an AVI leaves out dropped frames, which the stream's header counts.
        indexed = sum(entry.size > 0 for entry in stream.index_entries) if self._format == "avi" else 0
        self._indexed = indexed if indexed > 1 else 0  # without an index there is an entry for the first packet
        self._declared = self._indexed or _declared_frames(stream)
        self._discarded = 0
        self._count = 0
        self._end_s = 0.0

    def frames(self) -> Iterator[av.VideoFrame]:
        for packet in _packets(self._container, self._stream):
            if packet.size:
                if packet.is_corrupt:
                    raise MediaError("a part of the file is damaged or missing")
                self._count += 1
                self._discarded += packet.is_discard
                if packet.pts is not None and packet.time_base is not None:
                    self._end_s = max(self._end_s, float((packet.pts + (packet.duration or 0)) * packet.time_base))
            elif packet.pts is not None:
                continue  # Theora's way to say that the last frame stays; PyAV takes it for a fault
            yield from packet.decode()

    def check_structure(self) -> None:
        containers.check_structure(self._path, self._format)

    def check_complete(self, decoded: int) -> None:
        if self._count < self._indexed:
            raise MediaError(f"the file is damaged: {self._count} of {self._indexed} indexed frames are found")
        declared = self._declared - self._discarded
        # AVI's packets may hold no frame, or two; MP4's hold one.
        if decoded < declared - (max(2, declared // 50) if self._format == "avi" else 0):
            raise MediaError(f"the file ends early: {decoded} of {declared} declared frames")
        # Each packet of VP9 shows one frame; its decoder passes over what it cannot read.
        if self._stream.codec_context.name.endswith("vp9") and decoded < self._count - self._discarded:
            raise MediaError(f"the file is damaged: {decoded} of {self._count} frames can be decoded")
        duration = _declared_duration_s(self._stream)
        if "mp4" not in self._format and duration is not None and self._end_s < duration - 1.0:
            raise MediaError(f"the file ends early: {self._end_s:.2f} of {duration:.2f} declared seconds")


@dataclass(frozen=True)
class Timing:
    """A clip's clock: ticks of `time_base` seconds, and the nominal frame rate."""

    time_base: Fraction
    frame_rate: Fraction


def encode(frames: Iterable[Frame], path: Path, profile: Profile, timing: Timing) -> str:
    """Write RGB frames as an MP4 in a storage profile, in constant memory, and return the pixel format used.

    4:2:0 halves both sides, so a clip with an odd side is stored as 4:4:4 by the `compatible` profile.
    Raises `OutputError` when the disk refuses, `MediaError` when there is no frame.
    """
    with output_errors(path), av.open(f"file:{path}", "w", format="mp4") as container:
        stream: Any = None
        reformat: Callable[[av.VideoFrame], av.VideoFrame] = _unchanged
        for frame in frames:
            height, width = frame.image.shape[:2]
            if stream is None:
                pix_fmt = storable_pix_fmt(profile.pix_fmt, width, height)
                stream = container.add_stream(profile.codec, rate=timing.frame_rate)
                stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
                stream.options = dict(profile.options)
                stream.codec_context.time_base = timing.time_base
                stream.codec_context.thread_count = 1
                if pix_fmt != "rgb24":
                    reformat = _to_tagged_yuv(stream, pix_fmt)
            picture = av.VideoFrame.from_ndarray(frame.image, format="rgb24")
            picture = reformat(picture)
            picture.pts = frame.pts
            picture.time_base = timing.time_base
            container.mux(stream.encode(picture))
        if stream is None:
            raise MediaError("no frame to encode")
        container.mux(stream.encode(None))
        return str(stream.codec_context.pix_fmt)


def storable_pix_fmt(pix_fmt: str, width: int, height: int) -> str:
    """`pix_fmt`, or 4:4:4 where 4:2:0 cannot hold an odd side."""
    return "yuv444p" if pix_fmt == "yuv420p" and (width % 2 or height % 2) else pix_fmt


def _to_tagged_yuv(stream: Any, pix_fmt: str) -> Callable[[av.VideoFrame], av.VideoFrame]:
    # Say which matrix was used, or players guess it from the picture's size.
    context = stream.codec_context
    context.colorspace, context.color_range = 5, 1  # BT.601 (ITU-R BT.470BG), limited range
    reformatter = VideoReformatter()

    def convert(picture: av.VideoFrame) -> av.VideoFrame:
        return reformatter.reformat(
            picture,
            format=pix_fmt,
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=ColorRange.MPEG,
            interpolation=Interpolation.BICUBIC,
            threads=1,
        )

    return convert


def _unchanged(picture: av.VideoFrame) -> av.VideoFrame:
    return picture


def encode_with_ffmpeg(
    frames: Iterable[Frame], path: Path, timing: Timing, size: tuple[int, int], pix_fmt: str, arguments: dict[str, Any]
) -> None:
    """Encode frames with the ffmpeg program; the stream it writes is the result.

    `frames` hold `pix_fmt` pictures of `size` (width, height) as `decode` gives them. They travel to ffmpeg as raw
    video in NUT, which keeps each frame's time. `arguments` are ffmpeg-python output arguments; with `fps_mode="cfr"`
    the encoder counts frames at the rate of `timing`, for codecs that know no other clock.
    Raises `MediaError` with ffmpeg's own words when it fails, `OutputError` when the disk refuses, `ToolError` when
    it is killed or cannot be started.
    """
    import ffmpeg

    clock = {"fps_mode": "passthrough", "enc_time_base": "demux"}
    if arguments.get("fps_mode") == "cfr":
        clock = _constant(timing.frame_rate)
    output = ffmpeg.input("pipe:0", format="nut", threads=1).output(
        f"file:{path}", an=None, map_metadata=-1, **clock, **arguments
    )
    with _ffmpeg(output, path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        _write_nut(frames, _Pipe(process.stdin), timing, size, pix_fmt)
        with suppress(BrokenPipeError):
            process.stdin.close()


def _constant(frame_rate: Fraction) -> dict[str, Any]:
    # A rate that the codec does not know would become the nearest that it knows, by frames repeated or left out.
    return {"r": str(frame_rate), "force_fps": None}


def transcodable(clip: Clip) -> int | None:
    """The index of the stream from which `transcode_with_ffmpeg` makes what it would make of `decode`'s 4:2:0 frames.

    None where that is not sure: it must be a whole file of ordinary 8-bit frames at a constant rate, upright.
    Raises `MediaError` when the file cannot be read.
    """
    if clip.start_s is not None or clip.end_s is not None:
        return None
    with _open(clip.path) as container:
        stream = _video_stream(clip.path, container)
        listed: list[int] = []
        first: av.VideoFrame | None = None
        for packet in _packets(container, stream):
            if packet.pts is not None:
                listed.append(packet.pts)
            first = first or next(iter(packet.decode()), None)
        if first is None or not _evenly_spaced(stream, listed):
            return None
        info = _describe(stream, first)
        ordinary = (info.pix_fmt, info.rotation, info.width % 2, info.height % 2) == ("yuv420p", 0, 0, 0)
        return stream.index if ordinary else None


def transcode_with_ffmpeg(
    source: Path, index: int, path: Path, frame_rate: Fraction, arguments: dict[str, Any], tick: Callable[[], None]
) -> int:
    """Let the ffmpeg program decode and encode a stream, at a constant frame rate, and return how many frames it took.

    To the bit what `encode_with_ffmpeg` writes of the frames of a clip that is `transcodable`, with nothing to pipe.
    `arguments` are ffmpeg-python output arguments; `tick` is called while frames come out.
    Raises `MediaError` with ffmpeg's own words when it fails, `OutputError` when the disk refuses, `ToolError` when
    it is killed or cannot be started.
    """
    import ffmpeg

    # Raw frames in a pipe say nothing of their pixels' shape and colours, which the stream would repeat.
    untold = "setsar=0,setparams=range=unspecified:color_primaries=unknown:color_trc=unknown:colorspace=unknown"
    output = ffmpeg.input(f"file:{source}", r=str(frame_rate), threads=1, **formats.INPUT_OPTIONS).output(
        f"file:{path}", map=f"0:{index}", map_metadata=-1, vf=untold, **_constant(frame_rate), **arguments
    )
    output = output.global_args("-progress", "pipe:1", "-stats_period", "1")
    taken = 0
    with _ffmpeg(output, path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            name, _, value = line.decode().strip().partition("=")
            if name == "frame" and value.isdigit() and int(value) > taken:  # it also speaks when it hangs
                taken = int(value)
                tick()
    return taken


@contextmanager
def _ffmpeg(output: Any, path: Path, *, stdin: int, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run an ffmpeg-python graph that writes `path`; at the end ffmpeg is gone, and has succeeded."""
    command = output.global_args("-nostdin", "-hide_banner", "-loglevel", "error").overwrite_output()
    with tempfile.TemporaryFile() as words:
        process = _started(command.compile(cmd=ffmpeg_program()), stdin=stdin, stdout=stdout, stderr=words)
        try:
            yield process
            process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            words.seek(0)
            raise _failure(process.returncode, _plain_words(words.read().decode(errors="replace"), path), path)


def _started(command: Sequence[str], **streams: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, preexec_fn=partial(processes.end_with, os.getpid()), **streams)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolError(f"ffmpeg cannot be started: {error}") from error


_INTERRUPTED = 255  # of ffmpeg itself, after SIGTERM or SIGINT
_HARD_EXIT = 123  # after more than three of them
_SHELL_CANNOT = (126, 127)
_SHELL_SIGNAL = 128
_KILLS = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU}
_OF_MEMORY = 256 - errno.ENOMEM


def _failure(status: int, words: str, path: Path) -> PerturbationError:
    """What ffmpeg's exit status, negative for a signal, and its words mean."""
    if status == -signal.SIGXFSZ or any(os.strerror(code) in words for code in OUTPUT_ERRNOS):
        return OutputError(f"cannot write {path}: {words or 'the file is too large'}")
    if status in _SHELL_CANNOT:  # the system's loader, or a script that stands for the program
        return ToolError(f"ffmpeg cannot be started, exit status {status}: {words}")
    if status == _OF_MEMORY or os.strerror(errno.ENOMEM) in words:
        return ToolError(f"ffmpeg ran out of memory: {words}")
    if status in (_INTERRUPTED, _HARD_EXIT):
        return ToolError(f"ffmpeg was interrupted, exit status {status}: {words}")
    number = status - _SHELL_SIGNAL if status > 0 and not words else -status
    if number in processes.CRASHES:
        return CrashError(f"ffmpeg crashes: {processes.signal_name(number)}")
    if status < 0 or number in _KILLS:
        return ToolError(f"ffmpeg was killed by {processes.signal_name(number)}")
    # Interrupted while it opens its input, it says that the input is invalid: only trying again tells.
    return CrashError(f"ffmpeg failed with exit status {status}: {words}")


def _plain_words(said: str, path: Path) -> str:
    # One line, and without what differs from run to run: addresses, and the temporary name.
    said = re.sub(r" @ 0x[0-9a-f]+", "", said).replace(f"file:{path}", "the output")
    return " ".join(said.split())[:500]


class _Pipe(io.RawIOBase):
    """A write-only stream that PyAV cannot seek, and that takes no notice when the reader is gone."""

    def __init__(self, target: Any) -> None:
        super().__init__()
        self._target = target
        self.broken = False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, data: Any) -> int:
        try:
            self._target.write(data)
        except BrokenPipeError:
            self.broken = True  # what ffmpeg says when it dies explains more
        return len(data)


def _write_nut(frames: Iterable[Frame], target: _Pipe, timing: Timing, size: tuple[int, int], pix_fmt: str) -> None:
    with av.open(target, "w", format="nut") as container:
        stream: Any = container.add_stream("rawvideo", rate=timing.frame_rate)
        stream.width, stream.height = size
        stream.pix_fmt = pix_fmt
        stream.codec_context.time_base = timing.time_base
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame.image, format=pix_fmt)
            picture.pts = frame.pts
            picture.time_base = timing.time_base
            container.mux(stream.encode(picture))
            if target.broken:
                return
        container.mux(stream.encode(None))


@cache
def ffmpeg_program() -> str:
    """The ffmpeg that encodes: the pinned build that comes with imageio-ffmpeg, so that all machines agree.

    Raises `ToolError` when it is not there. The variable IMAGEIO_FFMPEG_EXE names another one; none is taken unasked.
    """
    import imageio_ffmpeg

    with suppress(RuntimeError):
        program = str(imageio_ffmpeg.get_ffmpeg_exe())
        if os.environ.get("IMAGEIO_FFMPEG_EXE") or Path(imageio_ffmpeg.__file__).parent in Path(program).parents:
            return program
    raise ToolError(
        "the ffmpeg that comes with imageio-ffmpeg is missing or does not run: install it again with "
        "`pip install --force-reinstall imageio-ffmpeg`, or name another one by the variable IMAGEIO_FFMPEG_EXE"
    )


def check_ffmpeg(encoder: str) -> None:
    """Raise `ToolError` when ffmpeg cannot be started or lacks an encoder: before any clip, not at each."""
    program = ffmpeg_program()
    command = [program, "-nostdin", "-hide_banner", "-h", f"encoder={encoder}"]
    with _started(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        words = process.communicate()[0].decode(errors="replace")
    if process.returncode != 0:
        raise ToolError(f"{program} does not run, exit status {process.returncode}: {' '.join(words.split())[:300]}")
    if not words.startswith(f"Encoder {encoder} "):
        raise ToolError(
            f"{program} has no encoder {encoder}: install imageio-ffmpeg again, or name a full build by the variable "
            "IMAGEIO_FFMPEG_EXE"
        )


def is_constant_rate(path: Path) -> bool:
    """Whether a video's frames are as far apart as its frame rate says, to a tick of its clock. Decodes nothing.

    Raises `MediaError` when the file cannot be read.
    """
    with _open(path) as container:
        stream = _video_stream(path, container)
        return _evenly_spaced(stream, [packet.pts for packet in _packets(container, stream) if packet.pts is not None])


def _evenly_spaced(stream: av.video.stream.VideoStream, listed: list[int]) -> bool:
    if stream.average_rate is None or stream.time_base is None or not listed:
        return False
    step = 1 / (stream.average_rate * stream.time_base)
    times = np.sort(np.asarray(listed, dtype=np.int64))
    due = np.arange(len(times)) * step.numerator
    return bool((abs((times - times[0]) * step.denominator - due) <= step.denominator).all())


def video_bitrate(path: Path) -> float:
    """Bits a second of the video stream's packets. Raises `MediaError` when the file cannot be read."""
    with _open(path) as container:
        stream = _video_stream(path, container)
        total, end = 0, Fraction(0)
        for packet in _packets(container, stream):
            total += packet.size
            if packet.pts is not None:
                end = max(end, (packet.pts + (packet.duration or 0)) * packet.time_base)
    return float(8 * total / end) if end else float("nan")


def _packets(container: av.container.InputContainer, stream: av.video.stream.VideoStream) -> Iterator[av.Packet[Any]]:
    """A stream's packets, as many and as long as the limits allow."""
    allowed = limits.current()
    time_base = stream.time_base or Fraction(1, 1000)
    last = (stream.start_time or 0) + allowed.seconds / time_base
    count = 0
    for packet in container.demux(stream):
        count += packet.size > 0
        if count > allowed.frames:
            limits.check_frames(count)
        if packet.pts is not None and packet.pts > last:
            limits.check_seconds(float((packet.pts - (stream.start_time or 0)) * time_base))
        yield packet


_LEAST_FRAME_BYTES = 8
"""What a frame takes in a container at least: smaller files need not be counted."""
_NO_NUMBERS = (1 << 30, (1 << 32) - 1)
"""How many frames a file declares whose writer could not go back to the header of an AVI or an IVF."""


@contextmanager
def _open(path: Path) -> Iterator[av.container.InputContainer]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise MediaError("not a regular file")
        if os.path.getsize(path) == 0:
            raise MediaError("the file is empty")
        containers.check_length(path)
        # The prefix keeps libav from reading a name such as "concat:..." or "http:..." as a protocol.
        # libav decodes first frames to learn about a stream, and would do so whatever their size.
        options = {**formats.INPUT_OPTIONS, "max_pixels": str(limits.current().frame_pixels)}
        try:
            container = av.open(f"file:{path}", "r", metadata_errors="replace", options=options)
        except av.error.ArgumentError as error:
            raise MediaError(formats.NOT_READ) from error
        with container:
            yield container
    except FileNotFoundError as error:
        raise MediaError("no such file") from error
    except av.error.MemoryError as error:
        if not processes.memory_is_left():
            raise
        raise MediaError(f"cannot be decoded: {error.strerror or error}") from None  # damaged, it asks for too much
    except av.error.FFmpegError as error:
        _check_refused_size(error)
        raise MediaError(f"cannot be decoded: {error.strerror or error}") from error
    except OSError as error:
        raise MediaError(f"cannot be read: {os.strerror(error.errno or 0)}") from error


def _check_refused_size(error: av.error.FFmpegError) -> None:
    """Raise `MediaError` where libav failed because a frame has too many pixels."""
    size = re.search(r"Picture size (\d+)x(\d+)", str(error.log))
    if size:
        limits.check_size(int(size[1]), int(size[2]))


def _check_limits(stream: av.video.stream.VideoStream) -> None:
    """Raise `MediaError` when what a header declares is more than the limits allow."""
    context = stream.codec_context
    limits.check_size(context.width, context.height)
    if context.format is not None:
        bits = context.format.padded_bits_per_pixel
        limits.check_decoder(context.width, context.height, bits, intra=context.codec.intra_only)
    limits.check_frames(_declared_frames(stream))
    limits.check_seconds(_declared_duration_s(stream) or 0.0)


def _video_stream(path: Path, container: av.container.InputContainer) -> av.video.stream.VideoStream:
    streams = [stream for stream in container.streams.video if not _is_cover(stream)]
    if not streams:
        raise MediaError("there is no video stream")
    stream = streams[0]
    if stream.codec_context is None:
        raise MediaError("its codec is not known")
    stream.thread_type = "NONE"
    stream.codec_context.thread_count = 1
    # Without `explode` decoders make up what is damaged, and say nothing.
    stream.codec_context.options = {
        "err_detect": "crccheck+bitstream+buffer+explode",
        "max_pixels": str(limits.current().frame_pixels),
    }
    _check_limits(stream)
    return stream


def _is_cover(stream: av.video.stream.VideoStream) -> bool:
    return bool(int(stream.disposition) & int(av.stream.Disposition.attached_pic))


def _describe(stream: av.video.stream.VideoStream, frame: av.VideoFrame) -> VideoInfo:
    rotation = round(frame.rotation / 90) * 90 % 360
    upright = (frame.height, frame.width) if _orientation(frame).transposed else (frame.width, frame.height)
    return VideoInfo(
        codec=stream.codec_context.name,
        pix_fmt=frame.format.name,
        width=upright[0],
        height=upright[1],
        rotation=rotation,
        frame_rate=stream.average_rate or stream.guessed_rate or Fraction(25),
        time_base=stream.time_base or Fraction(1, 1000),
        declared_frames=_declared_frames(stream) or None,
        declared_duration_s=_declared_duration_s(stream),
    )


def _declared_frames(stream: av.video.stream.VideoStream) -> int:
    """How many frames a header declares, 0 where it does not."""
    return 0 if stream.frames in _NO_NUMBERS else stream.frames


def _declared_duration_s(stream: av.video.stream.VideoStream) -> float | None:
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


def _converter(
    stream: av.video.stream.VideoStream, frame: av.VideoFrame, pix_fmt: str
) -> Callable[[av.VideoFrame], NDArray[np.uint8]]:
    """From this stream's frames to upright arrays in `pix_fmt`, by the conversion ffmpeg itself makes."""
    orientation = _orientation(frame)
    if _is_deep(frame):
        to_upright_format = _by_filter_graph(stream, frame, pix_fmt, orientation)
        return lambda picture: _array(to_upright_format(picture))
    to_format = _by_reformatter(pix_fmt)
    if orientation == _UPRIGHT:
        return lambda picture: _array(to_format(picture))
    if pix_fmt == "rgb24":
        return lambda picture: np.ascontiguousarray(_turn(_array(to_format(picture)), orientation))
    return lambda picture: _turn_planes(to_format(picture), orientation)


def _array(picture: av.VideoFrame) -> NDArray[np.uint8]:
    # Rows of an odd width are padded, and what PyAV gives then is a view with gaps.
    return np.ascontiguousarray(picture.to_ndarray(), np.uint8)


def _is_deep(frame: av.VideoFrame) -> bool:
    return any(component.bits > 8 for component in frame.format.components)


def _by_reformatter(pix_fmt: str) -> Callable[[av.VideoFrame], av.VideoFrame]:
    reformatter = VideoReformatter()
    return lambda picture: reformatter.reformat(picture, format=pix_fmt, interpolation=Interpolation.BICUBIC, threads=1)


def _by_filter_graph(
    stream: av.video.stream.VideoStream, frame: av.VideoFrame, pix_fmt: str, orientation: _Orientation
) -> Callable[[av.VideoFrame], av.VideoFrame]:
    # Above 8 bits the plain conversion places chroma elsewhere than ffmpeg does; libavfilter is what ffmpeg uses,
    # and it turns the picture before it converts it.
    graph = av.filter.Graph()
    graph.threads = 1
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=stream.time_base or Fraction(1, 1000)
    )
    turns = [graph.add("transpose", "cclock_flip")] if orientation.transposed else []
    turns += [graph.add("vflip")] if orientation.rows < 0 else []
    turns += [graph.add("hflip")] if orientation.columns < 0 else []
    to_format = [graph.add("scale"), graph.add("format", f"pix_fmts={pix_fmt}")]
    nodes = [source, *turns, *to_format, graph.add("buffersink")]
    for before, after in pairwise(nodes):
        before.link_to(after)
    graph.configure()

    def convert(picture: av.VideoFrame) -> av.VideoFrame:
        graph.push(picture)
        converted = graph.pull()
        assert isinstance(converted, av.VideoFrame)
        return converted

    return convert


class _Orientation(NamedTuple):
    """How a picture is made upright: transposed first, then read from these ends (1 or -1)."""

    transposed: bool
    rows: int
    columns: int


_UPRIGHT = _Orientation(False, 1, 1)


def _orientation(frame: av.VideoFrame) -> _Orientation:
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return _UPRIGHT
    # (x, y) is shown at (a x + c y, b x + d y)
    a, b, _, c, d = np.frombuffer(memoryview(matrix), np.int32)[:5].tolist()  # type: ignore[arg-type]
    if abs(b) > abs(a):
        return _Orientation(True, -1 if b < 0 else 1, -1 if c < 0 else 1)
    return _Orientation(False, -1 if d < 0 else 1, -1 if a < 0 else 1)


def _turn(image: NDArray[np.uint8], orientation: _Orientation) -> NDArray[np.uint8]:
    image = image.swapaxes(0, 1) if orientation.transposed else image
    return image[:: orientation.rows, :: orientation.columns]


def _turn_planes(picture: av.VideoFrame, orientation: _Orientation) -> NDArray[np.uint8]:
    planes = []
    for plane in picture.planes:
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
        planes.append(_turn(rows, orientation))
    width = planes[0].shape[1]
    return np.concatenate([plane.reshape(-1, width) for plane in planes])
