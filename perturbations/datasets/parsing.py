"""Files of annotations: lines, tables, JSON, Parquet, read as a stream where the format allows. Standard library only.

These files come from others and may hold megabytes of anything. An error is an `AnnotationError` that names the file
and the place and quotes little.
"""

from __future__ import annotations

import codecs
import csv
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from perturbations.base.errors import AnnotationError, cut, did_you_mean, short
from perturbations.datasets.listing import AnnotationPlace, raise_problems

if TYPE_CHECKING:
    import _csv

    import pyarrow as pa
    import pyarrow.parquet as pq

_MOST_JSON_BYTES = 1024**3
_MOST_FIELD = 64 * 1024**2
_PARQUET_ROWS = 1024
"""Rows of a Parquet table that are read at once."""
_MOST_PROBLEMS = 1_000
_SHOWN = 10

_Value = TypeVar("_Value")
Rows = Iterable[tuple[AnnotationPlace, object]]
"""The places of entries, and the entries."""


@contextmanager
def _opened(path: Path, newline: str) -> Iterator[IO[str]]:
    """A UTF-8 text file that holds more than white space."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            while not (part := file.read(1 << 16)).strip():
                if not part:
                    raise AnnotationError(f"{path} is empty: it lists the clips, one per line or entry")
            file.seek(0)
            yield file
    except UnicodeDecodeError:
        raise AnnotationError(f"{path} is not a UTF-8 text file: {_first_other_byte(path)}save it as UTF-8") from None
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> AnnotationError:
    if isinstance(error, FileNotFoundError):
        return AnnotationError(f"{path}: no such file")
    return AnnotationError(f"{path} cannot be read: {error.strerror}{_WAYS.get(type(error), '')}")


_WAYS = {PermissionError: "; allow it: chmod u+r", IsADirectoryError: "; name the file in it"}
"""What helps where a file cannot be read."""


def _first_other_byte(path: Path) -> str:
    """Where a file is not UTF-8, and whether it is UTF-16, as spreadsheets write it."""
    with path.open("rb") as file:
        is_utf16 = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        file.seek(0)
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = file.tell() - len(line) + error.start
                return f"line {number}, byte {byte} of the file; {'it is UTF-16: ' if is_utf16 else ''}"
    return ""  # it has changed since


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not blank, without their ends, and their numbers from 1."""
    with _opened(path, "\n") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line.removesuffix("\n").rstrip("\r")


def whole_json(path: Path, expected: type[_Value], description: str) -> _Value:
    """The value of a JSON file, which must have the type `expected`."""
    value = _json(path)
    if not isinstance(value, expected):
        raise AnnotationError(f"{path} must be {description}, not a {type(value).__name__}")
    return value


def json_list(path: Path, description: str) -> Rows:
    """The places and entries of a JSON file that holds a list."""
    return numbered("entry", whole_json(path, list, description))


def numbered(what: str, entries: Iterable[object]) -> list[tuple[AnnotationPlace, object]]:
    """Entries with their places, such as `entry 0`."""
    return [(f"{what} {number}", entry) for number, entry in enumerate(entries)]


def json_rows(path: Path, split: str | None, item_id: str, captions: Sequence[str]) -> Rows:
    """The places and entries of a file of captions in JSON; of one with splits those of `split`, or of all for None.

    See `json_splits` for the forms and for `captions`. Where ids are keys, entries have them as `item_id`, and texts
    as the first of `captions`.
    """
    by_split = json_splits(path, item_id, captions)
    if split is None or [*by_split] == [""]:
        return chain.from_iterable(by_split.values())
    if split not in by_split:
        keys = ", ".join(map(short, [*by_split][:_SHOWN])) + (", ..." if len(by_split) > _SHOWN else "")
        raise AnnotationError(
            f"{path} has entries below {keys}, none below {short(split)}: the dataset's `split` says which to read "
            "(datasets.<name>.split in config.yaml; `perturb init` takes 'test')"
        )
    return by_split[split]


