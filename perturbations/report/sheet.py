"""Contact sheets: labelled rows of pictures below a header, on white."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.errors import OutputError

_INK, _PAPER = (32, 34, 38), 255
_BORDER = 8  # white space around the sheet and between labels and pictures, in pixels
_GAP = 3  # between pictures
_TEXT, _TITLE = 14, 18  # font sizes in pixels
_PLAIN, _BOLD = 400, 600  # font weights
_LINE = 18  # distance of two lines of text
_TITLE_WIDTH = 800  # a longer title does not make the sheet wider
_LABEL_WIDTH = 200  # a longer label is continued on the next line


def contact_sheet(
    rows: Sequence[tuple[str, Sequence[Image | None]]],
    columns: Sequence[str],
    *,
    cell_height: int = 120,
    title: str = "",
) -> Image:
    """A picture of all `rows`, RGB uint8 (height, width, 3).

    `rows` are pairs of a label and one RGB uint8 image (h, w, 3) per column; None leaves the cell empty. Images may
    differ in size: each is scaled to the common cell, keeps its aspect ratio, and is centred. A cell is `cell_height`
    pixels high and as wide as most images need. Long text is wrapped, then cut. Characters that the built-in font
    lacks are drawn as question marks.
    """
    shapes = [image.shape for _, images in rows for image in images if image is not None]
    widths = [max(round(width * cell_height / height), 1) for height, width, _ in shapes]
    # The width of a cell is limited, so that a very wide image does not make a very wide sheet of thin strips.
    cell_width = min(statistics.mode(widths or [cell_height]), 4 * cell_height)
    labels = [_wrapped(label, _PLAIN, _LABEL_WIDTH, max(cell_height // _LINE, 1)) for label, _ in rows]
    names = [_wrapped(name, _BOLD, cell_width, 3) for name in columns]
    label_width = max((_width(line, _TEXT, _PLAIN) for lines in labels for line in lines), default=0)
    header_height = max((len(lines) for lines in names), default=0) * _LINE
    header_end = _BORDER + (_TITLE + _BORDER if title else 0) + header_height
    row_height = max(cell_height, max((len(lines) for lines in labels), default=0) * _LINE)
    first_x = _BORDER + (label_width + _BORDER if label_width else 0)
    first_y = header_end + (_BORDER // 2 if header_height else 0)
    lefts = [first_x + column * (cell_width + _GAP) for column in range(len(names))]
    tops = [first_y + row * (row_height + _GAP) for row in range(len(labels))]
    width = (lefts[-1] + cell_width if lefts else first_x) + _BORDER
    height = (tops[-1] + row_height if tops else first_y) + _BORDER
    if title:
        width = max(width, min(_width(title, _TITLE, _BOLD), _TITLE_WIDTH) + 2 * _BORDER)

    sheet = np.full((height, width, 3), _PAPER, np.uint8)
    if title:
        _write(sheet, _cut(title, _TITLE, _BOLD, width - 2 * _BORDER), _BORDER, _BORDER, _TITLE, _BOLD)
    for left, lines in zip(lefts, names, strict=True):
        for number, line in enumerate(lines):  # a short name is close to its pictures, not to the top
            x = left + (cell_width - _width(line, _TEXT, _BOLD)) // 2
            _write(sheet, line, x, header_end - (len(lines) - number) * _LINE, _TEXT, _BOLD)
    for top, (_, images), lines in zip(tops, rows, labels, strict=True):
        middle = top + (row_height - len(lines) * _LINE) // 2
        for number, line in enumerate(lines):
            _write(sheet, line, _BORDER, middle + number * _LINE, _TEXT, _PLAIN)
        for left, image in zip(lefts, images, strict=True):
            if image is not None:
                fitted = _fitted(image, cell_height, cell_width)
                y = top + (row_height - fitted.shape[0]) // 2
                x = left + (cell_width - fitted.shape[1]) // 2
                sheet[y : y + fitted.shape[0], x : x + fitted.shape[1]] = fitted
    return sheet


def empty_sheet(what: str) -> Image:
    """The sheet of what has no clip to show, RGB uint8: it says that every clip is quarantined."""
    return contact_sheet([], [], title=f"{what}: no picture, because every clip is quarantined or missing")


PICTURES = (".png", ".jpg", ".jpeg", ".webp")
"""The endings of files that `write_picture` can write; of PNG alone the pixels are exact."""


def write_picture(image: Image, path: Path) -> None:
    """Write an RGB uint8 image (h, w, 3) as its ending says (PNG, JPEG, WebP), atomically; its folder is created.

    Raises `OutputError`, which names `path`, when it cannot be written.
    """
    if path.suffix.lower() not in PICTURES:
        raise OutputError(f"cannot write {path}: its name must end in {', '.join(PICTURES)}")
    _, data = cv2.imencode(path.suffix.lower(), image[:, :, ::-1])
    try:
        with storage.atomic_path(path) as temporary:
            temporary.write_bytes(data.tobytes())
    except OSError as error:  # such as a folder of that name
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another file") from error


def _fitted(image: Image, height: int, width: int) -> Image:
    """`image` scaled to the largest size within `height` x `width` that keeps its shape."""
    scale = min(height / image.shape[0], width / image.shape[1])
    size = (max(min(round(image.shape[1] * scale), width), 1), max(min(round(image.shape[0] * scale), height), 1))
    if size == (image.shape[1], image.shape[0]):
        return image
    fitted = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    return np.asarray(fitted, np.uint8)


@functools.cache
def _font() -> cv2.FontFace:
    return cv2.FontFace("sans")


def _drawable(text: str) -> str:
    """`text` without control characters and lone surrogates, which crash the renderer."""
    return "".join(character if character.isprintable() else " " for character in text)


@functools.lru_cache(maxsize=4096)
def _width(text: str, size: int, weight: int) -> int:
    """How many pixels wide `text` is."""
    x, _, width, _ = cv2.getTextSize((0, 0), _drawable(text), (0, 0), _font(), size, weight)
    return int(x + width)


def _cut(text: str, size: int, weight: int, width: int) -> str:
    """`text`; where it is wider than `width` pixels, its beginning with an ellipsis."""
    if _width(text, size, weight) <= width:
        return text
    low, high = 0, len(text)  # the longest beginning that fits, by bisection: a text may have any length
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _width(text[:middle] + "…", size, weight) <= width else (low, middle - 1)
    return text[:low] + "…"


def _wrapped(text: str, weight: int, width: int, most: int) -> list[str]:
    """`text` in at most `most` lines of at most `width` pixels, broken at spaces where possible."""
    lines: list[str] = []
    for word in text.split():
        if lines and _width(f"{lines[-1]} {word}", _TEXT, weight) <= width:
            lines[-1] = f"{lines[-1]} {word}"
        else:
            lines.append(word)
    if len(lines) > most:
        lines = [*lines[: most - 1], " ".join(lines[most - 1 :])]
    return [_cut(line, _TEXT, weight, width) for line in lines]


def _write(sheet: Image, text: str, x: int, y: int, size: int, weight: int) -> None:
    """Draw one line of text whose box has its upper left corner at (x, y)."""
    cv2.putText(sheet, _drawable(text), (x, y + size), _INK, _font(), size, weight)
