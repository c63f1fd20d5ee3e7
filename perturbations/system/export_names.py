"""Where an export may write, and what its files may be called. Standard library only.

Ids come from annotation files, or from a stranger's manifest: any text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

from perturbations.errors import OutputError
from perturbations.system.storage import output_errors, temporary_path

_LONGEST_NAME = 230  # bytes; file systems allow 255, and the temporary name needs some
# What the export itself calls files: of ids without a usable name, and while they are written.
_OWN_NAMES = re.compile(r"~[0-9a-f]{32}|\..*\.part-[0-9a-f]{12}", re.DOTALL)


def is_file_name(name: str) -> bool:
    """Whether a file can be called `name`, with an ending behind it, and no other file of an export is."""
    usable = "\0" not in name and "/" not in name and 0 < len(name.encode()) <= _LONGEST_NAME
    return usable and not _OWN_NAMES.fullmatch(name)


def one_file_for(folder: Path, names: Iterable[str]) -> Callable[[str], str]:
    """A function that gives two names the same text where `folder` keeps one file for them.

    The folder's file system is asked only where some of the names differ in case or in the form of their accents.
    Raises `OutputError` when nothing can be written there.
    """
    different = set(names)
    if len({_folded(name) for name in different}) == len(different) or not _folds(folder):
        return str
    return _folded


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _folds(folder: Path) -> bool:
    probe = temporary_path(folder / "case")
    with output_errors(probe):
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
    try:
        return probe.with_name(probe.name.upper()).exists()
    finally:
        probe.unlink()


def for_spreadsheets(text: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula: `=1+1` as `'=1+1`, and `'` as `''`."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else text


def check_folders(output: Path, scenarios: Iterable[str], paths: Iterable[Path]) -> None:
    """Raise `OutputError` when a scenario's folder is a link, or lies within the corpus whose files are `paths`."""
    corpus = {path.parent.resolve() for path in paths}
    for name in sorted(scenarios):
        folder = output / name
        if folder.is_symlink():
            raise OutputError(f"{folder} is a link to another folder; remove it, or choose another output folder")
        place = folder.resolve()
        if any(place == one or one in place.parents for one in corpus):
            raise OutputError(f"{folder} lies within the corpus that is exported; choose another output folder")
