"""Encode frames: with PyAV in a storage profile, or with the ffmpeg program, whose stream is the result.

Encoders run on one thread: results of encoders depend on the thread count.
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import av
import numpy as np
from av.video.frame import PictureType

from perturbations.base import supervise
from perturbations.base.arrays import Image
from perturbations.base.errors import (
    BackendError,
    CrashError,
    MediaError,
    OutputError,
    PerturbationError,
    ToolError,
)
from perturbations.base.storage import OUTPUT_ERRNOS, output_errors
from perturbations.media import opening, pixels
from perturbations.media.clip import Frame, Timing
from perturbations.media.profiles import PICTURES, Profile

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

opening.listen()  # nothing is written to stderr: the raised errors say it


_MOST_BITS = 2**31 - 1
_MOST_TICKS = 65_535
"""Per second, in MPEG-4."""


def encode(
    frames: Iterable[Frame],
    path: Path,
    profile: Profile,
    timing: Timing,
    *,
    key_frames: Collection[int] = (),
    sample_aspect: Fraction = Fraction(1),
) -> str:
    """Write RGB frames as an MP4 in a storage profile, in constant memory, and return the pixel format.

    4:2:0 halves both sides, so a clip with an odd side is stored as 4:4:4 by the `compatible` profile. A profile with
    a bitrate counts frames instead of their times. The frames at the places `key_frames` become key frames, besides the
    encoder's own choice. `sample_aspect` is a pixel's width over its height. A profile of `profiles.PICTURES` writes
    the one frame as a picture, without an encoder of videos.
    Raises `OutputError` when the disk refuses, `MediaError` when there is no frame, or more than a picture holds.
    """
    if profile in PICTURES.values():
        from perturbations.media import stills

        images = [frame.image for frame in frames]
        if len(images) != 1:
            raise MediaError(f"a picture has one frame, not {len(images)}")
        with output_errors(path):
            return stills.write(images[0], path, profile)
    if profile.pixel_bits is not None:
        timing = _decimal(timing)
        frames = (frame._replace(pts=place) for place, frame in enumerate(frames))
    with output_errors(path), av.open(f"file:{path}", "w", format="mp4") as container:
        stream: av.VideoStream | None = None
        reformat: Callable[[av.VideoFrame], av.VideoFrame] | None = None
        for place, frame in enumerate(frames):
            height, width = frame.image.shape[:2]
            if stream is None:
                pix_fmt = profile.pix_fmt
                if profile.codec != "mpeg4":  # it has no 4:4:4, and pads odd sides itself
                    pix_fmt = pixels.storable_pix_fmt(pix_fmt, width, height)
                stream = _stream(container, profile, timing)
                if profile.pixel_bits is not None:
                    _set_bitrate(stream, profile.pixel_bits * width * height * float(timing.frame_rate))
                stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
                if sample_aspect != 1:
                    stream.codec_context.sample_aspect_ratio = sample_aspect
                if pix_fmt != "rgb24":
                    reformat = pixels.to_tagged_yuv(stream, pix_fmt)
            picture = _picture(frame.image, profile)
            if reformat is not None:
                picture = reformat(picture)
            picture.pts = frame.pts
            picture.time_base = timing.time_base
            if place in key_frames:
                picture.pict_type = PictureType.I
            container.mux(stream.encode(picture))
        if stream is None:
            raise MediaError("no frame to encode")
        container.mux(stream.encode(None))
        return str(stream.codec_context.pix_fmt)


def _stream(container: av.container.OutputContainer, profile: Profile, timing: Timing) -> av.VideoStream:
    stream = container.add_stream(profile.codec, rate=timing.frame_rate)
    assert isinstance(stream, av.VideoStream)
    stream.codec_context.options = dict(profile.options)
    stream.codec_context.time_base = timing.time_base
    stream.codec_context.thread_count = 1
    return stream


def _picture(image: Image, profile: Profile) -> av.VideoFrame:
    if profile.codec == "mpeg4":
        # OpenCV has BGR frames; libswscale makes other chroma of these than of RGB frames.
        return av.VideoFrame.from_ndarray(np.ascontiguousarray(image[:, :, ::-1]), format="bgr24")
    return av.VideoFrame.from_ndarray(image, format="rgb24")


def _set_bitrate(stream: av.VideoStream, bits_per_second: float) -> None:
    context = stream.codec_context
    # The tolerance decides how fast the bitrate is approached, and with it the quality of the first second.
    context.bit_rate = context.bit_rate_tolerance = min(round(bits_per_second), _MOST_BITS)


def _decimal(timing: Timing) -> Timing:
    """One tick per frame, the rate rounded to the fewest decimals within a thousandth, as in OpenCV's MPEG-4."""
    rate = timing.frame_rate
    unit = next(10**digits for digits in range(4) if abs(round(rate * 10**digits) / 10**digits - rate) <= 0.001)
    rate = min(Fraction(max(1, round(rate * unit)), unit), Fraction(_MOST_TICKS, unit))
    return Timing(1 / rate, rate)


