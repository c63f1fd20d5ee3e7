"""Manifests: what is written is read, in one order, with the same bytes, by anyone; damage is named."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looping import each

from perturbations import read_manifest
from perturbations.base.errors import ManifestError
from perturbations.evaluation.rows import RANKS, RankRow
from perturbations.manifest import changes, files, locations, parquet, schemas, sets
from perturbations.manifest.columns import columns_of, row_from, values_of
from perturbations.manifest.kinds import (
    ANALYSES,
    CAPTIONS,
    COMPLETE,
    KINDS,
    MISSING,
    MIXES,
    MULTIMODAL,
    QRELS,
    QUARANTINE,
    QUARANTINED,
    SOURCE_STORAGE,
    SOURCES,
    TEXTS,
    VIDEOS,
    CaptionRow,
    CompleteSource,
    MixRow,
    QrelRow,
    QuarantineRow,
    RowKind,
    SourceRow,
    VideoRow,
)

VALUES: dict[type, st.SearchStrategy[Any]] = {
    str: st.text(max_size=12),
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    tuple: st.lists(st.floats(allow_nan=False, width=32), max_size=3).map(tuple),
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


def captions(*ids: str) -> list[CaptionRow]:
    return [CaptionRow(dataset="d", caption_id=name, item_id=f"i-{name}", text=f"text of {name}") for name in ids]


FILLED: dict[type, Any] = {str: "x", int: 1, bool: True, float: 1.0, tuple: ()}


def filled(row: type[Any], **columns: Any) -> Any:
    """A row whose other columns are empty where they may be."""
    needed = {
        column.name: FILLED[column.type] if column.words is None else column.words[0]
        for column in columns_of(row)
        if not column.optional
    }
    return row(**{**needed, **columns})


def names_of(kind: RowKind[Any]) -> list[str]:
    names: list[str] = schemas.schema_of(kind).names
    return names


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
    assert files.rows_as_stored(folder / "one.parquet", kind) == stored


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
    hashes = ("keys_sha256", "content_sha256", "metadata_sha256")
    assert {len(described.pop(name)) for name in hashes} == {64}
    assert described == {
        "kind": "captions",
        "schema_version": parquet.SCHEMA_VERSION,
        "root": "..",
        "tools": {"x": "1"},
        "é": [1, 2],
        "rows": 0,
    }


def test_hashes_tell_keys_from_content(tmp_path: Path) -> None:
    def hashes(*rows: CaptionRow) -> tuple[str, str]:
        files.write(tmp_path / "a.parquet", CAPTIONS, rows)
        described = files.read_metadata(tmp_path / "a.parquet")
        return described["keys_sha256"], described["content_sha256"]

    first, second = captions("a", "b")
    before = hashes(first, second)
    other_text = hashes(first, replace(second, text="another"))
    assert other_text[0] == before[0]
    assert other_text[1] != before[1]
    assert hashes(first, replace(second, caption_id="c"))[0] != before[0]
    # A letter that moves from one cell to the next.
    assert hashes(replace(first, text="ab"), replace(second, text="c")) != hashes(
        replace(first, text="a"), replace(second, text="bc")
    )


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


def test_every_column_is_explained() -> None:
    explained = (Path(__file__).parents[1] / "manifests" / "README.md").read_text()
    for kind in KINDS.values():
        for name in names_of(kind):
            assert f"`{name}`" in explained, (kind.name, name)


def test_schemas_are_those_of_the_types() -> None:
    assert schemas.schema_of(QRELS) == pa.schema(
        [("query_id", pa.string()), ("corpus_id", pa.string()), ("score", pa.int64())]
    )
    assert schemas.schema_of(ANALYSES).field("vector").type == pa.list_(pa.float32())
    assert schemas.schema_of(SOURCES).field("status").type == pa.string()
    assert schemas.schema_of(VIDEOS).field("psnr_db").type == pa.float64()
    assert TEXTS.row.__annotations__["accepted"] == "bool"
    assert schemas.schema_of(TEXTS).field("accepted").type == pa.bool_()
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
    with pytest.raises(ManifestError, match="a row of sources lacks the column 'sha256'"):
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


@pytest.mark.parametrize("group", [False, True])
def test_a_manifest_without_rows_has_no_row_group_and_an_earlier_one_is_sound(tmp_path: Path, group: bool) -> None:
    path = tmp_path / "quarantine.parquet"
    files.write(path, QUARANTINE, [], {"tools": {"pyarrow": pa.__version__}})
    assert pq.ParquetFile(path).num_row_groups == 0
    if group:  # as version 0.1 wrote it
        table = pq.read_table(path)
        pq.write_table(table, path, compression="zstd", write_page_checksum=True)
        assert pq.ParquetFile(path).num_row_groups == 1
    assert read_manifest(path).empty
    assert changes.changed_parts(path, QUARANTINE, []) == []
    pq.write_table(pq.read_table(path), path, compression="gzip")
    assert changes.changed_parts(path, QUARANTINE, []) == ["bytes"]


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


@pytest.mark.parametrize(
    ("root", "below"), [(None, "manifests/data"), ("..", "manifests"), ("../..", "manifests/data")]
)
def test_read_manifest_makes_paths_absolute(
    root: str | None, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / below / "videos.parquet"
    rows = [
        filled(VideoRow, item_id="a", path="corpora/a b.mp4", source_path="/elsewhere/a.mp4"),
        filled(VideoRow, item_id="b", path=None, source_path="../b.mp4"),
    ]
    files.write(path, VIDEOS, rows, {} if root is None else {"root": root})
    monkeypatch.chdir(path.parent)
    for name in (path, str(path), "videos.parquet"):
        frame = read_manifest(name)
        base = (path.parent / (root or ".")).resolve()
        assert frame["path"].iloc[0] == str(base / "corpora" / "a b.mp4")
        assert pd.isna(frame["path"].iloc[1])
        assert frame["source_path"].tolist() == ["/elsewhere/a.mp4", f"{base}/../b.mp4"]
        assert frame.attrs["kind"] == "videos"
    located = [locations.located(row, base) for row in files.read_rows(path, VIDEOS)]
    assert [row.path for row in located] == [str(base / "corpora" / "a b.mp4"), None]
    assert [row.source_path for row in located] == ["/elsewhere/a.mp4", f"{base}/../b.mp4"]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row", [QrelRow(query_id="q", corpus_id="c", score=1), replace(captions("b")[0], text=7)], ids=["kind", "type"]
)
def test_what_is_no_row_of_the_kind_is_not_written(row: Any, tmp_path: Path) -> None:
    with pytest.raises((AttributeError, TypeError)):
        files.write(tmp_path / "a.parquet", CAPTIONS, [*captions("a"), row])
    assert list(tmp_path.iterdir()) == []


def described_as(path: Path, described: Any, table: pa.Table | None = None) -> None:
    """A Parquet file with this in the place of a manifest's metadata."""
    table = pa.table({"a": [1]}) if table is None else table
    raw = described if isinstance(described, bytes) else json.dumps(described).encode()
    pq.write_table(table.replace_schema_metadata({"perturbations": raw}), path)


