"""Manifests: what is written is read, in one order, with the same bytes, by anyone."""

from __future__ import annotations

import math
from array import array
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from copies import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from looping import each
from manifest_rows import captions, filled, names_of

from perturbations import read_manifest
from perturbations.base.errors import ManifestError
from perturbations.evaluation.result_rows import RANKS, RankRow
from perturbations.manifest import files, manifest_paths, row_tables
from perturbations.manifest.columns import columns_of, row_from, values_of
from perturbations.manifest.row_kinds import KINDS
from perturbations.manifest.rows import (
    ANALYSES,
    CAPTIONS,
    COMPLETE,
    MISSING,
    MIXES,
    MULTIMODAL,
    QRELS,
    QUARANTINE,
    QUARANTINED,
    SOURCES,
    TEXTS,
    VIDEOS,
    CompleteSource,
    QuarantineRow,
    RowKind,
    SourceRow,
)

VALUES: dict[type, st.SearchStrategy[Any]] = {
    str: st.text(max_size=12),
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    list: st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=3),
    tuple: st.lists(st.floats(allow_nan=False, width=32), max_size=3).map(tuple),
    array: st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3).map(lambda numbers: array("i", numbers)),
}


def of_type(row: type[Any], **fixed: Any) -> st.SearchStrategy[Any]:
    """Rows of a type: every column filled that must be, the others now and then."""
    columns = {}
    for column in columns_of(row):
        values = VALUES[column.type] if column.words is None else st.sampled_from(column.words)
        columns[column.name] = st.none() | values if column.optional else values
    columns |= {name: st.just(value) for name, value in fixed.items()}
    return st.fixed_dictionaries(columns).map(lambda values: row(**values))


@st.composite
def rows_of_a_kind(draw: st.DrawFn) -> tuple[RowKind[Any], list[Any]]:
    """Rows with distinct keys."""
    kind = draw(st.sampled_from(list(KINDS.values())))
    row = of_type(kind.row)
    if kind.complete is not None:
        row = row.filter(lambda drawn: drawn.status != COMPLETE) | of_type(kind.complete, status=COMPLETE)
    return kind, draw(
        st.lists(row, max_size=4, unique_by=lambda drawn: tuple(getattr(drawn, name) for name in kind.key))
    )


