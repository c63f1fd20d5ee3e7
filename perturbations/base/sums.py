"""The files `SHA256SUMS` below `manifests/`: which files a run wrote there, with their hashes. Standard library only.

There is one in `manifests/`, for the files there, and one in each folder directly below it, for all files of that
dataset, so that a deleted suite or an edited page is noticed. `sha256sum -c SHA256SUMS` reads it too. `root` makes one
digest of lists.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path

from perturbations.base import layout

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^\x00-\x1f]+)")
_LARGEST = 10_000_000  # bytes


def list_of(path: Path) -> Path | None:
    """The list that a file belongs to; None for a file that does not lie below a folder `manifests`."""
    root, below = layout.in_tree(path) or (path, Path())
    return root.joinpath(*below.parts[:-1][:2], NAME) if len(below.parts) > 1 else None


def is_listed(path: Path) -> bool:
    """Whether a file that is written to this path is entered in a list: every one but the page of all pages."""
    listing = list_of(path)
    if listing is None:
        return False
    return path.name != NAME and not _is_index(listing, path.name)


def _is_index(listing: Path, name: str) -> bool:
    return f"{listing.parent.name}/{name}" == layout.INDEX


def read(path: Path) -> dict[str, str]:
    """The hashes in a list, by the file's path from the list's folder. Lines that are none are left out."""
    try:
        lines = _parsed(_bytes(path))
    except OSError:
        return {}
    return {name: digest for name, digest in lines.items() if not _is_index(path, name)}  # earlier versions listed it


def problem(path: Path) -> str:
    """Why a list is none that a run wrote; "" for one that may be."""
    if path.is_symlink():
        return "it is a link, which no run makes"
    try:
        held = _bytes(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    lines = zip_longest(held.split(b"\n"), text(_parsed(held)).encode().split(b"\n"))
    first = next((number for number, (line, own) in enumerate(lines, 1) if line != own), None)
    return "" if first is None else f"line {first} is none that a run wrote: put the list back from a copy"


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > _LARGEST:
        raise OSError(f"it has more than {_LARGEST:,} bytes")
    if not path.is_file():  # to open a pipe takes forever
        raise OSError("it is not a regular file")
    return path.read_bytes()


def _parsed(held: bytes) -> dict[str, str]:
    matches = map(_LINE.fullmatch, held.decode("utf-8", "replace").split("\n"))
    lines = {match[2]: match[1] for match in matches if match}
    return {name: digest for name, digest in lines.items() if not {"", ".", "..", "/"} & {*name.split("/")}}


def text(lines: Mapping[str, str]) -> str:
    """A list: one line per file, in the order of their paths. `lines` has hashes by paths, as `read` gives them."""
    return "".join(f"{lines[name]}  {name}\n" for name in sorted(lines))


def root(lines: Mapping[str, str]) -> str:
    """One digest of all lines: the hex SHA-256 of their list."""
    return hashlib.sha256(text(lines).encode()).hexdigest()


def recorded(path: Path) -> str | None:
    """The hash that a file has in its list; None where there is none."""
    listing = list_of(path)
    return None if listing is None else read(listing).get(_name(path, listing))


def _name(path: Path, listing: Path) -> str:
    depth = len(listing.parent.parts)
    parts = path.parts if path.parts[:depth] == listing.parent.parts else Path(os.path.abspath(path)).parts
    return Path(*parts[depth:]).as_posix()


@contextmanager
def entered(path: Path, content: Path) -> Iterator[None]:
    """Enter the file that this block writes to `path`, with the hash of `content`, in its list; others wait."""
    listing = list_of(path)
    if listing is None or not is_listed(path) or not content.is_file():
        yield
        return
    with content.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with _locked(listing):
        yield
        _write(listing, {**read(listing), _name(path, listing): digest})


def remove(path: Path) -> None:
    """Take the line of a file that was deleted on purpose out of its list, where it is in one."""
    listing = list_of(path)
    if listing is not None and listing.is_file():
        with _locked(listing):
            lines = read(listing)
            if lines.pop(_name(path, listing), None):
                _write(listing, lines)


@contextmanager
def _locked(listing: Path) -> Iterator[None]:
    listing.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(listing.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write(listing: Path, lines: Mapping[str, str]) -> None:
    temporary = listing.with_name(f".{NAME}.part-{os.urandom(6).hex()}")
    try:
        temporary.write_text(text(lines), encoding="utf-8", newline="\n")
        os.replace(temporary, listing)
    finally:
        temporary.unlink(missing_ok=True)
