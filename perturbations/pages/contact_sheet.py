"""Contact sheets: labelled rows of pictures below a header, on white."""

from __future__ import annotations

import io
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image as Pictures
from PIL import ImageDraw, ImageFont, ImageOps

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.errors import OutputError

_INK = (32, 34, 38)
_BORDER = 8  # white space around the sheet and between labels and pictures, in pixels
_GAP = 3  # between pictures
_TEXT, _TITLE = 14, 18  # font sizes in pixels
_LINE = 20  # distance of two lines of text
_LETTER = 9  # most letters are narrower
_TITLE_WIDTH = 800  # a longer title is continued on further lines
_TITLE_LINES = 3
_LABEL_LETTERS = 24  # a longer label is continued on the next line
_HEADER_LINES = 3

PICTURES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WebP"}
"""The endings of files that `write_picture` can write; of PNG alone the pixels are exact."""


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
    pixels high and as wide as most images need. Long text is wrapped, then cut. Letters that the font lacks are boxes.
    """
    shapes = [image.shape for _, images in rows for image in images if image is not None]
    widths = [max(round(width * cell_height / height), 1) for height, width, _ in shapes]
    # The width of a cell is limited, so that a very wide image does not make a very wide sheet of thin strips.
    cell = min(statistics.mode(widths or [cell_height]), 4 * cell_height), cell_height
    labels = [_wrapped(label, _LABEL_LETTERS, max(cell_height // _LINE, 1)) for label, _ in rows]
    names = [_wrapped(name, max(cell[0] // _LETTER, 1), _HEADER_LINES) for name in columns]
    text, large = (ImageFont.load_default(size) for size in (_TEXT, _TITLE))
    label_width = max((round(text.getlength(line)) for lines in labels for line in lines), default=0)
    left = _BORDER + (label_width + _BORDER if label_width else 0)
    lefts = [left + place * (cell[0] + _GAP) for place in range(len(columns) + 1)]
    letters = max(_TITLE_WIDTH, lefts[-1] - _BORDER) // _LETTER
    titles = _wrapped(title, letters, _TITLE_LINES)
    width = max(lefts[-1], *(min(round(large.getlength(line)), _TITLE_WIDTH) + _BORDER for line in ["", *titles]))
    width += _BORDER
    header = _BORDER + (_LINE * len(titles) + _BORDER if titles else 0)
    top = header + max(map(len, names), default=0) * _LINE
    tops = [top + place * (cell_height + _GAP) for place in range(len(rows) + 1)]

    sheet = Pictures.new("RGB", (width, tops[-1] + _BORDER), "white")
    draw = ImageDraw.Draw(sheet)
    for line_number, line in enumerate(titles):
        draw.text((_BORDER, _BORDER + line_number * _LINE), line, _INK, large)
    for x, lines in zip(lefts, names, strict=False):
        for line_number, line in enumerate(reversed(lines), 1):  # a short name is close to its pictures, not to the top
            draw.text((x + cell[0] / 2, top - line_number * _LINE), line, _INK, text, anchor="ma")
    for y, (_, images), lines in zip(tops, rows, labels, strict=False):
        for line_number, line in enumerate(lines):
            middle = y + cell_height / 2 + (line_number - (len(lines) - 1) / 2) * _LINE
            draw.text((_BORDER, middle), line, _INK, text, anchor="lm")
        for x, image in zip(lefts, images, strict=False):
            if image is not None:
                fitted = ImageOps.contain(Pictures.fromarray(image), cell)
                sheet.paste(fitted, (x + (cell[0] - fitted.width) // 2, y + (cell_height - fitted.height) // 2))
    if titles:  # wide letters end before the border
        sheet.paste("white", (width - _BORDER, 0, width, top))
    return np.asarray(sheet, np.uint8)


def write_picture(image: Image, path: Path) -> None:
    """Write an RGB uint8 image (h, w, 3) as its ending says (PNG, JPEG, WebP), atomically; its folder is created.

    Raises `OutputError`, which names `path`, when it cannot be written.
    """
    form = PICTURES.get(path.suffix.lower())
    if form is None:
        raise OutputError(f"cannot write {path}: its name must end in {', '.join(PICTURES)}")
    encoded = io.BytesIO()  # Pillow does not see that a full disk takes a part of a JPEG only
    Pictures.fromarray(image).save(encoded, form, quality=95)
    write_whole(encoded.getvalue(), path)


def write_whole(data: bytes, path: Path) -> None:
    """Write a picture's bytes whole or not at all, and remove what killed jobs left. Raises `OutputError`."""
    storage.remove_leftovers([path])
    with storage.atomic_path(path) as temporary:
        temporary.write_bytes(data)


def _wrapped(text: str, letters: int, most: int) -> list[str]:
    """`text` in at most `most` lines of so many letters, broken at spaces where possible."""
    # No font has control characters and lone surrogates.
    drawable = "".join(letter if letter.isprintable() else " " for letter in text)
    return textwrap.wrap(drawable, letters, max_lines=most, placeholder="…", break_on_hyphens=False)
