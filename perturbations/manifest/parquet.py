"""The Parquet file of a manifest: how it is opened and encoded, and where what it says of itself stands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import jsontext
from perturbations.base.errors import ManifestError
from perturbations.manifest import cells, file_limits, layout
from perturbations.manifest.kinds import RowKind, RowT
from perturbations.manifest.schemas import column_problem, completed

SCHEMA_VERSION = 5

Metadata = Mapping[str, object]
"""What a manifest says of itself."""

_WAY_OUT = "where the workflow made it: delete it and run snakemake again, which regenerates it"


def opened(path: Path) -> pq.ParquetFile:
    """An opened file, of any columns. Raises `ManifestError`."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # to open a pipe takes forever
        raise ManifestError(f"{path} is not a regular file")
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise ManifestError(f"no such manifest: {path}") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        if path.is_dir():
            held = ", ".join(sorted(member.name for member in path.glob("*") if layout.is_manifest(member)))
            hint = f"; name a manifest in it: {held}" if held else ", not a manifest"
            raise ManifestError(f"{path} is a folder{hint}") from error
        if isinstance(error, PermissionError):
            raise ManifestError(f"{path} cannot be read: permission denied") from error
        raise ManifestError(f"{path} is not a Parquet file: {error}; {_WAY_OUT}") from error


def schema_in(path: Path) -> pa.Schema:
    """The schema that a file has, with its metadata. Raises `ManifestError`."""
    with opened(path) as file:
        return file.schema_arrow


def columns_in(path: Path) -> list[str]:
    """The columns that a manifest's file has. One of an earlier version may lack some that may be empty."""
    return list(schema_in(path).names)


def metadata(path: Path, schema: pa.Schema) -> dict[str, Any]:
    """What a manifest with this schema says of itself. Raises `ManifestError`."""
    raw = (schema.metadata or {}).get(b"perturbations")
    if raw is None:
        raise ManifestError(f"{path} is Parquet, but no manifest of this package")
    try:
        described = jsontext.mapping(raw)
    except ValueError as error:
        raise ManifestError(f"{path} does not describe itself as manifests do: {error}") from error
    if described.get("schema_version") != SCHEMA_VERSION:
        raise ManifestError(
            f"{path} has schema version {described.get('schema_version')}, this package reads {SCHEMA_VERSION}; "
            f"{way_out(described)}"
        )
    return described


def way_out(described: Metadata) -> str:
    """What to do with a manifest of another version, for messages."""
    version = str(described.get("package_version", "of an unknown version"))[:80]
    return f"it was written by perturbations {version}: open it with that version, or delete it and run snakemake again"


@contextmanager
def stored_file(path: Path, kind: RowKind[Any]) -> Iterator[tuple[pq.ParquetFile, pa.Schema]]:
    """A file that has the columns of a kind, and its schema. Raises `ManifestError` also for what fails inside."""
    schema = schema_in(path)
    described = metadata(path, schema)
    if described.get("kind") != kind.name:
        raise ManifestError(f"{path} is a manifest of {described.get('kind')}, not of {kind.name}")
    if problem := column_problem(kind, schema):
        raise ManifestError(
            f"{path} does not have the columns of {kind.name} manifests: {problem}; {way_out(described)}"
        )
    with decoding(path, schema) as file:
        yield file, schema


def stored_table(path: Path, kind: RowKind[RowT]) -> pa.Table:
    """The columns that a file of a kind has. Raises `ManifestError`."""
    with stored_file(path, kind) as (file, schema):
        return file_limits.group(path, file, schema)


def read_table(path: Path, kind: RowKind[RowT]) -> pa.Table:
    """All columns of a kind, empty where an earlier version did not write them. Raises `ManifestError`."""
    return completed(stored_table(path, kind), kind)


@contextmanager
def decoding(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetFile]:
    """A file opened by its schema, within the limits. Raises `ManifestError` also for what fails inside."""
    with unreadable(path), file_limits.opened(path, schema) as file:
        file_limits.check(path, file.metadata)
        yield file


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Raise `ManifestError` for what fails inside."""
    try:
        yield
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise ManifestError(f"{path} cannot be read: {error}; {_WAY_OUT}") from error


def is_large(path: Path) -> bool:
    """Whether a file has several row groups. Raises `ManifestError`."""
    with opened(path) as file:
        return int(file.num_row_groups) > 1


def cells_of(path: Path, file: pq.ParquetFile, schema: pa.Schema) -> cells.Cells:
    """The cells of an opened file, of one column and row group at a time."""

    def chunks(name: str) -> Iterator[pa.Array]:
        column = pa.schema([schema.field(name)])
        for number in range(file.num_row_groups):
            yield file_limits.group(path, file, column, number)[name].combine_chunks()

    return cells.Cells(file.metadata.num_rows, schema.names, chunks)


def check_content(path: Path, schema: pa.Schema, digest: str) -> None:
    """Raise `ManifestError` where a manifest says that its cells have another hash."""
    if digest != metadata(path, schema).get("content_sha256"):
        raise ManifestError(f"{path} was changed after it was written: its content hash is another")


def encode(
    tables: Iterable[pa.Table], described: Metadata, target: Path | pa.BufferOutputStream, *, empty_group: bool = False
) -> None:
    """Write at least one table, each as a row group."""
    groups = iter(tables)
    first = next(groups).replace_schema_metadata({"perturbations": json.dumps(described, sort_keys=True)})
    with pq.ParquetWriter(target, first.schema, compression="zstd", write_page_checksum=True) as writer:
        for table in chain([first], groups):
            if table.num_rows or empty_group:  # Hugging Face's reader fails at a row group without rows
                writer.write_table(table.replace_schema_metadata(first.schema.metadata))
