"""Shelves: packages that hold many things of one kind, one file per thing. Standard library only.

To add a thing is to add a file that declares it; nothing else is edited.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Mapping
from typing import Protocol, TypeVar

from perturbations.base import features
from perturbations.base.errors import ShelfError

_Thing = TypeVar("_Thing")

_REGISTRY = "registry"
"""The module of a shelf that says what its things are, and looks them up."""


def things(package: str, constant: str, kind: type[_Thing], beside: Collection[str] = ()) -> dict[str, _Thing]:
    """File name -> what the file declares, for each file of a shelf, sorted.

    `package` is the shelf's full name. Every file but `registry.py` and those named in `beside`, which things share,
    must define `constant`, of the type `kind`; and so must the modules that features put on the shelf.
    Raises `ShelfError` naming the file that does not.
    """
    modules = _modules(package, beside)
    return {name: _declared(package, path, constant, kind) for name, path in sorted(modules.items())}


def thing(package: str, constant: str, kind: type[_Thing], beside: Collection[str], name: str) -> _Thing | None:
    """What the file `name` declares, which alone is imported; None where no file has that name."""
    path = _modules(package, beside).get(name)
    return None if path is None else _declared(package, path, constant, kind)


def _modules(package: str, beside: Collection[str]) -> dict[str, str]:
    """File name -> module, of all things of a shelf."""
    shelf = importlib.import_module(package)
    no_things = {_REGISTRY, *beside}
    names = (module.name for module in pkgutil.iter_modules(shelf.__path__) if module.name not in no_things)
    return {name: f"{package}.{name}" for name in names} | features.on_shelf(package)


def _declared(package: str, path: str, constant: str, kind: type[_Thing]) -> _Thing:
    module = importlib.import_module(path)
    declared = getattr(module, constant, None)
    if not isinstance(declared, kind):
        raise ShelfError(f"{module.__file__} is on the shelf {package}, and must define {constant}: a {kind.__name__}")
    return declared


class _Named(Protocol):
    """A thing with a name."""

    @property
    def name(self) -> str: ...


_NamedThing = TypeVar("_NamedThing", bound=_Named)


def named(what: str, declared: Mapping[str, _NamedThing]) -> dict[str, _NamedThing]:
    """What files declare, by its own name. Raises `ShelfError` where two things have one name."""
    by_name: dict[str, _NamedThing] = {}
    for file, thing in declared.items():
        if thing.name in by_name:
            raise ShelfError(f"two {what}s are called {thing.name!r}; one of them in {file}.py")
        by_name[thing.name] = thing
    return by_name


class _Placed(_Named, Protocol):
    """A thing with a name, and with a title and a place in tables."""

    @property
    def title(self) -> str: ...

    @property
    def place(self) -> int: ...


_PlacedThing = TypeVar("_PlacedThing", bound=_Placed)


def in_order(package: str, what: str, declared: Mapping[str, _PlacedThing]) -> dict[str, _PlacedThing]:
    """What files declare, by its own name, in the order of tables.

    Raises `ShelfError` where a file and its thing have two names, or two things have one title.
    """
    for file, thing in declared.items():
        if thing.name != file:
            raise ShelfError(f"{package}.{file} declares the {what} {thing.name!r}; give both one name")
    ordered = sorted(declared.values(), key=lambda thing: (thing.place, thing.name))
    titles = [thing.title for thing in ordered]
    if repeated := sorted({title for title in titles if titles.count(title) > 1}):
        raise ShelfError(f"two {what}s of {package} have the title {repeated[0]!r}; give one of them another")
    return {thing.name: thing for thing in ordered}
