"""Encode frames with PyAV, in a storage profile.

Encoders run on one thread: results of libx264 depend on the thread count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import av

from perturbations.errors import MediaError
from perturbations.media import pixels
from perturbations.media.clip import Frame, Timing
from perturbations.system.storage import Profile, output_errors

av.logging.set_level(av.logging.PANIC)  # the raised errors already say what libav would write to stderr


def encode(frames: Iterable[Frame], path: Path, profile: Profile, timing: Timing) -> str:
    """Write RGB frames as an MP4 in a storage profile, in constant memory, and return the pixel format.

    4:2:0 halves both sides, so a clip with an odd side is stored as 4:4:4 by the `compatible` profile.
    Raises `OutputError` when the disk refuses, `MediaError` when there is no frame.
    """
    with output_errors(path), av.open(f"file:{path}", "w", format="mp4") as container:
        stream: av.VideoStream | None = None
        reformat: Callable[[av.VideoFrame], av.VideoFrame] = _unchanged
        for frame in frames:
            height, width = frame.image.shape[:2]
            if stream is None:
                pix_fmt = pixels.storable_pix_fmt(profile.pix_fmt, width, height)
                stream = _stream(container, profile, timing)
                stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
                if pix_fmt != "rgb24":
                    reformat = pixels.to_tagged_yuv(stream, pix_fmt)
            picture = av.VideoFrame.from_ndarray(frame.image, format="rgb24")
            picture = reformat(picture)
            picture.pts = frame.pts
            picture.time_base = timing.time_base
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


def _unchanged(picture: av.VideoFrame) -> av.VideoFrame:
    return picture
