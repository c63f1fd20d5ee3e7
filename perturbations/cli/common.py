"""Functions that several commands share."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations import __version__
from perturbations.base import project
from perturbations.base.errors import ConfigError

if TYPE_CHECKING:
    from perturbations.manifest.kinds import CompleteSource


def complete_sources(path: Path) -> list[CompleteSource]:
    """The complete clips of a manifest of sources."""
    from perturbations.manifest import kinds, sets

    rows = sets.read_part(path, kinds.SOURCES)
    return [row for row in rows if isinstance(row, kinds.CompleteSource)]


def provenance(path: Path) -> dict[str, object]:
    """The metadata of every manifest: the root of its paths, and the versions that made it."""
    from perturbations.manifest import machine

    return {
        "root": _root_from(path.parent),
        "package_version": __version__,
        "tools": machine.tool_versions(),
        "cpu_features": machine.cpu_features(),
    }


def _root_from(folder: Path) -> str:
    """The working directory, in which paths begin, relative to a manifest's folder.

    Counted in the folder's name, because `manifests` may be a link to another disk, and up to the first folder that is
    the working directory, because the name may lead through a link back to it (`plan.workplace`).
    """
    for level, above in enumerate([folder, *folder.parents]):
        if os.path.exists(above) and os.path.samefile(above, os.curdir):
            return "/".join([".."] * level) or "."
    return os.path.relpath(Path().resolve(), folder.resolve())


def need_models() -> None:
    """Prepare for models. Raises `ConfigError` when a library that evaluations need is not installed."""
    missing = [name for name in ("torch", "transformers", "safetensors") if find_spec(name) is None]
    if missing:
        install = project.installation("models")
        raise ConfigError(f"{', '.join(missing)} not installed; evaluations need them: {install}")
