"""Files of annotations: lines, tables, JSON, Parquet, read as a stream where the format allows. Standard library only.

These files come from others and may hold megabytes of anything. An error is an `AnnotationError` that names the file
and the place and quotes little.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, SupportsFloat, TypeVar

from perturbations.base.errors import AnnotationError, cut, did_you_mean, short
from perturbations.datasets.listing import AnnotationPlace, Collector, raise_problems

if TYPE_CHECKING:
    import _csv

    import pyarrow as pa
    import pyarrow.parquet as pq

_LONGEST_S = 10_000_000.0
_MOST_JSON_BYTES = 1024**3
_MOST_FIELD = 64 * 1024**2
_PARQUET_ROWS = 1024
"""Rows of a Parquet table that are read at once."""
_MOST_PROBLEMS = 1_000
_SHOWN = 10

_Value = TypeVar("_Value")
_Fields = dict[str, Any]
"""The columns of a checked row: required texts are str, other columns have the file's type."""


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
        line, byte, mark = _undecodable(path)
        other = "it is UTF-16: " if mark.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else ""
        where = f"line {line}, byte {byte} of the file"
        raise AnnotationError(f"{path} is not a UTF-8 text file: {where}; {other}save it as UTF-8") from None
    except OSError as error:
        raise AnnotationError(f"{path} cannot be read: {error.strerror}{_WAYS.get(type(error), '')}") from error


_WAYS = {PermissionError: "; allow it: chmod u+r", IsADirectoryError: "; name the file in it"}
"""What helps where a file cannot be read."""


def _undecodable(path: Path) -> tuple[int, int, bytes]:
    """The numbers of the line that is not UTF-8, and of the byte in the file; the file's first bytes."""
    before = number = 0
    with path.open("rb") as file:
        mark = file.read(2)
        file.seek(0)
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return number, before + error.start, mark
            before += len(line)
    return number, before, mark


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


Rows = Iterable[tuple[AnnotationPlace, object]]
"""The places of entries, and the entries."""


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
        return {"": _numbered("entry", value)}
    what = "a list of objects, an object from ids to captions, or an object of these, one per split"
    if not isinstance(value, dict):
        raise AnnotationError(f"{path} must be {what}, not a {type(value).__name__}")
    videos, sentences = value.get("videos"), value.get("sentences")
    if isinstance(videos, list) and isinstance(sentences, list):
        return _sentences_by_split(videos, sentences)
    if (by_id := _by_id(value, item_id, captions)) is not None:
        return {"": by_id}
    by_split = {
        name: _numbered(f"{name}, entry", entries) if isinstance(entries, list) else _by_id(entries, item_id, captions)
        for name, entries in value.items()
    }
    are_lists = any(isinstance(entries, list) for entries in value.values())
    for name, entries in value.items():
        if by_split[name] is None or (are_lists and not isinstance(entries, list)):
            kind = type(entries).__name__
            raise AnnotationError(f"{path} must be {what}: below {short(name)} is a {kind}, not a list{_LABELS}")
    return {name: entries or [] for name, entries in by_split.items()}


_LABELS = '; labels of clips: [{"item_id": ..., "label": ...}, ...]'


def _numbered(what: str, entries: Iterable[object]) -> Rows:
    return [(f"{what} {number}", entry) for number, entry in enumerate(entries)]


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
    for where, sentence in _numbered("sentence", sentences):
        split = splits.get(str(sentence.get("video_id"))) if isinstance(sentence, dict) else None
        by_split.setdefault(split if isinstance(split, str) else "", []).append((where, sentence))
    return dict(by_split)


def _json(path: Path) -> Any:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise AnnotationError(f"{path} cannot be read: {error.strerror}") from error
    if size > _MOST_JSON_BYTES:
        raise AnnotationError(f"{path} is larger than {_MOST_JSON_BYTES // 1024**2} MiB, the most a JSON file may have")
    with _opened(path, "") as file:
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


def json_lines(path: Path) -> Iterator[tuple[AnnotationPlace, object]]:
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


def table(
    path: Path, required: Collection[str], delimiter: str = ",", way_out: str = OF_ANOTHER_TABLE
) -> Iterator[tuple[AnnotationPlace, object]]:
    """The lines and rows of a table with a header; a row is a dict from column to text.

    A row that is too short lacks its last columns; one that is too long has the surplus fields under None. `way_out`
    ends the message about a missing column.
    """
    with _csv_reader(path, delimiter) as reader:
        header: list[str | None] = [*next(reader, [])]
        check_header(path, required, header, way_out)
        for fields in reader:
            if fields:
                row: dict[str | None, str | list[str]] = dict(zip(header, fields, strict=False))
                if len(fields) > len(header):
                    row[None] = fields[len(header) :]
                yield reader.line_num, row


_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def columns_of(path: Path) -> list[str]:
    """The columns of a .csv, .tsv or .parquet file that have a name; none of JSON, and of other files.

    Raises `AnnotationError` where two have the same name.
    """
    kind = path.suffix.lower()
    if kind not in (*_SEPARATORS, ".parquet"):
        return []
    every = parquet_header(path) if kind == ".parquet" else header(path, _SEPARATORS[kind])
    names = [name for name in every if name]
    check_header(path, names, every)
    return names


