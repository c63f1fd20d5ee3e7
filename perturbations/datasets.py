"""Annotation files -> items. Standard library only: Snakemake reads annotations on every start."""

from __future__ import annotations

import csv
import functools
import io
import json
import math
import os
import reprlib
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perturbations.config import Dataset, check_paths
from perturbations.errors import AnnotationError, ConfigError

VIDEO_EXTENSIONS = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv", ".3gp", ".ogv")

_MOST_PROBLEMS = 10


@dataclass(frozen=True)
class Caption:
    """One description of an item; empty when the annotation's is."""

    caption_id: str
    text: str


@dataclass(frozen=True)
class Item:
    """A clip with its captions.

    `files` are candidates below the videos directory, of which the first that exists is the video. `start_s` and
    `end_s` are seconds; None means the video's own beginning or end.
    """

    item_id: str
    source_video_id: str
    files: tuple[str, ...]
    captions: tuple[Caption, ...]
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Rejected:
    """One annotated entry that cannot be used, and why."""

    item_id: str
    reason: str


@dataclass(frozen=True)
class Listing:
    """Every annotated entry, in one of the two."""

    items: tuple[Item, ...]
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True)
class Located:
    """An item whose video exists: its path and size in bytes."""

    item: Item
    path: Path
    bytes: int


@dataclass
class _Collector:
    """Items in the annotation's order; what is wrong with an entry makes it a rejection."""

    place: Path
    items: dict[str, Item] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)  # item id -> where it was first seen
    captions: dict[str, dict[str, str]] = field(default_factory=dict)  # item id -> text -> where it was first seen
    caption_ids: set[str] = field(default_factory=set)

    def add(self, where: str, item: Item) -> None:
        """Take an entry that must be the only one of its id."""
        caption_ids = [caption.caption_id for caption in item.captions]
        if problem := _problem(item):
            self.reject(where, item.item_id, problem)
        elif item.item_id in self.items:
            self.reject(where, item.item_id, f"duplicate id, first seen at {self.lines[item.item_id]}")
        elif taken := self.caption_ids.intersection(caption_ids):
            self.reject(where, item.item_id, f"duplicate caption id {min(taken)!r}")
        else:
            self.items[item.item_id] = item
            self.lines[item.item_id] = where
            self.captions[item.item_id] = {caption.text: where for caption in item.captions}
            self.caption_ids.update(caption_ids)

    def add_caption(self, where: str, item: Item) -> None:
        """Take an entry that may be another caption of an item already there."""
        first = self.items.get(item.item_id)
        if first is None:
            self.add(where, item)
            return
        said, text = self.captions[item.item_id], item.captions[0].text
        if (first.files, first.start_s, first.end_s) != (item.files, item.start_s, item.end_s):
            other = f"names another video or span than {self.lines[item.item_id]} does for the same id"
            self.reject(where, item.item_id, other)
        elif text in said:
            self.reject(where, item.item_id, f"duplicate: {said[text]} has the same id and caption")
        elif problem := _problem(item):
            self.reject(where, item.item_id, problem)
        else:
            said[text] = where

    def complete(self) -> None:
        """Give items the captions that later entries brought."""
        for item_id, said in self.captions.items():
            item = self.items[item_id]
            more = tuple(Caption(f"{item_id}#{n}", text) for n, text in enumerate(said) if n >= len(item.captions))
            if more:
                self.items[item_id] = replace(item, captions=(*item.captions, *more))

    def reject(self, where: str, item_id: str, reason: str) -> None:
        # JSON can hold lone surrogates, which no file can: the quarantine shows them escaped
        name = item_id.encode("utf-8", "backslashreplace").decode("utf-8")
        self.rejected.append(Rejected(name, f"{reason} ({self.place.name}, {where})"))

    def reject_malformed(self, where: str, item_id: str, reason: str) -> None:
        """Reject an entry that does not follow the format. If none does, the file is of another format."""
        self.reject(where, item_id, reason)
        self.malformed.append(f"{where}: {reason}")


