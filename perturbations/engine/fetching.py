"""Brings the results of a run in an object store into a folder: the manifests, and the files that they name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from perturbations.engine import packs
from perturbations.errors import ConfigError, ManifestError, short
from perturbations.manifest import locations
from perturbations.progress import logged
from perturbations.system import storage

_COLUMNS = ("path", "source_path")
_MANIFESTS, _WORK = "manifests", "work"
_BUFFER = 1 << 20


@dataclass(frozen=True)
class Fetched:
    """How many files were brought: those below `manifests`, and clips with what belongs to them; and the missing."""

    manifests: int
    files: int
    missing: frozenset[str]


def fetch(store: str, root: Path) -> Fetched:
    """Bring the manifests of a store, and every file that they name and a pack holds.

    `store` is a URI such as s3://bucket/folder, or a folder. Raises `ConfigError` for a store that cannot be read or
    has no manifests, `ManifestError` for a damaged pack.
    """
    try:
        system, base = _open(store)
        manifests = _files(system, f"{base}/{_MANIFESTS}")
        tars = [name for name in _files(system, f"{base}/{_WORK}") if name.endswith(".tar")]
        if not manifests:
            raise ConfigError(f"{short(store)} has no manifests: is it the prefix that the run was given?")
        for name in manifests:
            _copy(system, name, root, name[len(base) + 1 :])
        wanted = frozenset(_named(root / name[len(base) + 1 :] for name in manifests))
        files = 0
        for name in logged(tars, len(tars), "packs"):
            with system.open_input_stream(name, buffer_size=_BUFFER) as stream:
                files += packs.unpack(stream, root, name, wanted.__contains__)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{short(store)}: {' '.join(str(error).split())[:300]}") from None
    missing = frozenset(path for path in wanted if not (root / path).exists())
    return Fetched(len(manifests), files, missing)


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


def _files(system: Any, folder: str) -> list[str]:
    selector = pafs.FileSelector(folder, allow_not_found=True, recursive=True)
    return sorted(entry.path for entry in system.get_file_info(selector) if entry.type == pafs.FileType.File)


def _copy(system: Any, name: str, root: Path, relative: str) -> None:
    path = locations.confined(root, relative)
    with (
        system.open_input_stream(name) as stream,
        storage.atomic_path(path) as temporary,
        temporary.open("wb") as file,
    ):
        while block := stream.read(_BUFFER):
            file.write(block)


def _named(manifests: Iterator[Path]) -> Iterator[str]:
    """The files that manifests name."""
    for path in manifests:
        if path.suffix != ".parquet":
            continue
        try:
            columns = [name for name in _COLUMNS if name in pq.read_schema(path).names]
            table = pq.read_table(path, columns=columns, partitioning=None)
        except (pa.ArrowException, ValueError) as error:
            raise ManifestError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None
        for name in columns:
            yield from (value for value in table[name].unique().to_pylist() if isinstance(value, str))
