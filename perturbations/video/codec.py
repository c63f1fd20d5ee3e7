"""Encoders whose stream is the perturbed video."""

from __future__ import annotations


def h264(*, bitrate: int, pix_fmt: str) -> dict[str, str | int]:
    """ffmpeg-python output arguments of a libx264 encode at a target bitrate, in bits per second (MLVP, Alg. 1).

    `pix_fmt` is "yuv444p" for frames piped as RGB, "yuv420p" for the source's own planes. One thread and
    `cpu-independent`, because otherwise x264's bits depend on the number of threads and on the processor.
    """
    return {
        "vcodec": "libx264",
        "preset": "fast",
        "b:v": bitrate,
        "pix_fmt": pix_fmt,
        "threads": 1,
        "x264-params": "cpu-independent=1",
    }


def mpeg(*, codec: str, qscale: int, quantizer: int) -> dict[str, str | int]:
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
