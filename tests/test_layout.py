"""Paths of a run: one table, read in both directions, and spelled nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from looping import each

from perturbations.manifest import layout

PROJECT = Path(__file__).parents[1]
VALUES = {
    "dataset": st.sampled_from(["msrvtt", "d1", "youcook2/whole", "demo_families/composed"]),
    "perturbation": st.sampled_from(["fog", "H264", "back_trans"]),
    "severity": st.integers(1, 7).map(str),
    "shard": st.from_regex("s[0-9a-f]{1,12}", fullmatch=True),
    "job": st.sampled_from(["report", "msrvtt/sources", "demo/mlvp/fog/3/s0"]),
    "kind": st.sampled_from(["evaluation", "adaptation"]),
    "model": st.sampled_from(["clip4clip-demo-qs", "xpool-b.32-1"]),
}
NAME = st.from_regex("[a-z][a-z0-9_]{0,8}", fullmatch=True)


@given(st.data())
def test_a_path_gives_its_place_back(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(layout.patterns())))
    names = re.findall(r"\{(\w+)\}", layout.pattern(kind))
    place = layout.Place(kind, {name: data.draw(VALUES.get(name, NAME)) for name in names})
    path = layout.path_of(place)
    back = layout.place_of(path)
    assert back is not None
    assert layout.path_of(back) == path
    own, other = layout.pattern(kind), layout.pattern(back.kind)
    assert back == place or (other.count("{"), -len(other)) < (len(names), -len(own))  # another kind reserves the name


def test_what_no_run_writes_has_no_place_and_reserved_names_follow_from_the_paths() -> None:
    for path in ("work", "manifests/../x/sources.parquet", "corpora/d/s/p/0", "elsewhere/d/sources.parquet", ""):
        assert layout.place_of(path) is None
    assert (
        {"manifests", "logs", "benchmarks"} <= layout.reserved() <= {"manifests", "logs", "benchmarks", "demo_encoder"}
    )


# --- no other file spells a path --------------------------------------------------------------------------------------

PARTS = {part for path in layout.patterns().values() for part in path.split("/")}
NAMES = {part for part in PARTS if "{" not in part}
ENDINGS = tuple({part.rpartition("}")[2] for part in PARTS if "{" in part} - {""})
STEMS = {name.partition(".")[0] for name in NAMES if "." in name}
OF_RUNS = tuple(Path(layout.pattern(kind)).suffix for kind in ("video_part", "shard_list", "clip_tar", "benchmark"))
"""Endings by which files of a run are looked for; the others are also those of files of users and models."""
CALLS = {"Path", "PurePath", "PurePosixPath", "glob", "joinpath", "relative_to", "rglob", "with_name"}


def spelled(source: str, *, elsewhere: bool = False) -> list[str]:
    """The names of files and folders of the layout that a module spells, with their lines.

    What holds a blank is a message to people. A word such as `captions` or `work` is a folder only where it is part of
    a path: beside `/`, in a text with slashes that has values or begins with a top folder, or compared with others, or
    with a part of a path. An ending names a file after a value (`{shard}.parquet`), where it is put on or compared, and
    after a star where only runs write such files (`*.jsonl`); but where files are read or written `elsewhere`, as
    exports do, it names those of other programs.
    """
    tree = ast.parse(source)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return [
        f"{node.lineno}: {text}"
        for node in ast.walk(tree)
        if (text := _text(node)) and not re.search(r"\s", text) and not _is_declared(node, above)
        if _names_a_file(text, node, above[node], elsewhere=elsewhere)
    ]


def _text(node: ast.AST) -> str:
    """A literal, with `{}` for each value in it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) or "{}" for value in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_declared(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether it is a manifest's declared path, or a part of a text that is looked at whole."""
    if isinstance(above[node], ast.JoinedStr):
        return True
    while node in above:
        node = above[node]
        if isinstance(node, ast.Call) and _called(node) == "ManifestFile":
            return True
    return False


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def _names_a_file(text: str, node: ast.AST, parent: ast.AST, *, elsewhere: bool) -> bool:
    parts = set(text.split("/"))
    in_path = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div)
    in_path |= isinstance(parent, ast.Call) and node in parent.args and _called(parent) in CALLS
    is_path = in_path or isinstance(node, ast.JoinedStr) or text.partition("/")[0] in layout.TOP
    if {part for part in parts & NAMES if "." in part} or (is_path and len(parts) > 1 and parts & NAMES):
        return True
    if in_path and text in NAMES:
        return True
    if text in layout.TOP:
        return isinstance(parent, ast.Compare | ast.Tuple | ast.List | ast.Set | ast.Assign)
    if compared := _compared(node, parent) & {"name", "stem", "suffix"}:
        return text in OF_RUNS and not elsewhere if compared == {"suffix"} else text in STEMS | NAMES
    if elsewhere:
        return False
    if isinstance(parent, ast.Call) and _called(parent) == "with_suffix":
        return text.startswith(".") and text not in _OF_USERS
    if isinstance(parent, ast.Call) and _called(parent) in ("glob", "rglob"):
        return text.endswith(tuple("*" + ending for ending in OF_RUNS))
    return text.endswith(tuple("{}" + ending for ending in ENDINGS))


_OF_USERS = {".csv"}
"""Files of users that lie beside others of theirs: the ids of features, as EgoCVR's code has them."""


def _compared(node: ast.AST, parent: ast.AST) -> set[str]:
    """The parts of paths (`path.suffix`) that a text is compared with, also by how they begin or end."""
    if isinstance(parent, ast.Compare):
        with_it = [parent.left, *parent.comparators]
    elif isinstance(parent, ast.Call) and _called(parent) in ("startswith", "endswith") and node in parent.args:
        assert isinstance(parent.func, ast.Attribute)
        with_it = [parent.func.value]
    else:
        return set()
    return {other.attr for other in with_it if isinstance(other, ast.Attribute)}


@each(
    ("code", "is_spelled"),
    [
        ('folder / "captions"', True),
        ('Path("work")', True),
        ('parts[0] == "manifests"', True),
        ('TOP = ("work", "corpora")', True),
        ('f"{root}/manifests/{name}"', True),
        ('folder / f"{shard}.jsonl"', True),
        ('part.with_suffix(".jsonl")', True),
        ('name = "videos.parquet"', True),
        ('"work/logs/"', True),
        ('files["captions"]', False),
        ('offers = {"work": 1}', False),
        ('folder.rglob("*.parquet")', True),
        ('folder.glob("**/*.tar")', True),
        ('path.suffix == ".parquet"', True),
        ('path.suffix == ".txt"', False),
        ('path.stem == "captions_quarantine"', True),
        ('path.stem.startswith("captions")', True),
        ('journal.with_suffix(".lock")', True),
        ('path.with_suffix("")', False),
        ('folder.glob("*.safetensors")', False),
        ('f"{path} has no captions.parquet"', False),
        ('ManifestFile(path="manifests/{dataset}/sources.parquet")', False),
    ],
)
def test_a_spelled_name_is_found(code: str, is_spelled: bool) -> None:
    assert bool(spelled(code)) == is_spelled
