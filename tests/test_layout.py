"""Paths of a run: one table, read in both directions, and spelled nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_what_no_run_writes_has_no_place() -> None:
    for path in ("work", "manifests/../x/sources.parquet", "corpora/d/s/p/0", "elsewhere/d/sources.parquet", ""):
        assert layout.place_of(path) is None


SPELLED = re.compile(r"""["'](work|manifests|corpora)/[^"']*\{""")
FILES = [
    *PROJECT.glob("perturbations/**/*.py"),
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_no_other_file_spells_such_a_path(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    declares = path.name == "layout.py" or any("ManifestFile(" in line for line in lines)
    assert declares or not [line for line in lines if SPELLED.search(line)]