def json_splits(path: Path, item_id: str, captions: Sequence[str]) -> dict[str, Rows]:
    """The entries of a file of captions in JSON by their splits; by "" where it has none.

    It is a list of objects; an object from ids to captions, lists of captions, or objects with one of the members
    `captions`; an object of any of these, one per split; or MSR-VTT's own form, of `videos` with their splits and
    `sentences`. Raises `AnnotationError` for other forms.
    """
    value = _json(path)
    if isinstance(value, list):
        return {"": numbered("entry", value)}
    what = "a list of objects, an object from ids to captions, or an object of these, one per split"
    if not isinstance(value, dict):
        raise AnnotationError(f"{path} must be {what}, not a {type(value).__name__}")
    videos, sentences = value.get("videos"), value.get("sentences")
    if isinstance(videos, list) and isinstance(sentences, list):
        return _sentences_by_split(videos, sentences)
    if (by_id := _by_id(value, item_id, captions)) is not None:
        return {"": by_id}
    by_split = {
        name: numbered(f"{name}, entry", entries) if isinstance(entries, list) else _by_id(entries, item_id, captions)
        for name, entries in value.items()
    }
    are_lists = any(isinstance(entries, list) for entries in value.values())
    for name, entries in value.items():
        if by_split[name] is None or (are_lists and not isinstance(entries, list)):
            kind = type(entries).__name__
            raise AnnotationError(f"{path} must be {what}: below {short(name)} is a {kind}, not a list{_LABELS}")
    return {name: entries or [] for name, entries in by_split.items()}


_LABELS = '; labels of clips: [{"item_id": ..., "label": ...}, ...]'


def _by_id(value: object, item_id: str, captions: Sequence[str]) -> Rows | None:
    """The entries of an object from ids to captions; None where it is another one."""
    if not isinstance(value, dict) or any(name in value for name in (item_id, *captions)):
        return None
    has_texts = any(
        isinstance(text, str) for own in value.values() for text in (own if isinstance(own, list) else [own])
    )
    has_objects = value and all(
        isinstance(own, dict) and any(name in own for name in captions) for own in value.values()
    )
    if not has_texts and not has_objects:
        return None
    return [
        (f"id {short(key)}", {item_id: key, **(own if has_objects else {captions[0]: own})})
        for key, own in value.items()
    ]


def _sentences_by_split(videos: Iterable[object], sentences: Iterable[object]) -> dict[str, Rows]:
    """The sentences of MSR-VTT's own file by the splits of their videos; by "" where videos have none."""
    splits = {str(video.get("video_id")): video.get("split") for video in videos if isinstance(video, dict)}
    by_split: dict[str, list[tuple[AnnotationPlace, object]]] = {}
    for where, sentence in numbered("sentence", sentences):
        video = sentence.get("video_id") if isinstance(sentence, dict) else None
        split = splits.get(str(video))
        # What is of no video is rejected in whichever split is read.
        own = [split] if isinstance(split, str) else [""] if video is not None else {*splits.values()}
        for name in own:
            by_split.setdefault(name if isinstance(name, str) else "", []).append((where, sentence))
    return dict(by_split)