def _problem(item: Item) -> str | None:
    if not item.item_id:
        return "the id is empty"
    texts = [item.item_id, *item.files, *(caption.text for caption in item.captions)]
    try:
        "\n".join(texts).encode()
    except UnicodeEncodeError:
        return "its id, file name or caption is not valid Unicode text: a lone surrogate"
    for name in item.files:
        if _leaves(name):
            return f"its path leaves the videos directory: {name!r}"
    start_s = item.start_s or 0.0
    if start_s < 0:
        return f"the clip starts at {start_s:g} s, before the video does"
    if item.end_s is not None and item.end_s <= start_s:
        return f"the clip ends at {item.end_s:g} s, not after its start at {start_s:g} s"
    return None


def _leaves(name: str) -> bool:
    if "/" not in name:  # nearly always; a listing can have a million candidates
        return name in ("", ".", "..") or "\0" in name
    plain = os.path.normpath(name)
    return "\0" in name or os.path.isabs(name) or plain in ("..", ".") or plain.startswith("../")


_SPLITS = {
    "msrvtt": "1k-A",
    "activitynet": "val1",
    "youcook2": "validation",
}


def split_of(dataset: Dataset) -> str:
    """The split's name: the configuration's, or the one that the papers evaluate on."""
    return dataset.split or _SPLITS.get(dataset.adapter, "test")


def read(name: str, dataset: Dataset, *, videos: bool = True) -> Listing:
    """Every entry of a dataset's annotations, as an item or with the reason why it is none.

    Raises `ConfigError` naming the key for a path or a subset id that does not exist, and `AnnotationError` for a file
    that is not what its adapter expects: one that cannot be parsed, or of which not one entry follows the format. An
    entry that does not, in a file of others that do, is rejected. A video whose caption is empty or only white space
    stays, with an empty text. Without `videos`, only captions are wanted and there need be no videos directory.
    """
    check_paths(name, dataset if videos else dataset.model_copy(update={"videos": None}))
    collector = _Collector(dataset.annotations or Path("demo"))
    _ADAPTERS[dataset.adapter](dataset, collector)
    if not collector.items:
        _raise_problems(
            collector.place, f"has no entry as the adapter '{dataset.adapter}' expects", collector.malformed
        )
    collector.complete()
    items, rejected = tuple(collector.items.values()), tuple(collector.rejected)
    if dataset.subset is not None:
        items, rejected = _subset(name, dataset.subset, items, rejected)
    if not items and not rejected:
        raise AnnotationError(f"datasets.{name}.annotations: {collector.place} lists no item")
    return Listing(items, rejected)


def _subset(
    name: str, wanted: Sequence[str], items: tuple[Item, ...], rejected: tuple[Rejected, ...]
) -> tuple[tuple[Item, ...], tuple[Rejected, ...]]:
    chosen = set(wanted)
    known = {item.item_id for item in items} | {one.item_id for one in rejected}
    if unknown := [item_id for item_id in wanted if item_id not in known]:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise ConfigError(f"datasets.{name}.subset: not in the annotations: {', '.join(map(repr, unknown[:5]))}{more}")
    return (
        tuple(item for item in items if item.item_id in chosen),
        tuple(one for one in rejected if one.item_id in chosen),
    )


# --- reading files ---------------------------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise AnnotationError(f"{path} is not a UTF-8 text file: line {line}, byte {error.start}") from error
    except OSError as error:
        raise AnnotationError(f"{path} cannot be read: {error.strerror}") from error
    if not text.strip():
        raise AnnotationError(f"{path} is empty")
    return text


def _json(path: Path, expected: type, description: str) -> Any:
    try:
        value = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, expected):
        raise AnnotationError(f"{path} must be {description}, not a {type(value).__name__}")
    return value


def _json_lines(path: Path) -> list[tuple[str, Any]]:
    problems = []
    rows = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append((f"line {number}", json.loads(line)))
        except (ValueError, RecursionError) as error:
            problems.append(f"line {number}: {error}")
    _raise_problems(path, "is not JSON lines", problems)
    return rows


