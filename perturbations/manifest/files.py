"""Parquet manifests: how they are written, read and checked. The same rows give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perturbations.base import jsontext, locking, storage, sums
from perturbations.base.errors import ManifestError
from perturbations.manifest import cells, file_limits, locations, row_groups
from perturbations.manifest.columns import columns_of
from perturbations.manifest.kinds import COMPLETE, FORMER, KINDS, SOURCE_STORAGE, SOURCES, TEXTS, RowKind, RowT
from perturbations.manifest.schemas import column_problem, completed
from perturbations.manifest.schemas import schema_of as schema_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

SCHEMA_VERSION = 5

METADATA_HASH = "metadata_sha256"
UNRECORDED = "unrecorded"
"""In metadata: the columns that parts of earlier versions did not have."""
LISTED = "listed_in"
COUNTS = ("rows", cells.STATUSES)
"""In metadata: how many rows there are, in all and per status."""

_About = Mapping[str, object]
"""The metadata of a manifest's file."""
_Described = dict[str, object]
_Cell = str | float | None
"""A path, or None or NaN without one."""


def write(
    path: Path, kind: RowKind[RowT], rows: Iterable[RowT], about: _About | Callable[[], _About] | None = None
) -> None:
    """Write rows of one kind, sorted by their key, whole or not at all; also millions of them.

    The metadata has the number of rows per status, and hashes of their keys and of their content. A function `about` is
    called once all rows were read.
    """
    some = iter(rows)
    _write_tables(path, kind, (table_of(kind, part) for part in _parts(some)), about)


_PART = 2**13


def _parts(rows: Iterator[RowT]) -> Iterator[list[RowT]]:
    """Rows in lists that are short, because they take more memory than tables; an empty list where there are none."""
    part = list(islice(rows, _PART))
    yield part
    while part := list(islice(rows, _PART)):
        yield part


def write_part(path: Path, kind: RowKind[RowT], rows: Iterable[RowT]) -> None:
    """Write a shard's part, and delete what killed jobs left of it. A lock makes sure that no other job writes it."""
    with locking.one_job(path):
        storage.remove_leftovers([path])
        write(path, kind, rows)


def table_of(kind: RowKind[RowT], rows: Iterable[RowT]) -> pa.Table:
    """Rows as a table, sorted by their key."""
    rows = sorted(rows, key=lambda row: _sort_key(row, kind))
    schema = schema_of(kind)
    arrays = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def table_as_in(path: Path, kind: RowKind[RowT], rows: Iterable[RowT]) -> pa.Table:
    """Rows as a table of the columns that a manifest's file has, under the names that its version gave them."""
    return _renamed(table_of(kind, rows), kind, columns_in(path))


def _renamed(table: pa.Table, kind: RowKind[Any], stored: Sequence[str]) -> pa.Table:
    """A table with the columns of an earlier version, under the names that it gave them."""
    return table.select([kind.renamed.get(name, name) for name in stored]).rename_columns(stored)


def concatenate(parts: Sequence[Path], output: Path, kind: RowKind[RowT], about: _About | None = None) -> None:
    """Write the rows of parts that have no key in common as one manifest, as `write` does; for millions of them."""
    _write_tables(output, kind, (_read_table(part, kind) for part in parts), about)


def _write_tables(
    path: Path, kind: RowKind[RowT], tables: Iterable[pa.Table], about: _About | Callable[[], _About] | None
) -> None:
    def described(cells_of: cells.Cells) -> _Described:
        own = (about() if callable(about) else about) or {}
        common = {"kind": kind.name, "schema_version": SCHEMA_VERSION}
        return _signed(path, {**common, **own, **cells.describe(kind, cells_of)})

    with storage.scratch_directory() as folder, storage.output_errors(path):
        ordered = row_groups.in_order(tables, kind.key, Path(folder))
        first = next(ordered)  # before anything is written: all tables are read
        with storage.atomic_path(path) as temporary:
            _encode_described(chain([first], ordered), described, Path(folder), temporary)