def _json(path: Path) -> Any:
    with _opened(path, "") as file:
        if os.fstat(file.fileno()).st_size > _MOST_JSON_BYTES:
            most = _MOST_JSON_BYTES // 1024**2
            raise AnnotationError(f"{path} is larger than {most} MiB, the most a JSON file may have")
        try:
            return json.load(file, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            if isinstance(error, UnicodeDecodeError):
                raise
            lines_of_json = "; JSON lines have the extension .jsonl" if str(error).startswith("Extra data") else ""
            raise AnnotationError(f"{path} is not JSON: {cut(str(error))}{lines_of_json or _CHECK}") from None


_CHECK = "; `python -m json.tool FILE` shows where"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises `ValueError` where a key appears twice: it is open which of the two values counts."""
    members = dict(pairs)
    if len(members) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"an object has the key {short(key)} twice")
    return members


def json_lines(path: Path) -> Rows:
    """The places and values of a file of JSON lines. At its end, an error names all lines that are not JSON."""
    shown = []
    problems = 0
    for number, line in lines(path):
        try:
            yield number, json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            problems += 1
            if problems <= _SHOWN:
                shown.append(f"line {number}: {cut(str(error))}")
            if problems == _MOST_PROBLEMS:
                break
    raise_problems(path, "is not JSON lines", shown, problems)


OF_ANOTHER_TABLE = ". A table of your own is read by `adapter: folder`"
"""What helps where a published dataset's columns are missing."""


def table(path: Path, required: Collection[str], way_out: str = OF_ANOTHER_TABLE) -> Rows:
    """The lines and rows of a table with a header; a row is a dict from column to text.

    Tabs separate the fields of a .tsv file, commas those of others. A row that is too short lacks its last columns; one
    that is too long has the surplus fields under None. `way_out` ends the message about a missing column.
    """
    with _csv_reader(path) as reader:
        header: list[str | None] = [*next(reader, [])]
        check_header(path, required, header, way_out)
        for fields in reader:
            if fields:
                row: dict[str | None, str | list[str]] = dict(zip(header, fields, strict=False))
                if len(fields) > len(header):
                    row[None] = fields[len(header) :]
                yield reader.line_num, row


def columns_of(path: Path) -> list[str]:
    """The columns of a .csv, .tsv or .parquet file that have a name; none of JSON, and of other files.

    Raises `AnnotationError` where two have the same name.
    """
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet"):
        return []
    every = header(path)
    names = [name for name in every if name]
    check_header(path, names, every)
    return names


def rows_of(
    path: Path,
    required: Collection[str],
    *,
    item_id: str = "",
    captions: Sequence[str] = (),
    split: str | None = None,
    further: Collection[str] = (),
    way_out: str = "",
) -> Rows:
    """The places and rows of a .csv, .tsv, .json, .jsonl or .parquet file, as `table`, `json_rows` and `parquet` do.

    Raises `AnnotationError`.
    """
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        return table(path, required, way_out)
    if kind == ".parquet":
        return parquet(path, required, way_out, further)
    if kind == ".jsonl":
        return json_lines(path)
    if kind == ".json":
        return json_rows(path, split, item_id, captions)
    raise AnnotationError(
        f"{path}: a table must be a .csv, .tsv, .json, .jsonl or .parquet file: save it as one of them"
    )


def header(path: Path) -> list[str]:
    """The names of the columns of a table, of Parquet or of text."""
    if path.suffix.lower() == ".parquet":
        with _parquet_file(path) as file:
            return list(file.schema_arrow.names)
    with _csv_reader(path) as reader:
        return next(reader, [])


@contextmanager
def _csv_reader(path: Path) -> Iterator[_csv.Reader]:
    csv.field_size_limit(_MOST_FIELD)
    with _opened(path, "") as file:
        reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        try:
            yield reader
        except csv.Error as error:
            quotes = "; a field with a quote, a comma or a line end is in quotes, and its own quotes are doubled"
            raise AnnotationError(f"{path}, line {reader.line_num}: {error}{quotes}") from error


def check_header(path: Path, required: Collection[str], header: Sequence[str | None], way_out: str = "") -> None:
    """Raise `AnnotationError` unless the header has each of the columns, once."""
    number_of = Counter(header)
    if missing := [column for column in required if column not in number_of]:
        if blank := [name for name in header if name and name != name.strip() and name.strip() in missing]:
            raise AnnotationError(
                f"{path}: the header has a blank in {short(blank[0])}: remove it, or name the column so"
            )
        raise AnnotationError(
            f"{path} has no column {', '.join(map(short, missing))}; its header is {short(list(header))}"
            + (of_separator(header) or f"{did_you_mean(missing[0], filter(None, header))}{way_out}".replace("?.", "?"))
        )
    if repeated := [column for column in required if number_of[column] > 1]:
        raise AnnotationError(
            f"{path} has the column {short(repeated[0])} twice: rename one; its header is {short(list(header))}"
        )


def of_separator(header: Sequence[str | None]) -> str:
    """What separates the fields of a header that was read as one field; nothing where it is one."""
    if len(header) != 1 or not header[0]:
        return ""
    separator = next((mark for mark in ";\t|," if mark in header[0]), None)
    return f", in which {separator!r} separates the fields" if separator else ""


def parquet(path: Path, required: Collection[str], way_out: str = "", further: Collection[str] = ()) -> Rows:
    """The numbers (from 0) and rows of a Parquet table; a row is a dict of the required and the further columns.

    Of the `further` columns those are left out that hold bytes, as pictures are, or records.
    """
    with _parquet_file(path) as file:
        check_header(path, required, file.schema_arrow.names, way_out)
        plain = [name for name in further if name not in required and _is_plain(file.schema_arrow.field(name).type)]
        rows = (
            row
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=[*required, *plain])
            for row in batch.to_pylist()
        )
        for number, row in enumerate(rows):
            yield f"row {number}", row


@contextmanager
def _parquet_file(path: Path) -> Iterator[pq.ParquetFile]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as stream, pq.ParquetFile(stream) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.strerror:  # the system's; Arrow has its own of this type
            raise _unreadable(path, error) from error
        raise AnnotationError(f"{path} is not a Parquet file: {cut(str(error))}; write it again, or as .csv") from error


def _is_plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    while isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        kind = kind.value_type
    holds_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return not (pa.types.is_nested(kind) or holds_bytes)
