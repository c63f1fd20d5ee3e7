"""The things that registries list: this package's, one file each, those of other installed packages, and the user's.

Another package brings a thing by an entry point of a group, whose name is the thing's; the groups are
`perturbations.suites`, `.datasets`, `.methods`, `.backbones`, `.models` and `.exports`. A user's file, which the key
`plugins` of `config.yaml` names, brings what it declares under a registry's constant: `SUITE`, `ADAPTER`, `METHOD`, ...
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from perturbations.base import storage
from perturbations.base.errors import ConfigError, RegistryError, first_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_Thing = TypeVar("_Thing")
_P = ParamSpec("_P")
_R = TypeVar("_R")

PLUGINS = Path("work/plugins.json")
"""The user's files, as planning has them, for jobs alone: a command runs no code that it finds in a folder."""

_caches: list[Callable[[], None]] = []
_plugins: dict[Path, ModuleType] = {}


def cached(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`functools.cache` of a registry's function, forgotten when a user's file is loaded."""
    kept = cache(function)
    _caches.append(kept.cache_clear)

    @wraps(function)
    def call(*args: _P.args, **named: _P.kwargs) -> _R:
        return kept(*args, **named)  # type: ignore[arg-type]

    return call


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
        return _of_plugins(constant, kind).get(name)
    if not isinstance(declared, kind) or getattr(declared, "name", name) != name:
        raise RegistryError(f"{name!r} of {group} must be a {kind.__name__} of that name, not {str(declared)[:200]}")
    return declared


def load_all(group: str, own: Mapping[str, str], constant: str, kind: type[_Thing]) -> dict[str, _Thing]:
    """Every thing by its name, those of this package first.

    Raises `RegistryError` where a user's file declares one of a name that another has.
    """
    loaded = {name: load(group, name, own, constant, kind) for name in (*own, *sorted(_brought(group)))}
    known = {name: thing for name, thing in loaded.items() if thing is not None}
    for name, thing in _of_plugins(constant, kind).items():
        if name in known:
            raise RegistryError(f"a file of `plugins` declares {name!r}, which there is already: give it another name")
        known[name] = thing
    return known


def code_of(group: str, name: str, own: Mapping[str, str], constant: str) -> str | None:
    """The SHA-256 of the file that declares a thing from outside; None of this package's, which have versions."""
    if name in own:
        return None
    for path, module in _plugins.items():
        if getattr(getattr(module, constant, None), "name", None) == name:
            return _sha256(path)
    if name in _brought(group):
        file = sys.modules[_brought(group)[name].module].__file__ if load(group, name, own, constant, object) else None
        return _sha256(Path(file)) if file else None
    return None


def use(paths: Iterable[Path]) -> None:
    """Load the user's files, and forget what registries listed before. Raises `ConfigError`."""
    for path in paths:
        if path.resolve() in _plugins:
            continue
        if not path.is_file():
            raise ConfigError(f"{path}: {'a directory, and no file' if path.is_dir() else 'no such file'}")
        name = f"perturbations_plugin_{_sha256(path.resolve())[:16]}"
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"{path}: this is no file of Python: its name must end in .py")
        module = sys.modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            inside = [frame for frame in extract_tb(error.__traceback__) if frame.filename == spec.origin]
            line = error.lineno if isinstance(error, SyntaxError) else inside[-1].lineno if inside else None
            words = error.msg if isinstance(error, SyntaxError) else first_line(error)
            where = f"{path}, line {line}" if line else str(path)
            raise ConfigError(f"{where}: {type(error).__name__}: {words}") from error
        _plugins[path.resolve()] = module
    for forget in (_brought.cache_clear, *_caches):
        forget()


def record(paths: Iterable[Path], place: Path = Path()) -> None:
    """Let jobs that work in `place` find the user's files. Raises `OutputError`."""
    text = json.dumps([str(path.resolve()) for path in paths])
    file = place / PLUGINS
    if text == "[]" and not os.path.lexists(file):  # not touched: the place may be a disk that is only read
        return
    if not file.is_file() or file.read_text() != text:
        storage.write_text(file, text)


def use_recorded() -> None:
    """Load the user's files that planning recorded in the working directory."""
    if PLUGINS.is_file():
        use(map(Path, json.loads(PLUGINS.read_text())))


def _of_plugins(constant: str, kind: type[_Thing]) -> dict[str, _Thing]:
    things = {}
    for path, module in _plugins.items():
        declared = getattr(module, constant, None)
        if declared is None:
            continue
        if not isinstance(declared, kind):
            raise RegistryError(f"{constant} of {path} must be a {kind.__name__}, not {str(declared)[:200]}")
        name = str(getattr(declared, "name", path.stem))
        if name in things:
            raise RegistryError(f"two files of `plugins` declare {name!r}: give one of them another name")
        things[name] = declared
    return things


@cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _brought(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}
