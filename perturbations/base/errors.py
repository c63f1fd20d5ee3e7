"""One exception type a kind of mistake. Each message names the thing, what is allowed, and what to do."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable


class PerturbationError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(PerturbationError):
    """`config.yaml` says something that cannot be done. Stops the run before any job."""


class AnnotationError(PerturbationError):
    """An annotation file cannot be read as its adapter expects. Stops the run before any job."""


class UnknownPerturbationError(PerturbationError):
    """No suite declares a perturbation, severity or variant of that name."""


class RegistryError(PerturbationError):
    """Something that is added to a registry is not what it lists, or is asked for and not there."""


class MediaError(PerturbationError):
    """One video cannot be decoded or encoded. The item is quarantined, the shard goes on."""


class CrashError(MediaError):
    """ffmpeg crashes or fails on one video. Tried again; the clip's fault when it happens every time."""


class ToolError(PerturbationError):
    """A worker or ffmpeg was killed, cannot be started, or found no memory. Tried again, then stops the job.

    Never a clip's fault: finished items are kept, and no item is quarantined.
    """


class OutputError(PerturbationError):
    """A result cannot be written (full disk, no permission). Stops the job; finished items are kept."""


class BackendError(PerturbationError):
    """Something that plays a model's role is not installed, not downloaded or not there. Stops the run at once."""


class ManifestError(PerturbationError):
    """A manifest is missing, unreadable, or does not follow its schema."""


_LONGEST_NAME = 100
"""Letters of a name that is compared with others: to compare megabytes takes hours."""

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 2
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80


def short(value: object) -> str:
    """A value as messages show it: its `repr`, cut in the middle where it is long. Data from outside may be megabytes.

    A text keeps its quotes and its escapes, so that it stays on its line.
    """
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python refuses to write out a number of thousands of digits
        return f"a value of type {type(value).__name__}, too long to be shown"


def cut(text: str, length: int = 200) -> str:
    """A text that is part of a message: what does not print escaped, the middle left out where it is longer."""
    half = length // 2
    shown = text if len(text) <= length else f"{text[:half]}...{text[-half:]}"
    return shown if shown.isprintable() else repr(shown)[1:-1]


def first_line(error: BaseException) -> str:
    """The first line of an exception's message; its type's name where it has none."""
    words = str(error).strip().partition("\n")[0].strip()
    return words or type(error).__name__


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names that a mistyped one may have meant, the nearest first; upper and lower case are the same.

    A name without its suite, `fog` of `mlvp/fog`, is the nearest.
    """
    import difflib  # not at the top: few programs make a mistake

    if len(name) > _LONGEST_NAME:
        return []
    by_lower = {other.lower(): other for other in known}
    if (alone := name.lower().rpartition("/")[2]) in by_lower:
        return [by_lower[alone]]
    return [by_lower[other] for other in difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=0.6)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a mistyped name: `; did you mean a or b?`. Empty where no known name is near."""
    near = nearest(name, known)
    return f"; did you mean {' or '.join(near)}?" if near else ""
