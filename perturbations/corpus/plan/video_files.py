"""Which file in the folder of videos belongs to an item; the items without a file, with the reasons."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from perturbations.base.storage import nfc
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.datasets import adapter_registry
from perturbations.datasets.adapter_registry import Dataset
from perturbations.datasets.listing import VIDEO_EXTENSIONS, Item, Listing, Rejected
from perturbations.media.profiles import PICTURE_EXTENSIONS, is_picture


def listed_clip(item: Item, dataset: Dataset, path: str, status: os.stat_result | None = None) -> ListedClip:
    """The line for an item in a shard's list; `status` is the status of its file."""
    return ListedClip(
        item_id=item.item_id,
        source_video_id=item.source_video_id,
        path=path,
        bytes=None if status is None else status.st_size,
        time_ns=None if status is None else status.st_mtime_ns,
        start_s=item.start_s,
        end_s=item.end_s,
        split=adapter_registry.split_of(dataset),
    )


def locate(dataset: Dataset, listing: Listing) -> tuple[list[ListedClip], list[Rejected]]:
    """The items that have a video, in the listing's order, and the items that do not.

    Each folder is listed once, because a listing may name 90,000 files. Symbolic links are followed. Reasons are
    published with a corpus, so they do not say where the videos lie.
    """
    assert dataset.videos is not None, "the configuration has checked it"
    folders = _Folders(dataset.videos)
    below = str(dataset.videos / "name").removesuffix("name")
    located: list[ListedClip] = []
    missing: list[Rejected] = []
    for item in listing.items:
        try:
            name = folders.first(item, pictures=dataset.has_pictures)
            path = below + name
            located.append(listed_clip(item, dataset, path, _status(path, name, pictures=dataset.has_pictures)))
        except _NoVideoError as error:
            missing.append(Rejected(item.item_id, str(error)))
    return located, missing


_OTHER_MEDIUM = {
    True: "is no picture: the adapter `folder` reads videos, and `perturb init` takes them by --videos",
    False: "is a picture: the adapter `pictures` reads it, and `perturb init` takes it by --pictures",
}
_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def _status(path: str, name: str, *, pictures: bool) -> os.stat_result:
    """The size and time of a video or picture. Raises `_NoVideoError`."""
    if is_picture(path) != pictures:
        raise _NoVideoError(f"{name} {_OTHER_MEDIUM[pictures]}")
    try:
        status = os.stat(path)
    except OSError as error:
        broken = isinstance(error, FileNotFoundError) and os.path.islink(path)
        raise _NoVideoError(
            f"{name} {'is a broken symbolic link' if broken else f'cannot be read: {error.strerror}'}"
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise _NoVideoError(f"{name} is {_KINDS.get(stat.S_IFMT(status.st_mode), 'a device')}, not a regular file")
    return status


class _NoVideoError(Exception):
    """Why an item has no video."""


class _Folders:
    """The names below the folder of videos. Each folder is listed once; a missing folder counts as empty."""

    def __init__(self, videos: Path) -> None:
        self._videos = str(videos)
        self._problems: dict[str, str] = {}  # why folders cannot be listed
        self._listed: dict[str, dict[str, str | tuple[str, ...]]] = {}
        self._of_one_stem: dict[str, dict[str, list[str]]] = {}  # folder -> stem -> its files, where it has several

    def first(self, item: Item, *, pictures: bool) -> str:
        """The first of an item's possible files that exists, as the disk spells its name. Raises `_NoVideoError`."""
        if (present := next(filter(None, map(self._find, map(_plain, item.names))), None)) is not None:
            return present
        names = (item.source_video_id + ending for ending in item.extensions)
        if (present := next(filter(None, map(self._find, map(_plain, names))), None)) is not None:
            self._check_alone(present, item.extensions)
            return present
        folders = (os.path.dirname(_plain(name)) for name in item.files)
        if problem := next(filter(None, map(self._problems.get, folders)), None):
            raise _NoVideoError(problem)
        others = (VIDEO_EXTENSIONS if pictures else PICTURE_EXTENSIONS) if item.extensions else ()
        if other := next(filter(None, (self._find(item.source_video_id + ending) for ending in others)), None):
            raise _NoVideoError(f"{other} {_OTHER_MEDIUM[pictures]}")
        named = " or ".join(item.files[:3]) + (" ..." if len(item.files) > 3 else "")
        raise _NoVideoError(f"missing: no {named} in its dataset's `videos`")

    def _check_alone(self, present: str, extensions: Sequence[str]) -> None:
        """Raise `_NoVideoError` where another file has the same name with another ending: either file may be meant."""
        folder, name = os.path.split(present)
        same = self._of_one_stem[folder].get(os.path.splitext(nfc(name))[0], ())
        if len(several := [other for other in same if os.path.splitext(other)[1].lower() in extensions]) > 1:
            raise _NoVideoError(
                f"several files may be it, {' and '.join(several)}: remove all but one, or name the right one in a "
                "column of the table (`columns.video`)"
            )

    def _find(self, path: str) -> str | None:
        """The path of a file as the disk spells it; None without such a file. Raises `_NoVideoError` for two.

        The Unicode form of the name does not count, and neither does the case of the ending: `a.mp4` finds `a.MP4`.
        """
        folder, name = os.path.split(path)
        folder = folder if folder.isascii() else self._find(folder) or folder
        if folder not in self._listed:
            self._listed[folder] = self._list(folder)
        listed = self._listed[folder]
        near = listed.get(name) or listed.get(_folded(name), ())  # a name that is a key is its own folded form
        if isinstance(near, str):
            return os.path.join(folder, near)
        if len(set(map(nfc, near))) < len(near):
            raise _NoVideoError(f"two files are called {nfc(near[-1])!r}, in two Unicode forms: rename one")
        same = [other for other in near if nfc(other) == nfc(name)] or near[-1:]
        return os.path.join(folder, same[0]) if same else None

    def _list(self, folder: str) -> dict[str, str | tuple[str, ...]]:
        """The names in a folder by their folded form: nearly always one name, seldom several."""
        names: dict[str, str | tuple[str, ...]] = {}
        first: dict[str, str] = {}
        several = self._of_one_stem[folder] = {}
        try:
            for name in sorted(os.listdir(os.path.join(self._videos, folder))):
                folded = _folded(name)
                if folded not in names:
                    names[name if name == folded else folded] = name
                else:
                    other = names[folded]
                    names[folded] = (*((other,) if isinstance(other, str) else other), name)
                if (before := first.setdefault(os.path.splitext(folded)[0], name)) is not name:
                    several.setdefault(os.path.splitext(folded)[0], [before]).append(name)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            self._problems[folder] = f"{folder or 'the folder of videos'} cannot be listed: {error.strerror}"
        return names


def _plain(name: str) -> str:
    """A normalized path, so that the file that is found is the file that is read: in `a/../b`, `a` may be a link."""
    return os.path.normpath(name) if "/" in name else name


def _folded(name: str) -> str:
    stem, ending = os.path.splitext(nfc(name))
    return stem + ending.lower()
