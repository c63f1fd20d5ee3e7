"""The file that a calibration is kept in: solved parameters by perturbation and severity. Standard library only."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from perturbations import storage
from perturbations.errors import ConfigError
from perturbations.registry import Perturbation

SCHEMA_VERSION = 1

Table = dict[str, Any]


def write(path: Path, table: Table) -> None:
    """Write a table, whole or not at all; the same table gives the same bytes."""
    storage.write_text(path, json.dumps(table, sort_keys=True, indent=1, allow_nan=False) + "\n")


def read(path: Path) -> Table:
    """A table that `write` wrote. Raises `ConfigError` for what is missing or is not one."""
    try:
        state = path.stat()
    except OSError:
        raise ConfigError(f"there is no calibration table {path}") from None
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, time_ns: int, size: int) -> Table:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        version = table["schema_version"]
        entries = table["perturbations"]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} is not a calibration table") from None
    if version != SCHEMA_VERSION or not isinstance(entries, dict):
        raise ConfigError(f"{path} is a calibration table of version {version}; this program reads {SCHEMA_VERSION}")
    found: Table = table
    return found


def parameters(path: Path, entry: Perturbation, severity: int, variant: str) -> dict[str, Any]:
    """The solved parameters of one perturbation at one severity.

    Raises `ConfigError` when the table does not hold them, or holds those of another kernel, of another version of it,
    or of another variant.
    """
    solved = read(path)["perturbations"].get(entry.key)
    if solved is None:
        raise ConfigError(f"{path} does not hold {entry.key}")
    for name, now in (("version", entry.version), ("variant", variant)):
        if solved.get(name) != now:
            raise ConfigError(f"{path} holds {entry.key} for the {name} {solved.get(name)}, and it is {now} now")
    chosen = solved.get("severities", {}).get(str(severity), {}).get("params")
    kinds = _kinds(entry, variant)
    if not isinstance(chosen, dict) or set(chosen) != set(kinds):
        raise ConfigError(f"{path} holds no {', '.join(kinds)} for {entry.key} at severity {severity}")
    for name, value in chosen.items():
        fits = isinstance(value, int | float) if kinds[name] is float else isinstance(value, kinds[name])
        if not fits or isinstance(value, bool):
            raise ConfigError(
                f"{path}: {name} of {entry.key} at severity {severity} must be a {kinds[name].__name__}, not {value!r}"
            )
    # JSON tells 1.0 from 1, people who edit a table may not.
    return {name: kinds[name](value) for name, value in chosen.items()}


def _kinds(entry: Perturbation, variant: str) -> dict[str, type]:
    """The parameters' types: a number that has a fraction at any severity is a float."""
    published = [entry.parameters(severity, variant) for severity in entry.severities]
    return {
        name: float if any(isinstance(one[name], float) for one in published) else type(value)
        for name, value in published[0].items()
    }
