"""A repair as a transaction: each file that it replaces is kept, until the next repair begins or this one is undone.

Files are kept in `work/.repair`, with a journal that has one line per replaced file. A repair that was killed is
continued by the next one, so that both are undone together.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from perturbations.base import confinement, jsontext, storage
from perturbations.base.errors import ManifestError, OutputError, cut
from perturbations.manifest import layout

_JOURNAL = layout.at("repair_journal")
_KEPT = re.compile("[0-9a-f]{16}")
_END = "{}\n"
"""The last line of a repair that was not killed."""


@dataclass(frozen=True)
class _Replaced:
    """A line of the journal.

    Attributes:
        path: the replaced file, from the root.
        kept: the name of the old file among the kept ones; None where there was none.
        sha256: the hash of the new file; None where the old one was taken away.
    """

    path: str
    kept: str | None
    sha256: str | None


@dataclass(frozen=True)
class Undone:
    """What was put back as it was before a repair, and what was changed since and stays."""

    restored: list[Path]
    changed: list[Path]


def begin(root: Path) -> None:
    """Forget what the last repair replaced below `root`, unless it was killed. Raises `OutputError`."""
    journal = _confined(root, _JOURNAL)
    if journal.is_file() and journal.read_bytes().endswith(_END.encode()):
        _forget(journal)


def end(root: Path) -> None:
    """Note that a repair below `root` ended, where it replaced anything. Raises `OutputError`."""
    journal = _confined(root, _JOURNAL)
    if journal.is_file():
        _note(journal, _END)


def put(root: Path, path: Path, content: Path | None, sha256: str | None) -> None:
    """Replace a file below `root` by the file `content`, or take it away, and keep the old one; for many processes.

    Raises `ManifestError` where `content` does not have the hash `sha256`, and `OutputError`.
    """
    if content is not None and storage.sha256(content) != sha256:
        raise ManifestError(f"what was made for {path} is not the recorded file")
    journal, name = _confined(root, _JOURNAL), os.path.relpath(path, root)
    _confined(root, name)
    with storage.output_errors(path):
        journal.parent.mkdir(parents=True, exist_ok=True)
        kept = os.urandom(8).hex() if os.path.lexists(path) else None
        _note(journal, json.dumps(asdict(_Replaced(name, kept, sha256 if content else None))) + "\n")
        if kept is not None:
            _keep(path, journal.with_name(kept))
        if content is not None:
            os.replace(content, path)
        else:
            path.unlink(missing_ok=True)


def undo(root: Path) -> Undone:
    """Put back every file that the last repair below `root` replaced. A file that changed since stays as it is.

    Raises `ManifestError` where there is nothing to undo, or the journal is no repair's, and `OutputError`.
    """
    journal = _confined(root, _JOURNAL)
    if not journal.is_file():
        raise ManifestError(f"no repair to undo: there is no {journal}")
    undone = Undone([], [])
    for line in reversed(list(_lines(journal))):
        path = _confined(root, line.path)
        kept = None if line.kept is None else journal.with_name(line.kept)
        if _is_as_before(path, kept):
            continue
        if os.path.lexists(path) and _hash(path) != line.sha256:
            undone.changed.append(path)
            continue
        with storage.output_errors(path):
            path.unlink(missing_ok=True)
            if kept is not None:
                shutil.move(kept, path)
        undone.restored.append(path)
    if not undone.changed:
        _forget(journal)
    return undone


def _is_as_before(path: Path, kept: Path | None) -> bool:
    """Whether a file is the old one already: a repair was killed before it replaced it."""
    if kept is None:
        return not os.path.lexists(path)
    return not os.path.lexists(kept) or (_hash(kept) is not None and _hash(kept) == _hash(path))


def _hash(path: Path) -> str | None:
    return storage.sha256(path) if path.is_file() and not path.is_symlink() else None


def _keep(path: Path, kept: Path) -> None:
    """Keep a file under a second name; a link or an empty folder is moved."""
    if path.is_symlink() or path.is_dir():
        shutil.move(path, kept)
        return
    try:
        os.link(path, kept)
    except OSError:  # another disk, or one without links
        shutil.copy2(path, kept)


def _note(journal: Path, line: str) -> None:
    with storage.opened(journal, "a", encoding="utf-8") as file:
        file.write(line)  # in one piece: other processes add theirs
        file.flush()
        os.fsync(file.fileno())


def _lines(journal: Path) -> Iterator[_Replaced]:
    for line in journal.read_bytes().splitlines():
        try:
            fields = jsontext.mapping(line)
            replaced = _Replaced(**fields) if fields else None
        except (ValueError, TypeError):
            raise ManifestError(f"{journal} holds {cut(repr(line))}, which no repair wrote") from None
        if replaced is not None:
            if replaced.kept is not None and not _KEPT.fullmatch(str(replaced.kept)):
                raise ManifestError(f"{journal} names {cut(repr(replaced.kept))}, which no repair kept")
            yield replaced


def _confined(root: Path, name: str) -> Path:
    """A file of a run below `root`. Raises `OutputError` where a link, or the name itself, leads out."""
    plain, top = PurePosixPath(name), PurePosixPath(name).parts[:1]
    path = root / plain
    if not set(top) & set(layout.TOP) or ".." in plain.parts:
        raise OutputError(f"{cut(repr(name))} is no file of a run below {root}")
    outside = confinement.outside(root, path.parent, root / layout.WORK, root / layout.MANIFESTS)
    if outside is not None:
        raise OutputError(f"cannot write {path}: a symbolic link leads to {outside}")
    return path


def _forget(journal: Path) -> None:
    """Delete the journal and the files that it names."""
    with storage.output_errors(journal):
        for line in _lines(journal):
            kept = journal.with_name(line.kept or layout.name("repair_journal"))
            if kept.is_dir() and not kept.is_symlink():
                kept.rmdir()
            elif kept != journal:
                kept.unlink(missing_ok=True)
        journal.unlink()
