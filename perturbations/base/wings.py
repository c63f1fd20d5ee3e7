"""Wings: packages that hold all of one feature, and hang on the spine. Standard library only.

A wing is a package below `perturbations` with a file `wing.py` that declares `WING`. The spine reaches it only through
this registry: a wing that is not there adds no key to `config.yaml`, no target, no rule, no command and no kind of
manifest, and nothing else misses it.

`Wing` has what is said in types of this room. What a room above asks for in its own types, it declares as fields of a
record that extends the one below: `ManifestWing` (`manifest.kind`), `ConfigWing` and `PlanWing` (the `extension` of
their rooms). A wing takes the lowest that has the fields it fills, and leaves out what it does not bring. Its functions
import what they call, so that nothing is loaded before it is used.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, TypeAlias, TypeVar

if TYPE_CHECKING:
    from perturbations.base.settings import Strict

_PACKAGE = Path(__file__).parents[1]

Declare: TypeAlias = "Callable[[argparse._SubParsersAction[Any]], object]"
"""Declares commands of `perturb`."""

ShelfLines = Callable[[], list[tuple[str, dict[str, object]]]]
"""The line of each thing of a shelf for `perturb list`, and the same as JSON."""

ShelfDetails = Callable[[str | None], list[tuple[str, dict[str, object]]]]
"""The same of the details of one thing of a shelf, or of all: lines that may be wrapped."""


def nothing(*_: object) -> tuple[Never, ...]:
    """What a function gives that a wing leaves out."""
    return ()


def _same(raw: object) -> object:
    return raw


@dataclass(frozen=True, kw_only=True)
class Wing:
    """What a wing brings.

    Attributes:
        summary: what it is for.
        needs: the wings whose public functions it uses; without them it is not there either.
        files: the files outside of its package that belong to it, relative to the repository.
        things: the shelf's full name -> the names of its things there -> its modules that declare them.
        places: its kinds of files -> their paths with fields in braces, for `manifest.layout`.
        fields: the fields of these paths that are no plain names -> what they may hold, as a regular expression.
        corpus_files: those of its kinds of files that lie beside each corpus's manifests.
        caption_files: those that lie beside each manifest of perturbed captions.
        section: the type of its section of `config.yaml`, whose key is the wing's name.
        complete: the raw configuration with what its section implies for others.
        commands: title of a section of `perturb --help` -> name of a command -> what declares it.
        shelves: names of shelves that `perturb list` prints.
        cells: names of those of them that have published cells, for `perturb list SHELF NAME --cells`.
        work: lines that say what a run does, given one name of a rule per job.
        encoder: the kind of its file that is a small dual encoder's folder, for evaluations that name no model.
        score: the command `perturb score` for composed queries.
    """

    summary: str
    needs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    things: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    corpus_files: tuple[str, ...] = ()
    caption_files: tuple[str, ...] = ()
    section: Callable[[], type[Strict]] | None = None
    complete: Callable[[object], object] = _same
    commands: Mapping[str, Mapping[str, Declare]] = field(default_factory=dict)
    shelves: Mapping[str, ShelfLines] = field(default_factory=dict)
    cells: Mapping[str, ShelfDetails] = field(default_factory=dict)
    work: Callable[[Collection[str]], Iterable[str]] = nothing
    encoder: str | None = None
    score: Callable[[argparse.Namespace], int] | None = None


_WingT = TypeVar("_WingT", bound=Wing)
_FunctionT = TypeVar("_FunctionT")


@cache
def wings() -> dict[str, Wing]:
    """Every wing that is there, by its package's name."""
    names = sorted(path.parent.name for path in _PACKAGE.glob("*/wing.py"))
    there: dict[str, Wing] = {name: importlib.import_module(f"perturbations.{name}.wing").WING for name in names}
    while lacking := [name for name, wing in there.items() if not there.keys() >= {*wing.needs}]:
        for name in lacking:
            del there[name]
    return there


def of(kind: type[_WingT]) -> list[_WingT]:
    """The wings that have the fields of a room's record."""
    return [wing for wing in wings().values() if isinstance(wing, kind)]


def only(functions: Iterable[_FunctionT | None]) -> _FunctionT | None:
    """Of a field of all wings that at most one of them fills: what that one brings."""
    return next((function for function in functions if function is not None), None)


def sections() -> dict[str, type[Strict]]:
    """The type of each wing's section of `config.yaml`."""
    return {name: wing.section() for name, wing in wings().items() if wing.section is not None}


def on_shelf(package: str) -> dict[str, str]:
    """The names of things that wings put on a shelf -> their modules."""
    return {
        thing: f"perturbations.{name}.{module}"
        for name, wing in wings().items()
        for thing, module in wing.things.get(package, {}).items()
    }
