"""Manifests as Parquet files: how they are written, read and checked. The same rows give the same bytes.

A manifest may come from a stranger, and a few kilobytes of Parquet can hold any number of rows. What a file may
hold grows with its size, because rows of runs differ from each other in ids and hashes: those of ranks, which compress
best, have 15 to 70 cells per byte, the most where nearly all ranks are 1, those of clips 0.3.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.manifest import file_digest, manifest_paths
from perturbations.manifest.row_tables import column_problem, rows_of, schema_of, sort_key, table_of
from perturbations.manifest.rows import COMPLETE, RowKind, RowT
from perturbations.manifest.stored_rows import Numbers, StoredRows

SCHEMA_VERSION = 6

GROUP = 2**14
"""Rows of a row group: 12 MB of clips."""

Metadata = Mapping[str, object]
"""The metadata of a manifest."""

STATUSES = "statuses"
"""Its key for the number of rows per status."""

_METADATA = "perturbations"
_WAY_OUT = "where the workflow made it: delete it and run snakemake again, which regenerates it"
_CELLS_PER_BYTE, _BYTES_PER_BYTE = 128, 256
_LEAST_CELLS, _LEAST_BYTES = 5_000_000, 256 * 2**20
"""What the smallest file may hold."""

COUNTS = ("rows", STATUSES)
"""The keys of the metadata for the number of rows, in all and per status."""

_PART = 2**13
"""Rows that are in memory as objects, which take more of it than tables."""

_SORT_MEMORY = "450MB"
"""The memory of the sort on the disk. For 6 million clips, 400 MB and one thread are enough, and 300 MB are not."""

_About = Metadata | Callable[[], Metadata] | None


def write(path: Path, kind: RowKind[RowT], rows: Iterable[RowT], about: _About = None) -> None:
    """Write rows of one kind, sorted by their key, whole or not at all; also millions of them.

    The metadata has the number of rows per status. A function `about` is called once all rows were read.
    """
    some = iter(rows)
    parts = iter(lambda: list(islice(some, _PART)), [])
    _write_tables(path, kind, (table_of(kind, part) for part in parts), about)


def write_part(path: Path, kind: RowKind[RowT], rows: Iterable[RowT]) -> None:
    """Write a shard's part. A lock keeps an orphan of a killed run from writing it too."""
    with storage.one_job(path):
        write(path, kind, rows)


def concatenate(parts: Sequence[Path], output: Path, kind: RowKind[RowT], about: Metadata | None = None) -> None:
    """Write the rows of parts that have no key in common as one manifest, as `write` does; for millions of them."""
    _write_tables(output, kind, (read_table(part, kind) for part in parts), about)


def _write_tables(path: Path, kind: RowKind[RowT], tables: Iterable[pa.Table], about: _About) -> None:
    def described() -> Metadata:
        return (about() if callable(about) else about) or {}

    storage.remove_leftovers([path])  # of jobs that were killed
    with storage.scratch_directory() as folder, storage.output_errors(path), storage.atomic_path(path) as temporary:
        encode(_in_order(kind, tables, Path(folder)), kind, temporary, described)


def _in_order(kind: RowKind[Any], tables: Iterable[pa.Table], folder: Path) -> Iterator[pa.Table]:
    """The rows of tables in the order of their key, empty keys first, in tables of `GROUP` rows and the rest.

    One table is in this order; several are sorted on the disk, in an empty `folder`.
    """
    some = (table.replace_schema_metadata() for table in tables)
    first, second = next(some, None), next(some, None)
    in_order: Iterable[pa.Table] = [] if first is None else [first]
    if second is not None:
        in_order = _sorted_on_disk(kind, chain([first, second], some), folder)
    held: list[pa.Table] = []
    for table in in_order:
        held.append(table)
        while sum(map(len, held)) >= GROUP:
            whole = pa.concat_tables(held)
            yield whole.slice(0, GROUP).combine_chunks()
            held = [whole.slice(GROUP)]
    if sum(map(len, held)):
        yield pa.concat_tables(held).combine_chunks()


