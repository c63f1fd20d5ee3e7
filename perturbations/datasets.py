"""Annotation files -> items. Standard library only: Snakemake reads annotations on every start."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
    lines: dict[str, str] = field(default_factory=dict)

    def add(self, where: str, item: Item) -> None:
        """Take an entry that must be the only one of its id."""
        if problem := self._problem(item):
            self.reject(where, item.item_id, problem)
        elif item.item_id in self.items:
            self.reject(where, item.item_id, f"duplicate id, first seen at {self.lines[item.item_id]}")
        else:
            self.items[item.item_id] = item
            self.lines[item.item_id] = where

    def add_caption(self, where: str, item: Item) -> None:
        """Take an entry that may be another caption of an item already there."""
        first = self.items.get(item.item_id)
        if first is None:
            self.add(where, item)
        elif (first.files, first.start_s, first.end_s) != (item.files, item.start_s, item.end_s):
            said = "names another video or span than"
            self.reject(where, item.item_id, f"{said} {self.lines[item.item_id]} does for the same id")
        elif item.captions[0].text in {caption.text for caption in first.captions}:
            self.reject(where, item.item_id, f"duplicate: {self.lines[item.item_id]} has the same id and caption")
        else:
            caption = Caption(f"{item.item_id}#{len(first.captions)}", item.captions[0].text)
            self.items[item.item_id] = Item(**{**first.__dict__, "captions": (*first.captions, caption)})

    def reject(self, where: str, item_id: str, reason: str) -> None:
        self.rejected.append(Rejected(item_id, f"{reason} ({self.place.name}, {where})"))

    def _problem(self, item: Item) -> str | None:
        if not item.item_id:
            return "the id is empty"
        for name in item.files:
            if _leaves(name):
                return f"its path leaves the videos directory: {name!r}"
        if item.start_s is not None and item.end_s is not None and not item.start_s < item.end_s:
            return f"the clip ends at {item.end_s:g} s, not after its start at {item.start_s:g} s"
        return None


def _leaves(name: str) -> bool:
    plain = os.path.normpath(name)
    return "\0" in name or os.path.isabs(name) or plain in ("..", ".") or plain.startswith("../")


def read(name: str, dataset: Dataset) -> Listing:
    """Every entry of a dataset's annotations, as an item or with the reason why it is none.

    Raises `ConfigError` naming the key for a path or a subset id that does not exist, and `AnnotationError` for a file
    that is not what its adapter expects. An empty caption stays, as an empty text.
    """
    check_paths(name, dataset)
    collector = _Collector(dataset.annotations or Path("demo"))
    _ADAPTERS[dataset.adapter](dataset, collector)
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
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise AnnotationError(f"{path} is not a UTF-8 text file (byte {error.start})") from error
    except OSError as error:
        raise AnnotationError(f"{path} cannot be read: {error.strerror}") from error
    if not text.strip():
        raise AnnotationError(f"{path} is empty")
    return text


def _json(path: Path, expected: type, description: str) -> Any:
    try:
        value = json.loads(_text(path))
    except ValueError as error:
        raise AnnotationError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, expected):
        raise AnnotationError(f"{path} must be {description}, not a {type(value).__name__}")
    return value


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    problems = []
    rows = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        if isinstance(row, dict):
            rows.append((f"line {number}", row))
        else:
            problems.append(f"line {number}: an object is expected, not a {type(row).__name__}")
    _raise_problems(path, "is not JSON lines", problems)
    return iter(rows)


def _table(path: Path, required: Iterable[str], delimiter: str = ",") -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a table with a header, and where they are. A row with another number of fields is still a row."""
    reader = csv.DictReader(io.StringIO(_text(path), newline=""), delimiter=delimiter, strict=True)
    try:
        header = reader.fieldnames or []
        if missing := [column for column in required if column not in header]:
            raise AnnotationError(f"{path} has no column {', '.join(map(repr, missing))}; its header is {list(header)}")
        for row in reader:
            yield f"line {reader.line_num}", row
    except csv.Error as error:
        raise AnnotationError(f"{path}, line {reader.reader.line_num}: {error}") from error


