"""Findings: what is wrong with a row, a file or a whole manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """A problem of a row, a file or a whole manifest.

    Attributes:
        place: the manifest or file that has the problem.
        subject: the row; "" for the whole file.
        problem: the problem in words.
    """

    place: Path
    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.subject}{': ' if self.subject else ''}{self.problem}"


def name_of(row: object, key: Sequence[str]) -> str:
    """A row's key in readable form: `video7 fog 3`."""
    return " ".join(_plain(value) for value in values(row, key))


def _plain(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text else repr(text)


def values(row: object, names: Sequence[str]) -> tuple[object, ...]:
    """The values of some columns of a row."""
    return tuple(getattr(row, name) for name in names)
