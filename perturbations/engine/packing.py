"""The finished clips of a job as one tar, in WebDataset's layout: a sample per clip, with one member `KEY.EXTENSION`.

The bytes of a tar follow from its clips alone: members are sorted, and have no owner, no time and no mode of their own.
"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perturbations.base import storage, tars
from perturbations.manifest.kinds import VideoRow

_LONGEST_KEY = 90
"""Bytes: with the longest extension, a name fits the header of a member (POSIX.1-1988, ustar)."""


def member_name(item_id: str, suffix: str) -> str:
    """The name of a clip's member: as its file's, but WebDataset ends a key at the first dot, and it is shorter."""
    key = storage.file_stem(item_id).replace(".", "%2E")
    if len(key) >= _LONGEST_KEY:  # hashed keys have exactly this length: no other key may
        key = f"{key[: _LONGEST_KEY - 33]}~{storage.sha256_of(key.encode())[:32]}"
    return key + suffix


def unpack(tar: Path, files: Mapping[str, Path]) -> None:
    """Put the members of a job's own tar where the job makes its files, and delete the tar.

    `files` are the places by the members' names. Files that are there stay. Members behind damage are left out, and the
    content of the others is the journal's to judge. Raises `OutputError`.
    """
    storage.remove_leftovers([tar])
    if not tar.is_file():
        return
    for name, offset, _ in tars.members(tar):
        target = files.get(name)
        if target is not None and not target.exists():
            with storage.atomic_path(target) as temporary:
                storage.link_or_copy(Path(tars.path_in(tar, offset, name)), temporary)
    with storage.output_errors(tar):
        tar.unlink()


def pack(tar: Path, rows: Sequence[VideoRow], files: Mapping[str, Path], suffix: str) -> list[VideoRow]:
    """Move the files of a job's complete clips into a tar, and return the rows with their places there.

    `files` are the files by their members' names, `suffix` is what these end with. Without a clip there is no tar.
    Raises `OutputError`.
    """
    names = {row.item_id: member_name(row.item_id, suffix) for row in rows if row.path is not None}
    if not names:
        return list(rows)
    write({name: files[name] for name in names.values()}, tar)
    places = {name: tars.path_in(tar, offset, name) for name, offset, _ in tars.members(tar)}
    return [row if row.path is None else replace(row, path=places[names[row.item_id]]) for row in rows]


def write(files: Mapping[str, Path], tar: Path) -> None:
    """Move files into a tar, under their members' names. Raises `OutputError`."""
    with storage.atomic_path(tar) as temporary, tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as out:
        for name, path in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = path.stat().st_size
            with path.open("rb") as file:
                out.addfile(member, file)
    for path in files.values():
        path.unlink(missing_ok=True)