# --- written and read ------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(table=rows_of_a_kind(), random=st.randoms(use_true_random=False))
def test_rows_come_back_in_one_order_whatever_the_order(
    table: tuple[RowKind[Any], list[Any]], random: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kind, rows = table
    folder = tmp_path_factory.mktemp("manifest")
    files.write(folder / "one.parquet", kind, rows)
    random.shuffle(rows)
    files.write(folder / "other.parquet", kind, (row for row in rows))
    assert (folder / "one.parquet").read_bytes() == (folder / "other.parquet").read_bytes()
    stored = files.read_rows(folder / "one.parquet", kind)
    values = [[getattr(row, name) for name in kind.key] for row in stored]
    keys = [tuple((value is not None, value) for value in key) for key in values]
    assert keys == sorted(keys)
    assert sorted(map(repr, stored)) == sorted(map(repr, rows))


def test_keys_are_ordered_by_value_and_rows_counted_by_status(tmp_path: Path) -> None:
    rows = [filled(QuarantineRow, severity=severity) for severity in (10, 9, None, 1, 2)]
    files.write(tmp_path / "a.parquet", QUARANTINE, rows)
    stored = files.read_rows(tmp_path / "a.parquet", QUARANTINE)
    assert [row.severity for row in stored] == [None, 1, 2, 9, 10]
    statuses = (MISSING, QUARANTINED, MISSING)
    rows = [filled(QuarantineRow, severity=place, status=status) for place, status in enumerate(statuses)]
    files.write(tmp_path / "a.parquet", QUARANTINE, rows)
    described = files.read_metadata(tmp_path / "a.parquet")
    assert (described["rows"], described["statuses"]) == (3, {"missing": 2, "quarantined": 1})


def test_metadata_comes_back(tmp_path: Path) -> None:
    files.write(tmp_path / "a.parquet", CAPTIONS, [], {"root": "..", "tools": {"x": "1"}, "é": [1, 2]})
    described = files.read_metadata(tmp_path / "a.parquet")
    assert described == {
        "kind": "captions",
        "schema_version": files.SCHEMA_VERSION,
        "root": "..",
        "tools": {"x": "1"},
        "é": [1, 2],
        "rows": 0,
    }


def test_writing_again_replaces_and_parts_concatenated_are_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.parquet"
    files.write(path, CAPTIONS, captions("a", "b"))
    files.write(path, CAPTIONS, captions("c"))
    assert files.read_rows(path, CAPTIONS) == captions("c")
    assert list(path.parent.iterdir()) == [path]
    rows = [
        filled(RankRow, query_id=name, mix=mix, severity=severity)
        for name in ("é", "b", "😀")
        for mix, severity in (("mixed_types", None), (None, 10), (None, 9))
    ]
    for split in (0, 4):
        files.write(tmp_path / "one", RANKS, rows[split:])
        files.write(tmp_path / "two", RANKS, rows[:split])
        files.concatenate([tmp_path / "one", tmp_path / "two"], tmp_path / "concatenated", RANKS, {"root": ".."})
        files.write(tmp_path / "whole", RANKS, rows, {"root": ".."})
        assert (tmp_path / "concatenated").read_bytes() == (tmp_path / "whole").read_bytes()


# --- types and columns -----------------------------------------------------------------------------------------------


def test_every_manifest_and_every_column_is_explained() -> None:
    page = (ROOT / "manifests/README.md").read_text(encoding="utf-8")
    for kind in KINDS.values():
        for name in names_of(kind):
            assert f"`{name}`" in page, (kind.name, name)
    names = {Path(path).name for path in manifest_paths.MANIFEST_FILES.values()} - {"{analysis}.parquet"}
    assert not [name for name in names if name not in page and f"`{Path(name).stem}`" not in page]


def test_schemas_are_those_of_the_types() -> None:
    assert row_tables.schema_of(QRELS) == pa.schema(
        [("query_id", pa.string()), ("corpus_id", pa.string()), ("score", pa.int64())]
    )
    assert row_tables.schema_of(ANALYSES).field("vector").type == pa.list_(pa.float32())
    assert row_tables.schema_of(SOURCES).field("status").type == pa.string()
    assert row_tables.schema_of(VIDEOS).field("psnr_db").type == pa.float64()
    assert TEXTS.row.__annotations__["accepted"] == "bool"
    assert row_tables.schema_of(TEXTS).field("accepted").type == pa.bool_()
    for kind in KINDS.values():
        assert names_of(kind) == [column.name for column in columns_of(kind.row)]
        assert set(names_of(kind)) == set(asdict(filled(kind.row)))
    # What a view adds stands first.
    assert names_of(MIXES) == ["mix", "share", *names_of(VIDEOS)]
    assert names_of(MULTIMODAL)[:2] == ["caption_id", "text_perturbation"]
    assert names_of(MULTIMODAL)[10:] == names_of(VIDEOS)


def test_what_may_be_empty_is_what_the_types_say() -> None:
    by_name = {column.name: column for column in columns_of(SourceRow)}
    complete = {column.name: column for column in columns_of(CompleteSource)}
    assert by_name["sha256"].optional
    assert not complete["sha256"].optional
    assert complete["start_s"].optional
    assert by_name["status"].words == ("complete", "quarantined", "missing")
    assert by_name["stage"].words == ("annotation", "source", "analysis", "video")
    assert by_name["error"].words is None


def test_a_row_is_made_from_columns_by_name_and_a_lacking_one_is_named() -> None:
    row = filled(CompleteSource, item_id="a", fps=25.0, start_s=None)
    assert row_from(SOURCES, values_of(row)) == row
    # A DataFrame turns whole numbers into floats where others are missing, and has columns of its own.
    assert row_from(SOURCES, {**values_of(row), "width": 1.0, "fps": 25, "mine": 3}) == row
    assert type(row_from(SOURCES, {**values_of(row), "status": "missing"})) is SourceRow
    assert row_from(TEXTS, {**values_of(filled(TEXTS.row)), "accepted": False}).accepted is False
    vector = row_from(ANALYSES, {**values_of(filled(ANALYSES.row)), "vector": np.array([1.0, 2.0])}).vector
    assert vector == (1.0, 2.0)
    columns = values_of(filled(CompleteSource))
    del columns["sha256"]
    with pytest.raises(ManifestError, match="a row of sources does not have the column 'sha256'"):
        row_from(SOURCES, columns)
    assert row_from(SOURCES, {**columns, "status": "missing"}).sha256 is None


@each(
    ("kind", "column", "value"),
    [
        (SOURCES, "item_id", 7),
        (SOURCES, "item_id", b"a"),
        (SOURCES, "frame_count", "12"),
        (SOURCES, "frame_count", 12.5),
        (SOURCES, "frame_count", math.inf),
        (SOURCES, "frame_count", math.nan),
        (SOURCES, "frame_count", True),
        (SOURCES, "fps", "25"),
        (SOURCES, "fps", True),
        (SOURCES, "rotation", []),
        (SOURCES, "status", "lost"),
        (SOURCES, "stage", "lunch"),
        *((TEXTS, "accepted", value) for value in (1, 1.0, "true")),
        *((ANALYSES, "vector", value) for value in ("1.0,2.0", 5, b"x")),
    ],
)
def test_a_value_of_another_type_is_named(kind: RowKind[Any], column: str, value: Any) -> None:
    columns = {**values_of(filled(kind.complete or kind.row)), column: value}
    with pytest.raises(ManifestError, match=f"the column '{column}' of a row of {kind.name} cannot hold"):
        row_from(kind, columns)


# --- read by others --------------------------------------------------------------------------------------------------


def test_a_manifest_without_rows_has_no_row_group(tmp_path: Path) -> None:
    """Hugging Face's reader fails at a row group without rows."""
    path = tmp_path / "quarantine.parquet"
    files.write(path, QUARANTINE, [])
    assert pq.ParquetFile(path).num_row_groups == 0
    assert read_manifest(path).empty


def test_pandas_and_pyarrow_read_it_plainly_and_read_manifest_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    files.write(path, CAPTIONS, captions("b", "a"))
    expected = [values_of(row) for row in captions("a", "b")]
    assert pd.read_parquet(path).to_dict("records") == expected
    assert pq.read_table(path).to_pylist() == expected
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
    row = filled(SourceRow, item_id="a", path="a.mp4", width=3, fps=2.5)
    files.write(tmp_path / "a.parquet", SOURCES, [replace(row, status=QUARANTINED)])
    row = read_manifest(tmp_path / "a.parquet").iloc[0]
    assert (row["item_id"], row["width"], row["fps"]) == ("a", 3, 2.5)
    assert read_manifest(tmp_path / "a.parquet")["width"].dtype == np.int64


@each("kind", KINDS.values())
def test_an_empty_manifest_has_all_columns(kind: RowKind[Any], tmp_path: Path) -> None:
    files.write(tmp_path / "a.parquet", kind, [])
    frame = read_manifest(tmp_path / "a.parquet")
    assert list(frame.columns) == names_of(kind)
    assert len(frame) == 0
    assert files.read_rows(tmp_path / "a.parquet", kind) == []
    assert files.kind_of(tmp_path / "a.parquet") is kind


# --- merging ---------------------------------------------------------------------------------------------------------


@given(st.data())
def test_columns_are_what_arrow_makes_of_the_values(data: st.DataObject) -> None:
    """A value of another kind is refused."""
    numbers = st.floats(allow_nan=False)
    kind, values = data.draw(
        st.sampled_from(
            [
                (pa.string(), st.text(max_size=3)),
                (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
                (pa.float64(), numbers),
                (pa.bool_(), st.booleans()),
                (pa.list_(pa.float64()), st.lists(numbers, max_size=3)),
            ]
        )
    )
    cells = data.draw(st.lists(st.none() | values, max_size=20))
    column, expected = row_tables.column_of(cells, kind), pa.array(cells, kind)
    assert column.equals(expected)
    for wrong, place in (("x", pa.int64()), (1.5, pa.int64()), ("x", pa.float64()), (1, pa.string())):
        with pytest.raises(TypeError):
            row_tables.column_of([wrong], place)


def test_what_a_killed_job_left_beside_a_manifest_goes(tmp_path: Path) -> None:
    for name in (".qrels.part-0123456789ab.parquet", ".others.part-0123456789ab.parquet"):
        (tmp_path / name).write_bytes(b"half")
    files.write(tmp_path / "qrels.parquet", QRELS, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".others.part-0123456789ab.parquet", "qrels.parquet"]
