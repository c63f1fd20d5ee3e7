"""`config.yaml`: its values with the line of each key, and the typed configuration."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from perturbations.base import features, settings, shown, things
from perturbations.base.errors import ConfigError, cut
from perturbations.config import line_numbers, problems
from perturbations.config.line_numbers import NOWHERE, Key, LineOfKey, LinesOfKeys
from perturbations.config.sections import Config


def further_files() -> list[str]:
    """The files of `--configfile`: Snakemake's `config` holds their values, but not where they stand."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", action="extend", default=[])
    files: list[str] = parser.parse_known_args(sys.argv[1:])[0].configfile
    return files


def load(paths: Iterable[str | Path]) -> LinesOfKeys:
    """The values of configuration files, later ones over earlier ones, as Snakemake merges them; where keys stand.

    A file that does not exist is left out: Snakemake names it. Raises `ConfigError` naming the file, and the line where
    known, for what is not YAML, has a key twice, or is no mapping.
    """
    merged: dict[str, Any] = {}
    lines: dict[Key, LineOfKey] = {}
    for order, path in enumerate(map(Path, paths)):
        if path.exists():
            values, by_key = _read(path)
            _update(merged, values)
            source = cut(os.path.relpath(path) if path.absolute().is_relative_to(Path.cwd()) else str(path))
            lines |= {key: (order, line, source) for key, line in by_key.items()}
    return LinesOfKeys(lines, merged)


def of_files(paths: Sequence[Path]) -> Config:
    """The configuration of files that a command names. Raises `ConfigError` as `parse` does, and for no file."""
    if absent := [path for path in paths if not path.is_file()]:
        hint = "; run this where config.yaml is" if absent[0] == Path("config.yaml") else ""
        kind = "a directory, and no file" if absent[0].is_dir() else "no such file"
        raise ConfigError(f"{shown.line(str(absent[0]))}: {kind}{hint}")
    written = load(paths)
    return parse(written.values, written)


def parse(raw: object, written: LinesOfKeys = NOWHERE, place: Path = Path()) -> Config:
    """Check a configuration and give it types; `written` is what files say.

    Where jobs work in another folder, `place`, relative paths of files that exist before the run become absolute.
    Raises `ConfigError` with one line per mistake, each naming its place and key: first all values of wrong types and
    unknown keys; where there are none, all names and numbers that do not fit each other.
    """
    places = written.given(raw)
    what = "the configuration of this module" if places is NOWHERE and written is not NOWHERE else "config.yaml"
    what += " is not valid"
    _load_plugins(raw, places)
    try:
        config = Config.model_validate(raw, context=settings.ABSOLUTE if place.parts else None)
    except ValidationError as error:
        problems.raise_all(problems.of_types(error, Config.model_json_schema()), what, places)
        raise AssertionError("an invalid configuration has a problem") from error
    wrong = [*problems.of_suites(config.suites), *problems.of_datasets(config), *problems.of_backends(config)]
    wrong += features.problems(config)
    problems.raise_all(wrong, what, places)
    config.stand(places, place)
    return config


def _load_plugins(raw: object, places: LinesOfKeys) -> None:
    """Load the user's files, so that the rest may name what they bring. Raises `ConfigError`."""
    files = raw.get("plugins") if isinstance(raw, Mapping) else None
    if isinstance(files, Sequence) and not isinstance(files, str) and all(isinstance(file, str) for file in files):
        try:
            things.use(map(Path, files))
        except ConfigError as error:
            raise ConfigError(places.before("plugins", str(error))) from None


def _read(path: Path) -> tuple[dict[str, Any], dict[Key, int]]:
    """The values of a file, and the line of each key. Raises `ConfigError`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        # JSON may be indented with tabs, and its texts hold none; YAML refuses them.
        loader = yaml.SafeLoader(text.replace("\t", " ") if text.startswith("{") else text)
        node = loader.get_single_node()
        by_key = dict(line_numbers.of_node(node, loader, str(path)))
        values = None if node is None else loader.construct_document(node)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: this is not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        mark, begun = error.problem_mark or error.context_mark, error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        words = cut(str(error.problem))
        if mark and begun and begun.line != mark.line:  # often the line with the mistake: a text without second quote
            words += f"; {error.context} that begins in line {begun.line + 1}"
        raise ConfigError(f"{path}{place}: this is not YAML: {words}") from None
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:  # "!!int x"
        raise ConfigError(f"{path} is not YAML: {cut(str(error))}") from None
    if not isinstance(values, dict):  # Snakemake refuses it too, without its name
        empty = "; it is empty" if values is None else ""
        raise ConfigError(f"{path}: keys are expected at the top, as in `seed: 0`{empty}")
    return values, by_key


def _update(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            _update(merged[name], value)
        else:
            merged[name] = value
