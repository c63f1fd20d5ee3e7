"""The list files that planning writes for jobs: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import CaptionRow, QuestionRow, SourceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedClip:
    """A clip of a shard.

    Attributes:
        item_id, source_video_id: the clip's id, and the id of the video that contains it.
        path: of the video, as the configuration gives it.
        bytes: size of the video when the list was written, so that a replaced video is noticed; None for a demo video
            that has not been generated yet.
        time_ns: when its content last changed, as far as known: the file's own time, or an earlier time since which the
            content is the same. None for a demo video.
        start_s, end_s: the clip's span in the video in seconds; None: the video's beginning or end.
        split: the split's name.
    """

    item_id: str
    source_video_id: str
    path: str
    bytes: int | None = None
    time_ns: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    split: str = ""


_Line = TypeVar("_Line", ListedClip, CaptionRow, QuestionRow, SourceRow)
"""A `SourceRow` is an item or a caption that no job uses; for a caption, `item_id` is the caption's id."""


def line(entry: ListedClip | CaptionRow | QuestionRow | SourceRow) -> str:
    """An entry as a line of its file: JSON with sorted keys and no spaces.

    ASCII only: names may contain characters that some readers treat as line ends.
    """
    names = _COLUMNS[type(entry)]
    return _ENCODER.encode({name: getattr(entry, name) for name in names}) + "\n"


_COLUMNS = {kind: sorted(kind.__slots__) for kind in (ListedClip, CaptionRow, QuestionRow, SourceRow)}
_ENCODER = json.JSONEncoder(separators=(",", ":"))  # one for all lines: a million of them are written


_LINES_AT_ONCE = 10_000


def write(path: Path, lines: Sequence[_Line]) -> None:
    """Write a list file, unless it holds these lines already."""
    parts = (lines[start : start + _LINES_AT_ONCE] for start in range(0, len(lines), _LINES_AT_ONCE))
    storage.write_text_if_changed(path, ("".join(map(line, part)) for part in parts))


def write_shards(
    folder: Path,
    lists: Mapping[str, Sequence[_Line]],
    corrected: Callable[[str, Sequence[_Line], Sequence[_Line]], Sequence[_Line]] | None = None,
) -> None:
    """Write a list file per shard into a folder, and delete the list files of shards that no longer exist.

    Where the lines of a shard changed, `corrected` takes the shard, the old and the new lines, and returns those to
    write.
    """
    for shard, lines in lists.items():
        path = list_in(folder, shard)
        if corrected and path.is_file() and path.read_bytes() != "".join(map(line, lines)).encode():
            with suppress(ManifestError):
                lines = corrected(shard, read(path, type(lines[0])), lines)
        write(path, lines)
    for stale in {*shards(folder)} - {*lists}:
        list_in(folder, stale).unlink(missing_ok=True)  # another plan may be as far


def list_in(folder: Path, shard: str) -> Path:
    """The list file of a shard, of clips or of captions, in the folder of the list files."""
    return folder / manifest_paths.name("shard_list", shard=shard)


def read(path: Path, line: type[_Line]) -> list[_Line]:
    """The lines of a list file. Raises `ManifestError` where there is none, or where it is damaged."""
    try:
        return [line(**json.loads(text)) for text in path.read_bytes().splitlines()]
    except FileNotFoundError:
        raise ManifestError(f"no such list file: {path}; run snakemake again, which writes it") from None
    except (ValueError, TypeError):
        raise ManifestError(f"{path} is damaged: run snakemake again, which writes it") from None


def shards(folder: Path) -> list[str]:
    """The shards whose list files a folder holds, sorted; not those that another process is writing."""
    every = folder.glob(manifest_paths.name("shard_list", shard="*"))
    return sorted(path.stem for path in every if not storage.is_leftover(path))


def counts(folder: Path) -> dict[str, int]:
    """The number of lines of every list file of a folder, by shard; they are not parsed."""
    return {shard: list_in(folder, shard).read_bytes().count(b"\n") for shard in shards(folder)}


def read_folder(folder: Path, line: type[_Line]) -> dict[str, list[_Line]]:
    """The lines of every list file of a folder, by shard. Raises `ManifestError`."""
    return {shard: read(list_in(folder, shard), line) for shard in shards(folder)}


def write_texts(path: Path, texts: Mapping[str, str]) -> None:
    """Write texts by their names, unless the file holds them already.

    The texts are the JSON of a corpus's current recipes by scenario (PERTURBATION/SEVERITY), or of attributes by item.
    """
    storage.write_text_if_changed(
        path, "".join(json.dumps(pair, separators=(",", ":")) + "\n" for pair in texts.items())
    )


def read_texts(path: Path) -> Mapping[str, str]:
    """What `write_texts` wrote. Raises `ManifestError` where there is none, or where it is damaged."""
    try:
        return dict(json.loads(line) for line in path.read_text("utf-8").splitlines())
    except (OSError, ValueError, TypeError) as error:
        raise ManifestError(f"{path} is damaged or missing: {error}; snakemake writes it again when it plans") from None
