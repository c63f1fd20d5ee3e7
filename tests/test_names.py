"""One name stands for one thing in the whole package: types, and modules but for those of one role."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import perturbations
from perturbations.base import wings

PACKAGE = Path(perturbations.__file__).parent
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))

# What each wing may have, and what the spine has one of: a file of one role. A registry stands on each shelf.
ROLES = {"command", "commands", "jobs", "layout", "paths", "planning", "rows", "runner", "section"}
ROLES |= {"extension", "readiness", "registry", "wing"}
# Files here are named by the thing that they declare, which has a kernel, a suite or a page of the same name.
SHELVES = {
    "datasets",
    "exports",
    "guides",
    "manifest/kinds",
    "suites",
    "evaluation/backbones",
    "evaluation/protocols",
    "tta/methods",
}


def types(path: Path) -> list[str]:
    """The public classes and type aliases that a file defines."""
    names = []
    for node in ast.parse((PACKAGE / path).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [name.id for name in assigned if isinstance(name, ast.Name) and not name.id.isupper()]
    return [name for name in names if name[0].isupper()]


def several(places: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: where for name, where in places.items() if len(where) > 1}


def test_a_type_s_name_stands_for_one_type() -> None:
    places = defaultdict(list)
    for path in FILES:
        for name in types(path):
            places[name].append(path.as_posix())
    assert len(places) > 200
    assert several(places) == {}


def test_a_module_s_name_stands_for_one_module() -> None:
    places = defaultdict(list)
    for path in FILES:
        if path.stem not in ROLES | {"__init__"} and path.parent.as_posix() not in SHELVES:
            places[path.stem].append(path.as_posix())
    assert len(places) > 150
    assert several(places) == {}


# Words of telling and doing, where a noun says what the value is.
NO_NAMES = {"asked", "found", "made", "one", "said", "told"}


def defined(tree: ast.AST) -> Iterator[str]:
    """The names that a file gives to values, parameters, functions and classes, without underscores at their ends."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.strip("_")
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr.strip("_")
        elif isinstance(node, ast.arg):
            yield node.arg.strip("_")
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name.strip("_")


def test_names_are_nouns() -> None:
    root = PACKAGE.parent
    files = [path for room in ("perturbations", "tests", "benchmarks", "docs") for path in (root / room).rglob("*.py")]
    names = {path.relative_to(root): {*defined(ast.parse(path.read_text("utf-8")))} & NO_NAMES for path in files}
    assert len(names) > 400
    assert {path: wrong for path, wrong in names.items() if wrong} == {}


def test_a_role_is_played_once_in_a_room() -> None:
    rooms = {*wings.wings(), "base", "config", "plan", "manifest", *(shelf for shelf in SHELVES), "models"}
    for path in FILES:
        if path.stem in ROLES:
            assert path.parent.as_posix() in rooms, path
