"""The finished items of a shard: their journal, their marker, and their tar.

The journal has one line per item, written when it is finished, so that a killed job can resume: a hash of the line, the
recipe's id, and the measured values as JSON. Everything else is computed again, so that the row of a resumed
item equals the row of an uninterrupted one. An item whose line was changed is made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from perturbations.base import storage, tars
from perturbations.base.errors import OutputError
from perturbations.base.records import DIGEST_LENGTH
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import VideoRow

Measured = dict[str, Any]
"""What was measured of an item: columns of its row."""


class ShardJournal:
    """The finished items of a shard, by recipe id.

    The journals of all shards are read, because an item moves to another shard when items are added or removed, or when
    `shard_size` changes. For the same reason, a journal that is written again keeps the lines of other items.
    """

    def __init__(self, path: Path, recipe_ids: Collection[str]) -> None:
        self._path = path
        self._finished: dict[str, Measured] = {}
        others: list[str] = []
        storage.remove_leftovers([path])
        for journal in manifest_paths.journals_in(path.parent):
            if storage.is_leftover(journal):  # another shard's journal, which is being written
                continue
            for recipe_id, measured in _entries(journal):
                if recipe_id in recipe_ids:
                    self._finished[recipe_id] = json.loads(measured)
                elif journal == path:
                    others.append(f"{recipe_id}{measured}")
        if not self._finished:  # where the recipe changed, no line is of an expected item
            others = []
        own = [_text(recipe_id, finished) for recipe_id, finished in self._finished.items()]
        storage.write_journal(path, others + own)

    def find(self, recipe_id: str, file: Path | None) -> Measured | None:
        """What was measured of a finished item; None when it is not finished or its file has changed."""
        finished = self._finished.get(recipe_id)
        if finished is None or file is None:
            return finished
        if not file.is_file() or file.stat().st_size != finished.get("bytes"):
            return None
        if storage.sha256(file) != finished.get("sha256"):
            return None
        return finished

    def __contains__(self, recipe_id: str) -> bool:
        """Whether an item was finished, even if its file is gone."""
        return recipe_id in self._finished

    def forget(self, is_outdated: Callable[[Measured], bool]) -> None:
        """Forget the finished items that are outdated, so that they are made again."""
        self._finished = {name: item for name, item in self._finished.items() if not is_outdated(item)}

    def add(self, recipe_id: str, finished: Measured) -> None:
        """Keep a finished item."""
        with storage.output_errors(self._path), self._path.open("ab+", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            torn = file.read(1) not in (b"", b"\n")  # by a worker that was killed while it wrote
            file.write(b"\n" * torn + storage.journal_line(_text(recipe_id, finished)))


def count(path: Path) -> int:
    """The number of finished items in a journal, which a job may be writing; 0 where it cannot be read.

    An item that was made twice counts once. What was measured is not parsed: a run may have a million lines.
    """
    with suppress(OSError):
        return len({recipe_id for recipe_id, _ in _entries(path)})
    return 0


def hashes(path: Path) -> set[str]:
    """The SHA-256 of the file of each item in a journal. Raises `OSError`."""
    return {str(json.loads(measured).get("sha256")) for _, measured in _entries(path)}


def forget(path: Path, recipe_ids: Collection[str]) -> None:
    """Write a journal again without the lines of some recipes, and without damaged lines. Raises `OutputError`."""
    texts = [text for text in storage.journal_lines(path) if text is not None]
    storage.write_journal(path, [text for text in texts if text[:DIGEST_LENGTH] not in recipe_ids])


def _entries(path: Path) -> Iterator[tuple[str, str]]:
    """The recipe's id and the measured values of each undamaged line."""
    for text in storage.journal_lines(path):
        if text is not None:
            yield text[:DIGEST_LENGTH], text[DIGEST_LENGTH:]


def _text(recipe_id: str, finished: Measured) -> str:
    return f"{recipe_id}{json.dumps(finished)}"


# --- the files of finished clips --------------------------------------------------------------------------------------


def marker_of(clips: Iterable[tuple[str | None, int | None]]) -> str:
    """The text of a marker: the name and the size of each stored clip. `clips` are paths with sizes in bytes.

    The marker is an output of the job and lies beside the clips, so that a deleted folder is made again.
    For clips in a tar, the marker is the tar's index, `TAR/OFFSET/MEMBER`.
    """
    sizes = {tars.from_folder(path): size for path, size in clips if path is not None}
    return json.dumps(sizes, sort_keys=True, ensure_ascii=False) + "\n"


# A job's clips may lie in one tar, in WebDataset's layout: a sample per clip, with one member `KEY.EXTENSION`. Its
# bytes follow from its clips alone: members are sorted, and have no owner, no time and no mode of their own.

_LONGEST_KEY = 90
"""Bytes. A key of this length with the longest extension fits a member's header (POSIX.1-1988, ustar)."""


def member_name(item_id: str, suffix: str) -> str:
    """The name of a clip's member in a tar: as its file's name, but shorter, and with one dot (for WebDataset)."""
    key = storage.file_stem(item_id).replace(".", "%2E")
    if len(key) >= _LONGEST_KEY:  # only hashed keys may have exactly this length
        key = f"{key[: _LONGEST_KEY - 33]}~{storage.sha256_of(key.encode())[:32]}"
    return key + suffix


def unpack(tar: Path, files: Mapping[str, Path]) -> None:
    """Put the members of a job's own tar where the job makes its files, and delete the tar.

    `files` are the places by the members' names. Existing files stay. Members behind damage are left out; the journal
    checks the content of the others. Raises `OutputError`.
    """
    storage.remove_leftovers([tar])
    if tar.is_file():
        copy_members(tar, files)
        with storage.output_errors(tar):
            tar.unlink()


def copy_members(tar: Path, files: Mapping[str, Path]) -> None:
    """Copy members of a tar to their places where no file exists; `files` are places by names. Raises `OutputError`."""
    try:
        for name, offset, _ in tars.members(tar):
            target = files.get(name)
            if target is not None and not target.exists():
                with storage.atomic_path(target) as temporary:
                    storage.link_or_copy(Path(tars.path_in(tar, offset, name)), temporary)
    except (FileNotFoundError, OutputError):
        if tar.is_file():
            raise
        # Its own job has just unpacked it.


def pack(tar: Path, rows: Sequence[VideoRow], files: Mapping[str, Path], suffix: str) -> list[VideoRow]:
    """Move the files of a job's complete clips into a tar, and return the rows with their places there.

    `files` are the files by their members' names, `suffix` is the ending of these names. Without clips there is no tar.
    Raises `OutputError`.
    """
    names = {row.item_id: member_name(row.item_id, suffix) for row in rows if row.path is not None}
    if not names:
        return list(rows)
    write_tar({name: files[name] for name in names.values()}, tar)
    places = {name: tars.path_in(tar, offset, name) for name, offset, _ in tars.members(tar)}
    return [row if row.path is None else replace(row, path=places[names[row.item_id]]) for row in rows]


def write_tar(files: Mapping[str, Path], tar: Path) -> None:
    """Move files into a tar, under their members' names. Raises `OutputError`."""
    import tarfile

    with storage.atomic_path(tar) as temporary, tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as out:
        for name, path in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = path.stat().st_size
            with path.open("rb") as file:
                out.addfile(member, file)
    for path in files.values():
        path.unlink(missing_ok=True)