def _sorted_on_disk(kind: RowKind[Any], tables: Iterable[pa.Table], folder: Path) -> Iterator[pa.Table]:
    import duckdb

    spooled = folder / "rows.parquet"
    encode(tables, kind, spooled)
    settings: dict[str, Any] = {"memory_limit": _SORT_MEMORY, "temp_directory": str(folder), "threads": 1}
    key = ", ".join(f'"{name}" ASC NULLS FIRST' for name in kind.key)
    with duckdb.connect(config=settings) as database:
        for batch in database.read_parquet(str(spooled)).order(key).to_arrow_reader(_PART):
            yield pa.Table.from_batches([batch]).cast(schema_of(kind))


def encode(groups: Iterable[pa.Table], kind: RowKind[Any], target: Path, about: Callable[[], Metadata] = dict) -> None:
    """Write tables as row groups, then the metadata with the numbers of rows, and the SHA-256.

    `about` is called once all rows are written.
    """
    rows, statuses = 0, Counter[str]()
    # Parquet has its metadata at the file's end, so it is known in time. Arrow's own schema would take its place.
    with pq.ParquetWriter(
        target, schema_of(kind), compression="zstd", write_page_checksum=True, store_schema=False
    ) as writer:
        for table in groups:
            rows += table.num_rows
            statuses.update(table["status"].to_pylist() if "status" in table.column_names else ())
            writer.write_table(table)
        counted = {"rows": rows, STATUSES: dict(sorted(statuses.items()))} if statuses else {"rows": rows}
        described = {"kind": kind.name, "schema_version": SCHEMA_VERSION, **about(), **counted}
        text = json.dumps(described, sort_keys=True)
        writer.add_key_value_metadata({_METADATA: text, file_digest.KEY: "0" * 64})
    file_digest.write_sha256(target)


# --- reading ---------------------------------------------------------------------------------------------------------


def _check_whole(path: Path) -> None:
    """Raise `ManifestError` for a file of other bytes than were written: Arrow crashes on some damaged files."""
    digests = file_digest.digests_of(path)
    if digests is not None and digests[1] == digests[2]:
        return
    if digests is not None:
        raise ManifestError(f"{path} was changed after it was written: its SHA-256 is another")
    with path.open("rb") as file:
        begin = file.read(4)
        file.seek(max(0, path.stat().st_size - 4))
        is_parquet = begin == file.read(4) == b"PAR1"
    problem = "is Parquet, but no manifest of this package, or its end was changed"
    if not is_parquet:
        problem = "cannot be read as Parquet: it does not begin and end as such files do"
    raise ManifestError(f"{path} {problem}" + (f"; {_WAY_OUT}" if manifest_paths.is_manifest(path) else ""))


@contextmanager
def open_parquet(path: Path, *, again: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a manifest of any columns, whose bytes are those that were written; these are not looked at `again`.

    Raises `ManifestError`, also for what fails while it is read.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):  # to open a pipe takes forever
        raise ManifestError(f"{path} is not a regular file")
    try:
        if not (again or path.is_dir()):
            _check_whole(path)
        with pq.ParquetFile(path) as file:
            _check_size(path, file.metadata)
            yield file
    except FileNotFoundError as error:
        raise ManifestError(f"no such manifest: {path}") from error
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        if path.is_dir():
            held = ", ".join(sorted(member.name for member in path.glob("*") if manifest_paths.is_manifest(member)))
            hint = f"; name a manifest in it: {held}" if held else ", not a manifest"
            raise ManifestError(f"{path} is a folder{hint}") from error
        if isinstance(error, PermissionError):
            raise ManifestError(f"{path} cannot be read: permission denied") from error
        way_out = f"; {_WAY_OUT}" if manifest_paths.is_manifest(path) else ""
        raise ManifestError(f"{path} cannot be read as Parquet: {error}{way_out}") from error


