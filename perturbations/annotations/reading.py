"""Annotation files -> items. Standard library only: Snakemake reads annotations on every start."""

from __future__ import annotations

import functools
import math
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perturbations.annotations.listing import Collector, Item, Listing, Place, Rejected, at, raise_problems
from perturbations.annotations.readers import checked, json_lines, lines, parquet, table, whole_json
from perturbations.errors import AnnotationError, ConfigError, short
from perturbations.plan.config import Dataset, check_paths

VIDEO_EXTENSIONS = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv", ".3gp", ".ogv")

_YOUCOOK2_EXTENSIONS = (".mp4", ".mkv", ".webm")
_LONGEST_S = 10_000_000.0


@dataclass(frozen=True)
class Located:
    """An item whose video exists: its path and size in bytes."""

    item: Item
    path: Path
    bytes: int


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
    collector = Collector(dataset.annotations or Path("demo"))
    _ADAPTERS[dataset.adapter](dataset, collector)
    if not collector.items:
        what = f"has no entry as the adapter '{dataset.adapter}' expects"
        raise_problems(collector.place, what, collector.malformed, collector.num_malformed)
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
        raise ConfigError(f"datasets.{name}.subset: not in the annotations: {', '.join(map(short, unknown[:5]))}{more}")
    return (
        tuple(item for item in items if item.item_id in chosen),
        tuple(one for one in rejected if one.item_id in chosen),
    )


def _seconds(value: Any) -> float | None:
    """A time in seconds; None where the field is empty. Raises `ValueError`."""
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= _LONGEST_S:
        raise ValueError(f"{short(value)} is not a number of seconds, at most {_LONGEST_S:,.0f}")
    return number


def _plain(number: float) -> str:
    return str(int(number)) if number.is_integer() else str(number)


# --- adapters --------------------------------------------------------------------------------------------------------


def _annotations(dataset: Dataset) -> Path:
    assert dataset.annotations is not None  # config.parse has made sure
    return dataset.annotations


def _msrvtt(dataset: Dataset, collector: Collector) -> None:
    """JSFusion's 1k-A: one caption a video."""
    columns = ("key", "video_id", "sentence")
    for where, row in checked(collector, table(_annotations(dataset), columns), "video_id", columns):
        item_id, text = row["video_id"], row["sentence"].strip()
        collector.add(Item(item_id, item_id, (f"{item_id}.mp4",), (text,), caption_key=row["key"], where=where))


def _msvd(dataset: Dataset, collector: Collector) -> None:
    """All captions of all videos, and the ids of the split."""
    captions_of = whole_json(_annotations(dataset), dict, "an object {video: [captions]}")
    assert dataset.ids is not None
    collector.place = dataset.ids  # whose lines are the entries
    for number, item_id in lines(dataset.ids):
        texts = captions_of.get(item_id)
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            collector.reject(number, item_id, f"no list of captions in {_annotations(dataset).name}")
            continue
        chosen = tuple(text.strip() for text in (texts if dataset.captions == "all" else texts[:1]))
        collector.add(Item(item_id, item_id, (f"{item_id}.avi",), chosen, where=number))


def _activitynet(dataset: Dataset, collector: Collector) -> None:
    """One paragraph a clip."""
    rows = json_lines(_annotations(dataset))
    for where, row in checked(collector, rows, "clip_id", ("clip_id", "text")):
        item_id = row["clip_id"]
        collector.add(Item(item_id, item_id, (f"{item_id}.mp4",), (row["text"].strip(),), where=where))


LSMDC_LEFT_OUT = "1012_Unbreakable_00.05.16.065-00.05.21.941"


def _lsmdc(dataset: Dataset, collector: Collector) -> None:
    """Six tab-separated columns without a header; quotes are part of sentences. Clips are already cut."""
    for where, line in lines(_annotations(dataset)):
        fields = line.split("\t")
        item_id = fields[0]
        if len(fields) != 6:
            collector.reject_malformed(where, item_id, f"{len(fields)} fields, not 6 separated by tabs")
            continue
        if item_id == LSMDC_LEFT_OUT:
            collector.reject(where, item_id, "left out, as the public loaders and the papers do")
            continue
        file = f"{item_id.partition('.')[0][:-3]}/{item_id}.avi"
        collector.add(Item(item_id, item_id, (file,), (fields[5].strip(),), where=where))


def _didemo(dataset: Dataset, collector: Collector) -> None:
    """A video's descriptions, joined in the file's order, are its paragraph. Ids are file names without extension.

    The 1,037 names of the test file have 1,004 stems: 33 videos are listed under two names, such as `x.mov` and `x.mp4`
    (31 names end in a bare dot). Those keep their full name as id, and none stands in for its twin: a folder with one
    file a stem has 1,004 of the items, as many as the papers evaluate, and no video twice.
    """
    entries = whole_json(_annotations(dataset), list, "a list of {video, description}")
    rows: Iterable[tuple[Place, Any]] = ((f"entry {number}", entry) for number, entry in enumerate(entries))
    texts: dict[str, list[str]] = {}
    for where, row in checked(collector, rows, "video", ("video", "description")):
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
        collector.add(Item(item_id, video, files, (paragraph,), where=f"video {video}"))


