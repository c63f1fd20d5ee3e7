"""`config.yaml`: its values with the line of each key, and the typed configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from perturbations.base import features, settings, shown
from perturbations.base.errors import ConfigError, cut
from perturbations.config import line_numbers, problems
from perturbations.config.extension import ConfigFeature
from perturbations.config.line_numbers import COMMAND_LINE, NOWHERE, Key, LineOfKey, LinesOfKeys
from perturbations.config.sections import Config


def load(paths: Iterable[Path], command_line: object = None) -> tuple[dict[str, Any], LinesOfKeys]:
    """The values of configuration files, later ones over earlier ones, as Snakemake merges them; where keys stand.

    `command_line` is what `--config` gives: the places of its keys are known, its values are Snakemake's to merge. A
    file that does not exist is left out: Snakemake names it. Raises `ConfigError` naming the file, and the line where
    known, for what is not YAML, has a key twice, or is no mapping.
    """
    merged: dict[str, Any] = {}
    lines: dict[Key, LineOfKey] = {}
    order = 0
    for order, path in enumerate(paths):
        if not path.exists():
            continue
        values, by_key = _read(path)
        _update(merged, values)
        lines |= {key: LineOfKey(order, line, _source(path)) for key, line in by_key.items()}
    lines |= {key: LineOfKey(order + 1, 0, COMMAND_LINE) for key in line_numbers.of_values(command_line)}
    return merged, LinesOfKeys(lines)


def of_files(paths: Sequence[Path]) -> Config:
    """The configuration of files that a command names. Raises `ConfigError` as `parse` does, and for no file."""
    if absent := [path for path in paths if not path.is_file()]:
        hint = "; run this where config.yaml is" if absent[0] == Path("config.yaml") else ""
        kind = "a directory, and no file" if absent[0].is_dir() else "no such file"
        raise ConfigError(f"{shown.line(str(absent[0]))}: {kind}{hint}")
    return parse(*load(paths))


def parse(raw: dict[str, Any], places: LinesOfKeys = NOWHERE, place: Path = Path()) -> Config:
    """Check a configuration and give it types; `places` is where its keys stand.

    Where jobs work in another folder, `place`, relative paths of files that exist before the run become absolute.
    Raises `ConfigError` with one line per mistake, each naming its place and key: first all values of wrong types and
    unknown keys; where there are none, all names and numbers that do not fit each other.
    """
    try:
        config = Config.model_validate(raw, context=settings.ABSOLUTE if place.parts else None)
    except ValidationError as error:
        wrong = problems.of_types(error, Config.model_json_schema, places)
        problems.raise_all(wrong, places=places)
        raise AssertionError("an invalid configuration has a problem") from error
    wrong = [
        *problems.of_suites(config.suites),
        *problems.of_datasets(config),
        *problems.of_storage(config),
        *problems.of_backends(config),
        *(problem for feature in features.of(ConfigFeature) for problem in feature.problems(config)),
    ]
    problems.raise_all(wrong, places=places)
    config.stand(places, place)
    return config


def _read(path: Path) -> tuple[dict[str, Any], dict[Key, int]]:
    """The values of a file, and the line of each key. Raises `ConfigError`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        # JSON may be indented with tabs, and its texts hold none; YAML refuses them.
        loader = yaml.SafeLoader(text.replace("\t", " ") if text.startswith("{") else text)
        node = loader.get_single_node()
        by_key = dict(line_numbers.of_node(node, str(path)))
        values = None if node is None else loader.construct_document(node)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: this is not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        words = "; ".join(str(part) for part in (error.problem, _begun(error)) if part)
        raise ConfigError(f"{path}{place}: this is not YAML: {cut(words)}") from None
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:  # "!!int x"
        raise ConfigError(f"{path} is not YAML: {cut(str(error))}") from None
    if not isinstance(values, dict):  # Snakemake refuses it too, without its name
        empty = "; it is empty" if values is None else ""
        raise ConfigError(f"{path}: keys are expected at the top, as in `seed: 0`{empty}")
    return values, by_key


def _begun(error: yaml.MarkedYAMLError) -> str:
    """Where what is not ended begins, such as a text without its second quote: often the line with the mistake."""
    begun, noticed = error.context_mark, error.problem_mark
    if begun is None or noticed is None or begun.line == noticed.line:
        return ""
    return f"{error.context} that begins in line {begun.line + 1}"


def _source(path: Path) -> str:
    """The file as a user would write it: from the working directory where it lies in it."""
    here = Path.cwd()
    return cut(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _update(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            _update(merged[name], value)
        else:
            merged[name] = value
