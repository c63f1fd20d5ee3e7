"""One name stands for one thing in the whole package: types, and modules but for those of one role."""

from __future__ import annotations

import ast
from collections import defaultdict
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


def test_a_role_is_played_once_in_a_room() -> None:
    rooms = {*wings.wings(), "base", "config", "plan", "manifest", *(shelf for shelf in SHELVES), "models"}
    for path in FILES:
        if path.stem in ROLES:
            assert path.parent.as_posix() in rooms, path