def _raise_problems(path: Path, what: str, problems: Sequence[str]) -> None:
    if problems:
        shown = problems[:_MOST_PROBLEMS]
        more = [f"and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
        raise AnnotationError(f"{path} {what}:\n" + "\n".join(f"  {line}" for line in [*shown, *more]))


def _number(value: Any) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    number = float(value)
    return None if number != number else number


def _plain(number: float) -> str:
    return str(int(number)) if number.is_integer() else str(number)


def _one_caption(item_id: str, text: Any) -> tuple[Caption, ...]:
    return (Caption(f"{item_id}#0", str(text or "").strip()),)


# --- adapters --------------------------------------------------------------------------------------------------------


def _annotations(dataset: Dataset) -> Path:
    assert dataset.annotations is not None  # config.parse has made sure
    return dataset.annotations


def _msrvtt(dataset: Dataset, collector: _Collector) -> None:
    """JSFusion's 1k-A: one caption a video."""
    for where, row in _table(_annotations(dataset), ("key", "video_id", "sentence")):
        item_id, key = row["video_id"] or "", row["key"] or ""
        captions = (Caption(key or f"{item_id}#0", (row["sentence"] or "").strip()),)
        collector.add(where, Item(item_id, item_id, (f"{item_id}.mp4",), captions))


def _msvd(dataset: Dataset, collector: _Collector) -> None:
    """All captions of all videos, and the ids of the split."""
    captions_of = _json(_annotations(dataset), dict, "an object {video: [captions]}")
    assert dataset.ids is not None
    for number, line in enumerate(_text(dataset.ids).split("\n"), start=1):
        item_id = line.strip("\r")
        if not item_id.strip():
            continue
        where = f"{dataset.ids.name} line {number}"
        texts = captions_of.get(item_id)
        if not isinstance(texts, list) or not texts:
            collector.reject(where, item_id, "no captions")
            continue
        chosen = texts if dataset.captions == "all" else texts[:1]
        captions = tuple(Caption(f"{item_id}#{index}", str(text).strip()) for index, text in enumerate(chosen))
        collector.add(where, Item(item_id, item_id, (f"{item_id}.avi",), captions))


def _activitynet(dataset: Dataset, collector: _Collector) -> None:
    """One paragraph a clip."""
    path = _annotations(dataset)
    rows = list(_json_lines(path))
    problems = [f"{where}: no 'clip_id' or 'text'" for where, row in rows if not {"clip_id", "text"} <= row.keys()]
    _raise_problems(path, "is not a list of {clip_id, text}", problems)
    for where, row in rows:
        item_id = str(row["clip_id"])
        collector.add(where, Item(item_id, item_id, (f"{item_id}.mp4",), _one_caption(item_id, row["text"])))


LSMDC_LEFT_OUT = "1012_Unbreakable_00.05.16.065-00.05.21.941"


def _lsmdc(dataset: Dataset, collector: _Collector) -> None:
    """Six tab-separated columns without a header; quotes are part of sentences."""
    path = _annotations(dataset)
    problems = []
    rows = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        fields = line.rstrip("\r").split("\t")
        if len(fields) == 6:
            rows.append((f"line {number}", fields))
        else:
            problems.append(f"line {number}: {len(fields)} fields")
    _raise_problems(path, "does not have 6 tab-separated columns", problems)
    for where, fields in rows:
        item_id = fields[0]
        if item_id == LSMDC_LEFT_OUT:
            collector.reject(where, item_id, "left out, as the public loaders and the papers do")
            continue
        file = f"{item_id.partition('.')[0][:-3]}/{item_id}.avi"
        collector.add(where, Item(item_id, item_id, (file,), _one_caption(item_id, fields[5])))


def _didemo(dataset: Dataset, collector: _Collector) -> None:
    """A video's descriptions, joined in the file's order, are its paragraph. Ids are file names without extension."""
    path = _annotations(dataset)
    entries = _json(path, list, "a list of {video, description}")
    problems = [
        f"entry {number}: no 'video' or 'description'"
        for number, entry in enumerate(entries)
        if not isinstance(entry, dict) or not {"video", "description"} <= entry.keys()
    ]
    _raise_problems(path, "is not a list of {video, description}", problems)
    texts: dict[str, list[str]] = {}
    for entry in entries:
        texts.setdefault(str(entry["video"]), []).append(str(entry["description"] or "").strip())
    stems = Counter(os.path.splitext(video)[0] for video in texts)
    for video, said in texts.items():
        stem = os.path.splitext(video)[0]
        item_id = stem if stems[stem] == 1 else video
        files = (video, *(stem + extension for extension in VIDEO_EXTENSIONS if stem + extension != video))
        paragraph = " ".join(text for text in said if text)
        collector.add(f"video {video}", Item(item_id, video, files, _one_caption(item_id, paragraph)))


def _youcook2(dataset: Dataset, collector: _Collector) -> None:
    """Clips of long videos, from the CSV of the retrieval split or from the official JSON (its validation part)."""
    path = _annotations(dataset)
    rows = _youcook2_official(path) if path.suffix == ".json" else _youcook2_table(path)
    for where, video, start, end, text in rows:
        try:
            start_s, end_s = _number(start), _number(end)
        except (TypeError, ValueError):
            start_s = end_s = None
        if start_s is None or end_s is None:
            collector.reject(where, video, f"its span is not two numbers of seconds: {start!r} to {end!r}")
            continue
        item_id = f"{video}_{_plain(start_s)}_{_plain(end_s)}" if video else ""
        twin = collector.items.get(item_id)
        if twin is not None and twin.captions[0].text != text.strip():
            item_id += "_2"  # one span of the real split is described twice, and counts as two clips
        files = tuple(video + extension for extension in (".mp4", ".mkv", ".webm"))
        collector.add(where, Item(item_id, video, files, _one_caption(item_id, text), start_s, end_s))


def _youcook2_table(path: Path) -> Iterator[tuple[str, str, Any, Any, str]]:
    for where, row in _table(path, ("start", "end", "text", "video_id")):
        yield where, row["video_id"] or "", row["start"], row["end"], row["text"] or ""


def _youcook2_official(path: Path) -> Iterator[tuple[str, str, Any, Any, str]]:
    database = _json(path, dict, "an object with 'database'").get("database")
    if not isinstance(database, dict):
        raise AnnotationError(f"{path} has no object 'database'")
    for video, entry in database.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("annotations"), list):
            raise AnnotationError(f"{path}: database.{video} has no list 'annotations'")
        if entry.get("subset") != "validation":
            continue
        for number, clip in enumerate(entry["annotations"]):
            span = clip.get("segment") if isinstance(clip, dict) else None
            start, end = span if isinstance(span, list) and len(span) == 2 else (None, None)
            text = str(clip.get("sentence") or "") if isinstance(clip, dict) else ""
            yield f"database.{video}.annotations[{number}]", video, start, end, text


