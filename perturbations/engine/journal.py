"""The finished items of a shard: one JSON line per item, written when it is finished, so that a killed job can resume.

A line keeps only what was measured of an item. Everything else is computed again, so that the row of a resumed item
equals the row of an uninterrupted one. A line also has a hash of the columns that were measured: one of a version that
measured others is not used, and its item is made again.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ConfigDict, ValidationError

from perturbations.base import storage
from perturbations.base.records import DIGEST_LENGTH, Record, digest
from perturbations.guides.guide import Analysed
from perturbations.manifest import layout

_log = logging.getLogger("perturbations")

_COLUMNS_LENGTH = 8
_LINE = re.compile(rf"([0-9a-f]{{{DIGEST_LENGTH}}})([0-9a-f]{{{_COLUMNS_LENGTH}}})(\{{.*\}})")
"""The recipe's id, the hash of the columns, and what was measured."""


class Measured(Record):
    """What was measured of a perturbed clip.

    Attributes:
        frame_count: of the perturbed clip.
        duration_s: of the perturbed clip; None where it equals the source's.
        width, height: of the perturbed clip; None where they equal the source's.
        stored_frames: frames in the file; 0 where there is none.
        bytes, sha256, codec, pix_fmt, bitrate_bps: of the file.
        audio: the codec of a stored video's sound, or "none: " and why it has none.
        frames_sha256: of the frames that `open_clip` returns.
        storage_psnr_db: stored frames against intended frames.
        psnr_db, ssim: perturbed frames against clean frames; None where these have another size.
    """

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="constants")

    frame_count: int
    duration_s: float | None = None
    width: int | None = None
    height: int | None = None
    stored_frames: int
    bytes: int | None = None
    sha256: str | None = None
    codec: str | None = None
    pix_fmt: str | None = None
    bitrate_bps: float | None = None
    audio: str | None = None
    frames_sha256: str | None = None
    storage_psnr_db: float | None = None
    psnr_db: float | None = None
    ssim: float | None = None


_Finished = TypeVar("_Finished", Measured, Analysed)


class Journal(Generic[_Finished]):
    """The finished items of a shard, by recipe id.

    The journals of all shards are read: an item may move to another shard when items are added or removed, or with
    another `shard_size`. For the same reason, lines of other items are kept where a journal is written again.
    """

    def __init__(self, path: Path, record: type[_Finished], recipe_ids: Collection[str]) -> None:
        self._path = path
        self._record: type[_Finished] = record
        self._finished: dict[str, _Finished] = {}
        storage.remove_leftovers([path])
        for journal in layout.journals_in(path.parent):
            if not storage.is_leftover(journal):  # another shard's, which is being written
                self._finished.update(self._whole_lines(journal, recipe_ids))
        held = _lines(path) if path.is_file() else []
        others = [line for line in held if _LINE.fullmatch(line) and line[:DIGEST_LENGTH] not in recipe_ids]
        if len(others) == len(held):  # all are others' where the recipe is another one
            others = []
        # Written again, so that the next line is not appended to a line that a kill cut short.
        kept = "".join(f"{line}\n" for line in others)
        storage.write_text(path, kept + "".join(_line(name, item) for name, item in self._finished.items()))

    def find(self, recipe_id: str, file: Path | None) -> _Finished | None:
        """What was measured of a finished item; None when it is not finished or its file has changed."""
        finished = self._finished.get(recipe_id)
        if finished is None or file is None:
            return finished
        if not file.is_file() or file.stat().st_size != finished.bytes or storage.sha256(file) != finished.sha256:
            return None
        return finished

    def forget(self, is_outdated: Callable[[_Finished], bool]) -> None:
        """Make finished items again that are not as they should be now."""
        self._finished = {name: item for name, item in self._finished.items() if not is_outdated(item)}

    def add(self, recipe_id: str, finished: _Finished) -> None:
        """Keep a finished item."""
        with storage.output_errors(self._path), self._path.open("ab+", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            torn = file.read(1) not in (b"", b"\n")  # by a worker that was killed while it wrote
            file.write(b"\n" * torn + _line(recipe_id, finished).encode())

    def _whole_lines(self, path: Path, recipe_ids: Collection[str]) -> Iterator[tuple[str, _Finished]]:
        others = 0
        for line in _lines(path):
            if line[:DIGEST_LENGTH] not in recipe_ids:
                continue  # of another shard: not parsed
            match = _LINE.fullmatch(line)
            if match is None or match[2] != _columns(self._record):
                others += 1
                continue
            try:
                yield match[1], self._record.model_validate_json(match[3])
            except ValidationError:
                _log.warning("a line of %s is damaged: its item is made again", path)
        if others:
            _log.warning("%d lines of %s are of another version or cut short: their items are made again", others, path)


def count(path: Path) -> int:
    """The number of finished items of a journal, of a job that may be writing it; none where it cannot be read.

    An item that was made twice counts once. What was measured is not parsed: a run may have a million lines.
    """
    finished: set[str] = set()
    with suppress(OSError):
        finished.update(match[1] for match in map(_LINE.fullmatch, _lines(path)) if match)
    return len(finished)


def _lines(path: Path) -> list[str]:
    """The lines of a journal; of one that another job writes, the last may be cut short."""
    return path.read_text("utf-8", errors="replace").removesuffix("\n").split("\n")


def _line(recipe_id: str, finished: Measured | Analysed) -> str:
    return f"{recipe_id}{_columns(type(finished))}{finished.model_dump_json(exclude_none=True)}\n"


@cache
def _columns(record: type[Measured] | type[Analysed]) -> str:
    return digest({name: str(field.annotation) for name, field in record.model_fields.items()})[:_COLUMNS_LENGTH]