def _encode_described(
    ordered: Iterator[pa.Table], described: Callable[[cells.Cells], _Described], folder: Path, target: Path
) -> _Described:
    """Write tables in order with the metadata of their cells, which is returned; many as row groups."""
    first = list(islice(ordered, row_groups.SMALL // row_groups.GROUP))
    rest = next(ordered, first[0].slice(0, 0))
    if not rest.num_rows:
        table = pa.concat_tables(first).combine_chunks()
        about = described(cells.of_table(table))
        _encode([table], about, target)
        return about
    # Hashes are of whole columns, and stand in the file: the rows are written twice.
    spooled = folder / "rows.parquet"
    _encode(chain(first, [rest], ordered), {}, spooled)
    schema = first.pop().schema
    first.clear()
    with file_limits.opened(spooled, schema) as file:
        about = described(_cells_of(spooled, file, schema))
        groups = (file_limits.group(spooled, file, schema, number) for number in range(file.num_row_groups))
        _encode(groups, about, target)
    return about


def _signed(path: Path, described: _About) -> _Described:
    """What a manifest says of itself, with the hash of it."""
    described = {name: value for name, value in described.items() if name != LISTED}
    if sums.is_listed(path):
        described[LISTED] = sums.NAME
    return {**described, METADATA_HASH: metadata_sha256(described)}


def _cells_of(path: Path, file: pq.ParquetFile, schema: pa.Schema) -> cells.Cells:
    """The cells of an opened file, of one column and row group at a time."""

    def chunks(name: str) -> Iterator[pa.Array]:
        column = pa.schema([schema.field(name)])
        for number in range(file.num_row_groups):
            yield file_limits.group(path, file, column, number)[name].combine_chunks()

    return cells.Cells(file.metadata.num_rows, schema.names, chunks)


def metadata_sha256(about: _About) -> str:
    """A hash of all that a manifest says of itself, the hash of its cells among it."""
    rest = {name: value for name, value in about.items() if name != METADATA_HASH}
    return storage.sha256_of(json.dumps(rest, sort_keys=True).encode())


def as_written(path: Path, kind: RowKind[RowT], rows: Iterable[RowT], about: _About, target: Path) -> _Described:
    """Write other rows to `target` in the form of a stored file: with its columns and hashes; returns the metadata.

    So that a repaired manifest of an earlier version equals the file that this version wrote.
    """
    stored = columns_in(path)

    def described(cells_of: cells.Cells) -> _Described:
        own = {**about, **cells.describe(kind, cells_of)}
        return {**own, METADATA_HASH: metadata_sha256(own)} if METADATA_HASH in about else own

    with storage.scratch_directory() as folder:
        ordered = row_groups.in_order((table_of(kind, part) for part in _parts(iter(rows))), kind.key, Path(folder))
        return _encode_described((_renamed(table, kind, stored) for table in ordered), described, Path(folder), target)


def _encode(
    tables: Iterable[pa.Table], described: _About, target: Path | pa.BufferOutputStream, *, empty_group: bool = False
) -> None:
    """Write at least one table, each as a row group."""
    groups = iter(tables)
    first = next(groups).replace_schema_metadata({"perturbations": json.dumps(described, sort_keys=True)})
    with pq.ParquetWriter(target, first.schema, compression="zstd", write_page_checksum=True) as writer:
        for table in chain([first], groups):
            if table.num_rows or empty_group:  # Hugging Face's reader fails at a row group without rows
                writer.write_table(table.replace_schema_metadata(first.schema.metadata))


def changed_parts(path: Path, kind: RowKind[RowT], rows: Sequence[RowT], *, is_listed: bool = False) -> list[str]:
    """The parts of a manifest that differ from what `write` writes for these rows.

    These are names of counts and hashes, or "bytes" where only the bytes differ and pyarrow's version is the same: a
    changed byte may be in the statistics by which readers skip rows, where no cell shows it. Where the file `is_listed`
    with the hash that it has, its bytes are not written again to compare them.
    """
    if _is_large(path):
        return _changed_parts_of_large(path, kind, is_listed=is_listed)
    about, table = read_metadata(path), table_as_in(path, kind, rows)
    names = _changed_names(about, cells.describe(kind, cells.of_table(table)))
    if not names and not is_listed and is_reproducible(about):
        # Earlier versions wrote a row group where there is no row.
        written = [_encoded([table], about, empty_group=group) for group in {False, not table.num_rows}]
        names += [] if path.read_bytes() in written else ["bytes"]
    return names


def _changed_parts_of_large(path: Path, kind: RowKind[Any], *, is_listed: bool) -> list[str]:
    """The same for a file of several row groups: its own rows are written again, group by group."""
    about = read_metadata(path)
    with storage.scratch_directory() as folder, _stored_file(path, kind) as (file, schema):
        names = _changed_names(about, cells.describe(kind, _cells_of(path, file, schema)))
        if not names and not is_listed and is_reproducible(about):
            again = Path(folder) / path.name
            groups = (file_limits.group(path, file, schema, number) for number in range(file.num_row_groups))
            _encode(groups, about, again)
            names += [] if storage.sha256(path) == storage.sha256(again) else ["bytes"]
    return names


def _changed_names(about: _About, described: _About) -> list[str]:
    names = [name for name, value in described.items() if about.get(name) != value]
    if METADATA_HASH in about and not names and about[METADATA_HASH] != metadata_sha256(about):
        names.append("metadata")
    return names


def is_reproducible(about: _About) -> bool:
    """Whether this machine's pyarrow wrote the manifest, so that the same rows and metadata give the same bytes."""
    tools = about.get("tools")
    return isinstance(tools, dict) and tools.get("pyarrow") == pa.__version__


def _encoded(tables: Iterable[pa.Table], about: _About, *, empty_group: bool) -> bytes:
    buffer = pa.BufferOutputStream()
    _encode(tables, about, buffer, empty_group=empty_group)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def _sort_key(row: object, kind: RowKind[RowT]) -> tuple[tuple[bool, object], ...]:
    values = (getattr(row, name) for name in kind.key)
    return tuple((value is not None, value) for value in values)


def read_rows(path: Path, kind: RowKind[RowT]) -> Sequence[RowT]:
    """The rows of a manifest; those of a file of several row groups are read when they are needed.

    Raises `ManifestError` when it is not a complete manifest of that kind.
    """
    if not _is_large(path):
        return _rows_of(path, kind, _checked(path, kind))
    check(path, kind)
    return rows_as_stored(path, kind)


def check(path: Path, kind: RowKind[RowT]) -> None:
    """Raise `ManifestError` when a file is not a complete manifest of that kind."""
    if not _is_large(path):
        _checked(path, kind)
        return
    with _stored_file(path, kind) as (file, schema):
        digest = cells.sha256(_cells_of(path, file, schema), schema.names)
    _check_content(path, schema, digest)


def _is_large(path: Path) -> bool:
    with _opened(path) as file:
        return int(file.num_row_groups) > 1


def check_unchanged(path: Path) -> None:
    """Raise `ManifestError` where a manifest is not as it was written: its cells, its metadata, or its list's file."""
    check(path, kind_of(path))
    about, listed = read_metadata(path), sums.recorded(path)
    changed = "" if about.get(METADATA_HASH) in (None, metadata_sha256(about)) else "its metadata has another hash"
    if listed is None and LISTED in about and sums.is_listed(path):
        changed = f"{sums.list_of(path)} does not list it"
    elif listed not in (None, storage.sha256(path)):
        changed = f"{sums.list_of(path)} lists another file"
    if changed:
        raise ManifestError(f"{path} was changed after it was written: {changed}; `perturb verify` says what to do")


def _checked(path: Path, kind: RowKind[RowT]) -> pa.Table:
    table = _stored_table(path, kind)
    _check_content(path, table.schema, cells.sha256(cells.of_table(table), table.column_names))
    return completed(table, kind)


def _check_content(path: Path, schema: pa.Schema, digest: str) -> None:
    if digest != _described(path, schema).get("content_sha256"):
        raise ManifestError(f"{path} was changed after it was written: its content hash is another")


def rows_as_stored(path: Path, kind: RowKind[RowT]) -> Sequence[RowT]:
    """The rows of a manifest, even if they were changed after it was written. Raises `ManifestError`."""
    if not _is_large(path):
        return _rows_of(path, kind, _read_table(path, kind))
    with _stored_file(path, kind) as (file, _):
        return _stored_rows(path, kind, file.metadata)


def in_order(kind: RowKind[RowT], rows: Iterable[RowT]) -> Sequence[RowT]:
    """Rows in the order of their key: in memory, or many of them in a file that goes with the last user of the rows."""
    some = iter(rows)
    first = list(islice(some, row_groups.SMALL + 1))
    if len(first) <= row_groups.SMALL:
        return sorted(first, key=lambda row: _sort_key(row, kind))
    folder = storage.scratch_directory()
    path = Path(folder.name) / "in_order.parquet"
    tables = (table_of(kind, part) for part in _parts(chain(first, some)))
    _encode(row_groups.in_order(tables, kind.key, Path(folder.name)), {}, path)
    return _stored_rows(path, kind, pq.read_metadata(path), kept=folder)


def _stored_rows(path: Path, kind: RowKind[RowT], about: pq.FileMetaData, kept: object = None) -> Sequence[RowT]:
    sizes = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
    return row_groups.StoredRows(partial(_rows_of_group, path, kind, about, kept=kept), sizes)


def _rows_of_group(
    path: Path,
    kind: RowKind[RowT],
    about: pq.FileMetaData,
    number: int,
    places: NDArray[np.int64] | None,
    *,
    kept: object = None,
) -> list[RowT]:
    """Rows of a group of a checked file, whose end was read: of a large file that takes longer than a group.

    `kept` is what the file goes with.
    """
    schema = about.schema.to_arrow_schema()
    with _unreadable(path), file_limits.opened(path, schema, about) as file:
        table = file_limits.group(path, file, schema, number)
    return _rows_of(path, kind, completed(table if places is None else table.take(places), kind))


def _rows_of(path: Path, kind: RowKind[RowT], table: pa.Table) -> list[RowT]:
    _check_cells(path, kind, table)
    names = table.column_names
    columns = [_cells(table[name].combine_chunks()) for name in names]
    if "vector" in names:
        place = names.index("vector")
        if any(None in value for value in columns[place] if value is not None):
            raise ManifestError(f"{path} has a row whose column 'vector' has an empty place")
        columns[place] = [None if value is None else tuple(value) for value in columns[place]]
    statuses = columns[names.index("status")] if "status" in names else [None] * table.num_rows
    lines = zip(*columns, strict=True)
    return [
        kind.type_of(status)(**dict(zip(names, values, strict=True)))
        for status, values in zip(statuses, lines, strict=True)
    ]


def _cells(column: pa.Array) -> list[Any]:
    """A column's values; texts that are equal are one object, because most columns repeat few texts."""
    if not pa.types.is_string(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    encoded = column.dictionary_encode()
    values = [*encoded.dictionary.to_pylist(), None]
    return [values[place] for place in pc.fill_null(encoded.indices, len(values) - 1).to_pylist()]


def _check_cells(path: Path, kind: RowKind[RowT], table: pa.Table) -> None:
    """Raise `ManifestError` for an empty cell that must be filled, and for an unknown word."""
    for column in columns_of(kind.row):
        cells = table[column.name]
        if cells.null_count and not column.optional:
            raise ManifestError(f"{path} has a row whose column '{column.name}' is empty")
        if column.words is not None:
            unknown = set(pc.unique(cells).to_pylist()) - {*column.words, None}
            if unknown:
                raise ManifestError(
                    f"{path} has a row whose column '{column.name}' holds {str(min(map(str, unknown)))[:80]!r}; "
                    f"known: {', '.join(column.words)}"
                )
    if kind.complete is not None:
        complete = table.filter(pc.equal(table["status"], "complete"))
        for column in columns_of(kind.complete):
            if complete[column.name].null_count and not column.optional:
                raise ManifestError(f"{path} has a complete row whose column '{column.name}' is empty")


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a manifest's file: kind, schema version, package and tool versions, configuration hash."""
    return _described(path, _read_schema(path))


def kind_of(path: Path) -> RowKind[Any]:
    """The kind of a manifest. Raises `ManifestError` when the file is not a manifest."""
    about = read_metadata(path)
    name = about.get("kind")
    if name in FORMER:
        raise ManifestError(f"{path} is of the kind {name}, which no job reads any more; {_way(about)}")
    if not isinstance(name, str) or name not in KINDS:
        raise ManifestError(f"{path} says it is a manifest of kind '{name}'; known: {sorted(KINDS)}")
    return KINDS[name]


def is_former(path: Path) -> bool:
    """Whether a manifest is of a kind of earlier versions, which opens as a table. Raises `ManifestError`."""
    return read_metadata(path).get("kind") in FORMER


def check_former(path: Path) -> pa.Table:
    """The table of such a manifest. Raises `ManifestError` where it was changed after it was written."""
    schema = _read_schema(path)
    with _decoding(path, schema) as file:
        table = file_limits.group(path, file, schema)
    _check_content(path, schema, cells.sha256(cells.of_table(table), table.column_names))
    return table


def read_manifest(path: str | Path) -> pd.DataFrame:
    """Read a manifest as a DataFrame, one line per row.

    The paths in the columns `path`, `source_path` and `guide` are made absolute, so that rows can be handed to
    `open_clip` from anywhere. `DataFrame.attrs` holds the file's metadata. Raises `ManifestError` when the file is
    missing or not a manifest, or when a row names a file outside the corpus.
    """
    path = Path(path)
    table = check_former(path) if is_former(path) else _read_table(path, kind_of(path))
    frame: pd.DataFrame = table.to_pandas()
    described = read_metadata(path)
    root = locations.root_of(path, described)
    is_source = [described["kind"] == SOURCES.name] * len(frame)
    if "storage" in frame.columns:
        is_source = (frame["storage"] == SOURCE_STORAGE).tolist()
    for column in locations.COLUMNS:
        if column in frame.columns:
            frame[column] = _absolute(frame[column].tolist(), is_source, column, root)
    frame.attrs.update(described)
    return frame


def _absolute(values: Sequence[_Cell], is_source: Sequence[bool], column: str, root: Path) -> list[_Cell]:
    known: dict[tuple[str, bool], str] = {}
    absolute: list[_Cell] = []
    for value, of_source in zip(values, is_source, strict=True):
        if not isinstance(value, str):
            absolute.append(value)
            continue
        key = value, of_source
        if key not in known:
            table = locations.SOURCE_COLUMNS if of_source else locations.COLUMNS
            known[key] = table[column](value, root)
        absolute.append(known[key])
    return absolute


def read_captions(path: str | Path, *, accepted_only: bool = True) -> pd.DataFrame:
    """Read a manifest of perturbed captions, without those that the fidelity gate did not accept.

    The paper leaves them out too. Raises `ManifestError` when the file is missing or not such a manifest.
    """
    frame = read_manifest(path)
    if frame.attrs["kind"] != TEXTS.name:
        raise ManifestError(f"{path} is a manifest of {frame.attrs['kind']}, not of {TEXTS.name}")
    return frame[frame["accepted"]].reset_index(drop=True) if accepted_only else frame


_ANEW = "where the workflow made it: delete it and run snakemake again, which regenerates it"


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise ManifestError(f"no such manifest: {path}") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        if path.is_dir():
            held = ", ".join(sorted(member.name for member in path.glob("*.parquet")))
            hint = f"; name a manifest in it: {held}" if held else ", not a manifest"
            raise ManifestError(f"{path} is a folder{hint}") from error
        if isinstance(error, PermissionError):
            raise ManifestError(f"{path} cannot be read: permission denied") from error
        raise ManifestError(f"{path} is not a Parquet file: {error}; {_ANEW}") from error


def _read_schema(path: Path) -> pa.Schema:
    with _opened(path) as file:
        return file.schema_arrow


def _described(path: Path, schema: pa.Schema) -> dict[str, Any]:
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
            f"{_way(described)}"
        )
    return described


def columns_in(path: Path) -> list[str]:
    """The columns that a manifest's file has. One of an earlier version may lack some that may be empty."""
    return list(_read_schema(path).names)


def read_columns(path: Path, *names: str) -> pa.Table:
    """Some columns of a manifest or a part, as they are stored; what it says of itself is not checked.

    Raises `ManifestError`.
    """
    with _opened(path) as file, _unreadable(path):
        file_limits.check(path, file.metadata)
        return file.read(columns=list(names)).select(list(names))


def column_groups(path: Path, *names: str) -> Iterator[pa.Table]:
    """The same columns, of one row group after the other. Raises `ManifestError`."""
    with _opened(path) as file, _unreadable(path):
        file_limits.check(path, file.metadata)
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, list(names)).select(list(names))


def stored_bytes(path: Path) -> int:
    """The bytes of the files that a manifest lists. Raises `ManifestError`."""
    return pc.sum(read_columns(path, "bytes")["bytes"]).as_py() or 0


def stored(path: Path) -> Iterator[tuple[str, int]]:
    """The path and the bytes of each file that a manifest or a part of clips lists. Raises `ManifestError`."""
    for group in column_groups(path, "path", "bytes"):
        columns = group.filter(pc.is_valid(group["path"])).to_pydict()
        yield from zip(columns["path"], columns["bytes"], strict=True)


def failed_rows(path: Path) -> list[dict[str, str | None]]:
    """The items of a manifest or a part that are not complete: `item_id`, `stage`, `error`. Raises `ManifestError`."""
    groups = column_groups(path, "item_id", "stage", "error", "status")
    return [row for group in groups for row in group.filter(pc.not_equal(group["status"], COMPLETE)).to_pylist()]


def stored_rows(path: Path) -> int:
    """The number of rows of a manifest, from its end. Raises `ManifestError`."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def counts(path: Path) -> tuple[int, int]:
    """The number of complete and of other rows of a manifest or a part, from its metadata. Raises `ManifestError`."""
    statuses: dict[str, int] = read_metadata(path).get(cells.STATUSES, {})
    complete = statuses.get(COMPLETE, 0)
    return complete, sum(statuses.values()) - complete


def unrecorded(paths: Iterable[Path], kind: RowKind[Any]) -> list[str]:
    """The columns that at least one manifest of the kind lacks, or says that its parts lacked."""
    known = set(schema_of(kind).names)
    absent: set[str] = set()
    for path in paths:
        try:
            schema = _read_schema(path)
            described = _described(path, schema)
        except ManifestError:
            continue  # a part of a run before, which nothing reads
        if described.get("kind") == kind.name:
            of_parts = described.get(UNRECORDED, [])
            absent |= known - {kind.renamed.get(name, name) for name in schema.names}
            absent |= {name for name in of_parts if name in known} if isinstance(of_parts, list) else set()
    return sorted(absent)


def _read_table(path: Path, kind: RowKind[RowT]) -> pa.Table:
    return completed(_stored_table(path, kind), kind)


def _stored_table(path: Path, kind: RowKind[RowT]) -> pa.Table:
    with _stored_file(path, kind) as (file, schema):
        return file_limits.group(path, file, schema)


@contextmanager
def _stored_file(path: Path, kind: RowKind[Any]) -> Iterator[tuple[pq.ParquetFile, pa.Schema]]:
    """A file that has the columns of a kind, and its schema. Raises `ManifestError` also for what fails inside."""
    schema = _read_schema(path)
    described = _described(path, schema)
    if described.get("kind") != kind.name:
        raise ManifestError(f"{path} is a manifest of {described.get('kind')}, not of {kind.name}")
    if problem := column_problem(kind, schema):
        raise ManifestError(f"{path} does not have the columns of {kind.name} manifests: {problem}; {_way(described)}")
    with _decoding(path, schema) as file:
        yield file, schema


@contextmanager
def _decoding(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetFile]:
    with _unreadable(path), file_limits.opened(path, schema) as file:
        file_limits.check(path, file.metadata)
        yield file


@contextmanager
def _unreadable(path: Path) -> Iterator[None]:
    """Raise `ManifestError` for what fails inside."""
    try:
        yield
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise ManifestError(f"{path} cannot be read: {error}; {_ANEW}") from error


def _way(described: _About) -> str:
    made = str(described.get("package_version", "of an unknown version"))[:80]
    return f"it was written by perturbations {made}: open it with that version, or delete it and run snakemake again"
