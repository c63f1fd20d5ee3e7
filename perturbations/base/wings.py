"""Wings: packages that hold all of one feature, and hang on the spine. Standard library only.

A wing is a package below `perturbations` with a file `wing.py` that declares `WING`. The spine reaches it only through
this registry, by name and at run time: a wing that is not there adds no key to `config.yaml`, no target, no rule, no
command and no kind of manifest, and nothing else misses it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Wing:
    """What a wing brings. Names of code are `module:name`, below the wing's package; nothing is imported before use.

    Attributes:
        summary: what it is for.
        needs: the wings whose public functions it uses; without them it is not there either.
        section: the type of its section of `config.yaml`, whose key is the wing's name.
        problems: a function of the configuration: what is wrong with the section that types do not show.
        rows: its kinds of manifests, a sequence of `Kind`.
        commands: title of a section of `perturb --help` -> name of a command -> the module that declares it.
        jobs: the modules that declare commands of rules.
        targets: a function (config, plans, caption shards) that gives its targets of Snakemake.
        rules: its files of `workflow/rules`, without ending.
        offers: what the spine may ask for, by name: functions or values.
        files: the files outside of its package that belong to it, relative to the repository: shelf files, docs.
    """

    summary: str
    needs: tuple[str, ...] = ()
    section: str = ""
    problems: str = ""
    rows: str = ""
    commands: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()
    targets: str = ""
    rules: tuple[str, ...] = ()
    offers: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()


@cache
def wings() -> dict[str, Wing]:
    """Every wing that is there, by its package's name."""
    names = sorted(path.parent.name for path in _PACKAGE.glob("*/wing.py"))
    there: dict[str, Wing] = {name: importlib.import_module(f"perturbations.{name}.wing").WING for name in names}
    while lacking := [name for name, wing in there.items() if not there.keys() >= {*wing.needs}]:
        for name in lacking:
            del there[name]
    return there


def load(name: str, code: str) -> Any:
    """What `code`, a `module` or `module:name` of the wing `name`, stands for."""
    module, _, member = code.partition(":")
    loaded = importlib.import_module(f"perturbations.{name}.{module}")
    return getattr(loaded, member) if member else loaded


def loaded(attribute: str) -> dict[str, Any]:
    """One attribute of every wing that has it: what the name there stands for."""
    declared = {name: getattr(wing, attribute) for name, wing in wings().items()}
    return {name: load(name, code) for name, code in declared.items() if code}


def offered(what: str) -> list[Any]:
    """What the wings offer under a name."""
    return [load(name, wing.offers[what]) for name, wing in wings().items() if what in wing.offers]


def rules() -> list[str]:
    """The files of all wings' rules, without ending."""
    return [file for wing in wings().values() for file in wing.rules]
