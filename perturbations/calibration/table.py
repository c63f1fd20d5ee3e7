"""The file of a calibration: the solved parameters per perturbation and severity. Standard library only."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from perturbations.base import jsontext, storage
from perturbations.base.errors import ConfigError, short
from perturbations.suites import registry

SCHEMA_VERSION = 1

_MOST_BYTES = 16 * 1024**2

TableContent = dict[str, Any]


def write(path: Path, table: TableContent) -> None:
    """Write a table atomically; the same table gives the same bytes."""
    storage.write_text(path, json.dumps(table, sort_keys=True, indent=1, allow_nan=False) + "\n")


def read(path: Path) -> TableContent:
    """A table that `write` wrote. Raises `ConfigError` when the file is missing or is no calibration table."""
    try:
        state = path.stat()
    except OSError:
        raise ConfigError(f"there is no calibration table {path}") from None
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, time_ns: int, size: int) -> TableContent:
    if size > _MOST_BYTES:
        raise ConfigError(f"{path} is larger than {_MOST_BYTES // 1024**2} MiB: not a calibration table")
    try:
        table: TableContent = jsontext.mapping(path.read_bytes())
        version = table["schema_version"]
        entries = table["perturbations"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} is not a calibration table") from None
    if version != SCHEMA_VERSION or not isinstance(entries, dict):
        raise ConfigError(
            f"{path} is a calibration table of version {short(version)}; this program reads {SCHEMA_VERSION}"
        )
    return table


def parameters(path: Path, entry: registry.Perturbation, severity: int) -> dict[str, bool | int | float | str]:
    """The solved parameters of one perturbation at one severity.

    Raises `ConfigError` when the table does not hold them, when they belong to another version or variant of the
    perturbation, or when the kernel does not accept them.
    """
    solved = read(path)["perturbations"].get(entry.key)
    if solved is None:
        raise ConfigError(f"{path} does not hold {entry.key}")
    if not isinstance(solved, dict):
        raise ConfigError(f"{path}: {entry.key} must be an object, not {short(solved)}")
    for name, now in (("version", entry.version), ("variant", entry.variant)):
        if solved.get(name) != now:
            raise ConfigError(f"{path} holds {entry.key} for the {name} {short(solved.get(name))}, and it is {now} now")
    chosen = _member(_member(_member(solved, "severities"), str(severity)), "params")
    if not chosen:
        raise ConfigError(f"{path} holds no {', '.join(entry.bounds)} for {entry.key} at severity {severity}")
    if problems := registry.parameter_problems(entry, chosen):
        raise ConfigError(f"{path}: {entry.key} at severity {severity}: {'; '.join(problems)}")
    # JSON distinguishes 1.0 from 1; people who edit a table may not.
    kinds = _kinds(entry)
    return {name: kinds[name](value) for name, value in chosen.items()}


def _member(value: object, name: str) -> dict[str, object]:
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def _kinds(entry: registry.Perturbation) -> dict[str, type]:
    """The parameters' types. A parameter that is a float at any severity is a float at all of them."""
    published = [entry.parameters(severity) for severity in entry.severities]
    return {
        name: float if any(isinstance(parameters[name], float) for parameters in published) else type(value)
        for name, value in published[0].items()
    }
