"""What several jobs share: the metadata of manifests, and the check of how many items failed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from perturbations import __version__
from perturbations.base import shown, storage
from perturbations.base.errors import ManifestError


def provenance(path: Path) -> dict[str, object]:
    """The metadata of every manifest: the root of its paths, and the versions that made it."""
    from perturbations.manifest import provenance as machine  # loads PyAV, which not every job needs

    return {
        "root": _root_from(path.parent),
        "package_version": __version__,
        "tools": machine.tool_versions(),
        "cpu_features": machine.cpu_features(),
    }


def _root_from(folder: Path) -> str:
    """The working directory, in which paths begin, relative to a manifest's folder.

    Counted in the folder's name, because `manifests` may be a link to another disk.
    """
    for level, above in enumerate([folder, *folder.parents]):
        if os.path.exists(above) and os.path.samefile(above, os.curdir):
            return "/".join([".."] * level) or "."
    return os.path.relpath(Path().resolve(), folder.resolve())


def check_failures(
    failures: Sequence[tuple[str, str | None]],
    allowed: int,
    noun: str,
    what: str,
    ways: str,
    listed: Path,
    output: Path,
) -> None:
    """Write a line that counts `failures` (names and reasons). `what` is their predicate, such as "cannot be used".

    Raises `ManifestError` for more than `allowed`.
    """
    if len(failures) > allowed:
        lines = shown.first_of([f"{name!r}: {reason}" for name, reason in failures], 20)
        raise ManifestError(
            f"{shown.plural(len(failures), noun)} {what}, and max_failed_items is {allowed:,}. {ways} or raise "
            f"max_failed_items in config.yaml. Full list: {listed}" + "".join(f"\n  {line}" for line in lines)
        )
    storage.write_text(output, f"{len(failures)} quarantined, {allowed} allowed\n")
