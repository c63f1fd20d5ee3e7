"""Where an export may write, and the names that its files may have. Standard library only.

Ids come from annotation files, or from a stranger's manifest: they may be any text.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from perturbations.base import storage
from perturbations.base.errors import OutputError
from perturbations.manifest.kinds import ClipRow, SourceRow, TextRow

NAMES = "names.csv"
"""A file next to the files of a scenario: it lists the ids that could not be used as file names."""

_LONGEST_NAME = 230  # bytes; file systems allow 255, and the temporary name needs some
_HASHED = re.compile(r"~[0-9a-f]{32}")
"""Names of the export itself, of ids without a usable name."""


def _is_file_name(name: str) -> bool:
    """Whether a file can have this name plus a suffix, and no other file of an export uses it."""
    usable = "\0" not in name and "/" not in name and 0 < len(name.encode()) <= _LONGEST_NAME
    return usable and not _HASHED.fullmatch(name) and not storage.is_leftover(Path(name))


def _folded(name: str) -> str:
    """The same text for names that some file system takes for one: of other case, or with other codes of accents."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def for_spreadsheets(text: str) -> str:
    """A cell of a CSV file that no spreadsheet reads as a formula: `=1+1` becomes `'=1+1`, and `'` becomes `''`."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else text


def scenario(row: ClipRow | SourceRow | TextRow, names: Mapping[str, str]) -> str:
    """`<perturbation>_<severity>`, or `clean`: the name of a row's folder, or of its file of captions.

    `names` maps a perturbation (`suite/name`) to the format's own name, where that differs.
    """
    if isinstance(row, SourceRow):
        return "clean"
    name = names.get(f"{row.suite}/{row.perturbation}", row.perturbation or "")
    return f"{storage.file_stem(name)}_{row.severity}"


def files_in(folder: Path, looked_for: Mapping[str, str], suffix: str) -> dict[str, Path]:
    """The file per id in `folder`; `looked_for` holds per id the name that the loader looks for, without `suffix`.

    Names that no file can have, and names that belong to two ids, are replaced by a hash: the loader must not find
    another id's content. Writes a table of the ids whose file has another name, and deletes leftovers of interrupted
    writes.
    """
    shared = Counter(map(_folded, looked_for.values()))
    files = {}
    table = io.StringIO()
    for item_id, name in sorted(looked_for.items()):
        is_usable = shared[_folded(name)] == 1 and _is_file_name(name)
        stem = name if is_usable else "~" + storage.sha256_of(item_id.encode())[:32]
        files[item_id] = folder / f"{stem}{suffix}"
        if stem != item_id:
            csv.writer(table, lineterminator="\n").writerow(
                [for_spreadsheets(item_id), for_spreadsheets(f"{stem}{suffix}"), "yes" if is_usable else "no"]
            )
    if table.getvalue():
        storage.write_text_if_changed(folder / NAMES, f"video_id,file,found_by_loader\n{table.getvalue()}")
    else:
        (folder / NAMES).unlink(missing_ok=True)
    _remove_leftovers(folder, suffix)
    return files


def _remove_leftovers(folder: Path, suffix: str) -> None:
    """Delete the leftovers of interrupted writes in one pass: a folder may hold thousands of files."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for file in list(folder.iterdir()):
            if storage.is_leftover(file) and file.suffix == suffix:
                file.unlink(missing_ok=True)


def check_folders(output: Path, scenarios: Iterable[str], corpus: Iterable[Path]) -> None:
    """Raise `OutputError` when a scenario's folder is a link, or is inside one of the folders of the corpus' files."""
    corpus = {folder.resolve() for folder in corpus}
    for name in sorted(scenarios):
        folder = output / name
        if folder.is_symlink():
            raise OutputError(f"{folder} is a link to another folder; remove it, or choose another output folder")
        place = folder.resolve()
        if any(place == held or held in place.parents for held in corpus):
            raise OutputError(f"{folder} is within the corpus that is exported; choose another output folder")
