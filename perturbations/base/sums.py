"""The files `SHA256SUMS` below `manifests/`: which files a run wrote there, with their hashes. Standard library only.

There is one in each folder directly below `manifests/`, for all files of that dataset, so that a deleted suite or an
edited page is noticed. `sha256sum -c SHA256SUMS` reads it too. A job in an object store writes none: it has no folder
in common with the others.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perturbations.base import layout

NAME = "SHA256SUMS"
STORE_VARIABLE = "PERTURB_STORE"
"""The environment variable of jobs of a run in an object store: the folder in which Snakemake was started."""

_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_LARGEST = 10_000_000  # bytes


def list_of(path: Path) -> Path | None:
    """The list that a file belongs to; None for a file that does not lie below a folder `manifests`."""
    root, below = layout.in_tree(path) or (path, Path())
    return root.joinpath(*below.parts[:-1][:2], NAME) if len(below.parts) > 1 else None


def is_listed(path: Path) -> bool:
    """Whether a file that is written to this path is entered in a list."""
    return STORE_VARIABLE not in os.environ and path.name != NAME and list_of(path) is not None


def read(path: Path) -> dict[str, str]:
    """The hashes in a list, by the file's path from the list's folder. Lines that are none are left out."""
    with suppress(OSError, UnicodeDecodeError):
        if path.stat().st_size <= _LARGEST:
            matches = map(_LINE.fullmatch, path.read_text("utf-8").splitlines())
            return {match[2]: match[1] for match in matches if match}
    return {}


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
    listing.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(listing.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
        lines = {**read(listing), _name(path, listing): digest}
        temporary = listing.with_name(f".{NAME}.part-{os.urandom(6).hex()}")
        try:
            temporary.write_text("".join(f"{lines[name]}  {name}\n" for name in sorted(lines)), encoding="utf-8")
            os.replace(temporary, listing)
        finally:
            temporary.unlink(missing_ok=True)
    finally:
        os.close(folder)
