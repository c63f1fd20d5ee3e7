"""Convert decoded frames to upright arrays, and arrays to the input of encoders."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import av
import av.error
import av.filter
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray


def converter(
    stream: av.video.stream.VideoStream, frame: av.VideoFrame, pix_fmt: str
) -> Callable[[av.VideoFrame], NDArray[np.uint8]]:
    """From this stream's frames to upright arrays in `pix_fmt`, with the same conversion as ffmpeg."""
    orientation = orientation_of(frame)
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
    # Rows of an odd width are padded, and PyAV then returns a view with gaps.
    return np.ascontiguousarray(picture.to_ndarray(), np.uint8)


def _is_deep(frame: av.VideoFrame) -> bool:
    return any(component.bits > 8 for component in frame.format.components)


def _by_reformatter(pix_fmt: str) -> Callable[[av.VideoFrame], av.VideoFrame]:
    reformatter = VideoReformatter()
    return lambda picture: reformatter.reformat(picture, format=pix_fmt, interpolation=Interpolation.BICUBIC, threads=1)


def _by_filter_graph(
    stream: av.video.stream.VideoStream, frame: av.VideoFrame, pix_fmt: str, orientation: _Orientation
) -> Callable[[av.VideoFrame], av.VideoFrame]:
    # Above 8 bits the plain conversion places chroma differently from ffmpeg. ffmpeg uses libavfilter, and turns the
    # picture before the conversion.
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


def orientation_of(frame: av.VideoFrame) -> _Orientation:
    """How a frame is turned or mirrored, according to the container."""
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


def storable_pix_fmt(pix_fmt: str, width: int, height: int) -> str:
    """`pix_fmt`, or 4:4:4 where 4:2:0 cannot hold an odd side."""
    return "yuv444p" if pix_fmt == "yuv420p" and (width % 2 or height % 2) else pix_fmt


def to_tagged_yuv(stream: av.VideoStream, pix_fmt: str) -> Callable[[av.VideoFrame], av.VideoFrame]:
    """A conversion of 8-bit RGB frames to BT.601 in `pix_fmt`; it also tags `stream` as BT.601.

    Without the tag players guess the matrix from the picture's size.
    """
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