# --- the ffmpeg program -----------------------------------------------------------------------------------------------


@cache
def ffmpeg_program() -> str:
    """The ffmpeg that encodes: the pinned build that comes with imageio-ffmpeg, so that all machines agree.

    Raises `ToolError` when it is missing, `BackendError` where imageio-ffmpeg is not installed. Another ffmpeg is only
    used if the variable IMAGEIO_FFMPEG_EXE names it.
    """
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError as error:
        from perturbations.base.project import needs

        raise BackendError(needs(error)) from error
    with suppress(RuntimeError):
        program = str(imageio_ffmpeg.get_ffmpeg_exe())
        if os.environ.get("IMAGEIO_FFMPEG_EXE") or Path(imageio_ffmpeg.__file__).parent in Path(program).parents:
            return program
    raise ToolError(
        "the ffmpeg that comes with imageio-ffmpeg is missing or does not run: install it again with "
        "`pip install --force-reinstall imageio-ffmpeg`, or name another one by the variable IMAGEIO_FFMPEG_EXE"
    )


def check_ffmpeg(encoder: str) -> None:
    """Raise `ToolError` when ffmpeg cannot be started or lacks an encoder; called once, before the first clip."""
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


def encode_with_ffmpeg(
    frames: Iterable[Frame],
    path: Path,
    timing: Timing,
    size: tuple[int, int],
    pix_fmt: str,
    arguments: Mapping[str, object],
    *,
    sample_aspect: Fraction = Fraction(1),
) -> None:
    """Encode frames with the ffmpeg program; the stream it writes is the result.

    `frames` hold `pix_fmt` pictures of `size` (width, height): "rgb24" as `decode` gives them, or PyAV's packing of
    planes. They are piped to ffmpeg as raw video in NUT, which keeps each frame's time. `arguments` are ffmpeg-python
    output arguments; with `fps_mode="cfr"` the encoder counts frames at the rate of `timing`, for codecs without
    another clock. `sample_aspect` is a pixel's width over its height.
    Raises `MediaError` with ffmpeg's own words when it fails, `OutputError` when the disk refuses, `ToolError` when
    it is killed or cannot be started.
    """
    ffmpeg_program()  # the error names what is not installed
    import ffmpeg

    clock: dict[str, str | None] = {"fps_mode": "passthrough", "enc_time_base": "demux"}
    if arguments.get("fps_mode") == "cfr":
        # Without `force_fps`, a rate that the codec lacks becomes its nearest one, and frames are repeated or left out.
        clock = {"r": str(timing.frame_rate), "force_fps": None}
    if sample_aspect != 1:
        filters = filter(None, (arguments.get("vf"), f"setsar={sample_aspect}"))
        arguments = {**arguments, "vf": ",".join(map(str, filters))}
    output = ffmpeg.input("pipe:0", format="nut", threads=1).output(
        f"file:{path}", an=None, map_metadata=-1, **clock, **arguments
    )
    with running_ffmpeg(output, path) as process:
        assert process.stdin is not None
        _write_nut(frames, _Pipe(process.stdin), timing, size, pix_fmt)
        with suppress(BrokenPipeError):
            process.stdin.close()


