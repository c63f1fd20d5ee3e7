"""Manifests: what is written is read, in one order, with the same bytes, by anyone; damage is named."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturbations import manifest, read_manifest
from perturbations.errors import ManifestError
from perturbations.manifest import CAPTIONS, KINDS, QRELS, QUARANTINE, SOURCES, VIDEOS, Kind, Row

WHOLE = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=12)
VALUES = {
    pa.string(): TEXT,
    pa.int64(): WHOLE,
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False),
    pa.list_(pa.float32()): st.lists(st.floats(allow_nan=False, width=32), max_size=3),
}


@st.composite
def rows_of_a_kind(draw: st.DrawFn) -> tuple[Kind, list[Row]]:
    """Rows with every column now and then, and distinct keys."""
    kind = draw(st.sampled_from(list(KINDS.values())))
    columns = {name: VALUES[kind.schema.field(name).type] for name in kind.schema.names}
    required = {name: values for name, values in columns.items() if name in kind.key[:1]}
    optional = {name: st.none() | values for name, values in columns.items() if name not in required}
    row = st.fixed_dictionaries(required, optional=optional)
    rows = st.lists(row, max_size=8, unique_by=lambda row: tuple(row.get(name) for name in kind.key))
    return kind, draw(rows)


def captions(*ids: str) -> list[Row]:
    return [{"dataset": "d", "caption_id": one, "item_id": f"i-{one}", "text": f"text of {one}"} for one in ids]


def complete(rows: list[Row], kind: Kind) -> list[Row]:
    return [{name: row.get(name) for name in kind.schema.names} for row in rows]


# --- written and read ------------------------------------------------------------------------------------------------


@given(made=rows_of_a_kind(), random=st.randoms(use_true_random=False))
def test_rows_come_back_in_one_order_whatever_the_order(
    made: tuple[Kind, list[Row]], random: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kind, rows = made
    folder = tmp_path_factory.mktemp("manifest")
    manifest.write(folder / "one.parquet", kind, rows)
    random.shuffle(rows)
    manifest.write(folder / "other.parquet", kind, (row for row in rows))
    assert (folder / "one.parquet").read_bytes() == (folder / "other.parquet").read_bytes()
    found = manifest.read_rows(folder / "one.parquet", kind)
    keys = [tuple((row[name] is not None, row[name]) for name in kind.key) for row in found]
    assert keys == sorted(keys)
    assert sorted(map(repr, found)) == sorted(map(repr, complete(rows, kind)))
    assert list(found[0]) == kind.schema.names if found else True


def test_keys_are_ordered_by_value_not_by_text(tmp_path: Path) -> None:
    rows = [
        {"item_id": "a", "suite": "s", "perturbation": "p", "severity": severity} for severity in (10, 9, None, 1, 2)
    ]
    manifest.write(tmp_path / "a.parquet", VIDEOS, rows)
    assert [row["severity"] for row in manifest.read_rows(tmp_path / "a.parquet")] == [None, 1, 2, 9, 10]


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.1, 1e300])
def test_numbers_are_kept(value: float, tmp_path: Path) -> None:
    manifest.write(tmp_path / "a.parquet", VIDEOS, [{"item_id": "a", "storage_psnr_db": value, "bytes": 2**60 + 1}])
    (row,) = manifest.read_rows(tmp_path / "a.parquet", VIDEOS)
    assert (row["storage_psnr_db"], row["bytes"]) == (value, 2**60 + 1)


def test_metadata_comes_back(tmp_path: Path) -> None:
    manifest.write(tmp_path / "a.parquet", CAPTIONS, [], {"root": "..", "tools": {"x": "1"}, "é": [1, 2]})
    described = manifest.read_metadata(tmp_path / "a.parquet")
    assert described == {
        "kind": "captions",
        "schema_version": manifest.SCHEMA_VERSION,
        "root": "..",
        "tools": {"x": "1"},
        "é": [1, 2],
    }


def test_writing_again_replaces(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.parquet"
    manifest.write(path, CAPTIONS, captions("a", "b"))
    manifest.write(path, CAPTIONS, captions("c"))
    assert manifest.read_rows(path) == captions("c")
    assert list(path.parent.iterdir()) == [path]


def test_every_kind_has_its_key_among_its_columns() -> None:
    for kind in KINDS.values():
        assert set(kind.key) <= set(kind.schema.names)
        assert len(set(kind.schema.names)) == len(kind.schema.names)


def test_every_column_is_explained() -> None:
    explained = (Path(__file__).parents[1] / "manifests" / "README.md").read_text()
    for kind in KINDS.values():
        for name in kind.schema.names:
            assert f"`{name}`" in explained, (kind.name, name)


# --- read by others --------------------------------------------------------------------------------------------------


def test_pandas_and_pyarrow_read_it_plainly(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    manifest.write(path, CAPTIONS, captions("b", "a"))
    assert pd.read_parquet(path).to_dict("records") == captions("a", "b")
    assert pq.read_table(path).to_pylist() == captions("a", "b")
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_empty_manifest_has_all_columns(kind: Kind, tmp_path: Path) -> None:
    manifest.write(tmp_path / "a.parquet", kind, [])
    frame = read_manifest(tmp_path / "a.parquet")
    assert list(frame.columns) == kind.schema.names
    assert len(frame) == 0
    assert manifest.read_rows(tmp_path / "a.parquet", kind) == []


@pytest.mark.parametrize("root", [None, "..", "../.."])
def test_read_manifest_makes_paths_absolute(root: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "manifests" / "data" / "videos.parquet"
    rows = [
        {"item_id": "a", "path": "corpora/a b.mp4", "source_path": "/elsewhere/a.mp4"},
        {"item_id": "b", "path": None, "source_path": "../b.mp4"},
    ]
    manifest.write(path, VIDEOS, rows, {} if root is None else {"root": root})
    monkeypatch.chdir(path.parent)
    for name in (path, str(path), "videos.parquet"):
        frame = read_manifest(name)
        base = (path.parent / (root or ".")).resolve()
        assert frame["path"].iloc[0] == str(base / "corpora" / "a b.mp4")
        assert pd.isna(frame["path"].iloc[1])
        assert frame["source_path"].tolist() == ["/elsewhere/a.mp4", f"{base}/../b.mp4"]
        assert frame.attrs["kind"] == "videos"


def test_read_manifest_leaves_other_columns_alone(tmp_path: Path) -> None:
    manifest.write(tmp_path / "a.parquet", SOURCES, [{"item_id": "a", "path": "a.mp4", "width": 3, "fps": 2.5}])
    row = read_manifest(tmp_path / "a.parquet").iloc[0]
    assert (row["item_id"], row["width"], row["fps"]) == ("a", 3, 2.5)
    assert read_manifest(tmp_path / "a.parquet")["width"].dtype == np.int64


# --- what is refused -------------------------------------------------------------------------------------------------


def test_an_unknown_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"captions manifests have no column \['colour'\]"):
        manifest.write(tmp_path / "a.parquet", CAPTIONS, [*captions("a"), {**captions("b")[0], "colour": "red"}])
    assert list(tmp_path.iterdir()) == []


def test_another_kind_is_named(tmp_path: Path) -> None:
    manifest.write(tmp_path / "a.parquet", CAPTIONS, captions("a"))
    with pytest.raises(ManifestError, match=r"a\.parquet is a manifest of captions, not of qrels"):
        manifest.read_rows(tmp_path / "a.parquet", QRELS)


def described_as(path: Path, described: Any, table: pa.Table | None = None) -> Path:
    """A Parquet file with this in the place of a manifest's metadata."""
    table = pa.table({"a": [1]}) if table is None else table
    raw = described if isinstance(described, bytes) else json.dumps(described).encode()
    pq.write_table(table.replace_schema_metadata({"perturbations": raw}), path)
    return path


