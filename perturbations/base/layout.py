"""The folders in which all lies that runs make; `manifest.layout` has the files in them. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

WORK, MANIFESTS, CORPORA = "work", "manifests", "corpora"
TOP = (WORK, MANIFESTS, CORPORA)
INDEX = f"{MANIFESTS}/index.html"
"""The page of all pages, which the end of every run writes."""
DOCUMENTATION = f"{MANIFESTS}/README.md"
"""Of a checkout: what the columns of manifests mean."""


def lock_of(journal: Path) -> Path:
    """The lock of the job that writes a journal: beside it."""
    return journal.with_suffix(".lock")


def in_tree(path: Path, folder: str = MANIFESTS) -> tuple[Path, Path] | None:
    """The root of the tree that a path lies in, and the path from there: `manifests/...`. None for any other path.

    Of several folders of that name the last one counts. A job's paths begin in its working directory, `Path()`.
    """
    if path.parts[:1] == (folder,):
        return Path(), path
    parts = Path(os.path.abspath(path)).parts
    if folder not in parts:
        return None
    top = len(parts) - 1 - parts[::-1].index(folder)
    return Path(*parts[:top]), Path(*parts[top:])
