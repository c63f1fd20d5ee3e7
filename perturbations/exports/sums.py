"""The file `SHA256SUMS` of an export: its files with their hashes, as `sha256sum -c SHA256SUMS` reads them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from perturbations.base.errors import ManifestError

NAME = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  ([^\x00-\x1f]+)")
_LARGEST = 10_000_000  # bytes


def read(path: Path) -> dict[str, str]:
    """The hashes in a list, by the file's path from the list's folder. Raises `ManifestError` for any other file."""
    if not path.is_file() or path.stat().st_size > _LARGEST:
        raise ManifestError(f"{path} is no list of an export's files")
    lines = path.read_text("utf-8", errors="replace").splitlines()
    matches = [_LINE.fullmatch(line) for line in lines]
    if None in matches:
        raise ManifestError(f"{path}: line {matches.index(None) + 1} is none that an export wrote")
    return {match[2]: match[1] for match in matches if match is not None}


def text(hashes: Mapping[str, str]) -> str:
    """A list: one line per file, in the order of their paths. `hashes` are by paths, as `read` gives them."""
    return "".join(_line(name, hashes[name]) for name in sorted(hashes))


def _line(name: str, digest: str) -> str:
    """A line as `sha256sum` writes it: names with a backslash or a new line are escaped."""
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{digest}  {name}\n" if escaped == name else f"\\{digest}  {escaped}\n"


def root(hashes: Mapping[str, str]) -> str:
    """One digest of all lines: the hex SHA-256 of their list."""
    return hashlib.sha256(text(hashes).encode()).hexdigest()
