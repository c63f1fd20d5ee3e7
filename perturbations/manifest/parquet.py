"""The Parquet file of a manifest, as it may come from a stranger: how it is opened, and where it says what it is.

A few kilobytes of Parquet can stand for any number of rows. What a file may hold grows with its size, because rows of
runs differ from each other in ids and hashes: those of ranks, which compress best, have 15 cells per byte, those of
clips 0.3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import jsontext
from perturbations.base.errors import ManifestError
from perturbations.manifest import layout
from perturbations.manifest.cells import Content
from perturbations.manifest.kinds import RowKind
from perturbations.manifest.schemas import column_problem, schema_of

SCHEMA_VERSION = 5

GROUP = 2**14
"""Rows of a row group: 12 MB of clips."""

Metadata = Mapping[str, object]
"""What a manifest says of itself."""

_METADATA = "perturbations"
_WAY_OUT = "where the workflow made it: delete it and run snakemake again, which regenerates it"
_CELLS_PER_BYTE, _BYTES_PER_BYTE = 32, 256
_LEAST_CELLS, _LEAST_BYTES = 5_000_000, 256 * 2**20
"""What the smallest file may hold."""


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """An opened file, of any columns. Raises `ManifestError`, also for what fails while it is read."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # to open a pipe takes forever
        raise ManifestError(f"{path} is not a regular file")
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_size(path, file.metadata)
            yield file
    except FileNotFoundError as error:
        raise ManifestError(f"no such manifest: {path}") from error
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        if path.is_dir():
            held = ", ".join(sorted(member.name for member in path.glob("*") if layout.is_manifest(member)))
            hint = f"; name a manifest in it: {held}" if held else ", not a manifest"
            raise ManifestError(f"{path} is a folder{hint}") from error
        if isinstance(error, PermissionError):
            raise ManifestError(f"{path} cannot be read: permission denied") from error
        raise ManifestError(f"{path} cannot be read as Parquet: {error}; {_WAY_OUT}") from error


def _check_size(path: Path, about: pq.FileMetaData) -> None:
    """Raise `ManifestError` where a file's end says that it holds more than files of its size do. Decodes nothing."""
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    size = path.stat().st_size
    cells = max(about.num_rows * about.num_columns, sum(chunk.num_values for chunk in chunks))
    if cells > max(_LEAST_CELLS, _CELLS_PER_BYTE * size):
        raise ManifestError(f"{path} holds {about.num_rows:,} rows in {size:,} bytes, which no run writes")
    count = sum(chunk.total_uncompressed_size for chunk in chunks)
    if count > max(_LEAST_BYTES, _BYTES_PER_BYTE * size):
        raise ManifestError(f"{path} holds {count:,} bytes of text in {size:,} bytes, which no run writes")


@contextmanager
def opened_as(path: Path, kind: RowKind[Any]) -> Iterator[tuple[pq.ParquetFile, dict[str, Any]]]:
    """A file that has the columns of a kind, and what it says of itself. Raises `ManifestError` as `opened` does."""
    with opened(path) as file:
        about = metadata(path, file.schema_arrow)
        if about.get("kind") != kind.name:
            raise ManifestError(f"{path} is a manifest of {about.get('kind')}, not of {kind.name}")
        if problem := column_problem(kind, file.schema_arrow):
            raise ManifestError(f"{path} does not have the columns of {kind.name} manifests: {problem}; {_WAY_OUT}")
        yield file, about


def metadata(path: Path, schema: pa.Schema) -> dict[str, Any]:
    """What a manifest with this schema says of itself. Raises `ManifestError`."""
    raw = (schema.metadata or {}).get(_METADATA.encode())
    if raw is None:
        raise ManifestError(f"{path} is Parquet, but no manifest of this package")
    try:
        about = jsontext.mapping(raw)
    except ValueError as error:
        raise ManifestError(f"{path} does not describe itself as manifests do: {error}") from error
    if about.get("schema_version") != SCHEMA_VERSION:
        version = f"schema version {str(about.get('schema_version'))[:80]}, this package reads {SCHEMA_VERSION}"
        raise ManifestError(f"{path} has {version}; {_WAY_OUT}")
    return about


def columns_in(path: Path) -> list[str]:
    """The names of the columns that a file has. Raises `ManifestError`."""
    with opened(path) as file:
        return list(file.schema_arrow.names)


def read_table(path: Path, kind: RowKind[Any]) -> pa.Table:
    """All rows of a manifest of a kind. Raises `ManifestError`."""
    with opened_as(path, kind) as (file, _):
        table = file.read()
        table.validate(full=True)
        return table.replace_schema_metadata(file.schema_arrow.metadata)


def tables(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """The rows of an opened file, one row group at a time."""
    for number in range(file.num_row_groups):
        table = file.read_row_group(number)
        table.validate(full=True)
        yield table.replace_schema_metadata()


def in_groups(some: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of tables in tables of `GROUP` rows, and a last one of the rest."""
    held: list[pa.Table] = []
    for table in some:
        held.append(table)
        while sum(map(len, held)) >= GROUP:
            whole = pa.concat_tables(held)
            yield whole.slice(0, GROUP).combine_chunks()
            held = [whole.slice(GROUP)]
    if sum(map(len, held)):
        yield pa.concat_tables(held).combine_chunks()


def encode(
    groups: Iterable[pa.Table], kind: RowKind[Any], target: Path, describe: Callable[[Content], Metadata] | None = None
) -> None:
    """Write tables as row groups, and what `describe` says of them once all are written."""
    content = Content()
    # The metadata stands at the file's end, so it is known in time; Arrow's own schema would stand in its place.
    with pq.ParquetWriter(
        target, schema_of(kind), compression="zstd", write_page_checksum=True, store_schema=False
    ) as writer:
        for table in groups:
            content.add(table)
            writer.write_table(table)
        if describe is not None:
            writer.add_key_value_metadata({_METADATA: json.dumps(describe(content), sort_keys=True)})
