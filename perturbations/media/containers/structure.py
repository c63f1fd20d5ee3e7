"""Checks that a file is complete, from the structure of its container, without decoding.

libav reads the intact part of a shortened or damaged file and does not report the rest. Standard library only.
Sources: ISO/IEC 14496-12 (MP4), RFC 8794 and 9559 (Matroska), RFC 3533 (Ogg), ISO/IEC 11172-1 and 13818-1 (MPEG), the
specifications of GIF89a and Advanced Systems Format 1.2.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from perturbations.base import tars
from perturbations.media.containers import boxes, streams

# By a file's first bytes; all other files are read as MP4.
_ENDS: dict[bytes, Callable[[BinaryIO, int], int]] = {
    b"RIFF": boxes.riff_end,
    boxes.ASF: boxes.asf_end,
    boxes.EBML: boxes.matroska_end,
    streams.GIF: streams.gif_end,
}

# By libav's name, because it also recognizes files whose first bytes are damaged.
_CHECKS: dict[str, Callable[[BinaryIO, int], None]] = {
    "matroska,webm": boxes.check_matroska,  # decoders of VP9 and FFV1 do not notice another bit
    "mpeg": streams.check_program_stream,
    "mpegts": streams.check_transport_stream,
    "ogg": streams.check_ogg,
}


def check_length(path: Path) -> None:
    """Raise `MediaError` when a file has fewer bytes than its structure declares. Reads few of them."""
    with tars.opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        head = file.read(16)
        end_of = next((end_of for start, end_of in _ENDS.items() if head.startswith(start)), boxes.mp4_end)
        declared = end_of(file, size)
    if size < declared:
        raise boxes.early(size, declared)


def check_structure(path: Path, name: str) -> None:
    """Raise `MediaError` when a file's parts do not follow one another to its end. Reads all of it, decodes nothing.

    `name` is libav's name of the container. What decoders or libav report anyway is not checked.
    """
    if name in _CHECKS:
        with tars.opened(path) as file:
            _CHECKS[name](file, file.seek(0, os.SEEK_END))


def gif_images(path: Path) -> int:
    """The number of images that a GIF has at least."""
    with tars.opened(path) as file:
        return streams.gif_images(file)


def transport_counter(path: Path, position: int | None) -> int | None:
    """The continuity counter in the packet of an MPEG transport stream that lies at a position; None without one."""
    with tars.opened(path) as file:
        file.seek(position or 0)
        head = file.read(8)
    start = head.find(b"\x47") if position is not None else -1  # M2TS: 4 bytes of time before it
    return head[start + 3] & 15 if start in (0, 4) else None