def _table(path: Path, required: Iterable[str], delimiter: str = ",") -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a table with a header, and where they are. A row that is too short lacks its last columns."""
    reader = csv.DictReader(io.StringIO(_text(path), newline=""), delimiter=delimiter, strict=True)
    try:
        _check_header(path, required, reader.fieldnames or [])
        for row in reader:
            yield f"line {reader.line_num}", {key: value for key, value in row.items() if value is not None}
    except csv.Error as error:
        raise AnnotationError(f"{path}, line {reader.reader.line_num}: {error}") from error


def _check_header(path: Path, required: Iterable[str], header: Sequence[str]) -> None:
    if missing := [column for column in required if column not in header]:
        raise AnnotationError(f"{path} has no column {', '.join(map(repr, missing))}; its header is {list(header)}")
    if repeated := [column for column in required if header.count(column) > 1]:
        raise AnnotationError(f"{path} has the column {repeated[0]!r} twice; its header is {list(header)}")


def _checked(
    collector: _Collector,
    rows: Iterable[tuple[str, Any]],
    item_id: str,
    texts: Sequence[str],
    others: Sequence[str] = (),
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows that follow the format, `texts` as str; the rest is rejected. `item_id` is the key that names a row."""
    for where, row in rows:
        try:
            checked = _check_row(row, texts, others)
        except ValueError as error:
            named = row.get(item_id) if isinstance(row, dict) else None
            collector.reject_malformed(where, named if isinstance(named, str) else "", str(error))
        else:
            yield where, checked


def _check_row(row: Any, texts: Sequence[str], others: Sequence[str]) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"an object is expected, not a {type(row).__name__}")
    if None in row:  # where csv puts surplus fields: an unquoted comma, of which the caption must not be cut
        raise ValueError(f"{len(row) - 1 + len(row[None])} fields, where the header has {len(row) - 1}")
    if lacking := [key for key in (*texts, *others) if key not in row]:
        raise ValueError(f"no {' or '.join(map(repr, lacking))}")
    return {**row, **{key: _as_text(key, row[key]) for key in texts}}


def _as_text(key: str, value: Any) -> str:
    if value is None or value != value:  # an empty field of a Parquet table is null or NaN
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{key!r} must be text, not a {type(value).__name__}")
    return str(value)


