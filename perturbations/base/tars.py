"""Clips that lie in tars: a stored clip is a file of its own, or a member of its job's tar. Standard library only.

The path of a member is `TAR/OFFSET/NAME`: the tar's path, the first byte of the member's content, and its name. Such a
path may come from a stranger, and the tar too: a member is read only where the tar's own header, just before its
content, has that name and a size that fits the tar. `at` is the one place that says where a clip's bytes are.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import tarfile

SUFFIX = ".tar"
BLOCK = 512
"""Bytes: a header's, and of these a content's are filled up to a multiple."""
_MEMBER = re.compile(r"(.+\.tar)/([0-9]{1,18})/([^/\0]+)", re.DOTALL)


def path_in(tar: Path, offset: int, name: str) -> str:
    """The path of a member."""
    return f"{tar.as_posix()}/{offset}/{name}"


def named(path: Path | str) -> tuple[str, int, str] | None:
    """The tar, the offset and the name in a member's path; None for the path of a file."""
    match = _MEMBER.fullmatch(os.fspath(path))
    if match is None or os.path.isdir(match[1]):  # a user's folder may have any name
        return None
    return match[1], int(match[2]), match[3]


def file_of(path: str) -> str:
    """The file that holds a clip: its tar, or the path itself."""
    member = named(path)
    return path if member is None else member[0]


def at(path: Path | str) -> tuple[Path, int, int]:
    """Where the bytes of a clip are: the file, the first of them (0 of a whole file), and how many.

    Raises `FileNotFoundError` where they are not there, and `OSError`.
    """
    member = named(path)
    if member is None:
        return Path(path), 0, os.stat(path).st_size
    tar, offset, name = member
    status = os.stat(tar)
    if stat.S_ISREG(status.st_mode) and BLOCK <= offset <= status.st_size:
        with open(tar, "rb") as file:
            header = _header(file, offset - BLOCK, status.st_size)
        if header is not None and header.name == name:
            return Path(tar), offset, header.size
    raise FileNotFoundError(errno.ENOENT, "the tar has no such member at this offset", os.fspath(path))


def is_file(path: Path | str) -> bool:
    """Whether a clip is there: as a file of its own, or as its tar's header says."""
    try:
        return stat.S_ISREG(os.stat(at(path)[0]).st_mode)
    except (OSError, ValueError):
        return False


@contextmanager
def opened(path: Path | str) -> Iterator[io.BufferedReader]:
    """A clip's bytes as a file, open for reading. Raises as `at`."""
    held, offset, _ = at(path)
    with open(held, "rb") as file:
        if not offset:
            yield file
            return
        import tarfile  # not at the top: jobs on files need none of it

        file.seek(offset - BLOCK)
        with tarfile.open(fileobj=file, mode="r:") as tar:
            member = tar.next()
            content = None if member is None else tar.extractfile(member)
            assert isinstance(content, io.BufferedReader), "`at` has read its header"
            yield content


def members(tar: Path) -> Iterator[tuple[str, int, int]]:
    """The name, the offset and the size of each member of a tar, up to the first that is damaged or no file.

    Raises `OSError`.
    """
    with tar.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        place = 0
        while (header := _header(file, place, size)) is not None:
            yield header.name, place + BLOCK, header.size
            place += BLOCK + padded(header.size)


def _header(file: IO[bytes], place: int, size: int) -> tarfile.TarInfo | None:
    """The header of a member at a place; None where there is none of a file that ends within the tar."""
    import tarfile

    file.seek(place)
    try:
        header = tarfile.TarInfo.frombuf(file.read(BLOCK), "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return None
    fits = 0 <= header.size <= size - place - BLOCK
    return header if header.type == tarfile.REGTYPE and fits else None


def padded(size: int) -> int:
    """The bytes that a member's content takes in a tar."""
    return -(-size // BLOCK) * BLOCK


def from_folder(path: str) -> str:
    """A clip's path from the folder that its file lies in: `NAME`, or `TAR/OFFSET/NAME`."""
    return PurePosixPath(path).relative_to(PurePosixPath(file_of(path)).parent).as_posix()
