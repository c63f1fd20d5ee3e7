"""Names that people write: of files, items and options. Standard library only."""

from __future__ import annotations

import unicodedata


def composed(name: str) -> str:
    """A name in its composed form (NFC): by this form names are compared.

    macOS and its archives decompose the names of files ("e" and an accent for "é"), annotations seldom do.
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)