def _raise_problems(path: Path, what: str, problems: Sequence[str]) -> None:
    if problems:
        shown = problems[:_MOST_PROBLEMS]
        more = [f"and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
        raise AnnotationError(f"{path} {what}:\n" + "\n".join(f"  {line}" for line in [*shown, *more]))


def _seconds(value: Any) -> float | None:
    """A time in seconds; None where the field is empty. Raises `ValueError`."""
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{reprlib.repr(value)} is not a number of seconds")
    return number


def _plain(number: float) -> str:
    return str(int(number)) if number.is_integer() else str(number)


def _one_caption(item_id: str, text: str) -> tuple[Caption, ...]:
    return (Caption(f"{item_id}#0", text.strip()),)


# --- adapters --------------------------------------------------------------------------------------------------------


def _annotations(dataset: Dataset) -> Path:
    assert dataset.annotations is not None  # config.parse has made sure
    return dataset.annotations


def _msrvtt(dataset: Dataset, collector: _Collector) -> None:
    """JSFusion's 1k-A: one caption a video."""
    columns = ("key", "video_id", "sentence")
    for where, row in _checked(collector, _table(_annotations(dataset), columns), "video_id", columns):
        item_id = row["video_id"]
        captions = (Caption(row["key"] or f"{item_id}#0", row["sentence"].strip()),)
        collector.add(where, Item(item_id, item_id, (f"{item_id}.mp4",), captions))


def _msvd(dataset: Dataset, collector: _Collector) -> None:
    """All captions of all videos, and the ids of the split."""
    captions_of = _json(_annotations(dataset), dict, "an object {video: [captions]}")
    assert dataset.ids is not None
    collector.place = dataset.ids  # whose lines are the entries
    for number, line in enumerate(_text(dataset.ids).split("\n"), start=1):
        item_id = line.strip("\r")
        if not item_id.strip():
            continue
        where = f"line {number}"
        texts = captions_of.get(item_id)
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            collector.reject(where, item_id, f"no list of captions in {_annotations(dataset).name}")
            continue
        chosen = texts if dataset.captions == "all" else texts[:1]
        captions = tuple(Caption(f"{item_id}#{index}", text.strip()) for index, text in enumerate(chosen))
        collector.add(where, Item(item_id, item_id, (f"{item_id}.avi",), captions))


def _activitynet(dataset: Dataset, collector: _Collector) -> None:
    """One paragraph a clip."""
    rows = _json_lines(_annotations(dataset))
    for where, row in _checked(collector, rows, "clip_id", ("clip_id", "text")):
        item_id = row["clip_id"]
        collector.add(where, Item(item_id, item_id, (f"{item_id}.mp4",), _one_caption(item_id, row["text"])))


LSMDC_LEFT_OUT = "1012_Unbreakable_00.05.16.065-00.05.21.941"


def _lsmdc(dataset: Dataset, collector: _Collector) -> None:
    """Six tab-separated columns without a header; quotes are part of sentences. Clips are already cut."""
    for number, line in enumerate(_text(_annotations(dataset)).split("\n"), start=1):
        if not line.strip():
            continue
        where, fields = f"line {number}", line.rstrip("\r").split("\t")
        item_id = fields[0]
        if len(fields) != 6:
            collector.reject_malformed(where, item_id, f"{len(fields)} fields, not 6 separated by tabs")
            continue
        if item_id == LSMDC_LEFT_OUT:
            collector.reject(where, item_id, "left out, as the public loaders and the papers do")
            continue
        file = f"{item_id.partition('.')[0][:-3]}/{item_id}.avi"
        collector.add(where, Item(item_id, item_id, (file,), _one_caption(item_id, fields[5])))


def _didemo(dataset: Dataset, collector: _Collector) -> None:
    """A video's descriptions, joined in the file's order, are its paragraph. Ids are file names without extension.

    The 1,037 names of the test file have 1,004 stems: 33 videos are listed under two names, such as `x.mov` and `x.mp4`
    (31 names end in a bare dot). Those keep their full name as id, and none stands in for its twin: a folder with one
    file a stem has 1,004 of the items, as many as the papers evaluate, and no video twice.
    """
    entries = _json(_annotations(dataset), list, "a list of {video, description}")
    rows = ((f"entry {number}", entry) for number, entry in enumerate(entries))
    texts: dict[str, list[str]] = {}
    for where, row in _checked(collector, rows, "video", ("video", "description")):
        if row["video"]:
            texts.setdefault(row["video"], []).append(row["description"].strip())
        else:
            collector.reject(where, "", "the video's name is empty")
    stems = Counter(os.path.splitext(video)[0] for video in texts)
    for video, said in texts.items():
        stem = os.path.splitext(video)[0]
        item_id = stem if stems[stem] == 1 else video
        files = (video, *(stem + extension for extension in VIDEO_EXTENSIONS if stem + extension not in texts))
        paragraph = " ".join(text for text in said if text)
        collector.add(f"video {video}", Item(item_id, video, files, _one_caption(item_id, paragraph)))


def _youcook2(dataset: Dataset, collector: _Collector) -> None:
    """Clips of long videos, from the CSV of the retrieval split or from the official JSON (one of its subsets).

    The CSV describes one span, oJZUxU9szWA 120 to 252, twice with different sentences. Those are two of the 3,350
    clips: from the second on, another sentence for the same span has `_2`, `_3`, ... after its id.
    """
    path = _annotations(dataset)
    if path.suffix.lower() == ".json":
        clips = _youcook2_official(path, split_of(dataset), collector)
    else:
        clips = _youcook2_table(path, collector)
    for where, video, span, text in clips:
        try:
            start_s, end_s = map(_seconds, span)
        except ValueError:
            start_s = end_s = None
        if start_s is None or end_s is None:
            collector.reject(where, video, f"its span is not two numbers of seconds: {reprlib.repr(span)}")
            continue
        item_id = first_id = f"{video}_{_plain(start_s)}_{_plain(end_s)}" if video else ""
        number = 1
        while item_id in collector.items and collector.items[item_id].captions[0].text != text.strip():
            number += 1
            item_id = f"{first_id}_{number}"
        captions = _one_caption(item_id, text)
        collector.add(where, Item(item_id, video, _youcook2_files(video), captions, start_s, end_s))


def _youcook2_table(path: Path, collector: _Collector) -> Iterator[tuple[str, str, list[Any], str]]:
    texts, times = ("video_id", "text"), ("start", "end")
    for where, row in _checked(collector, _table(path, (*texts, *times)), "video_id", texts, times):
        yield where, row["video_id"], [row["start"], row["end"]], row["text"]


def _youcook2_official(path: Path, split: str, collector: _Collector) -> Iterator[tuple[str, str, list[Any], str]]:
    database = _json(path, dict, "an object with 'database'").get("database")
    if not isinstance(database, dict):
        raise AnnotationError(f"{path} has no object 'database'")
    for video, entry in database.items():
        if isinstance(entry, dict) and entry.get("subset") != split:
            continue
        clips = entry.get("annotations") if isinstance(entry, dict) else None
        if not isinstance(clips, list):
            collector.reject_malformed(f"database.{video}", video, "no list 'annotations'")
            continue
        rows = (
            (f"database.{video}.annotations[{number}]", {**clip, "video": video} if isinstance(clip, dict) else clip)
            for number, clip in enumerate(clips)
        )
        for where, row in _checked(collector, rows, "video", ("sentence",), ("segment",)):
            segment = row["segment"]
            pair = isinstance(segment, list) and len(segment) == 2
            yield where, video, segment if pair else [segment, None], row["sentence"]


def _folder(dataset: Dataset, collector: _Collector) -> None:
    """A table of captions; rows that share an id are captions of one item."""
    columns = dataset.columns
    texts = [name for name in (columns.item_id, columns.caption, columns.video) if name]
    times = [name for name in (columns.start_s, columns.end_s) if name]
    rows = _folder_rows(_annotations(dataset), list(dict.fromkeys([*texts, *times])))
    for where, row in _checked(collector, rows, columns.item_id, texts, times):
        item_id = row[columns.item_id]
        video = row[columns.video] if columns.video else item_id
        try:
            start_s, end_s = (_seconds(row[name]) if name else None for name in (columns.start_s, columns.end_s))
        except ValueError as error:
            collector.reject(where, item_id, f"its span is not in seconds: {error}")
            continue
        if item_id and not video:
            collector.reject(where, item_id, "the video's name is empty")
            continue
        files = (video,) if columns.video else _possible_files(item_id)
        captions = _one_caption(item_id, row[columns.caption])
        collector.add_caption(where, Item(item_id, video, files, captions, start_s, end_s))


def _possible_files(item_id: str) -> tuple[str, ...]:
    own = (item_id,) if item_id.lower().endswith(VIDEO_EXTENSIONS) else ()
    return (*own, *(item_id + extension for extension in VIDEO_EXTENSIONS))


def _folder_rows(path: Path, required: Sequence[str]) -> Iterable[tuple[str, Any]]:
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        return _table(path, required, "\t" if kind == ".tsv" else ",")
    if kind == ".parquet":
        return _parquet_rows(path, required)
    if kind == ".jsonl":
        return _json_lines(path)
    if kind == ".json":
        return [(f"entry {number}", row) for number, row in enumerate(_json(path, list, "a list of objects"))]
    raise AnnotationError(f"{path}: captions must be a .csv, .tsv, .json, .jsonl or .parquet file")


def _parquet_rows(path: Path, required: Sequence[str]) -> list[tuple[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _check_header(path, required, file.schema_arrow.names)
            rows = file.read(columns=list(required)).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise AnnotationError(f"{path} is not a Parquet file: {error}") from error
    return [(f"row {number}", row) for number, row in enumerate(rows)]


def _demo(dataset: Dataset, collector: _Collector) -> None:
    """The package's own scenes."""
    from perturbations import demo

    for item_id, text in demo.items(dataset.clips):
        collector.add(item_id, Item(item_id, item_id, (f"{item_id}.mp4",), _one_caption(item_id, text)))


_ADAPTERS: dict[str, Callable[[Dataset, _Collector], None]] = {
    "msrvtt": _msrvtt,
    "msvd": _msvd,
    "activitynet": _activitynet,
    "lsmdc": _lsmdc,
    "didemo": _didemo,
    "youcook2": _youcook2,
    "folder": _folder,
    "demo": _demo,
}


# --- looking for the videos ------------------------------------------------------------------------------------------


def whole_videos(dataset: Dataset, listing: Listing) -> Listing:
    """The videos that a listing's items are parts of, each once, in the listing's order, without captions.

    After them those of the split that no item is a part of, where `ids` lists the split's videos.
    """
    videos = {item.source_video_id: item for item in reversed(listing.items)}
    whole = [
        replace(item, item_id=video, captions=(), start_s=None, end_s=None) for video, item in reversed(videos.items())
    ]
    listed = _split_videos(dataset) if dataset.ids is not None else []
    whole += [Item(video, video, _youcook2_files(video), ()) for video in dict.fromkeys(listed) if video not in videos]
    return Listing(tuple(whole), ())


def _split_videos(dataset: Dataset) -> list[str]:
    """The ids of a split's videos, one a line, as YouCook2's own lists have them: after a folder, `101/0O4bxhpFX9o`."""
    assert dataset.ids is not None
    lines = (line.strip() for line in _text(dataset.ids).split("\n"))
    return [os.path.basename(line) for line in lines if line]


def _youcook2_files(video: str) -> tuple[str, ...]:
    return tuple(video + extension for extension in (".mp4", ".mkv", ".webm"))


def locate(dataset: Dataset, listing: Listing) -> tuple[list[Located], list[Rejected]]:
    """Which items have a video, in the listing's order, and which do not.

    One look at each folder, not at each candidate: a listing may name 90,000 files. Symbolic links are followed.
    Raises `ValueError` for a dataset without a videos directory.
    """
    if dataset.videos is None:
        raise ValueError(f"a dataset of the adapter '{dataset.adapter}' has no videos to look for")
    look = functools.cache(functools.partial(_look, str(dataset.videos)))
    found: list[Located] = []
    missing: list[Rejected] = []
    for item in listing.items:
        # Plain, so that the file looked for is the file read: in `a/../b`, `a` may link to somewhere else
        parts = [os.path.split(os.path.normpath(name)) if "/" in name else ("", name) for name in item.files]
        present = next((os.path.join(*part) for part in parts if part[1] in look(part[0])[0]), None)
        if present is None:
            named = " or ".join(item.files[:3]) + (" ..." if len(item.files) > 3 else "")
            problem = next((look(folder)[1] for folder, _ in parts if look(folder)[1]), None)
            missing.append(Rejected(item.item_id, problem or f"missing: no {named} in {dataset.videos}"))
            continue
        path = dataset.videos / present
        try:
            status = path.stat()
        except OSError as error:
            broken = isinstance(error, FileNotFoundError) and path.is_symlink()
            what = "is a broken symbolic link" if broken else f"cannot be read: {error.strerror}"
            missing.append(Rejected(item.item_id, f"{path} {what}"))
            continue
        if stat.S_ISREG(status.st_mode):
            found.append(Located(item, path, status.st_size))
        else:
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a device")
            missing.append(Rejected(item.item_id, f"{path} is {kind}, not a regular file"))
    return found, missing


_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def _look(videos: str, folder: str) -> tuple[frozenset[str], str | None]:
    """The names in a folder below the videos, or why they cannot be seen. One that does not exist has none."""
    path = os.path.join(videos, folder)
    try:
        return frozenset(os.listdir(path)), None
    except (FileNotFoundError, NotADirectoryError):
        return frozenset(), None
    except OSError as error:
        return frozenset(), f"{path} cannot be listed: {error.strerror}"