def part(path: Path, *ids: str) -> Path:
    files.write(path, CAPTIONS, captions(*ids))
    return path


VERSION = parquet.SCHEMA_VERSION
CAPTIONS_TODAY = {"kind": "captions", "schema_version": VERSION}
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda path: None, "no such manifest: .*a.parquet"),
    "folder": (Path.mkdir, "a.parquet is a folder, not a manifest"),
    "empty": (Path.touch, "a.parquet is not a Parquet file"),
    "text": (lambda path: path.write_bytes(b"item_id,path\n"), "a.parquet is not a Parquet file"),
    "cut": (lambda path: path.write_bytes(part(path, "a").read_bytes()[:-9]), "a.parquet is not a Parquet file"),
    "plain": (lambda path: pq.write_table(pa.table({"a": [1]}), path), "a.parquet is Parquet, but no manifest"),
    "version": (
        lambda path: described_as(path, {**CAPTIONS_TODAY, "schema_version": VERSION + 1}),
        f"schema version {VERSION + 1}, this package reads {VERSION}",
    ),
    "garbled": (lambda path: described_as(path, b"{"), "does not describe itself"),
    "list": (lambda path: described_as(path, []), "does not describe itself"),
    "kind": (
        lambda path: described_as(path, {**CAPTIONS_TODAY, "kind": "wishes"}),
        "kind 'wishes'; known: .*captions|a manifest of wishes, not of captions",
    ),
    "columns": (
        lambda path: described_as(path, CAPTIONS_TODAY),
        "does not have the columns of captions manifests: it lacks 'dataset'",
    ),
    "types": (
        lambda path: described_as(path, CAPTIONS_TODAY, pa.table({name: [1] for name in names_of(CAPTIONS)})),
        "does not have the columns of captions manifests",
    ),
}


