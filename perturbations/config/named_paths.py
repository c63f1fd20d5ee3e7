"""The files and folders that a configuration names: whether they are there."""

from __future__ import annotations

import glob
import os
import re
from itertools import islice
from pathlib import Path

from perturbations.base.errors import cut, did_you_mean
from perturbations.config import problems
from perturbations.config.line_numbers import NOWHERE, LinesOfKeys
from perturbations.config.sections import Config
from perturbations.datasets.registry import Dataset
from perturbations.models.guides import registry as guides

_NOT_THERE = "config.yaml names what is not there"
_ADDRESS = r"^[a-z][a-z\d+.-]+:/"
_MOST_LOOKED_AT = 1_000
"""Of a folder's files."""


def check_paths(name: str, dataset: Dataset, places: LinesOfKeys = NOWHERE) -> None:
    """Raise `ConfigError` naming the place and key of every path of `dataset` that does not exist."""
    missing = []
    for key in ("annotations", "ids"):
        path = getattr(dataset, key)
        if path is not None and not os.path.isfile(path):
            missing.append((("datasets", name, key), f"no such file: {_written(path)}{no_file(path)}"))
    if dataset.videos is not None and not os.path.isdir(dataset.videos):
        text = f"no such directory: {_written(dataset.videos)}{no_folder(dataset.videos)}"
        missing.append((("datasets", name, "videos"), text))
    problems.raise_all(missing, _NOT_THERE, places)


def _written(path: Path) -> str:
    """A path as it was written: pathlib leaves out a slash of an address."""
    return cut(re.sub(rf"{_ADDRESS}(?!/)", r"\g<0>/", str(path), count=1, flags=re.IGNORECASE))


def no_file(path: Path) -> str:
    """Why a path is no file, or what may be meant, as the end of a message."""
    return "; it is a directory" if os.path.isdir(path) else _near(path)


def no_folder(path: Path) -> str:
    """Why a path is no folder, or what may be meant, as the end of a message."""
    if os.path.isfile(path):
        return "; it is a file"
    if glob.has_magic(path.name) and os.path.isdir(path.parent):
        return f"; name the folder that holds the files: {cut(str(path.parent))}"
    return _near(path, folders=True)


def _near(path: Path, *, folders: bool = False) -> str:
    """The files of the same folder that a mistyped path may mean, or the `folders`, as the end of a message."""
    if re.match(_ADDRESS, str(path), re.IGNORECASE):
        return "; an address is not read: download the files, and name where they are"
    try:
        with os.scandir(path.parent) as there:
            entries = islice(there, _MOST_LOOKED_AT)
            return did_you_mean(path.name, [entry.name for entry in entries if entry.is_dir() or not folders])
    except (OSError, ValueError):  # a path that no disk can hold
        return ""


def check_backend_files(config: Config) -> None:
    """Raise `ConfigError` naming the place and key of every missing file of a backend that a perturbation uses."""
    missing = []
    settings = config.backends.roles()
    # Those of backends that nothing uses may name what is elsewhere.
    roles = {guides.get(kind).role for _, kind in problems.used_guides(config)}
    for role in sorted(filter(None, roles)):
        for name, path in settings[role]:
            if not isinstance(path, Path):
                continue
            if name == "images" and not os.path.isdir(path):
                kind = "; it is a file" if os.path.exists(path) else ""
                missing.append((("backends", role, name), f"no such directory: {cut(str(path))}{kind}"))
            elif not os.path.exists(path):
                missing.append((("backends", role, name), f"no such file: {cut(str(path))}"))
    problems.raise_all(missing, _NOT_THERE, config.places)
