"""Packs: the files of a shard as one tar beside its part, for runs in an object store, whose jobs share no folder.

A job there begins with unpacking the packs that were brought to it, and ends with packing the files that it made. The
members have the paths of the manifests' rows, from the corpus' root; where clips are stored in tars, the pack is the
shard's tar itself. Members may come from strangers: none leaves the
root, and a clean clip replaces no file.
"""

from __future__ import annotations

import errno
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from perturbations.base import storage, tars
from perturbations.base.errors import ConfigError, ManifestError, short
from perturbations.datasets.listing import VIDEO_EXTENSIONS
from perturbations.manifest import layout, locations
from perturbations.plan.listed import ListedClip
from perturbations.store.layout import pack_of

_OWN = (layout.CORPORA, layout.WORK)
"""The folders whose files are the workflow's."""


def write(pack: Path, files: Iterable[str], root: Path) -> None:
    """Write the files, whose paths are from `root`, as one tar, whole or not at all.

    Raises `ConfigError` for a path that leaves `root`. A file that is not there is left out: its row says why, or the
    job that reads it will.
    """
    with storage.atomic_path(pack) as temporary, tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(set(files)):
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ConfigError(f"{short(name)} does not lie below {root}: other machines cannot have it there")
            if (root / name).is_file():
                with (root / name).open("rb") as file:
                    tar.addfile(_member(tar, file, name), file)


def _member(tar: tarfile.TarFile, file: IO[bytes], name: str) -> tarfile.TarInfo:
    member = tar.gettarinfo(arcname=name, fileobj=file)
    member.type, member.linkname, member.size = tarfile.REGTYPE, "", os.fstat(file.fileno()).st_size
    member.mode, member.uid, member.gid, member.uname, member.gname = 0o644, 0, 0, "", ""
    member.mtime = int(member.mtime)
    return member


def write_beside(part: Path, files: Iterable[str | None]) -> None:
    """Pack the files of a part."""
    stored = {tars.file_of(name) for name in files if name}
    if clips := [name for name in stored if is_tar_of_clips(name)]:
        _link(Path(clips[0]), pack_of(part))
    else:
        write(pack_of(part), stored, Path())


def is_tar_of_clips(path: str) -> bool:
    """Whether a path is that of a shard's tar of clips."""
    place = layout.place_of(path)
    return place is not None and place.kind == "clip_tar"


def tar_in(pack: str) -> str | None:
    """The tar of clips that a pack of videos may be; None for other packs."""
    place = layout.place_of(pack)
    return layout.at("clip_tar", **place.fields) if place is not None and place.kind == "video_pack" else None


def _link(held: Path, path: Path) -> None:
    with storage.atomic_path(path) as temporary:
        storage.link_or_copy(held, temporary)


def write_originals(pack: Path, clips: Iterable[ListedClip]) -> None:
    """Pack the user's videos of a shard, from the folder in which Snakemake was started. Raises `ConfigError`."""
    write(pack, {clip.path for clip in clips}, Path(os.environ.get(storage.STORE_VARIABLE, ".")))


def unpack_brought() -> None:
    """Unpack what Snakemake brought to this job: the packs below `work`, here. Raises `ManifestError`."""
    for pack in sorted(Path(layout.WORK).rglob(f"*{tars.SUFFIX}")):
        if storage.is_leftover(pack):
            continue
        try:
            first = next(tars.members(pack), None)
            tar = tar_in(pack.as_posix())
            if tar is not None and first is not None and "/" not in first[0]:
                _link(pack, Path(tar))
                continue
            with pack.open("rb") as file:
                unpack(file, Path(), str(pack))
        except FileNotFoundError:
            continue  # of another job of this machine, which has ended


def unpack(stream: IO[bytes], root: Path, name: str, chosen: Callable[[str], bool] | None = None) -> int:
    """Write the members of a pack below `root`, each whole or not at all, and return their number.

    Files of the same size and time stay. `name` is the pack's, for messages; `chosen` says which members are written.
    Raises `ManifestError` for a damaged pack, and for a member that would lie elsewhere or replace a file of the user.
    """
    count = 0
    with _read_errors(name), tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            if chosen is not None and not chosen(member.name):
                continue
            if not member.isfile() or member.sparse is not None:  # a pack's member has as many bytes as the pack says
                raise ManifestError(f"{name}: {short(member.name)} is no file, or one with holes")
            if _place(root, member):
                content = tar.extractfile(member)
                assert content is not None
                _write(content, root / member.name, member)
            count += 1
    return count


def _place(root: Path, member: tarfile.TarInfo) -> bool:
    """Whether a member is to be written. Raises `ManifestError` where it must not be."""
    path = root / member.name
    plain = PurePosixPath(member.name)
    if plain.parts[:1] and plain.parts[0] not in _OWN and ".." not in plain.parts and not plain.is_absolute():
        if path.is_file() and path.stat().st_size == member.size:
            return False  # a video of the user; its folder may be a link
        if path.exists():
            raise ManifestError(f"{path} is another file than the clip of that name in the store")
        hidden = any(part.startswith(".") for part in plain.parts)
        known = (*VIDEO_EXTENSIONS, *storage.PICTURE_EXTENSIONS)
        if hidden or (not storage.in_store() and plain.suffix.lower() not in known):
            raise ManifestError(f"{short(member.name)} has not the name of a video or a picture: it is not unpacked")
    path = locations.confined(root, member.name)
    status = path.stat() if path.is_file() else None
    return status is None or (status.st_size, int(status.st_mtime)) != (member.size, member.mtime)


def _write(content: IO[bytes], path: Path, member: tarfile.TarInfo) -> None:
    with storage.atomic_path(path) as temporary:
        with temporary.open("wb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
        if temporary.stat().st_size != member.size:
            raise ManifestError(f"{short(member.name)} is cut short")
        os.utime(temporary, (member.mtime, member.mtime))


@contextmanager
def _read_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:  # a time or a name that no file can have
        raise ManifestError(f"{name} is damaged: {error}") from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise ManifestError(f"{name} is damaged: a member's name is too long for this file system") from None
