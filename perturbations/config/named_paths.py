"""The files and folders that a configuration names: whether they are there."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from perturbations.base.errors import cut, did_you_mean
from perturbations.config import problems
from perturbations.config.line_numbers import NOWHERE, LinesOfKeys
from perturbations.config.problems import Problem
from perturbations.config.sections import Config
from perturbations.datasets import adapter_registry as datasets
from perturbations.datasets.adapter_registry import Dataset
from perturbations.manifest.manifest_paths import TOP
from perturbations.models.guides import guide_registry as guides

_NOT_THERE = "the configuration names files that do not exist"
_ADDRESS = r"^[a-z][a-z\d+.-]+:/"
_MOST_LOOKED_AT = 1_000
"""Of a folder's files."""


def missing_paths(config: Config, targets: Sequence[str]) -> list[Problem]:
    """The paths that do not exist of the datasets that targets name: `mlvp_mine`, `manifests/mine/sources.parquet`.

    Of `all`, and without any target, those of the default target's dataset.
    """
    wrong: list[Problem] = []
    by_default = not any((word.isidentifier() and word != "all") or "/" in word for word in targets)
    for name, dataset in config.datasets.items():
        named = [word for word in targets if re.fullmatch(rf"\w+_{name}|({'|'.join(TOP)})/{name}/.*", word)]
        named += ["all"] if by_default and name == config.first_dataset else []
        of_captions = rf"text_|manifests/{name}/\w+/caption|work/{name}/\w+/captions/"  # of a suite: they need no clips
        clips = [word for word in named if not re.match(of_captions, word)]
        wrong += _missing_of_dataset(name, dataset, videos=bool(clips)) if named else []
        wrong += _missing_of_backends(config) if clips else []
    return list(dict.fromkeys(wrong))


def check_paths(name: str, dataset: Dataset, places: LinesOfKeys = NOWHERE, *, videos: bool = True) -> None:
    """Raise `ConfigError` naming the place and key of every path of `dataset` that does not exist."""
    problems.raise_all(_missing_of_dataset(name, dataset, videos=videos), _NOT_THERE, places)


def check_backend_files(config: Config) -> None:
    """Raise `ConfigError` naming the place and key of every missing file of a backend that a perturbation uses."""
    problems.raise_all(_missing_of_backends(config), _NOT_THERE, config.places)


def _missing_of_dataset(name: str, dataset: Dataset, *, videos: bool) -> list[Problem]:
    missing: list[Problem] = []
    for key in ("annotations", "ids"):
        path = getattr(dataset, key)
        is_folder = key == "annotations" and datasets.get(dataset.adapter).takes_folder and os.path.isdir(path or "")
        if path is not None and not os.path.isfile(path) and not is_folder:
            missing.append((("datasets", name, key), f"no such file: {_written(path)}{no_file(path)}"))
    if videos and dataset.videos is not None and not os.path.isdir(dataset.videos):
        text = f"no such directory: {_written(dataset.videos)}{no_folder(dataset.videos)}"
        missing.append((("datasets", name, "videos"), text))
    return missing


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


def _missing_of_backends(config: Config) -> list[Problem]:
    missing: list[Problem] = []
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
    return missing
