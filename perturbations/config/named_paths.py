"""The files and folders that a configuration names: whether they are there."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from perturbations.base.errors import cut, did_you_mean
from perturbations.config import problems
from perturbations.config.line_numbers import NOWHERE, LinesOfKeys
from perturbations.config.sections import Config
from perturbations.datasets import registry as datasets
from perturbations.datasets.registry import Dataset
from perturbations.models.guides import registry as guides

_NOT_THERE = "config.yaml names what is not there"
_MOST_LOOKED_AT = 1_000
"""Of a folder's files."""


def check_paths(name: str, dataset: Dataset, places: LinesOfKeys = NOWHERE) -> None:
    """Raise `ConfigError` naming the place and key of every path of `dataset` that does not exist."""
    missing = []
    for key in ("annotations", "ids"):
        path = getattr(dataset, key)
        is_folder = key == "annotations" and datasets.get(dataset.adapter).takes_folder and os.path.isdir(path or "")
        if path is not None and not os.path.isfile(path) and not is_folder:
            kind = "; it is a directory" if os.path.isdir(path) else _near(path)
            missing.append((("datasets", name, key), f"no such file: {cut(str(path))}{kind}"))
    if dataset.videos is not None and not os.path.isdir(dataset.videos):
        kind = "; it is a file" if os.path.isfile(dataset.videos) else _near(dataset.videos)
        text = f"no such directory: {cut(str(dataset.videos))}{kind}"
        missing.append((("datasets", name, "videos"), text))
    problems.raise_all(missing, _NOT_THERE, places)


def _near(path: Path) -> str:
    """The files of the same folder that a mistyped path may mean, as the end of a message."""
    try:
        with os.scandir(path.parent) as there:
            return did_you_mean(path.name, [entry.name for entry in islice(there, _MOST_LOOKED_AT)])
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