@each("name", REFUSED)
def test_what_is_no_manifest_is_named(name: str, tmp_path: Path) -> None:
    maker, reason = REFUSED[name]
    path = tmp_path / "a.parquet"
    maker(path)
    for read in (lambda path: files.read_rows(path, CAPTIONS), read_manifest):
        with pytest.raises(ManifestError, match=reason):
            read(path)


def test_damage_is_never_read_as_something_else(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    files.write(path, CAPTIONS, captions(*map(str, range(200))))
    whole, rows = path.read_bytes(), files.read_rows(path, CAPTIONS)
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        start = int(generator.integers(len(whole) - 4))
        damaged[start : start + 4] = generator.bytes(4)
        path.write_bytes(damaged)
        try:
            assert files.read_rows(path, CAPTIONS) == rows  # what was hit is not looked at
        except ManifestError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 100


def edited(path: Path, **cells: Sequence[Any]) -> None:
    """Write other cells in place of a manifest's columns, as another program would; what it says of itself stays."""
    table = pq.read_table(path)
    for name, values in cells.items():
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    pq.write_table(table, path)


@pytest.mark.parametrize(
    "cells",
    [
        {"item_id": ["a", "c"]},
        {"item_id": ["b", "a"]},
        {"error": [None, None]},
        {"error": ["", ""]},
        {"severity": [1, 0]},
        {"status": ["missing", "missing"]},
    ],
    ids=str,
)
def test_a_changed_cell_is_noticed(cells: dict[str, Sequence[Any]], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    before = {"item_id": ["a", "b"], "error": [None, ""], "severity": [1, None], "status": ["missing", "quarantined"]}
    lines = zip(*before.values(), strict=True)
    rows = [filled(QuarantineRow, **dict(zip(before, values, strict=True))) for values in lines]
    files.write(path, QUARANTINE, rows)
    edited(path, **before)
    assert files.read_rows(path, QUARANTINE) == rows, "only cells count, not the file's bytes"
    edited(path, **cells)
    with pytest.raises(ManifestError, match=r"a\.parquet was changed after it was written"):
        files.read_rows(path, QUARANTINE)
    assert len(files.rows_as_stored(path, QUARANTINE)) == 2


@pytest.mark.parametrize("lost", [0, 1])
def test_a_row_taken_out_is_noticed(lost: int, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    files.write(path, CAPTIONS, captions("a", "b"))
    pq.write_table(pq.read_table(path).take([1 - lost]), path)
    with pytest.raises(ManifestError, match="was changed after it was written"):
        files.read_rows(path, CAPTIONS)


EMPTY: dict[str, tuple[RowKind[Any], Any, str]] = {
    "text": (CAPTIONS, replace(captions("a")[0], text=None), "a row whose column 'text' is empty"),
    "status": (QUARANTINE, filled(QuarantineRow, status=None), "a row whose column 'status' is empty"),
    "complete": (SOURCES, filled(SourceRow, status=COMPLETE), "a complete row whose column 'path' is empty"),
    "word": (QUARANTINE, filled(QuarantineRow, status="lost"), "'status' holds 'lost'; known: complete, quarantined"),
    "stage": (SOURCES, filled(SourceRow, status=MISSING, stage="lunch"), "'stage' holds 'lunch'; known: annotation"),
    "mix": (MIXES, filled(MixRow, mix="cocktail"), "'mix' holds 'cocktail'; known: mixed_severity, mixed_types"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_cell_that_no_type_allows_is_named(name: str, tmp_path: Path) -> None:
    kind, row, reason = EMPTY[name]
    files.write(tmp_path / "a.parquet", kind, [row])
    for read in (files.read_rows, files.rows_as_stored):
        with pytest.raises(ManifestError, match=reason):
            read(tmp_path / "a.parquet", kind)


# --- where files are -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("root", "below", "expected"),
    [
        (None, "anywhere", "anywhere"),
        (".", "anywhere", "anywhere"),
        ("..", "manifests", "."),
        ("../..", "manifests/data", "."),
        ("../../..", "manifests/data/mlvp", "."),
        ("../..", "work/parts", "."),
    ],
)
def test_the_root_is_the_folder_that_holds_manifests(
    root: str | None, below: str, expected: str, tmp_path: Path
) -> None:
    described = {} if root is None else {"root": root}
    assert locations.root_of(tmp_path / below / "a.parquet", described) == (tmp_path / expected).resolve()


@pytest.mark.parametrize(
    "root", ["/", "/etc", "..", "../../..", "../" * 99, "corpora", "../other", "../../manifests", 5, None, ["..", ".."]]
)
def test_another_root_is_refused(root: Any, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"says that its root is .*(no folder above it|does not lie in)"):
        locations.root_of(tmp_path / "manifests" / "data" / "a.parquet", {"root": root})


@pytest.mark.parametrize("path", ["corpora/a.mp4", "a b.mp4", "corpora/видео/…", "corpora/..a", "corpora/a\nb", "-"])
def test_a_path_below_the_root_is_allowed(path: str, tmp_path: Path) -> None:
    assert locations.confined(tmp_path, path) == tmp_path / path


@each(
    "path",
    ["", ".", "/etc/passwd", "//a", "/data/a.mp4", "..", "../a.mp4", "a/../../b.mp4", "a/..", "a\0b", "corpora/\0"],
)
def test_a_path_that_leaves_the_root_is_refused(path: str) -> None:
    with pytest.raises(ManifestError, match="leaves the corpus' folder"):
        locations.confined(Path("/data"), path)


@pytest.mark.parametrize(
    "path", ["folder/a.mp4", "folder/deep/a.mp4", "a.mp4", "indirect.mp4", "dangling.mp4", "folder"]
)
def test_a_link_that_leaves_the_root_is_refused_unless_its_folder_is_named(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    (outside / "deep").mkdir(parents=True)
    (root / "folder").symlink_to(outside)
    (root / "a.mp4").symlink_to(outside / "a.mp4")
    (outside / "a.mp4").touch()
    (root / "indirect.mp4").symlink_to("a.mp4")
    (root / "dangling.mp4").symlink_to(outside / "nothing")
    monkeypatch.delenv("PERTURB_LINKED", raising=False)
    with pytest.raises(ManifestError, match="by a symbolic link, to .*outside.*PERTURB_LINKED"):
        locations.confined(root, path)
    monkeypatch.setenv("PERTURB_LINKED", os.pathsep.join([str(tmp_path / "other"), str(tmp_path / "outsid")]))
    with pytest.raises(ManifestError, match="by a symbolic link"):
        locations.confined(root, path)
    monkeypatch.setenv("PERTURB_LINKED", os.pathsep.join([str(tmp_path / "other"), str(outside)]))
    assert locations.confined(root, path) == root / path


def test_a_link_inside_the_root_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "corpora").mkdir()
    (tmp_path / "linked").symlink_to("corpora")
    (tmp_path / "corpora" / "a.mp4").symlink_to("b.mp4")
    for path in ("linked/b.mp4", "corpora/a.mp4", "linked/a.mp4"):
        assert locations.confined(tmp_path, path) == tmp_path / path


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd"])
def test_a_manifest_whose_rows_leave_the_corpus_is_refused(path: str, tmp_path: Path) -> None:
    row = filled(VideoRow, path=path)
    files.write(tmp_path / "a.parquet", VIDEOS, [row])
    with pytest.raises(ManifestError, match="leaves the corpus' folder"):
        read_manifest(tmp_path / "a.parquet")
    with pytest.raises(ManifestError, match="leaves the corpus' folder"):
        locations.located(row, tmp_path)
    # A clean clip lies where its dataset has it.
    clean = filled(MixRow, path=path, storage=SOURCE_STORAGE)
    assert locations.located(clean, tmp_path).path == str(tmp_path / path)


@pytest.mark.parametrize("guide", ["[]", "{", "5", '{"files": 5}', '{"files": {"image": 5}}', "[" * 10_000])
def test_facts_that_are_none_are_refused(guide: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="the column 'guide' holds"):
        locations.located(filled(VideoRow, guide=guide), tmp_path)


def test_the_files_of_facts_are_located(tmp_path: Path) -> None:
    row = filled(VideoRow, guide='{"files":{"encoder":null,"image":"styles/é.png"},"style":"s"}')
    facts = json.loads(locations.located(row, tmp_path).guide or "")
    assert facts == {"files": {"encoder": None, "image": str(tmp_path / "styles/é.png")}, "style": "s"}


# --- merging ---------------------------------------------------------------------------------------------------------

CAPTION = ("caption_id",)


@pytest.mark.parametrize("groups", [("ca", "", "b"), ("bcdefg", "a"), ("defg", "abc"), ("g", "abcdef")])
def test_parts_are_merged_to_the_bytes_of_the_whole(groups: Sequence[str], tmp_path: Path) -> None:
    parts = {part(tmp_path / f"part-{place}", *ids): ids for place, ids in enumerate(groups)}
    files.write(tmp_path / "merged", CAPTIONS, sets.merge(parts.items(), CAPTIONS, CAPTION))
    whole = part(tmp_path / "whole", *sorted("".join(groups)))
    assert (tmp_path / "merged").read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("apart", [True, False])
def test_two_rows_with_one_key_are_named(apart: bool, tmp_path: Path) -> None:
    twins = [QrelRow(query_id="q7", corpus_id="c", score=score) for score in (1, 2)]
    files.write(tmp_path / "one", QRELS, twins[:1] if apart else twins)
    files.write(tmp_path / "two", QRELS, twins[1:] if apart else [])
    expected: Mapping[Path, Any] = {tmp_path / "one": [("q7", "c")], tmp_path / "two": []}
    problem = "two holds what was not asked for:" if apart else "one holds twice"
    with pytest.raises(ManifestError, match=rf"{problem} \('q7', 'c'\)"):
        list(sets.merge(expected.items(), QRELS, QRELS.key))


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    files.write(tmp_path / "one", QUARANTINE, [])
    with pytest.raises(ManifestError, match="no such manifest: .*two"):
        list(sets.merge({tmp_path / "one": [], tmp_path / "two": []}.items(), QUARANTINE, ("item_id",)))
    with pytest.raises(ManifestError, match="is a manifest of quarantine, not of captions"):
        list(sets.merge({tmp_path / "one": []}.items(), CAPTIONS, CAPTION))


def edited_part(path: Path) -> None:
    edited(part(path, "a", "b"), text=["other", "text"])


BAD_PARTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "damaged": (
        lambda path: path.write_bytes(part(path, "a", "b").read_bytes().replace(b"text of a", b"xxxx of a")),
        "bad cannot be read",
    ),
    "edited": (edited_part, "bad was changed after it was written"),
    "stale": (
        lambda path: described_as(path, {**CAPTIONS_TODAY, "schema_version": VERSION - 1}),
        f"bad has schema version {VERSION - 1}",
    ),
    "short": (lambda path: part(path, "a"), "bad lacks 'b'"),
    "other": (lambda path: part(path, "a", "c"), "bad lacks 'b'; holds what was not asked for: 'c'"),
    "twice": (lambda path: part(path, "a", "a", "b"), "bad holds twice 'a'"),
}


@pytest.mark.parametrize("name", BAD_PARTS)
def test_a_part_that_cannot_be_used_is_removed_and_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    maker, reason = BAD_PARTS[name]
    for top, removed in (("work", True), ("manifests", False)):
        sound, bad = tmp_path / top / "sound", tmp_path / top / "bad"
        part(sound, "x")
        maker(bad)
        with pytest.raises(ManifestError, match=reason) as caught:
            list(sets.merge({sound: ["x"], bad: ["a", "b"]}.items(), CAPTIONS, CAPTION))
        assert str(bad) in str(caught.value)
        assert str(sound) not in str(caught.value)
        assert ("(removed)" in str(caught.value)) == removed
        assert "Run snakemake again" in str(caught.value)
        assert bad.exists() != removed
        assert sound.exists()


def test_every_bad_part_is_removed_and_the_first_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parts = {part(tmp_path / "work" / f"part-{number}"): ["a"] for number in range(7)}
    with pytest.raises(ManifestError) as caught:
        list(sets.merge(parts.items(), CAPTIONS, CAPTION))
    assert "part-4 lacks 'a' (removed); and 2 more. Run snakemake again" in str(caught.value)
    assert not any(path.exists() for path in parts)


def test_a_damaged_part_that_is_read_alone_is_removed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "work" / "bad"
    edited_part(path)
    with pytest.raises(ManifestError, match=r"was changed after it was written.*\(removed\)"):
        sets.read_part(path, CAPTIONS)
    assert not path.exists()
    with pytest.raises(ManifestError, match="no such manifest"):
        sets.read_part(path, CAPTIONS)


# --- sets ------------------------------------------------------------------------------------------------------------


def test_what_became_of_a_dataset_is_a_sentence() -> None:
    listed = sets.Listed(listed=1000, listed_sha256="", complete=3, quarantined=0, missing=997)
    assert listed.sentence("clips") == "3 of 1,000 listed clips complete; 997 missing"
    both = replace(listed, complete=1, quarantined=2)
    assert both.sentence("captions") == "1 of 1,000 listed captions complete; 2 quarantined; 997 missing"
    assert replace(listed, complete=1000, missing=0).sentence("clips") == "1,000 of 1,000 listed clips complete"


def listed_items() -> list[SourceRow]:
    return [
        filled(CompleteSource, item_id="a"),
        filled(CompleteSource, item_id="b"),
        filled(SourceRow, item_id="c", status=QUARANTINED, stage="source", error="broken"),
        filled(SourceRow, item_id="d", status=MISSING, stage="annotation", error="no file"),
    ]


def test_each_listed_item_is_complete_quarantined_or_missing() -> None:
    of_sources = sets.of_sources(listed_items())
    assert (of_sources.listed, of_sources.complete, of_sources.quarantined, of_sources.missing) == (4, 2, 1, 1)
    videos = [
        filled(VideoRow, item_id="a", severity=1),
        filled(VideoRow, item_id="a", severity=2),
        filled(VideoRow, item_id="b", severity=1),
        filled(VideoRow, item_id="b", severity=2, status=QUARANTINED, stage="video", error="failed"),
    ]
    of_corpus = sets.of_corpus(listed_items(), videos, 2)
    assert (of_corpus.listed, of_corpus.complete, of_corpus.quarantined, of_corpus.missing) == (4, 1, 2, 1)
    assert of_corpus.scenarios == 2
    assert of_corpus.listed_sha256 == of_sources.listed_sha256 == sets.ids_sha256("dcba")
    assert sets.ids_sha256(["ab", "c"]) != sets.ids_sha256(["a", "bc"])
    assert sets.of_corpus(listed_items(), videos[:1], 1).complete == 1
    quarantine = sets.quarantine_of(listed_items(), videos)
    assert [(row.item_id, row.severity, row.status, row.error) for row in quarantine] == [
        ("c", None, "quarantined", "broken"),
        ("d", None, "missing", "no file"),
        ("b", 2, "quarantined", "failed"),
    ]
