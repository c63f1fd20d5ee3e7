"""Encode frames with PyAV, in a storage profile.

Encoders run on one thread: results of libx264 depend on the thread count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.frame import PictureType

from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError
from perturbations.base.storage import PICTURES, Profile, output_errors
from perturbations.media import complaints, pixels, stills
from perturbations.media.clip import Frame, Timing

complaints.listen()  # nothing is written to stderr: the raised errors say it


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
    a bitrate counts frames instead of their times. The frames at the places `key_frames` become key frames, besides
    those that the encoder chooses. `sample_aspect` is a pixel's width over its height.
    A profile of `storage.PICTURES` writes the one frame as a picture, without an encoder of videos.
    Raises `OutputError` when the disk refuses, `MediaError` when there is no frame, or more than a picture holds.
    """
    if profile in PICTURES.values():
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
        # Of BGR frames, which OpenCV has, libswscale makes other chroma than of RGB frames.
        return av.VideoFrame.from_ndarray(np.ascontiguousarray(image[:, :, ::-1]), format="bgr24")
    return av.VideoFrame.from_ndarray(image, format="rgb24")


def _set_bitrate(stream: av.VideoStream, bits_per_second: float) -> None:
    context = stream.codec_context
    # The tolerance decides how fast the bitrate is approached, and with it the quality of the first second.
    context.bit_rate = context.bit_rate_tolerance = min(round(bits_per_second), _MOST_BITS)


def _decimal(timing: Timing) -> Timing:
    """One tick per frame, of the rate in as few decimals as come within a thousandth, as OpenCV writes MPEG-4."""
    rate = timing.frame_rate
    unit = next(10**digits for digits in range(4) if abs(round(rate * 10**digits) / 10**digits - rate) <= 0.001)
    rate = min(Fraction(max(1, round(rate * unit)), unit), Fraction(_MOST_TICKS, unit))
    return Timing(1 / rate, rate)
