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


def quality(*, crf: int, h265: bool = False, medium: bool = False) -> Arguments:
    """ffmpeg-python output arguments of an encode at a constant quality, `crf` from 0 (all is kept) to 51.

    The encoder is libx264, or libx265 with `h265`; its preset is `fast`, or the encoder's own one, `medium`.
    """
    return {**_encoder(h265, medium), "crf": crf}


def limited(*, bitrate: int, h265: bool = False) -> Arguments:
    """ffmpeg-python output arguments of an encode through a channel of `bitrate` bits per second.

    The channel buffers one second: what is complex loses quality, as in the `-maxrate` of Mini Kinetics-C.
    """
    return {**_encoder(h265, medium=False), **_channel(bitrate)}


def share(*, divisor: int, h265: bool = False) -> Arguments:
    """`limited` with the preset `medium`, to a bitrate that is 1/`divisor` of the source file's."""
    return {**_encoder(h265, medium=True), **_channel(Fraction(1, divisor))}


def _channel(bitrate: int | Fraction) -> Arguments:
    return {"b:v": bitrate, "maxrate": bitrate, "bufsize": bitrate}


def _encoder(h265: bool, medium: bool) -> Arguments:
    if not h265:
        return {**x264(), "preset": "medium" if medium else "fast"}
    return {
        "vcodec": "libx265",
        "preset": "medium" if medium else "fast",
        "pix_fmt": "yuv420p",
        # Threads that encode frames side by side change the rate control.
        "x265-params": "pools=none:frame-threads=1:log-level=error",
    }


def x264() -> Arguments:
    """ffmpeg-python output arguments of libx264, on one thread and `cpu-independent`.

    Otherwise x264's bits depend on the threads and on the processor.
    """
    return {
        "vcodec": "libx264",
        "preset": "fast",
        "pix_fmt": "yuv420p",
        "threads": 1,
        "x264-params": "cpu-independent=1",
    }


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
"""The coarsest quantizer of ffmpeg's MPEG encoders, which they use for every larger number."""


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
