"""The things that registries list: this package's, one file each, and those that other installed packages bring.

Another package brings a thing by an entry point of a group, whose name is the thing's; the groups are
`perturbations.suites`, `.datasets`, `.methods`, `.backbones`, `.models` and `.exports`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from perturbations.base.errors import RegistryError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_Thing = TypeVar("_Thing")


def in_package(package: str, *names: str) -> dict[str, str]:
    """Name -> module, of the files of a package."""
    return {name: f"{package}.{name}" for name in names}


def load(group: str, name: str, own: Mapping[str, str], constant: str, kind: type[_Thing]) -> _Thing | None:
    """The thing called `name`, which alone is imported: what its module in `own` declares, or its entry point names.

    None where there is none. Raises `RegistryError` where an entry point names something else than a `kind`.
    """
    if name in own:
        declared = getattr(import_module(own[name]), constant)
    elif name in _brought(group):
        declared = _brought(group)[name].load()
    else:
        return None
    if not isinstance(declared, kind) or getattr(declared, "name", name) != name:
        raise RegistryError(f"{name!r} of {group} must be a {kind.__name__} of that name, not {str(declared)[:200]}")
    return declared


def load_all(group: str, own: Mapping[str, str], constant: str, kind: type[_Thing]) -> dict[str, _Thing]:
    """Every thing by its name, those of this package first."""
    loaded = {name: load(group, name, own, constant, kind) for name in (*own, *sorted(_brought(group)))}
    return {name: thing for name, thing in loaded.items() if thing is not None}


@cache
def _brought(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}
