"""Features: packages that bring keys of `config.yaml`, targets and kinds of manifests. Standard library only.

Each declares `FEATURE` in its `feature.py`. Its functions import what they call, so that nothing is loaded before it is
used; they take and give types of packages above, which are named in words here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Never, TypeVar

if TYPE_CHECKING:
    from perturbations.base.settings import Strict

_PACKAGES = ("demo", "composed", "evaluation", "report")

MenuLines = Callable[[], list[tuple[str, dict[str, object]]]]
"""The line of each thing of a menu for `perturb list`, and the same as JSON."""

MenuDetails = Callable[[str | None], list[tuple[str, dict[str, object]]]]
"""The same of the details of one thing of a menu, or of all: lines that may be wrapped."""


def nothing(*_: object) -> tuple[Never, ...]:
    """What a function gives that a feature leaves out."""
    return ()


def _same(raw: object) -> object:
    return raw


def later(module: str, name: str) -> Callable[..., Any]:
    """The function `name` of a module, which is imported when it is called."""

    def call(*given: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*given)

    return call


@dataclass(frozen=True, kw_only=True)
class Feature:
    """What a feature brings.

    Attributes:
        summary: what it is for.
        places: its kinds of files -> their paths with fields in braces, for `manifest.layout`.
        fields: the fields of these paths that are no plain names -> what they may hold, as a regular expression.
        kinds: gives the kinds of its manifests (`manifest.kinds.RowKind`).
        corpus_files: those of its kinds of files that lie beside each corpus's manifests.
        caption_files: those that lie beside each manifest of perturbed captions.
        section: the type of its section of `config.yaml`, whose key is the feature's name.
        complete: the raw configuration with what its section implies for others.
        problems: given the configuration, each `config.problems.Problem` of its section that types do not show.
        readiness: what its jobs would miss, a line each, given the configuration, the names of rules whose jobs are to
            run, and whether they run on this machine.
        models: which models these jobs would load, a line each, given the configuration and the names of rules.
        targets: given the configuration, `plan.targets.Plans` and `CaptionShards`, each `Target`.
        instructions: given the configuration, a dataset and a suite, the (perturbation, severity) pairs of the suite
            that the texts of the dataset's composed queries take.
        menus: names of menus that `perturb list` prints.
        cells: names of those of them that have published cells, for `perturb list MENU NAME --cells`.
        encoder: the kind of its file that is a small dual encoder's folder, for evaluations that name no model.
    """

    summary: str
    places: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    kinds: Callable[[], Iterable[Any]] = nothing
    corpus_files: tuple[str, ...] = ()
    caption_files: tuple[str, ...] = ()
    section: Callable[[], type[Strict]] | None = None
    complete: Callable[[object], object] = _same
    problems: Callable[[Any], Iterable[Any]] = nothing
    readiness: Callable[[Any, Collection[str], bool], Iterable[str]] = nothing
    models: Callable[[Any, Collection[str]], Iterable[str]] = nothing
    targets: Callable[[Any, Any, Any], Iterable[Any]] = nothing
    instructions: Callable[[Any, str, str], list[tuple[str, int]]] | None = None
    menus: Mapping[str, MenuLines] = field(default_factory=dict)
    cells: Mapping[str, MenuDetails] = field(default_factory=dict)
    encoder: str | None = None


_FunctionT = TypeVar("_FunctionT")


@cache
def features() -> dict[str, Feature]:
    """Every feature by its package's name; one that uses another comes after it."""
    return {name: importlib.import_module(f"perturbations.{name}.feature").FEATURE for name in _PACKAGES}


def only(functions: Iterable[_FunctionT | None]) -> _FunctionT | None:
    """Of a field of all features that at most one of them fills: what that one brings."""
    return next((function for function in functions if function is not None), None)


def sections() -> dict[str, type[Strict]]:
    """The type of each feature's section of `config.yaml`."""
    return {name: feature.section() for name, feature in features().items() if feature.section is not None}