def rows_of(
    path: Path,
    required: Collection[str],
    *,
    item_id: str,
    captions: Sequence[str],
    split: str | None = None,
    lists: Collection[str] = (),
    further: Collection[str] = (),
    way_out: str = "",
) -> Rows:
    """The places and rows of a .csv, .tsv, .json, .jsonl or .parquet file, as `table`, `json_rows` and `parquet` do.

    Raises `AnnotationError`.
    """
    kind = path.suffix.lower()
    if kind in _SEPARATORS:
        return table(path, required, _SEPARATORS[kind], way_out)
    if kind == ".parquet":
        return parquet(path, required, lists, way_out, further)
    if kind == ".jsonl":
        return json_lines(path)
    if kind == ".json":
        return json_rows(path, split, item_id, captions)
    raise AnnotationError(
        f"{path}: a table must be a .csv, .tsv, .json, .jsonl or .parquet file: save it as one of them"
    )


def header(path: Path, delimiter: str = ",") -> list[str]:
    """The names of a table's columns."""
    with _csv_reader(path, delimiter) as reader:
        return next(reader, [])


@contextmanager
def _csv_reader(path: Path, delimiter: str) -> Iterator[_csv.Reader]:
    csv.field_size_limit(_MOST_FIELD)
    with _opened(path, "") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
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


def parquet(
    path: Path, required: Collection[str], lists: Collection[str] = (), way_out: str = "", further: Collection[str] = ()
) -> Iterator[tuple[AnnotationPlace, object]]:
    """The numbers (from 0) and rows of a Parquet table; a row is a dict of the required and the further columns.

    The columns `lists` may hold lists of texts, or of numbers, also of several per item. Of the `further` columns those
    are left out that hold bytes, as pictures are, or records.
    """
    with _parquet_file(path) as file:
        check_header(path, required, file.schema_arrow.names, way_out)
        _check_kinds(path, required, lists, file.schema_arrow)
        number = 0
        plain = [name for name in further if name not in required and _is_plain(file.schema_arrow.field(name).type)]
        for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=[*required, *plain]):
            for row in batch.to_pylist():
                yield f"row {number}", row
                number += 1


def parquet_header(path: Path) -> list[str]:
    """The names of a Parquet table's columns."""
    with _parquet_file(path) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _parquet_file(path: Path, **options: Any) -> Iterator[pq.ParquetFile]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, **options) as file:
            yield file
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise AnnotationError(f"{path}: {_REASONS[type(error)]}") from None
    except (OSError, pa.ArrowException) as error:
        raise AnnotationError(f"{path} is not a Parquet file: {cut(str(error))}; write it again, or as .csv") from error


_REASONS = {
    FileNotFoundError: "no such file",
    IsADirectoryError: "a directory, and no file",
    PermissionError: "not readable",
}
"""Arrow's own messages call each of these no Parquet file."""


def _is_plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    while isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        kind = kind.value_type
    holds_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return not (pa.types.is_nested(kind) or holds_bytes)


def _check_kinds(path: Path, required: Collection[str], lists: Collection[str], schema: pa.Schema) -> None:
    """Raise `AnnotationError` for a column that holds anything but texts or numbers, or lists of them."""
    import pyarrow as pa

    for name in required:
        kind = schema.field(name).type
        depth = 0
        while isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
            kind, depth = kind.value_type, depth + 1
        most = 0 if name not in lists else 2 if pa.types.is_floating(kind) or pa.types.is_integer(kind) else 1
        if depth > most or pa.types.is_nested(kind):
            held = cut(str(schema.field(name).type))
            raise AnnotationError(
                f"{path}: the column {short(name)} holds {held}, not texts or numbers: name another in `columns`"
            )


# --- rows -------------------------------------------------------------------------------------------------------------


def checked(
    collector: Collector,
    rows: Iterable[tuple[AnnotationPlace, object]],
    item_id: str,
    texts: Sequence[str],
    others: Sequence[str] = (),
    *,
    caption: str,
) -> Iterator[tuple[AnnotationPlace, _Fields]]:
    """The rows that follow the format; the rest is rejected. The column `item_id` names a row in messages.

    A row must have the columns `texts`, which become str, and the columns `others`. A number may be an id, but no
    `caption`, which is one of `texts`.
    """
    for where, row in rows:
        try:
            fitting = checked_row(row, texts, others, caption)
        except ValueError as error:
            name = row.get(item_id) if isinstance(row, dict) else None
            collector.reject_malformed(where, name if isinstance(name, str) else "", str(error))
        else:
            yield where, fitting


def checked_row(row: object, texts: Sequence[str], others: Sequence[str], caption: str) -> _Fields:
    """A row that has the columns, as `checked` yields it. Raises `ValueError` for others."""
    if not isinstance(row, dict):
        raise ValueError(f"an object is expected, not a {type(row).__name__}")
    if None in row:  # surplus fields, from an unquoted comma: the caption would be cut there
        number = len(row) - 1
        raise ValueError(
            f"{number + len(row[None])} fields, where the header has {number}: put a text with commas in quotes"
        )
    if lacking := [key for key in (*texts, *others) if key not in row]:
        raise ValueError(f"no {' or '.join(map(short, lacking))}")
    for key in texts:
        if type(row[key]) is not str:
            row[key] = _as_text(key, row[key], numbers=key != caption)
    return row


def _as_text(key: str, value: object, *, numbers: bool) -> str:
    if value is None or value != value:  # an empty field of a Parquet table is null or NaN
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float) if numbers else str):
        raise ValueError(f"{short(key)} must be text, not a {type(value).__name__}")
    if isinstance(value, float) and value.is_integer():  # as pandas holds whole numbers in a column with a gap
        return str(int(value))
    return str(value)


def seconds(value: object) -> float | None:
    """A time in seconds; None where the field is empty. Raises `ValueError`."""
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = float(value) if isinstance(value, SupportsFloat | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= _LONGEST_S:
        raise ValueError(
            f"{short(value)} is not a number of seconds, at most {_LONGEST_S:,.0f}: write 83.5, not 1:23.5"
        )
    return number
