"""The files and folders that a configuration names: whether they are there."""

from __future__ import annotations

import os
from pathlib import Path

from perturbations.datasets.registry import Dataset
from perturbations.errors import cut
from perturbations.plan import problems
from perturbations.plan.config import Backends
from perturbations.plan.places import NOWHERE, Places
from perturbations.plan.problems import Problem

_NOT_THERE = "config.yaml names what is not there"


def check_paths(name: str, dataset: Dataset, places: Places = NOWHERE) -> None:
    """Raise `ConfigError` naming the place and key of every path of `dataset` that does not exist."""
    missing = []
    for key in ("annotations", "ids"):
        path = getattr(dataset, key)
        if path is not None and not os.path.isfile(path):
            kind = "; it is a directory" if os.path.isdir(path) else ""
            missing.append(Problem(("datasets", name, key), f"no such file: {cut(str(path))}{kind}"))
    if dataset.videos is not None and not os.path.isdir(dataset.videos):
        text = f"no such directory: {cut(str(dataset.videos))}"
        missing.append(Problem(("datasets", name, "videos"), text))
    problems.raise_all(missing, _NOT_THERE, places)


def check_backend_files(backends: Backends, places: Places = NOWHERE) -> None:
    """Raise `ConfigError` naming the place and key of every file of a backend that does not exist."""
    missing = []
    for role, settings in backends.roles().items():
        for name, path in settings:
            if isinstance(path, Path) and not os.path.exists(path):
                kind = "directory" if name == "images" else "file"
                missing.append(Problem(("backends", role, name), f"no such {kind}: {cut(str(path))}"))
    problems.raise_all(missing, _NOT_THERE, places)