def good(path: Path) -> Path:
    manifest.write(path, CAPTIONS, captions("a"))
    return path


def with_text(path: Path, text: bytes) -> Path:
    path.write_bytes(text)
    return path


def plain(path: Path) -> Path:
    pq.write_table(pa.table({"a": [1]}), path)
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


VERSION = manifest.SCHEMA_VERSION
REFUSED = {
    "missing": (lambda path: path, "no such manifest: .*a.parquet"),
    "folder": (folder, "a.parquet is not a Parquet file"),
    "empty": (lambda path: with_text(path, b""), "a.parquet is not a Parquet file"),
    "text": (lambda path: with_text(path, b"item_id,path\n"), "a.parquet is not a Parquet file"),
    "cut": (lambda path: with_text(path, good(path).read_bytes()[:-9]), "a.parquet is not a Parquet file"),
    "plain": (plain, "a.parquet is Parquet, but no manifest"),
    "version": (
        lambda path: described_as(path, {"kind": "captions", "schema_version": VERSION + 1}),
        f"schema version {VERSION + 1}, this package reads {VERSION}",
    ),
    "garbled": (lambda path: described_as(path, b"{"), "does not describe itself"),
    "kind": (
        lambda path: described_as(path, {"kind": "wishes", "schema_version": VERSION}),
        "kind 'wishes'; known: .*captions",
    ),
    "columns": (
        lambda path: described_as(path, {"kind": "captions", "schema_version": VERSION}),
        "does not have the columns of captions manifests: .*caption_id",
    ),
    "types": (
        lambda path: described_as(
            path,
            {"kind": "captions", "schema_version": VERSION},
            pa.table({name: [1] for name in CAPTIONS.schema.names}),
        ),
        "does not have the columns of captions manifests",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_manifest_is_named(name: str, tmp_path: Path) -> None:
    maker, reason = REFUSED[name]
    path = maker(tmp_path / "a.parquet")
    for read in (manifest.read_rows, read_manifest):
        with pytest.raises(ManifestError, match=reason):
            read(path)


def test_damage_is_never_read_as_something_else(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    manifest.write(path, CAPTIONS, captions(*map(str, range(200))))
    whole, rows = path.read_bytes(), manifest.read_rows(path)
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        start = int(generator.integers(len(whole) - 4))
        damaged[start : start + 4] = generator.bytes(4)
        path.write_bytes(damaged)
        try:
            assert manifest.read_rows(path) == rows  # what was hit is not looked at
        except ManifestError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 100


# --- merging ---------------------------------------------------------------------------------------------------------


def test_parts_are_merged(tmp_path: Path) -> None:
    for name, ids in (("one", ("c", "a")), ("two", ()), ("three", ("b",))):
        manifest.write(tmp_path / name, CAPTIONS, captions(*ids))
    parts = [tmp_path / name for name in ("one", "two", "three")]
    merged = manifest.merge(parts, CAPTIONS)
    assert sorted(row["caption_id"] for row in merged) == ["a", "b", "c"]
    manifest.write(tmp_path / "whole", CAPTIONS, merged)
    assert manifest.read_rows(tmp_path / "whole") == captions("a", "b", "c")


def test_splitting_into_parts_changes_no_byte(tmp_path: Path) -> None:
    rows = captions(*"abcdefg")
    for split in (1, 3, 6):
        manifest.write(tmp_path / "one", CAPTIONS, rows[split:])
        manifest.write(tmp_path / "two", CAPTIONS, rows[:split])
        merged = manifest.merge([tmp_path / "one", tmp_path / "two"], CAPTIONS)
        manifest.write(tmp_path / "merged", CAPTIONS, merged)
        manifest.write(tmp_path / "whole", CAPTIONS, rows)
        assert (tmp_path / "merged").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("apart", [True, False])
def test_two_rows_with_one_key_are_named(apart: bool, tmp_path: Path) -> None:
    twins = [{"query_id": "q7", "corpus_id": "c", "score": score} for score in (1, 2)]
    manifest.write(tmp_path / "one", QRELS, twins[:1] if apart else twins)
    manifest.write(tmp_path / "two", QRELS, twins[1:] if apart else [])
    with pytest.raises(ManifestError, match=r"two rows of qrels have the key \{'query_id': 'q7', 'corpus_id': 'c'\}"):
        manifest.merge([tmp_path / "one", tmp_path / "two"], QRELS)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    manifest.write(tmp_path / "one", QUARANTINE, [])
    with pytest.raises(ManifestError, match="no such manifest: .*two"):
        manifest.merge([tmp_path / "one", tmp_path / "two"], QUARANTINE)
    with pytest.raises(ManifestError, match="is a manifest of quarantine, not of captions"):
        manifest.merge([tmp_path / "one"], CAPTIONS)
