"""Codecs and options by which tests encode videos."""

from __future__ import annotations

from pathlib import Path

import clips
import pytest
from clips import (
    MPEG4,
    VP9,
    X264,
    X264_10,
    X264_444,
    X264_B,
    decoded,
)

from perturbations.base.errors import MediaError

ODD = (37, 53)


TOP_FIRST, BOTTOM_FIRST = "format=yuv420p,interlace=scan=tff", "format=yuv420p,interlace=scan=bff"


CODECS = {
    "h264.mp4": X264,
    "b-frames.mp4": X264_B,
    "4:2:2.mp4": ("-c:v", "libx264", "-pix_fmt", "yuv422p"),
    "full-range.mp4": (*X264, "-vf", "scale=out_range=full", "-color_range", "pc"),
    "bt709.mp4": (*X264, "-vf", "scale=out_color_matrix=bt709", "-colorspace", "bt709", "-color_primaries", "bt709"),
    "10-bit.mp4": X264_10,
    "10-bit-bt709.mp4": (*X264_10, "-vf", "scale=out_color_matrix=bt709", "-colorspace", "bt709"),
    "10-bit-full-range.mp4": (*X264_10, "-vf", "scale=out_range=full", "-color_range", "pc"),
    "10-bit-hevc.mp4": ("-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le", "-x265-params", "log=0"),
    "h264.mkv": X264_B,
    "h264.mov": X264_B,
    "h264.flv": X264_B,
    "h264.ts": X264_B,
    "fragmented.mp4": (*X264_B, "-movflags", "frag_keyframe+empty_moov"),
    "mpeg4.avi": MPEG4,
    "mpeg4-b.avi": (*MPEG4, "-bf", "2"),
    "h264-b.avi": X264_B,  # no times for reordered frames: they seem to go back
    "mjpeg.avi": ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p"),
    "vp9.webm": VP9,
    "vp9-alpha.webm": (*VP9, "-pix_fmt", "yuva420p"),
    "vp8.webm": ("-c:v", "libvpx", "-deadline", "realtime", "-pix_fmt", "yuv420p"),
    "av1.mp4": ("-c:v", "libaom-av1", "-cpu-used", "8", "-pix_fmt", "yuv420p"),
    "mpeg2.mpg": ("-c:v", "mpeg2video", "-bf", "2"),
    "interlaced.mp4": (*X264, "-x264-params", "tff=1", "-vf", TOP_FIRST),
    "interlaced-bottom.mkv": (*X264, "-x264-params", "bff=1", "-vf", BOTTOM_FIRST),
    "interlaced-full-range-bt709.mp4": (
        *(*X264, "-x264-params", "tff=1", "-color_range", "pc", "-colorspace", "bt709"),
        *("-vf", f"scale=out_color_matrix=bt709:out_range=full,{TOP_FIRST}"),
    ),
    "10-bit-interlaced.mp4": (*X264_10, "-x264-params", "tff=1", "-vf", "interlace=scan=tff"),
    "wmv2.wmv": ("-c:v", "wmv2"),
    "theora.ogv": ("-c:v", "libtheora"),
    "mpeg2.mxf": ("-c:v", "mpeg2video"),
    "mpeg4.nut": MPEG4,
    "raw.y4m": ("-c:v", "wrapped_avframe", "-pix_fmt", "yuv420p"),
}


ODD_CODECS = {
    "4:4:4.mp4": X264_444,
    "10-bit-4:4:4.mp4": ("-c:v", "libx264", "-pix_fmt", "yuv444p10le"),
    "rgb.mp4": ("-c:v", "libx264rgb", "-pix_fmt", "rgb24"),
    "4:2:0.mkv": ("-c:v", "ffv1", "-pix_fmt", "yuv420p"),
    "10-bit.mkv": ("-c:v", "ffv1", "-pix_fmt", "yuv420p10le"),
    "grey.mkv": ("-c:v", "ffv1", "-pix_fmt", "gray"),
}


VARIABLE = [0, 3, 4, 50, 51, 52, 300]


LIVE = (*X264, "-live", "1")  # Matroska that does not say how long it is


def pictures(folder: Path, *names: str) -> Path:
    """Pictures of these names; the first one's path."""
    codec = "png" if names[0].endswith(".png") else "mjpeg"
    source = ("-f", "lavfi", "-i", "testsrc2=size=64x48", "-frames:v", "1")
    data = clips.ffmpeg(*source, "-c:v", codec, "-f", "image2pipe", "-")
    for name in names:
        (folder / name).write_bytes(data)
    return folder / names[0]


MJPEG = ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p")


MPEG1, MPEG2 = ("-c:v", "mpeg1video", "-bf", "2"), ("-c:v", "mpeg2video", "-bf", "2", "-q:v", "3")


def refused(path: Path) -> str:
    with pytest.raises(MediaError) as caught:
        decoded(path)
    return str(caught.value)


HEVC = ("-c:v", "libx265", "-x265-params", "open-gop=1:keyint=14:bframes=3:log-level=none")