def _youcook2(dataset: Dataset, collector: Collector) -> None:
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
            collector.reject(where, video, f"its span is not two numbers of seconds: {short(span)}")
            continue
        item_id = first_id = f"{video}_{_plain(start_s)}_{_plain(end_s)}" if video else ""
        number = 1
        while item_id in collector.items and collector.items[item_id].texts[0] != text.strip():
            number += 1
            item_id = f"{first_id}_{number}"
        texts = (text.strip(),)
        collector.add(Item(item_id, video, (), texts, start_s, end_s, _YOUCOOK2_EXTENSIONS, where=where))


def _youcook2_table(path: Path, collector: Collector) -> Iterator[tuple[Place, str, list[Any], str]]:
    texts, times = ("video_id", "text"), ("start", "end")
    for where, row in checked(collector, table(path, (*texts, *times)), "video_id", texts, times):
        yield where, row["video_id"], [row["start"], row["end"]], row["text"]


def _youcook2_official(path: Path, split: str, collector: Collector) -> Iterator[tuple[Place, str, list[Any], str]]:
    database = whole_json(path, dict, "an object with 'database'").get("database")
    if not isinstance(database, dict):
        raise AnnotationError(f"{path} has no object 'database'")
    for video, entry in database.items():
        if isinstance(entry, dict) and entry.get("subset") != split:
            continue
        clips = entry.get("annotations") if isinstance(entry, dict) else None
        if not isinstance(clips, list):
            collector.reject_malformed(f"database.{video}", video, "no list 'annotations'")
            continue
        rows: Iterable[tuple[Place, Any]] = (
            (f"database.{video}.annotations[{number}]", {**clip, "video": video} if isinstance(clip, dict) else clip)
            for number, clip in enumerate(clips)
        )
        for where, row in checked(collector, rows, "video", ("sentence",), ("segment",)):
            segment = row["segment"]
            pair = isinstance(segment, list) and len(segment) == 2
            yield where, video, segment if pair else [segment, None], row["sentence"]


def _folder(dataset: Dataset, collector: Collector) -> None:
    """A table of captions; rows that share an id are captions of one item."""
    columns = dataset.columns
    fields = [name for name in (columns.item_id, columns.caption, columns.video) if name]
    times = [name for name in (columns.start_s, columns.end_s) if name]
    rows = _folder_rows(_annotations(dataset), list(dict.fromkeys([*fields, *times])))
    for where, row in checked(collector, rows, columns.item_id, fields, times):
        item_id, text = row[columns.item_id], row[columns.caption].strip()
        video = row[columns.video] if columns.video else item_id
        try:
            start_s = _seconds(row[columns.start_s]) if columns.start_s else None
            end_s = _seconds(row[columns.end_s]) if columns.end_s else None
        except ValueError as error:
            collector.reject(where, item_id, f"its span is not in seconds: {error}")
            continue
        first = collector.items.get(item_id)
        if item_id and not video:
            collector.reject(where, item_id, "the video's name is empty")
        elif first is None:
            own = columns.video or item_id.lower().endswith(VIDEO_EXTENSIONS)
            names, extensions = (video,) if own else (), () if columns.video else VIDEO_EXTENSIONS
            collector.add(Item(item_id, video, names, (text,), start_s, end_s, extensions, where=where))
        elif (first.source_video_id, first.start_s, first.end_s) != (video, start_s, end_s):
            other = f"names another video or span than {at(first.where)} does for the same id"
            collector.reject(where, item_id, other)
        else:
            collector.add_caption(first, text, where)


def _folder_rows(path: Path, required: Sequence[str]) -> Iterable[tuple[Place, Any]]:
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        return table(path, required, "\t" if kind == ".tsv" else ",")
    if kind == ".parquet":
        return parquet(path, required)
    if kind == ".jsonl":
        return json_lines(path)
    if kind == ".json":
        return ((f"entry {number}", row) for number, row in enumerate(whole_json(path, list, "a list of objects")))
    raise AnnotationError(f"{path}: captions must be a .csv, .tsv, .json, .jsonl or .parquet file")


def _demo(dataset: Dataset, collector: Collector) -> None:
    """The package's own scenes."""
    from perturbations.demo import film

    for item_id, text in film.items(dataset.clips):
        collector.add(Item(item_id, item_id, (f"{item_id}.mp4",), (text.strip(),), where=item_id))


_ADAPTERS: dict[str, Callable[[Dataset, Collector], None]] = {
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
        replace(item, item_id=video, texts=(), start_s=None, end_s=None) for video, item in reversed(videos.items())
    ]
    listed = _split_videos(dataset) if dataset.ids is not None else []
    whole += [
        Item(video, video, (), (), extensions=_YOUCOOK2_EXTENSIONS)
        for video in dict.fromkeys(listed)
        if video not in videos
    ]
    return Listing(tuple(whole), ())


def _split_videos(dataset: Dataset) -> list[str]:
    """The ids of a split's videos, one a line, as YouCook2's own lists have them: after a folder, `101/0O4bxhpFX9o`."""
    assert dataset.ids is not None
    return [os.path.basename(line.strip()) for _, line in lines(dataset.ids)]


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