class _Pipe(io.RawIOBase):
    """A write-only stream without seeking, which raises nothing when the reader is gone."""

    def __init__(self, target: IO[bytes]) -> None:
        super().__init__()
        self._target = target
        self.broken = False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, data: ReadableBuffer) -> int:
        try:
            self._target.write(data)
        except BrokenPipeError:
            self.broken = True  # ffmpeg's last message explains more
        return memoryview(data).nbytes


def _write_nut(frames: Iterable[Frame], target: _Pipe, timing: Timing, size: tuple[int, int], pix_fmt: str) -> None:
    with av.open(target, "w", format="nut") as container:
        stream = container.add_stream("rawvideo", rate=timing.frame_rate)
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


@contextmanager
def running_ffmpeg(output: Any, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run an ffmpeg-python graph that writes `path`. After the block ffmpeg has ended; raises an error if it failed."""
    command = output.global_args("-nostdin", "-hide_banner", "-loglevel", "error").overwrite_output()
    with tempfile.TemporaryFile() as words:
        program = command.compile(cmd=ffmpeg_program())
        process = _started(program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=words)
        try:
            yield process
            process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            words.seek(0)
            raise failure_of(process.returncode, _plain_words(words.read().decode(errors="replace"), path), path)


def _started(command: Sequence[str], *, stdin: int, stdout: int, stderr: int | IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command, preexec_fn=partial(supervise.end_with, os.getpid()), stdin=stdin, stdout=stdout, stderr=stderr
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolError(f"ffmpeg cannot be started: {error}") from error


_OF_THE_MACHINE = {
    123: "was interrupted",  # after more than three signals
    126: "cannot be started",
    127: "cannot be started",  # by the system's loader, or by a script in place of the program
    255: "was interrupted",  # by SIGTERM or SIGINT, which ffmpeg catches
    256 - errno.ENOMEM: "ran out of memory",
}
"""Reasons for ffmpeg's exit statuses that are no fault of the clip."""
_SHELL_SIGNAL = 128


def failure_of(status: int, words: str, path: Path) -> PerturbationError:
    """The error for ffmpeg's exit status (negative: a signal) and message, by cause: disk, machine or clip.

    ffmpeg that is interrupted while it opens its input says that the input is invalid. Only a second try can tell. So
    an error that may be the clip's fault is a `CrashError`: the clip is tried again.
    """
    if status == -signal.SIGXFSZ or any(os.strerror(code) in words for code in OUTPUT_ERRNOS):
        return OutputError(f"cannot write {path}: {words or 'the file is too large'}")
    no_memory = "ran out of memory" if os.strerror(errno.ENOMEM) in words else None
    if reason := _OF_THE_MACHINE.get(status, no_memory):
        return ToolError(f"ffmpeg {reason}, exit status {status}: {words}")
    number = status - _SHELL_SIGNAL if status > 0 and not words else -status
    if number in supervise.CRASHES:
        return CrashError(f"ffmpeg crashes: {supervise.signal_name(number)}")
    if status < 0 or number in set(signal.Signals):
        return ToolError(f"ffmpeg was killed by {supervise.signal_name(number)}")
    return CrashError(f"ffmpeg failed with exit status {status}: {words}")


def _plain_words(text: str, path: Path) -> str:
    # One line without parts that differ from run to run: addresses and the temporary name.
    text = re.sub(r" @ 0x[0-9a-f]+", "", text).replace(f"file:{path}", "the output")
    return " ".join(text.split())[:500]
