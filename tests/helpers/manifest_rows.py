"""Rows with every column filled, and parts of manifests."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.manifest import file_digest, files, row_tables
from perturbations.manifest.columns import columns_of
from perturbations.manifest.rows import (
    CAPTIONS,
    CaptionRow,
    RowKind,
)


def captions(*ids: str) -> list[CaptionRow]:
    return [CaptionRow(dataset="d", caption_id=name, item_id=f"i-{name}", text=f"text of {name}") for name in ids]


FILLED: dict[type, Any] = {str: "x", int: 1, bool: True, float: 1.0, list: [], tuple: (), array: array("i")}


def filled(row: type[Any], **columns: Any) -> Any:
    """A row whose other columns are empty where they may be."""
    needed = {
        column.name: FILLED[column.type] if column.words is None else column.words[0]
        for column in columns_of(row)
        if not column.optional
    }
    return row(**{**needed, **columns})


def names_of(kind: RowKind[Any]) -> list[str]:
    names: list[str] = row_tables.schema_of(kind).names
    return names


def stranger_s(path: Path, table: pa.Table, about: Any = None) -> None:
    """A file of any columns with the SHA-256 that it should have; what it says of itself may be anything."""
    raw = (table.schema.metadata or {}).get(b"perturbations") if about is None else about
    raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"perturbations": raw, "sha256": "0" * 64})
    file_digest.write_sha256(path)


def part(path: Path, *ids: str) -> Path:
    files.write(path, CAPTIONS, captions(*ids))
    return path


CAPTION = ("caption_id",)


def edited(path: Path, **cells: Sequence[Any]) -> None:
    """Write other cells in place of a manifest's columns, as another program would; what it says of itself stays."""
    table = pq.read_table(path)
    for name, values in cells.items():
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    pq.write_table(table, path)
