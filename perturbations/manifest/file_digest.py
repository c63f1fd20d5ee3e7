"""The SHA-256 that a manifest has of its own other bytes: 64 letters in the metadata at the file's end."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

KEY = "sha256"
"""The name of the value in the metadata."""

_PLACE = re.compile(rb"sha256\x18@([0-9a-f]{64})")  # as Parquet writes a key and its value of 64 letters
_END = 2**12
"""Bytes: more than what follows this value."""


def write_sha256(path: Path) -> None:
    """Write the SHA-256 of a file's other bytes into the file, in the place of zeros."""
    digests = digests_of(path)
    assert digests is not None, "its writer has left a place for it"
    place, _, digest = digests
    with path.open("r+b") as file:
        file.seek(place)
        file.write(digest)


def digests_of(path: Path) -> tuple[int, bytes, bytes] | None:
    """The place of the SHA-256 in a file, the written one, and that of the other bytes; None without a place."""
    with path.open("rb") as file:
        begin = max(0, file.seek(0, os.SEEK_END) - _END)
        file.seek(begin)
        end = file.read()
        *_, match = [None, *_PLACE.finditer(end)]
        if match is None:
            return None
        digest, left = hashlib.sha256(), begin
        file.seek(0)
        while block := file.read(min(left, 2**20)):
            digest.update(block)
            left -= len(block)
        digest.update(end[: match.start(1)] + b"0" * 64 + end[match.end(1) :])
        return begin + match.start(1), match[1], digest.hexdigest().encode()
