"""What the wing `store` brings to the spine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base.wings import Wing
from perturbations.store.layout import PLACES

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands


def _fetch(commands: Commands) -> None:
    from perturbations.store import commands as declared

    declared.add_fetch(commands)


def _jobs(commands: Commands) -> None:
    from perturbations.store import commands as declared

    declared.add_pack_clips(commands)


def _pack(part: Path, files: Iterable[str | None]) -> None:
    from perturbations.store import packs

    packs.write_beside(part, files)


def _unpack() -> None:
    from perturbations.store import packs

    packs.unpack_brought()


WING = Wing(
    summary="runs in an object store",
    rules=("store_common", "store"),
    files=("docs/how-to/object-store.md",),
    places=PLACES,
    commands={"use what a run made": {"fetch": _fetch}},
    declare_jobs=_jobs,
    pack=_pack,
    unpack=_unpack,
)
