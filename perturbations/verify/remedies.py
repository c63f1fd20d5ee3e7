"""What a finding advises: the commands that make a file again."""

from __future__ import annotations

import shlex
from pathlib import Path

from perturbations.base.layout import INDEX
from perturbations.manifest import layout


def from_root(path: Path) -> str:
    """A path below `manifests` as Snakemake's targets name it."""
    return str((layout.in_tree(path) or (None, path))[1])


def command(path: Path) -> str:
    """The command that makes a file below `manifests` again; that of the folder for a file of a page's folder.

    "" for a file that no rule makes.
    """
    for candidate in (path, path.parent):
        place = layout.place_of(Path(from_root(candidate)).as_posix())
        if place is not None and layout.path_of(place) != INDEX:
            return f"`snakemake --cores 1 {shlex.quote(from_root(candidate))}`"
    return ""


def way(path: Path) -> str:
    """The ways to have a file below `manifests` as it was."""
    again = command(path)
    remedy = f"; or, where it was made, delete it and run {again}" if again else ""
    return f"put the listed file back from a copy{remedy}"
