"""The list files that planning writes for jobs: one JSON object per line. Snakemake imports it: no NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.manifest import layout


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedClip:
    """A clip of a shard.

    Attributes:
        item_id, source_video_id: the clip's id, and the id of the video that contains it.
        path: of the video, as the configuration gives it.
        bytes: size of the video when the list was written, so that a replaced video is noticed; None for a demo video
            that has not been generated yet.
        start_s, end_s: the clip's span in the video in seconds; None: the video's beginning or end.
        split: the split's name.
    """

    item_id: str
    source_video_id: str
    path: str
    bytes: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    split: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCaption:
    """A caption, and the item that it describes."""

    caption_id: str
    item_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedItem:
    """A listed item that no job uses, and the reason; `missing`: it has no video file."""

    item_id: str
    split: str
    error: str
    missing: bool


_Line = TypeVar("_Line", ListedClip, ListedCaption, RejectedItem)


def write(path: Path, lines: Iterable[_Line]) -> None:
    """Write a list file, unless it holds these lines already."""
    storage.write_text_if_changed(path, "".join(map(_text, lines)))


def _text(line: _Line) -> str:
    """A line as JSON with sorted keys. There may be a million, and `json.dumps` of an object takes longer."""
    form, values = _FORMS[type(line)]
    # ASCII only: names may contain characters that some readers treat as line ends.
    return form % tuple([_ENCODE.get(type(value), json.dumps)(value) for value in values(line)])


_ENCODE: dict[type, Callable[[Any], str]] = {
    str: encode_basestring_ascii,
    int: int.__repr__,
    type(None): lambda value: "null",
}


def write_captions(path: Path, captions: Iterable[tuple[str, str, str]]) -> None:
    """Write a list of captions by their ids, items' ids and texts, as `write` does, ten times as fast."""
    encoded = (map(encode_basestring_ascii, caption) for caption in captions)
    lines = (
        f'{{"caption_id":{caption_id},"item_id":{item_id},"text":{text}}}\n' for caption_id, item_id, text in encoded
    )
    storage.write_text_if_changed(path, "".join(lines))


def read(path: Path, line: type[_Line]) -> list[_Line]:
    """The lines of a list file. Raises `ManifestError` where there is none."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise ManifestError(f"no such list file: {path}; run snakemake again, which writes it") from None
    return [line(**json.loads(text)) for text in lines]


def shards(folder: Path) -> list[str]:
    """The shards whose list files a folder holds, sorted; not those that another process is writing."""
    every = folder.glob(layout.name("shard_list", shard="*"))
    return sorted(layout.shard_of(path) for path in every if not storage.is_leftover(path))


def counts(folder: Path) -> dict[str, int]:
    """The number of lines of every list file of a folder, by shard; they are not parsed."""
    return {
        shard: (folder / layout.name("shard_list", shard=shard)).read_bytes().count(b"\n") for shard in shards(folder)
    }


def read_folder(folder: Path, line: type[_Line]) -> dict[str, list[_Line]]:
    """The lines of every list file of a folder, by shard. Raises `ManifestError`."""
    return {shard: read(folder / layout.name("shard_list", shard=shard), line) for shard in shards(folder)}


_FORMS = {
    line: ("{" + ",".join(f'"{name}":%s' for name in names) + "}\n", attrgetter(*names))
    for line, names in (
        (line, sorted(field.name for field in fields(line))) for line in (ListedClip, ListedCaption, RejectedItem)
    )
}


Recipes = Mapping[str, str]
"""Scenario, PERTURBATION/SEVERITY -> the JSON of its current recipe."""


def write_recipes(path: Path, recipes: Recipes) -> None:
    """Write the current recipes of a corpus's scenarios, unless the file holds them already."""
    storage.write_text_if_changed(
        path, "".join(json.dumps(pair, separators=(",", ":")) + "\n" for pair in recipes.items())
    )


def read_recipes(path: Path) -> Recipes:
    """What `write_recipes` wrote. Raises `ManifestError` where there is none."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ManifestError(f"{path} holds no recipes: {error}; snakemake writes it again when it plans") from None
    return dict(json.loads(line) for line in text.splitlines())
