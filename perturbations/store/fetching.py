"""Brings the results of a run in an object store into a folder: manifests, parts, lists, and the manifests' files.

Files have the store's times, so that Snakemake takes them for what it made in this folder, and a run goes on from them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from perturbations.base import storage, tars
from perturbations.base.errors import ConfigError, ManifestError, short
from perturbations.base.progress import logged
from perturbations.manifest import file_limits, layout, locations
from perturbations.store import packs

_COLUMNS = ["path", "source_path"]
_MANIFESTS, _WORK = layout.MANIFESTS, layout.WORK
_KEPT = tuple(Path(layout.pattern(kind)).suffix for kind in ("video_part", "shard_list", "videos_checked"))
_ABOUT = tuple(f"{layout.folder(kind)}/" for kind in ("log", "benchmark"))
_AT_ONCE = 16
_BUFFER = 1 << 20


@dataclass(frozen=True)
class _Fetched:
    """How many files were brought.

    Attributes:
        manifests: manifests, and what lies beside them.
        parts: parts of shards, and lists.
        files: clips, and what analyses keep.
        missing: files that a manifest names and no pack holds.
    """

    manifests: int
    parts: int
    files: int
    missing: frozenset[str]


def fetch(store: str, root: Path) -> _Fetched:
    """Bring the manifests, parts and lists of a store, and every file that a manifest names and a pack holds.

    `store` is a URI such as s3://bucket/folder, or a folder. Raises `ConfigError` for a store that cannot be read or
    has no manifests, `ManifestError` for a damaged pack.
    """
    try:
        system, base = _open(store)
        manifests = _files(system, base, _MANIFESTS)
        if not manifests:
            raise ConfigError(f"{short(store)} has no manifests: is it the prefix that the run was given?")
        work = _files(system, base, _WORK)
        parts = {name: time for name, time in work.items() if name.endswith(_KEPT) and not name.startswith(_ABOUT)}
        parts |= {name: time for name, time in work.items() if _is(name, "text_marker")}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            copies = [pool.submit(_copy, system, base, name, root, time) for name, time in (manifests | parts).items()]
            for copy in copies:
                copy.result()
        named = frozenset(_named(root / name for name in manifests))
        files = 0
        members = Counter(tars.file_of(path) for path in named if tars.named(path) is not None)
        held = [name for name in work if name.endswith(tars.SUFFIX)]
        for name in logged(held, len(held), "packs"):
            if (tar := packs.tar_in(name)) is not None and tar in members:
                _copy(system, base, name, root, work[name], tar)
                files += members[tar]
                continue
            with system.open_input_stream(f"{base}/{name}", buffer_size=_BUFFER) as stream:
                files += packs.unpack(stream, root, name, lambda path: path in named or _is(path, "text_part"))
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{short(store)}: {' '.join(str(error).split())[:300]}") from None
    missing = frozenset(path for path in named if not tars.is_file(root / path))
    return _Fetched(len(manifests), len(parts), files, missing)


def _is(path: str, kind: str) -> bool:
    place = layout.place_of(path)
    return place is not None and place.kind == kind


def _open(store: str) -> tuple[Any, str]:
    """The file system of a store, and the folder in it; S3 with the settings of Snakemake's plugin, or Amazon's."""
    place = urlsplit(store)
    if place.scheme == "s3":
        endpoint = urlsplit(_setting("ENDPOINT_URL", "AWS_ENDPOINT_URL") or "")
        settings = {
            "endpoint_override": endpoint.netloc,
            "scheme": endpoint.scheme,
            "region": _setting("REGION", "AWS_DEFAULT_REGION"),
            "access_key": _setting("ACCESS_KEY"),
            "secret_key": _setting("SECRET_KEY"),
            "session_token": _setting("TOKEN"),
        }
        system = pafs.S3FileSystem(**{name: value for name, value in settings.items() if value})
        return system, f"{place.netloc}{place.path}".rstrip("/")
    if place.scheme:
        system, base = pafs.FileSystem.from_uri(store)
        return system, base.rstrip("/")
    return pafs.LocalFileSystem(), os.path.abspath(store)


def _setting(name: str, other: str = "") -> str | None:
    return os.environ.get(f"SNAKEMAKE_STORAGE_S3_{name}") or os.environ.get(other) or None


def _files(system: Any, base: str, folder: str) -> dict[str, int]:
    """The files of a folder, from `base`, with their times in ns. Raises `ConfigError` for a link."""
    if isinstance(system, pafs.LocalFileSystem):
        _check_links(Path(base), folder)
    selector = pafs.FileSelector(f"{base}/{folder}", allow_not_found=True, recursive=True)
    entries = [entry for entry in system.get_file_info(selector) if entry.type == pafs.FileType.File]
    return {entry.path[len(base) + 1 :]: entry.mtime_ns for entry in sorted(entries, key=lambda entry: str(entry.path))}


def _check_links(base: Path, folder: str) -> None:
    """Raise `ConfigError` for a link in a store that is a folder: what it points to would be copied."""
    for place, folders, files in os.walk(base / folder):
        for name in (".", *folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                raise ConfigError(f"{short(str(path))} is a link, which no run stores: nothing was fetched")


def _copy(system: Any, base: str, name: str, root: Path, time: int, target: str | None = None) -> None:
    path = locations.confined(root, target or name)
    with system.open_input_stream(f"{base}/{name}") as stream, storage.atomic_path(path) as temporary:
        with temporary.open("wb") as file:
            while block := stream.read(_BUFFER):
                file.write(block)
        os.utime(temporary, ns=(time, time))


def _named(manifests: Iterator[Path]) -> Iterator[str]:
    """The files that manifests name."""
    for path in manifests:
        if not layout.is_manifest(path):
            continue
        try:
            columns = [name for name in _COLUMNS if name in pq.read_schema(path).names]
            with pq.ParquetFile(path, read_dictionary=columns) as file:
                file_limits.check(path, file.metadata)
                for number in range(file.num_row_groups):
                    yield from _texts(file.read_row_group(number, columns))
        except (pa.ArrowException, ValueError) as error:
            raise ManifestError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None


def _texts(table: pa.Table) -> Iterator[str]:
    for chunk in (chunk for column in table.columns for chunk in column.chunks):
        values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk.unique()
        yield from (value for value in values.to_pylist() if isinstance(value, str))
