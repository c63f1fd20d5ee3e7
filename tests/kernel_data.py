"""What code draws from: the constants, word lists and weights that it names, found by reading it, not by running it."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import perturbations
from perturbations.models import registry as models

PACKAGE = Path(perturbations.__file__).parent
FILES = tuple(sorted(path.relative_to(PACKAGE) for path in PACKAGE.glob("*/data/*")))
ROOMS = ("video", "text", "analysis", "guides", "models", "captions", "composed")
"""The rooms whose code makes pixels and words."""
NO_RESULT = frozenset(
    {
        "analysis.motion._GROUP",
        "captions.pipeline._CHUNK",
        "captions.similarities._KEY_BYTES",
        "captions.similarities._MOST_BYTES",
        "models.nouns._OWN",
        "models.nouns._PROBE",
        "models.text_similarity._BATCH",
        "models.text_translator._LIMIT_S",
        "video.weather._BAND",
    }
)
"""Constants on which no result depends: they bound time or memory, or check what is loaded."""


def data_of(roots: Iterable[Any]) -> dict[str, str]:
    """Name -> SHA-256 of all constants and files that the code below some functions and classes names.

    A constant is called `room.module.NAME`, a file by its path in the package. Messages of errors do not count.
    """
    names = (names for _, names in _walked(roots))
    contents = {name: content for some in names for name, content in some.items() if name not in NO_RESULT}
    return {name: hashlib.sha256(content.encode()).hexdigest() for name, content in contents.items()}


def numbers_in(roots: Iterable[Any]) -> dict[str, list[float]]:
    """Function -> the numbers above 2 that its code has, of all code below some functions."""
    numbers = {}
    for code, _ in _walked(roots):
        values = [getattr(node, "value", None) for node in _nodes(_tree(code))]
        numbers[f"{code.__module__}.{code.__qualname__}"] = [
            value for value in values if isinstance(value, int | float) and value not in (0, 1, 2)
        ]
    return {name: values for name, values in numbers.items() if values}


def _walked(roots: Iterable[Any]) -> Iterator[tuple[Any, dict[str, str]]]:
    """All code below some functions and classes, with the data that it names: name -> content."""
    pending, known = list(roots), set[Any]()
    while pending:
        code = inspect.unwrap(pending.pop())
        if code in known or not _is_walked(code):
            continue
        known.add(code)
        contents = {name: repr(_plain(value_of(name), pending.append)) for name in _names(code)}
        yield code, {name: content for name, content in contents.items() if content != "None"}


def value_of(name: str) -> Any:
    """The constant, function or class of a name in the package, or the text of a file."""
    if "/" in name:
        return _lines(PACKAGE / name)
    module, _, attribute = f"perturbations.{name}".rpartition(".")
    return getattr(sys.modules[module], attribute)


@cache
def _lines(path: Path) -> str:
    """The text of a file of data, without its comments."""
    return "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if line[:2] != "# ")


def _plain(value: Any, code_in: Callable[[Any], object]) -> Any:
    """A value whose text is that of equal values only; None for what is no data. Functions go to `code_in`."""
    if isinstance(value, bool | int | float | str | bytes | range):
        return value
    if isinstance(value, re.Pattern):
        return value.pattern, value.flags
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return sorted((repr(key), repr(_plain(entry, code_in))) for key, entry in value.items())
    if isinstance(value, set | frozenset):
        return sorted(repr(_plain(entry, code_in)) for entry in value)
    if isinstance(value, list | tuple):
        return [_plain(entry, code_in) for entry in value]
    if _is_code(value):
        code_in(value)
    return None


def _is_code(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value))


def _is_walked(code: Any) -> bool:
    package, *inner = str(code.__module__).split(".")
    return package == "perturbations" and inner[0] in ROOMS and inner[-1] != "registry" and code.__name__ != "<lambda>"


@cache
def _names(code: Any) -> frozenset[str]:
    """What a function or a class names of the package: constants and code, models of roles, files of data."""
    module = sys.modules[code.__module__]
    nodes = list(_nodes(_tree(code)))
    imported = _imported(module)
    names = set[tuple[str, str]]()
    for node in nodes:
        if isinstance(node, ast.Name):
            names.add(imported.get(node.id, (module.__name__, node.id)))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add((".".join(imported.get(node.value.id, ("", ""))), node.attr))
        elif isinstance(node, ast.Call):
            names |= {(load.__module__, load.__name__) for load in _loaded(node)}
    in_package = {
        f"{owner}.{name}".removeprefix("perturbations.")
        for owner, name in names
        if owner.startswith("perturbations.") and hasattr(sys.modules.get(owner), name)
    }
    room = module.__name__.split(".")[1]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    files = {path for path in FILES if path.parts[0] == ("text" if room == "models" else room)}
    return frozenset(in_package | {str(path) for path in files if {path.name, path.stem} & texts})


def _tree(code: Any) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(code)))


@cache
def _imported(module: ModuleType) -> dict[str, tuple[str, str]]:
    """Name in a module and its functions -> the module of the package from which it is imported, its name there."""
    names = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("perturbations."):
            for alias in node.names:
                if not hasattr(importlib.import_module(str(node.module)), alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                names[alias.asname or alias.name] = (str(node.module), alias.name)
    return names


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.Raise):
            yield child
            yield from _nodes(child)


def _loaded(call: ast.Call) -> list[Callable[..., object]]:
    """The functions that load the model of a call `load(role, backend)`."""
    role, backend, *_ = (*(getattr(argument, "value", None) for argument in call.args), None, None)
    if not ast.unparse(call.func).endswith("load") or role not in models.roles():
        return []
    return [model.load for name, model in models.roles()[str(role)].items() if name == backend]
