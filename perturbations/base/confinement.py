"""Folders that are links. A working tree may come from a stranger, and a planted link would lead writes out of it.

Standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path

from perturbations.base import layout
from perturbations.base.errors import OutputError

_MAY_BE_LINKS = (layout.WORK, layout.MANIFESTS)

LINKED_VARIABLE = "PERTURB_LINKED"
"""The environment variable with folders that `corpora/` may link to, written as in PATH."""


def outside(root: Path, path: Path, *others: Path) -> Path | None:
    """Where a path leads by symbolic links, if that is neither below `root` nor below `others`; None where it is.

    The folders that `LINKED_VARIABLE` names are allowed too. Raises `OSError` and `RuntimeError` for a loop of links.
    """
    resolved = path.resolve()
    named = filter(None, os.environ.get(LINKED_VARIABLE, "").split(os.pathsep))
    allowed = (root, *others, *map(Path, named))
    return None if any(resolved.is_relative_to(folder.resolve()) for folder in allowed) else resolved


def check_written(path: Path) -> None:
    """Raise `OutputError` where a link leads out of the working directory a file that a run writes there.

    `work` and `manifests` themselves may be links to another disk.
    """
    here = Path.cwd()
    try:
        relative = Path(os.path.abspath(path)).relative_to(here)
    except ValueError:
        return
    if len(relative.parts) < 2 or relative.parts[0] not in layout.TOP:
        return
    top = here / relative.parts[0]
    try:
        target = outside(here, here / relative.parent, *([top] if top.name in _MAY_BE_LINKS else []))
    except (OSError, RuntimeError) as error:
        raise OutputError(f"cannot write {path}: {error}") from None
    if target is not None:
        raise OutputError(
            f"cannot write {path}: a symbolic link leads to {target}; where that is your own doing, name the folder "
            f"in {LINKED_VARIABLE}"
        )
