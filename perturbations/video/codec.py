"""Encoders whose stream is the perturbed video."""

from __future__ import annotations

from fractions import Fraction

from perturbations.base.bounds import Choice, whole
from perturbations.base.kernel import Kernel

Arguments = dict[str, str | int | Fraction]
"""Of ffmpeg-python's output; a fraction is a share of the bitrate of the source's file."""


def h264(*, bitrate: int, pix_fmt: str) -> Arguments:
    """ffmpeg-python output arguments of a libx264 encode at a target bitrate, in bits per second (MLVP, Alg. 1).

    `pix_fmt` is "yuv444p" or "yuv420p".
    """
    return {**x264(), "b:v": bitrate, "pix_fmt": pix_fmt}


def h264_quality(*, crf: int) -> Arguments:
    """ffmpeg-python output arguments of a libx264 encode at a constant quality, `crf` from 0 (all is kept) to 51."""
    return {**x264(), "crf": crf}


def h264_limited(*, bitrate: int) -> Arguments:
    """ffmpeg-python output arguments of a libx264 encode through a channel of `bitrate` bits per second.

    The channel buffers one second: what is complex loses quality, as in the `-maxrate` of Mini Kinetics-C.
    """
    return {**x264(), **_channel(bitrate)}


def h264_quality_released(*, crf: int) -> Arguments:
    """`h264_quality` with x264's own preset, `medium`."""
    return {**x264("medium"), "crf": crf}


def h264_share(*, divisor: int) -> Arguments:
    """`h264_limited` with x264's own preset, `medium`, of a bitrate that is 1/`divisor` of the source file's."""
    return {**x264("medium"), **_channel(Fraction(1, divisor))}


def h265_quality_released(*, crf: int) -> Arguments:
    """`h264_quality_released` of libx265."""
    return {**_x265("medium"), "crf": crf}


def h265_share(*, divisor: int) -> Arguments:
    """`h264_share` of libx265."""
    return {**_x265("medium"), **_channel(Fraction(1, divisor))}


def h265_quality(*, crf: int) -> Arguments:
    """`h264_quality` of libx265."""
    return {**_x265(), "crf": crf}


def h265_limited(*, bitrate: int) -> Arguments:
    """`h264_limited` of libx265."""
    return {**_x265(), **_channel(bitrate)}


def x264(preset: str = "fast") -> Arguments:
    """One thread and `cpu-independent`: otherwise x264's bits depend on the threads and on the processor."""
    return {
        "vcodec": "libx264",
        "preset": preset,
        "pix_fmt": "yuv420p",
        "threads": 1,
        "x264-params": "cpu-independent=1",
    }


def _x265(preset: str = "fast") -> Arguments:
    # Threads that encode frames side by side change the rate control.
    return {
        "vcodec": "libx265",
        "preset": preset,
        "pix_fmt": "yuv420p",
        "x265-params": "pools=none:frame-threads=1:log-level=error",
    }


def _channel(bitrate: int | Fraction) -> Arguments:
    return {"b:v": bitrate, "maxrate": bitrate, "bufsize": bitrate}


def mpeg(*, codec: str, qscale: int, quantizer: int) -> Arguments:
    """ffmpeg-python output arguments of an MPEG encode at a constant quality (MSRVTT-P, App. A.1).

    `codec` is "mpeg2video" or "mpeg4". `qscale` is the published number. `quantizer` is the coarsest quantizer that
    blocks may have: at most 31, ffmpeg's own limit for these codecs. A larger `qscale` only gives bits more weight when
    the encoder chooses between modes.

    Every frame is encoded once, at a constant rate: a clip of variable rate gets its mean rate. MPEG-2's header only
    has a few rates; with `strict` another rate is no error, but stored in the container.
    """
    return {
        "vcodec": codec,
        "q:v": qscale,
        "qmax": quantizer,
        "pix_fmt": "yuv420p",
        "fps_mode": "cfr",
        "strict": "experimental",
        "threads": 1,
    }


# --- declarations ----------------------------------------------------------------------------------------------------

H264 = Kernel(
    kernel=h264,
    method="codec",
    version=2,
    # x264 counts in kilobits per second.
    bounds={"bitrate": whole(1_000, 1_000_000_000), "pix_fmt": Choice(("yuv444p", "yuv420p"))},
)
COARSEST = 31
"""ffmpeg's MPEG encoders quantize with this whatever larger number they are given."""


def of_mpeg(encoder: str) -> Kernel:
    """ffmpeg's encoder "mpeg2video" or "mpeg4"."""
    return Kernel(
        kernel=mpeg,
        method="codec",
        version=3,
        bounds={
            "codec": Choice((encoder,)),
            "qscale": whole(1, 1000),
            "quantizer": whole(2, COARSEST),
        },
    )
