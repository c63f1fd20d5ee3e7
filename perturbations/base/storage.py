"""How results lie on disk: safe names, whole writes, one job at a time, hashes. Standard library only."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import shutil
import tempfile
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from perturbations.base import tars
from perturbations.base.errors import OutputError

_log = logging.getLogger("perturbations")

# Errors of the place that is written to, not of the data.
OUTPUT_ERRNOS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EFBIG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
}


_LONGEST_NAME = 200  # bytes; file systems allow 255, and the temporary name and the extension need some
_TEMPORARY = ".part-"
_LEFTOVER = re.compile(rf"\.(.*){re.escape(_TEMPORARY)}[0-9a-f]{{12}}((?:\.[^.]*)?)", re.DOTALL)


def nfc(name: str) -> str:
    """A name in its composed form (NFC): by this form names are compared.

    macOS and its archives decompose the names of files ("e" and an accent for "é"), annotations seldom do.
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def file_stem(item_id: str) -> str:
    """A file name for an item id, whatever the id holds: ASCII, no separators, distinct ids give distinct names.

    Everything but letters, digits and `_.-~` is percent-encoded (UTF-8); a leading dot too, so that no name is
    hidden or a parent folder. Names too long for a file system end in a hash of the id.
    """
    stem = quote(item_id.encode("utf-8", "surrogatepass"), safe="")
    if stem.startswith("."):
        stem = "%2E" + stem[1:]
    if len(stem) >= _LONGEST_NAME:  # hashed names have exactly this length: no other name may
        stem = stem[: _LONGEST_NAME - 33] + "~" + hashlib.sha256(stem.encode()).hexdigest()[:32]
    return stem or "%"


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` (same extension) and rename it to `path` when the block ends well.

    After an error or an interruption `path` is as it was. Raises `OutputError` when the system refuses to write.
    """
    temporary = temporary_path(path)
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """A name beside `path` that no other process uses and that `remove_leftovers` recognizes."""
    return path.with_name(f".{path.stem}{_TEMPORARY}{os.urandom(6).hex()}{path.suffix}")


def remove_leftovers(paths: Iterable[Path]) -> None:
    """Delete what interrupted writes of these paths left beside them."""
    names: dict[Path, set[tuple[str, str]]] = defaultdict(set)
    for path in paths:
        names[path.parent].add((path.stem, path.suffix))
    for folder, own in names.items():
        try:
            entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            match = _LEFTOVER.fullmatch(entry.name)
            if match and match.groups() in own:
                Path(entry.path).unlink(missing_ok=True)


def is_leftover(path: Path) -> bool:
    """Whether a file is what an interrupted write left."""
    return _LEFTOVER.fullmatch(path.name) is not None


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Turn the system's refusals to write into `OutputError`; let everything else pass."""
    try:
        yield
    except OSError as error:
        if error.errno in OUTPUT_ERRNOS:
            full = _free_space(path) if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise OutputError(f"cannot write {path}: {os.strerror(error.errno or 0)}{full}") from error
        raise


@contextmanager
def one_job(journal: Path) -> Iterator[None]:
    """Hold the lock of the shard whose journal is `journal`; wait while another job holds it.

    After the wait the other job's finished items are in the journal. The lock is the kernel's, on a file beside the
    journal: it ends with the processes that hold it, however they end. Where a file system has no locks, the job goes
    on with a warning: two jobs then write the same files, each whole. Raises `OutputError`.
    """
    path = journal.with_suffix(".lock")
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.warning("another job works on this shard: waiting for it (%s)", path)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            _log.warning("%s cannot be locked (%s): going on; see that no other job works on this shard", path, error)
        yield


def reserve(path: Path, size: int) -> None:
    """Create a file of `size` bytes, whose space on the disk is taken now where the file system can do that.

    A full disk would kill a process that writes the file through a memory map. Raises `OutputError`.
    """
    with output_errors(path), path.open("wb") as file:
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):  # not on macOS
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno in OUTPUT_ERRNOS:
                    raise


def link_or_copy(held: Path, target: Path) -> None:
    """Give a clip's bytes a second name: a hard link; a copy of a tar's member, and between file systems."""
    try:
        os.link(held.resolve(), target)
    except OSError:
        with tars.opened(held) as content, target.open("wb") as file:
            shutil.copyfileobj(content, file, 1 << 20)


def write_text(path: Path, text: str) -> None:
    """Write `text` whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_text_if_changed(path: Path, text: str | Iterable[str]) -> bool:
    """Write a text, or the pieces of a large one, unless the file holds it already: its modification time stays then.

    Returns whether it wrote.
    """
    pieces = (piece.encode() for piece in ([text] if isinstance(text, str) else text))
    same, other = 0, b""
    with suppress(FileNotFoundError), path.open("rb") as file:
        for other in pieces:
            if file.read(len(other)) != other:
                break
            same += len(other)
        else:
            other = b""
            if not file.read(1):
                return False
    with atomic_path(path) as temporary, temporary.open("wb") as out:
        if same:
            with path.open("rb") as file:
                out.write(file.read(same))
        out.write(other)
        out.writelines(pieces)
    return True


_LINE_HASH = 16


def journal_line(text: str) -> bytes:
    """A line of a journal: a hash of the text, and the text, which has no line end."""
    return f"{sha256_of(text.encode())[:_LINE_HASH]}{text}\n".encode()


def journal_lines(path: Path) -> Iterator[str | None]:
    """The text of each line of a journal, None where it is not what was written: a kill may have cut it short.

    Raises `OSError`.
    """
    for line in filter(None, path.read_bytes().split(b"\n")):
        text = line[_LINE_HASH:].decode(errors="replace")
        yield text if journal_line(text) == line + b"\n" else None


def write_journal(path: Path, texts: Iterable[str]) -> None:
    """Write a journal again, so that the next line is not appended to one that was cut short. Raises `OutputError`."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(b"".join(map(journal_line, texts)))


def sha256(path: Path | str) -> str:
    """Hex SHA-256 of the bytes of a file, or of a member of a tar."""
    with tars.opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(data: bytes) -> str:
    """Hex SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def scratch_directory() -> tempfile.TemporaryDirectory[str]:
    """A folder for intermediate files, on the disk that `TMPDIR` names."""
    return tempfile.TemporaryDirectory(prefix="perturb-")


def _free_space(path: Path) -> str:
    for folder in (path.parent, *path.parent.parents):
        try:
            return f" ({shutil.disk_usage(folder).free / 1e9:.1f} GB free there)"
        except OSError:
            continue
    return ""
