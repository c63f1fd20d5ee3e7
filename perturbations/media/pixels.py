"""Convert decoded frames to upright arrays, and arrays to the input of encoders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import av
import av.filter
import cv2
import numpy as np
from av.sidedata.sidedata import Type
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc, Interpolation, VideoReformatter
from cv2.typing import MatLike

from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError
from perturbations.media.containers import hidden_edges


def converter(path: Path, stream: av.VideoStream, frame: av.VideoFrame) -> Callable[[av.VideoFrame], Image]:
    """A conversion of a file's frames (`frame` is one of them) to upright RGB uint8 arrays, as ffmpeg converts them.

    Edges that the container hides are cut off. Raises `MediaError` for frames that are shown oblique, or not at all.
    """
    shown = _shown(path, stream, frame)
    transposed, rows, columns = orientation_of(frame)
    filters = [("crop", ":".join(map(str, shown)))] if shown != (frame.width, frame.height, 0, 0) else []
    filters += [("transpose", "cclock_flip")] if transposed else []
    filters += [("vflip", "")] if rows < 0 else []
    filters += [("hflip", "")] if columns < 0 else []
    to_rgb = _rgb_converter((frame.width, frame.height), filters)
    return lambda picture: _array(to_rgb(picture))


def upright_size(path: Path, stream: av.VideoStream, frame: av.VideoFrame) -> tuple[int, int]:
    """Width and height of the arrays that `converter` makes. Raises `MediaError` as it does."""
    width, height, *_ = _shown(path, stream, frame)
    return (height, width) if orientation_of(frame)[0] else (width, height)


def _shown(path: Path, stream: av.VideoStream, frame: av.VideoFrame) -> tuple[int, int, int, int]:
    """Width, height, first column and first row of the shown part of a frame, as ffmpeg rounds them."""
    container = stream.container
    place = container.streams.video.index(stream)
    hidden = left, right, top, bottom = hidden_edges(path, container.format.name, stream.index, place)
    if not any(hidden):
        return frame.width, frame.height, 0, 0
    # A sample of chroma is shown as a whole.
    across, down = (64 // count for count in (frame.format.chroma_width(64), frame.format.chroma_height(64)))
    width = (frame.width - left - right) // across * across
    height = (frame.height - top - bottom) // down * down
    if min(width, height) <= 0 or min(hidden) < 0:
        raise MediaError("the container shows none of the picture, or more than it")
    return width, height, left // across * across, top // down * down


def _array(picture: av.VideoFrame) -> Image:
    # Rows of an odd width are padded, and PyAV then returns a view with gaps.
    return np.ascontiguousarray(picture.to_ndarray(), np.uint8)


def _rgb_converter(
    size: tuple[int, int], filters: Iterable[tuple[str, str]] = ()
) -> Callable[[av.VideoFrame], av.VideoFrame]:
    """A conversion of frames of a size, (width, height), to RGB, as ffmpeg does it: by libavfilter, after `filters`.

    PyAV's reformatter works differently. It uses the position of a frame's chroma, which ffmpeg does not, and converts
    each field of interlaced frames by itself: chroma of odd heights, of 4:1:1 and of more than 8 bits would differ.
    """

    @cache
    def graph_for(pix_fmt: str, colorspace: int, color_range: int) -> av.filter.Graph:
        """The graph for a frame. As in ffmpeg, frames whose properties changed within the stream get a new graph."""
        graph = av.filter.Graph()
        graph.threads = 1
        width, height = size
        pixels = av.VideoFormat(pix_fmt)
        source = graph.add_buffer(width=width, height=height, format=pixels, time_base=Fraction(1, 1000))
        # libswscale refuses colours that it does not know, although it does not convert them.
        unknown = ("setparams", "color_primaries=unknown:color_trc=unknown")
        to_rgb = (*filters, unknown, ("scale", ""), ("format", "pix_fmts=rgb24"), ("buffersink", ""))
        for before, after in pairwise([source, *(graph.add(*words) for words in to_rgb)]):
            before.link_to(after)
        graph.configure()
        return graph

    def convert(picture: av.VideoFrame) -> av.VideoFrame:
        graph = graph_for(picture.format.name, picture.colorspace, picture.color_range)
        graph.push(picture)
        converted = graph.pull()
        assert isinstance(converted, av.VideoFrame)
        return converted

    return convert


def _of_unnamed_kind(kinds: type[Type], number: int) -> Type:
    """A name for a kind of side data that PyAV does not know; without it, PyAV hides all side data of such frames."""
    kind = object.__new__(kinds)
    kind._name_, kind._value_ = str(number), number  # type: ignore[assignment]
    return kind


Type._missing_ = classmethod(_of_unnamed_kind)  # type: ignore[assignment]


def orientation_of(frame: av.VideoFrame) -> tuple[bool, int, int]:
    """How a frame is made upright, by the container: whether it is transposed, and the steps of rows and columns.

    A step is 1 or, for the reverse order, -1. Raises `MediaError` for angles that are no right angles. As in ffmpeg, an
    angle within a degree of a right angle counts as the right angle.
    """
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return False, 1, 1
    # (x, y) is shown at (a x + c y, b x + d y)
    a, b, _, c, d = np.frombuffer(memoryview(matrix), np.int32)[:5].tolist()  # type: ignore[arg-type]
    transposed = abs(b) > abs(a)
    for along, across in ((b, a), (c, d)) if transposed else ((a, b), (d, c)):
        if abs(across) > _ONE_DEGREE * abs(along):
            raise MediaError("its display matrix shows the picture oblique: only right angles and mirrors are read")
    if transposed:
        return True, -1 if b < 0 else 1, -1 if c < 0 else 1
    return False, -1 if d < 0 else 1, -1 if a < 0 else 1


_ONE_DEGREE = math.tan(math.radians(1))


def storable_pix_fmt(pix_fmt: str, width: int, height: int) -> str:
    """`pix_fmt`, or 4:4:4 where 4:2:0 cannot hold an odd side."""
    return "yuv444p" if pix_fmt == "yuv420p" and (width % 2 or height % 2) else pix_fmt


def to_tagged_yuv(stream: av.VideoStream, pix_fmt: str) -> Callable[[av.VideoFrame], av.VideoFrame]:
    """A conversion of 8-bit RGB frames to BT.601 in `pix_fmt`; it also tags `stream` as BT.601.

    Without the tag players guess the matrix from the picture's size.
    """
    context = stream.codec_context
    context.colorspace, context.color_range = _BT601, _LIMITED
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


_BT601 = 5
"""The matrix of ITU-R BT.470BG, as H.273 counts. Decoders that do not read tags use it too."""
_LIMITED = 1


def to_planes() -> Callable[[Image], Image]:
    """A conversion of RGB frames of even sides, H x W x 3, to 4:2:0 planes, 3H/2 x W: BT.601, limited range.

    Decoders show the planes as these frames, as nearly as 8 bits allow. The chroma of four pixels is the chroma of
    their mean, because decoders give them the same chroma; what decoding takes away from the luma is added in advance.
    """
    shown: Callable[[av.VideoFrame], av.VideoFrame] | None = None

    def convert(image: Image) -> Image:
        nonlocal shown
        height, width = image.shape[:2]
        shown = shown or _rgb_converter((width, height))
        halved = cv2.resize(image, (width // 2, height // 2), interpolation=cv2.INTER_AREA)
        # OpenCV takes the chroma of one pixel of four.
        planes = _planes(cv2.resize(halved, (width, height), interpolation=cv2.INTER_NEAREST))
        luma = _planes(image)[:height].astype(np.int16)
        planes[:height] = luma
        # libswscale cuts off where it should round: without this the encoded video is one level darker.
        lost = luma - _planes(_array(shown(av.VideoFrame.from_ndarray(planes, format="yuv420p"))))[:height]
        planes[:height] = np.clip(luma + lost, 0, 255)
        return planes

    return convert


def _planes(image: MatLike) -> Image:
    return cv2.cvtColor(image, cv2.COLOR_RGB2YUV_I420)  # type: ignore[return-value]


def tagged_bt601(primaries: int, transfer: int) -> dict[str, str]:
    """Output arguments that let the ffmpeg program convert its input to BT.601 YUV in limited range, and tag it so.

    The input is RGB or `to_planes`. `primaries` and `transfer` are the source's tags, numbers of ITU-T H.273; numbers
    that libav does not know are left unspecified.
    """
    tags = {
        "range": "limited",
        "colorspace": "bt470bg",
        "color_primaries": primaries if primaries in set(ColorPrimaries) else _UNSPECIFIED,
        "color_trc": transfer if transfer in set(ColorTrc) else _UNSPECIFIED,
    }
    parameters = ":".join(f"{name}={value}" for name, value in tags.items())
    # Streams of MPEG-4 have no tags; the container has them even where the primaries are unspecified.
    return {"vf": f"scale=out_color_matrix=bt601:out_range=limited,setparams={parameters}", "movflags": "+write_colr"}


_UNSPECIFIED = 2
