"""The folder in which jobs work, where it is not the one in which Snakemake was started.

Paths in commands, lists and manifests begin with `work/`, `manifests/` or `corpora/`. Where these lie elsewhere, below
the `prefix:` of a module or in Snakemake's copy of an object store, jobs enter that folder, and paths hold as they are.
No NumPy: Snakemake imports this module.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from perturbations.base import confinement, layout
from perturbations.base.errors import ConfigError, OutputError, cut

_PROBE = "/probe"


def of_module(modified: Callable[[str], str]) -> Path:
    """The folder below which a module's `prefix:` puts all paths; `Path()` without one.

    `modified` is what Snakemake makes of a path of the module. Raises `ConfigError` where paths would be put into
    several folders, or into one that has another meaning.
    """
    places = {modified(top + _PROBE).removesuffix(top + _PROBE) for top in layout.TOP}
    if len(places) > 1 or not all(place == "" or place.endswith("/") for place in places):
        raise ConfigError(
            "the module's `prefix` or `replace_prefix`: work/, manifests/ and corpora/ must stay in one folder; give "
            'a folder\'s name and nothing else, such as `prefix: "results"`'
        )
    folder = Path(places.pop())
    if set("{}") & set(str(folder)):
        raise ConfigError(f"the module's `prefix`: rename {cut(str(folder))}; Snakemake takes the braces for wildcards")
    if folder.parts and folder.parts[0] in layout.TOP:
        raise ConfigError(f"the module's `prefix`: {cut(str(folder))}: the workflow has its own folder of that name")
    if ".." in folder.parts:
        raise ConfigError(f"the module's `prefix`: {cut(str(folder))} leads out of this folder: give its absolute path")
    return folder


def check_links(paths: Iterable[Path]) -> None:
    """Raise `OutputError` where a file that jobs write in the working directory is a link, or a link leads to it.

    What a job writes by `2>`, and Snakemake itself, would go through it.
    """
    checked: set[Path] = set()
    for path in paths:
        if path.parent not in checked:
            confinement.check_written(path)
            checked.add(path.parent)
        if path.is_symlink():
            raise OutputError(f"{cut(str(path))} is a link, which no run makes: delete it")


def prepare(place: Path) -> None:
    """Make the folder that jobs enter. Commands get relative paths of inputs and outputs, so a link leads back.

    Raises `ConfigError` where the folder or the link cannot be made.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not place.is_absolute():
            _link(place / place.parts[0], Path.cwd() / place.parts[0])
    except OSError as error:
        raise ConfigError(
            f"jobs cannot work in {cut(str(place))}: {error.strerror}: {cut(str(error.filename))}"
        ) from None


def prepare_module(place: Path, logs: str | None = None) -> None:
    """`prepare` for the folder of a module's `prefix:`, in which people start commands about the run.

    `logs` is the folder of logs where the module moves them: jobs write them from here as from where they were started.

    These read in `.snakemake` whether Snakemake runs, and where it was started is another folder.
    """
    prepare(place)
    if logs is not None and not Path(logs).is_absolute() and not place.is_absolute():
        top = Path(logs).parts[0]
        (Path.cwd() / top).mkdir(exist_ok=True)
        _link(place / top, Path.cwd() / top)
    with suppress(FileExistsError, IsADirectoryError, PermissionError):  # a run was started in that folder itself
        _link(place / ".snakemake", Path.cwd() / ".snakemake")


def _link(link: Path, target: Path) -> None:
    if not (link.is_symlink() and Path(os.readlink(link)) == target):
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def from_there(path: str, place: Path) -> str:
    """A path of planning as jobs in `place` write it into manifests: a file of this folder by a relative path.

    So manifests hold after the folder was moved. Other paths stay, and so do all where `place` is a link.
    """
    if not place.parts or place.is_absolute():
        return path
    here = Path.cwd()
    if not Path(path).is_relative_to(here) or _leads_elsewhere(here, place):
        return path
    return os.path.relpath(path, place)


@cache
def _leads_elsewhere(here: Path, place: Path) -> bool:
    return (here / place).resolve() != here.resolve() / place


def quoted(path: Path) -> str:
    """A path as a word of a shell command, in Snakemake's format."""
    return shlex.quote(str(path)).replace("{", "{{").replace("}", "}}")


def enter(place: Path) -> str:
    """What a command that works in `place` begins with, in Snakemake's format; nothing in the working directory."""
    return f"cd {quoted(place)} && " if place.parts else ""
