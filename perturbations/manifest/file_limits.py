"""How much a manifest's file may hold: a few kilobytes of Parquet can stand for any number of rows.

Manifests of strangers are read. What is allowed grows with the file's size, because rows of runs differ from each other
in ids and hashes: those of ranks, which compress best, have 15 cells per byte, those of clips 0.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perturbations.base.errors import ManifestError

_CELLS_PER_BYTE, _BYTES_PER_BYTE = 32, 256
_LEAST_CELLS, _LEAST_BYTES = 5_000_000, 256 * 2**20
"""What the smallest file may hold."""


def check(path: Path, metadata: pq.FileMetaData) -> None:
    """Raise `ManifestError` where a file's end says that it holds more than files of its size do. Decodes nothing."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    size = path.stat().st_size
    cells = max(metadata.num_rows * metadata.num_columns, sum(chunk.num_values for chunk in chunks))
    if cells > max(_LEAST_CELLS, _CELLS_PER_BYTE * size):
        raise ManifestError(f"{path} holds {metadata.num_rows:,} rows in {size:,} bytes, which no run writes")
    _check_bytes(path, sum(chunk.total_uncompressed_size for chunk in chunks), size)


@contextmanager
def opened(path: Path, schema: pa.Schema, about: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
    """A checked file, to be read by `group`. A text that repeats takes memory once, until all lengths are known.

    `about` is the file's end, where that was read before.
    """
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    with pq.ParquetFile(path, metadata=about, page_checksum_verification=True, read_dictionary=texts) as file:
        yield file


def group(path: Path, file: pq.ParquetFile, schema: pa.Schema, number: int | None = None) -> pa.Table:
    """The columns of a schema in an opened file, of one row group or of all.

    Raises `ManifestError` where texts are longer than those of runs, and what pyarrow raises for a damaged file.
    """
    names = schema.names
    table = file.read(names) if number is None else file.read_row_group(number, names)
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    _check_bytes(path, sum(_length(chunk) for name in texts for chunk in table[name].chunks), path.stat().st_size)
    table = table.select(names).cast(schema)
    table.validate(full=True)
    return table


def _length(column: pa.DictionaryArray) -> int:
    """The bytes of a column's texts."""
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(column.indices)).as_py() or 0


def _check_bytes(path: Path, count: int, size: int) -> None:
    if count > max(_LEAST_BYTES, _BYTES_PER_BYTE * size):
        raise ManifestError(f"{path} holds {count:,} bytes of text in {size:,} bytes, which no run writes")