def _check_size(path: Path, about: pq.FileMetaData) -> None:
    """Raise `ManifestError` for a file that declares more content than its size allows. Nothing is decoded."""
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    size = path.stat().st_size
    cells = max(about.num_rows * about.num_columns, sum(chunk.num_values for chunk in chunks))
    if cells > max(_LEAST_CELLS, _CELLS_PER_BYTE * size):
        raise ManifestError(f"{path} declares {about.num_rows:,} rows in {size:,} bytes: no run writes such a file")
    count = sum(chunk.total_uncompressed_size for chunk in chunks)
    if count > max(_LEAST_BYTES, _BYTES_PER_BYTE * size):
        raise ManifestError(f"{path} declares {count:,} bytes of text in {size:,} bytes: no run writes such a file")


@contextmanager
def open_manifest(path: Path, kind: RowKind[Any]) -> Iterator[tuple[pq.ParquetFile, dict[str, Any]]]:
    """Open a file that has the columns of a kind, with its metadata. Raises `ManifestError` as `open_parquet` does."""
    with open_parquet(path) as file:
        about = metadata(path, file.schema_arrow)
        if about.get("kind") != kind.name:
            raise ManifestError(f"{path} is a manifest of {about.get('kind')}, not of {kind.name}")
        if problem := column_problem(kind, file.schema_arrow):
            raise ManifestError(f"{path} does not have the columns of {kind.name} manifests: {problem}; {_WAY_OUT}")
        yield file, about


def metadata(path: Path, schema: pa.Schema) -> dict[str, Any]:
    """The metadata of the manifest that has this schema. Raises `ManifestError`."""
    raw = (schema.metadata or {}).get(_METADATA.encode())
    if raw is None:
        raise ManifestError(f"{path} is Parquet, but no manifest of this package")
    try:
        about = json.loads(raw)
        if not isinstance(about, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path} does not describe itself as manifests do: {error}") from error
    if about.get("schema_version") != SCHEMA_VERSION:
        version = f"schema version {str(about.get('schema_version'))[:80]}, this package reads {SCHEMA_VERSION}"
        raise ManifestError(f"{path} has {version}; {_WAY_OUT}")
    return about


def read_table(path: Path, kind: RowKind[Any]) -> pa.Table:
    """All rows of a manifest of a kind. Raises `ManifestError`."""
    with open_manifest(path, kind) as (file, _):
        table = file.read()
        table.validate(full=True)
        return table.replace_schema_metadata(file.schema_arrow.metadata)


