"""Text from data, as a terminal, a Markdown page or a log may show it. Standard library only: Snakemake imports it.

Captions, ids and messages of libraries may hold escape sequences, which a terminal obeys, bidirectional controls, which
change the order of a line, and marks that Markdown reads as a link, a picture, HTML or the next column.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_MARKDOWN = frozenset("\\`*_[]<>|#&~$")
_NAME = re.compile(r"[A-Za-z0-9_.:+/(), -]*")


def line(text: str) -> str:
    """The text on one line; control characters, bidirectional ones too, become escapes (`\\u202e`)."""
    return _HIDDEN.sub(_escape, text)


def lines(text: str) -> str:
    """The same, line by line."""
    return "\n".join(line(part) for part in text.split("\n"))


def markdown(text: str) -> str:
    """The text as Markdown shows it literally: in a sentence, a heading, or a cell of a table."""
    shown = "".join(f"\\{mark}" if mark in _MARKDOWN else mark for mark in line(" ".join(text.split())))
    return shown or "(nothing)"


def name(text: object) -> str:
    """A plain name as it is; anything else as `markdown` shows it."""
    written = str(text)
    return written if _NAME.fullmatch(written) else markdown(written)


_VIDEO_TEXT = re.compile(r"`video`|\bvideo(?=-text)", re.IGNORECASE)
_CLIPS = re.compile(r"(?<![`/\w])(?:video clip|clip|video)(s?)(?![`/\w])", re.IGNORECASE)


def in_words_of(text: str, *, pictures: bool) -> str:
    """A sentence about clips and videos, or about `pictures`. It must name no file or dataset: words are replaced."""
    if not pictures:
        return text
    text = _VIDEO_TEXT.sub(lambda match: match[0].replace("video", "image").replace("Video", "Image"), text)
    return _CLIPS.sub(lambda match: f"{'P' if match[0][0].isupper() else 'p'}icture{match[1]}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class LogFormatter(logging.Formatter):
    """A log with one line per message: text that a message quotes cannot begin a new line, nor move the cursor."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The record's line."""
        record.message = line(record.message)
        return super().formatMessage(record)


def plural(number: int, noun: str) -> str:
    """A number with its noun: "1 job", "1,200 jobs", "2 queries"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("ry") else f"{number:,} {noun}s"


def first_of(texts: Sequence[str], most: int = 5) -> list[str]:
    """The first of some texts, and how many more there are: a line each."""
    return [*texts[:most], *([f"and {len(texts) - most:,} more"] if len(texts) > most else [])]


def size(count: int) -> str:
    """Bytes in words: "3.2 GB"."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(seconds: float) -> str:
    """A time in words: "40 s", "12 min", "3 h 20 min", "2 days 5 h"."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{round(seconds)} s"
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} days {hours} h" if hours else f"{days} days"
