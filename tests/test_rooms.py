"""The package as a house: rooms on floors, and imports that only go down."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import rooms

import perturbations
from perturbations.base import wings

PACKAGE = Path(perturbations.__file__).parent

# From the ground up. What stands on one line does not know of each other either.
FLOORS = [
    ["base"],
    ["video", "text", "analysis", "retrieval", "tta"],
    ["suites"],
    ["models", "media", "manifest"],
    ["datasets", "guides"],
    ["config"],
    ["plan"],
    ["engine", "captions"],
    ["verify"],
    ["api"],
    ["__init__"],
    ["exports"],
    ["cli"],
    [*wings.wings()],
    ["__main__"],
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# What kernels may import beside the standard library: they are pure functions on arrays and strings.
KERNELS = {
    "video": {"numpy", "cv2"},
    "text": {"numpy", "lemminflect"},
    "analysis": {"numpy", "cv2", "pyarrow"},
    "retrieval": {"numpy"},
    "tta": {"numpy", "cv2", "torch"},
}
# Snakemake imports these at every start, and of the wings what plans.
LIGHT = ["base", "suites", "datasets", "config", "plan", "guides"]
PLANNING = ("wing.py", "section.py", "planning.py", "paths.py", "rows.py", "sizes.py", "model_files.py")

FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def room_of(module: str) -> str:
    """The room of `perturbations.room.module`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(path: Path, *, at_once: bool = False) -> set[str]:
    """The modules that a file imports, less the standard library; `at_once`: outside of functions only."""
    tree = _tree(path)
    names: set[str] = set()
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names.update(_named(node))
    return {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse((PACKAGE / path).read_text(encoding="utf-8"))


def _named(node: ast.ImportFrom) -> set[str]:
    """`from perturbations import base` imports perturbations.base, `from perturbations import __version__` not."""
    module = node.module or ""
    if module != "perturbations":
        return {module}
    return {f"{module}.{alias.name}" if alias.name in FLOOR_OF else module for alias in node.names}


def test_imports_go_down_only() -> None:
    wrong = []
    for path in FILES:
        room = path.parts[0].removesuffix(".py")
        ours = {room_of(name) for name in imported(path) if name.split(".")[0] == "perturbations"} - {room}
        ours -= {*wings.wings()[room].needs} if room in wings.wings() else set()
        not_below = sorted(other for other in ours if FLOOR_OF[other] >= FLOOR_OF[room])
        wrong += [f"{path}: `{room}` imports {not_below}, which are not below it"] if not_below else []
    assert not wrong, "\n".join(wrong)


def test_kernels_import_arrays_and_nothing_of_ours() -> None:
    wrong = []
    for path in (path for path in FILES if path.parts[0] in KERNELS):
        room = path.parts[0]
        # A shelf among the kernels finds its files by `shelf`.
        ours = (
            f"perturbations.{room}",
            *(f"perturbations.base.{name}" for name in ("errors", "arrays", "shelf", "bounds")),
        )
        names = {name for name in imported(path) if not name.startswith(ours) and name != "perturbations.base"}
        wrong += [f"{path}: imports {name}" for name in names if name.split(".")[0] not in KERNELS[room]]
    assert not wrong, "\n".join(wrong)


_HEAVY = {Path("base", f"{name}.py") for name in ("arrays", "rng", "progress")}
LIGHT_FILES = [
    path
    for path in FILES
    if (path.parts[0] in LIGHT and path not in _HEAVY)
    or path.is_relative_to("tta/methods")
    or path == Path("tta/__init__.py")
    or (path.parts[0] in wings.wings() and len(path.parts) == 2 and path.name in PLANNING)
]


def test_heavy_libraries_are_imported_when_used() -> None:
    allowed = {"perturbations", "pydantic", "yaml"}
    heavy = [
        f"{path}: imports {name} outside of a function"
        for path in LIGHT_FILES
        for name in imported(path, at_once=True)
        if name.split(".")[0] not in allowed
    ]
    assert not heavy, "\n".join(heavy)


def test_every_room_is_on_a_floor() -> None:
    rooms = {path.parts[0].removesuffix(".py") for path in FILES}
    assert rooms <= set(FLOOR_OF)


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports in functions and those for types alone count too."""
    modules = {".".join(("perturbations", *path.with_suffix("").parts)).removesuffix(".__init__") for path in FILES}
    graph = {}
    for path in FILES:
        module = ".".join(("perturbations", *path.with_suffix("").parts)).removesuffix(".__init__")
        nodes = [node for node in ast.walk(_tree(path)) if isinstance(node, ast.ImportFrom) and node.module]
        names = {(f"{node.module}.{alias.name}", node.module) for node in nodes for alias in node.names}
        graph[module] = {full if full in modules else base for full, base in names} & modules - {module}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names them


_OWN_WORDS = {"status"}
"""Names of wings that are also words of the spine: a column of rows."""
_OWN_PLACES = {("manifest/layout.py", "composed"), ("plan/targets.py", "demo")}
"""The folder of a dataset's instructions below its own, and the dataset of the default target in `config.yaml`."""


def test_the_spine_names_no_wing() -> None:
    """No module outside of wings imports one, has an attribute of its name, or a literal with it as a whole part.

    Parts of a literal are what `/` and `.` separate: of a path, a module's name, a key. Docstrings do not count.
    """
    wrong = []
    names = {*wings.wings()} - _OWN_WORDS
    for path in (path for path in FILES if path.parts[0] not in wings.wings()):
        texts = {id(node.value) for node in ast.walk(_tree(path)) if isinstance(node, ast.Expr)}
        for node in ast.walk(_tree(path)):
            parts: set[str] = set()
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
                parts = {*re.split("[/.]", node.value)}
            elif isinstance(node, ast.Attribute):
                parts = {node.attr}
            elif isinstance(node, ast.ImportFrom):
                parts = {f"{node.module}.{alias.name}".split(".")[1] for alias in node.names}
            named = {name for name in parts & names if (path.as_posix(), name) not in _OWN_PLACES}
            wrong += [f"{path}: {ast.unparse(node)[:80]}" for name in named]
    assert not wrong, "\n".join(wrong)


def test_the_house_stays_within_its_budget() -> None:
    graph = rooms.imports()
    assert len(graph) <= 28
    assert max(rooms.floors(graph).values()) < 12
    assert sum(map(len, graph.values())) <= 160


def _at_once(path: Path) -> set[Path]:
    """The files of the package that a file imports outside of functions, with their packages."""
    names = {
        f"{node.module}.{alias.name}"
        for node in _tree(path).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    } | imported(path, at_once=True)
    places = {Path(*name.split(".")[1:]) for name in names if name.startswith("perturbations.")}
    ours = {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")}
    packages = {parent / "__init__.py" for file in ours for parent in file.parents}
    return (ours | packages) & {*FILES}


def test_what_wings_declare_does_not_import_the_shelf_of_kinds() -> None:
    """The shelf imports it in turn: modules then could not be imported in any order."""
    waiting = [path for path in FILES if path.parts[0] in wings.wings() and path.name in ("wing.py", "rows.py")]
    reached = {path: path for path in waiting}
    while waiting:
        path = waiting.pop()
        following = _at_once(path) - {*reached}
        reached |= dict.fromkeys(following, path)
        waiting += following
    shelf = Path("manifest", "kinds", "__init__.py")
    assert shelf in FILES
    assert shelf not in reached, f"{reached[shelf]} imports {shelf} outside of a function"


@pytest.mark.parametrize("job", ["engine/shards.py", "captions/caption_rows.py"])
def test_jobs_do_not_build_the_configuration(job: str) -> None:
    """Its sections take a third of the time in which a job starts, and a job reads its recipe instead."""
    waiting, reached = [Path(job)], {Path(job)}
    while waiting:
        following = _at_once(waiting.pop()) - reached
        reached |= following
        waiting += following
    assert Path("plan", "recipe.py") in reached
    assert Path("config", "sections.py") not in reached