def tables(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """The rows of an opened file, one row group at a time."""
    for number in range(file.num_row_groups):
        table = file.read_row_group(number)
        table.validate(full=True)
        yield table.replace_schema_metadata()


def read_rows(path: Path, kind: RowKind[RowT]) -> Sequence[RowT]:
    """The rows of a manifest; those of a file of several row groups are read when they are needed.

    Raises `ManifestError` when it is not a manifest of that kind, as it was written.
    """
    with open_manifest(path, kind) as (file, _):
        if file.num_row_groups <= 1:
            return [row for table in tables(file) for row in rows_of(path, kind, table)]
        return StoredRows(partial(_rows_at, path, kind), np.arange(file.metadata.num_rows))


def read_part(path: Path, kind: RowKind[RowT]) -> Sequence[RowT]:
    """The rows of a part, which a job wrote. A damaged part is removed, so that the next run makes it again.

    Raises `ManifestError` when it is missing or damaged.
    """
    try:
        return read_rows(path, kind)
    except ManifestError as error:
        raise ManifestError(f"{error}{remove_part(path)}") from None


def remove_part(path: Path) -> str:
    """Remove a part that cannot be used, and return words for a message. Only files below `work` are removed."""
    try:
        # As it is named: `work` may be a link to another disk.
        below = Path(os.path.abspath(path)).relative_to(Path.cwd()).parts
    except ValueError:
        return ""
    if below[:1] != (manifest_paths.WORK,) or not path.is_file():
        return ""
    path.unlink()
    return " (removed)"


def in_order(kind: RowKind[RowT], rows: Iterable[RowT]) -> Sequence[RowT]:
    """Rows in the order of their key: in memory, or many of them in a file that goes with the last user of the rows."""
    some = iter(rows)
    first = list(islice(some, GROUP + 1))
    if len(first) <= GROUP:
        return sorted(first, key=lambda row: sort_key(row, kind))
    folder = storage.scratch_directory()
    path = Path(folder.name) / "in_order.parquet"
    write(path, kind, chain(first, some))
    return StoredRows(partial(_rows_at, path, kind, kept=folder), np.arange(stored_rows(path)))


def _rows_at(path: Path, kind: RowKind[RowT], numbers: Numbers, *, kept: object = None) -> list[RowT]:
    """The rows of these numbers; `kept` is what the file goes with."""
    rows: list[RowT] = []
    order = np.argsort(numbers, kind="stable")
    with open_parquet(path, again=True) as file:
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        bounds = np.searchsorted(numbers[order], np.cumsum([0, *sizes]))
        for number, (first, last) in enumerate(pairwise(bounds)):
            if first < last:
                places = numbers[order[first:last]] - sum(sizes[:number])
                rows += rows_of(path, kind, file.read_row_group(number).take(places))
    return [rows[place] for place in np.argsort(order).tolist()]


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a manifest's file: kind, schema version, package and tool versions, configuration hash."""
    with open_parquet(path) as file:
        return metadata(path, file.schema_arrow)


def kind_of(path: Path) -> RowKind[Any]:
    """The kind of a manifest. Raises `ManifestError` when the file is not a manifest."""
    from perturbations.manifest.row_kinds import KINDS  # a job knows the kinds that it reads

    name = read_metadata(path).get("kind")
    if not isinstance(name, str) or name not in KINDS:
        raise ManifestError(f"{path} says it is a manifest of kind '{name}'; known: {sorted(KINDS)}")
    return KINDS[name]


def stored_rows(path: Path) -> int:
    """The number of rows of a manifest, from its end. Raises `ManifestError`."""
    with open_parquet(path) as file:
        return int(file.metadata.num_rows)


def counts(path: Path) -> tuple[int, int]:
    """The number of complete and of other rows of a manifest or a part, from its metadata. Raises `ManifestError`."""
    statuses: dict[str, int] = read_metadata(path).get(STATUSES, {})
    complete = statuses.get(COMPLETE, 0)
    return complete, sum(statuses.values()) - complete


# --- single columns, without their rows ------------------------------------------------------------------------------


def columns_in(path: Path) -> list[str]:
    """The names of the columns that a file has. Raises `ManifestError`."""
    with open_parquet(path) as file:
        return list(file.schema_arrow.names)


def read_columns(path: Path, *names: str) -> pa.Table:
    """Some columns of a manifest or a part, as they are stored; the metadata is not checked.

    Raises `ManifestError`.
    """
    with open_parquet(path) as file:
        return file.read(columns=list(names)).select(list(names))


def stored_bytes(path: Path) -> int:
    """The bytes of the files that a manifest lists. Raises `ManifestError`."""
    import pyarrow.compute as pc

    return pc.sum(read_columns(path, "bytes")["bytes"]).as_py() or 0


def failed_rows(path: Path) -> list[dict[str, str | None]]:
    """The items of a manifest or a part that are not complete: `item_id`, `stage`, `error`. Raises `ManifestError`."""
    import pyarrow.compute as pc

    rows = read_columns(path, "item_id", "stage", "error", "status")
    return rows.filter(pc.not_equal(rows["status"], COMPLETE)).to_pylist()  # type: ignore[no-any-return]