def _folder(dataset: Dataset, collector: _Collector) -> None:
    """A table of captions; rows that share an id are captions of one item."""
    columns = dataset.columns
    path = _annotations(dataset)
    named = [name for name in (columns.item_id, columns.caption, columns.video, columns.start_s, columns.end_s) if name]
    for where, row in _folder_rows(path, named):
        item_id = "" if row[columns.item_id] is None else str(row[columns.item_id])
        try:
            start_s, end_s = (_number(row[name]) if name else None for name in (columns.start_s, columns.end_s))
        except (TypeError, ValueError):
            collector.reject(where, item_id, "its span is not in seconds")
            continue
        video = str(row[columns.video] or "") if columns.video else None
        files = (video,) if video is not None else _possible_files(item_id)
        if video == "":
            collector.reject(where, item_id, "the video's name is empty")
            continue
        captions = _one_caption(item_id, row[columns.caption])
        item = Item(item_id, video if video is not None else item_id, files, captions, start_s, end_s)
        collector.add_caption(where, item)


def _possible_files(item_id: str) -> tuple[str, ...]:
    own = (item_id,) if item_id.lower().endswith(VIDEO_EXTENSIONS) else ()
    return (*own, *(item_id + extension for extension in VIDEO_EXTENSIONS))


def _folder_rows(path: Path, required: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        yield from _table(path, required, "\t" if kind == ".tsv" else ",")
        return
    if kind == ".parquet":
        rows = _parquet_rows(path)
    elif kind == ".jsonl":
        rows = list(_json_lines(path))
    elif kind == ".json":
        rows = [(f"entry {number}", row) for number, row in enumerate(_json(path, list, "a list of objects"))]
    else:
        raise AnnotationError(f"{path}: captions must be a .csv, .tsv, .json, .jsonl or .parquet file")
    problems = []
    for where, row in rows:
        lacking = [name for name in required if not isinstance(row, dict) or name not in row]
        if lacking:
            problems.append(f"{where}: no {', '.join(map(repr, lacking))}")
    _raise_problems(path, "lacks what `columns` names", problems)
    yield from rows


def _parquet_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
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


def locate(dataset: Dataset, listing: Listing) -> tuple[list[Located], list[Rejected]]:
    """Which items have a video, in the listing's order, and which do not.

    One look at each folder, not at each candidate: a listing may name 90,000 files. Symbolic links are followed.
    """
    if dataset.videos is None:
        raise ValueError(f"a dataset of the adapter '{dataset.adapter}' has no videos to look for")
    names_of: dict[str, frozenset[str]] = {}
    found: list[Located] = []
    missing: list[Rejected] = []
    for item in listing.items:
        present = next((name for name in item.files if _is_there(dataset.videos, name, names_of)), None)
        if present is None:
            named = " or ".join(item.files[:3]) + (" ..." if len(item.files) > 3 else "")
            missing.append(Rejected(item.item_id, f"missing: no {named} in {dataset.videos}"))
            continue
        path = dataset.videos / present
        try:
            status = path.stat()
        except OSError as error:
            missing.append(Rejected(item.item_id, f"{path} cannot be read: {error.strerror}"))
            continue
        if stat.S_ISREG(status.st_mode):
            found.append(Located(item, path, status.st_size))
        else:
            missing.append(Rejected(item.item_id, f"{path} is not a regular file"))
    return found, missing


def _is_there(videos: Path, name: str, names_of: dict[str, frozenset[str]]) -> bool:
    folder, _, file = os.path.normpath(name).rpartition("/")
    if folder not in names_of:
        try:
            names_of[folder] = frozenset(os.listdir(videos / folder))
        except OSError:
            names_of[folder] = frozenset()
    return file in names_of[folder]
