"""Paths of a run: one table."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturbations.manifest import manifest_paths

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
    kind = data.draw(st.sampled_from(sorted(manifest_paths.PATTERNS)))
    names = re.findall(r"\{(\w+)\}", manifest_paths.PATTERNS[kind])
    fields = {name: data.draw(VALUES.get(name, NAME)) for name in names}
    path = manifest_paths.at(kind, **fields)
    place = manifest_paths.place_of(path)
    assert place is not None
    assert manifest_paths.at(place[0], **place[1]) == path
    own, other = manifest_paths.PATTERNS[kind], manifest_paths.PATTERNS[place[0]]
    is_reserved = (other.count("{"), -len(other)) < (len(names), -len(own))  # by another kind
    assert place == (kind, fields) or is_reserved


@pytest.mark.parametrize(
    "path", ["work", "manifests/../x/sources.parquet", "corpora/d/s/p/0", "elsewhere/d/sources.parquet", ""]
)
def test_what_no_run_writes_has_no_place(path: str) -> None:
    assert manifest_paths.place_of(path) is None


def test_no_dataset_takes_the_name_of_a_folder_that_is_made_whole_or_holds_folders() -> None:
    folders = {"manifests"}
    for folder, *rest in (path.split("/")[1:] for path in manifest_paths.PATTERNS.values()):
        fields = [manifest_paths.expression(name) for name in re.findall(r"\{(\w+)\}", "/".join(rest))]
        if re.fullmatch(manifest_paths.NAME, folder) and (
            not rest or any(re.fullmatch(field, "a/b") for field in fields)
        ):
            folders.add(folder)
    assert folders | {"split"} == manifest_paths.RESERVED  # the target composed_split is a rule
