"""One hash of the files that an evaluation's model is loaded from: a replaced one outdates its evaluations.

The hash is of the bytes, so that a copy of a folder is the same model. Weights are large: the hash of each file is kept
beside its size and times, and a file is read again where these changed. No NumPy: Snakemake imports this module.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from perturbations.base import storage
from perturbations.base.errors import OutputError
from perturbations.base.records import Record, digest
from perturbations.config import sections as configuration
from perturbations.evaluation import planning as evaluation
from perturbations.manifest import layout

_LOADED = {".json", ".txt", ".model", ".jinja", ".safetensors"}
"""Endings of what transformers loads from a folder: settings, tokenizers, image processors and weights."""

_SETTLED_NS = 2_000_000_000
"""A file that changed so shortly ago may change again at the same time, as a file system with coarse times has it."""


class _File(Record):
    """A file when it was read."""

    bytes: int
    modified_ns: int
    changed_ns: int
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Model(Record):
    """The files of a model: the last hash of all, and each by its path."""

    sha256: str
    files: dict[str, _File]


def sha256(config: configuration.Config) -> str | None:
    """The hash of all files of the configured model.

    A model that is no longer here is taken to be as it was. None for the demo's encoder, which a rule makes, and for a
    model that was never here.
    """
    wanted = config.evaluation
    if wanted.pretrained is None:
        return None
    kept = config.at(layout.at("model_files", model=evaluation.model_key(config)))
    before = _read(kept)
    try:
        files = dict(_loaded(wanted.pretrained, wanted.revision))
        if wanted.checkpoint is not None:
            files["checkpoint"] = wanted.checkpoint
        known = {} if before is None else before.files
        looked_at = {path: _file(path, known.get(str(path))) for path in files.values()}
    except OSError:
        looked_at = {}
    if not looked_at:
        return None if before is None else before.sha256
    present = digest({name: looked_at[path].sha256 for name, path in files.items()})
    now_ns = time.time_ns()
    settled = {str(path): file for path, file in looked_at.items() if now_ns - file.changed_ns > _SETTLED_NS}
    with suppress(OutputError, ValueError):  # a dry run in a folder of somebody else; a path that is no UTF-8
        model = _Model(sha256=present, files=settled)
        if model != before:
            storage.write_text(kept, model.text)
    return present


def _loaded(pretrained: str, revision: str | None) -> Iterator[tuple[str, Path]]:
    """The name and the place of each file that is loaded; none where the model is not on this machine."""
    folder = Path(pretrained).expanduser()
    if not folder.is_dir():
        held = _in_cache(pretrained, revision)
        if held is None:
            return
        folder = held
    for path in sorted(folder.iterdir()):
        if path.suffix in _LOADED and path.is_file():
            yield path.name, path.resolve()


def _in_cache(name: str, revision: str | None) -> Path | None:
    """The folder of a model in the hub's cache."""
    try:
        from huggingface_hub import try_to_load_from_cache

        place = try_to_load_from_cache(name, "config.json", revision=revision)
    except (ImportError, ValueError):  # a name that no hub has
        return None
    return Path(place).parent if isinstance(place, str) else None


def _file(path: Path, known: _File | None) -> _File:
    status = path.stat()
    times = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    if known is not None and (known.bytes, known.modified_ns, known.changed_ns) == times:
        return known
    return _File(bytes=times[0], modified_ns=times[1], changed_ns=times[2], sha256=storage.sha256(path))


def _read(path: Path) -> _Model | None:
    try:
        return _Model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError, json.JSONDecodeError):
        return None
