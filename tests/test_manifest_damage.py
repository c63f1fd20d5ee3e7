"""Manifests and parts that are damaged, edited or of another kind: named, and never read as something else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from looping import each
from test_manifest import CAPTION, captions, filled, names_of, part

from perturbations import read_manifest
from perturbations.base.errors import ManifestError
from perturbations.manifest import files, parquet, sets
from perturbations.manifest.kinds import (
    CAPTIONS,
    COMPLETE,
    MISSING,
    MIXES,
    QRELS,
    QUARANTINE,
    SOURCES,
    MixRow,
    QrelRow,
    QuarantineRow,
    RowKind,
    SourceRow,
)


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


VERSION = parquet.SCHEMA_VERSION
CAPTIONS_TODAY = {"kind": "captions", "schema_version": VERSION}
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda path: None, "no such manifest: .*a.parquet"),
    "folder": (Path.mkdir, "a.parquet is a folder, not a manifest"),
    "pipe": (os.mkfifo, "a.parquet is not a regular file"),
    "empty": (Path.touch, "a.parquet cannot be read as Parquet"),
    "text": (lambda path: path.write_bytes(b"item_id,path\n"), "a.parquet cannot be read as Parquet"),
    "cut": (lambda path: path.write_bytes(part(path, "a").read_bytes()[:-9]), "a.parquet cannot be read as Parquet"),
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


@pytest.mark.parametrize("apart", [True, False])
def test_two_rows_with_one_key_are_named(apart: bool, tmp_path: Path) -> None:
    twins = [QrelRow(query_id="q7", corpus_id="c", score=score) for score in (1, 2)]
    files.write(tmp_path / "one", QRELS, twins[:1] if apart else twins)
    files.write(tmp_path / "two", QRELS, twins[1:] if apart else [])
    expected: Mapping[Path, Any] = {tmp_path / "one": [("q7", "c")], tmp_path / "two": []}
    problem = "two holds what was not requested:" if apart else "one holds twice"
    with pytest.raises(ManifestError, match=rf"{problem} \('q7', 'c'\)"):
        list(sets.merge(expected.items(), QRELS, QRELS.key))


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
    "other": (lambda path: part(path, "a", "c"), "bad lacks 'b'; holds what was not requested: 'c'"),
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
