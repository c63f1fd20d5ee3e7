"""`config.yaml`: its values with the line of each key, and the typed configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from perturbations.base import features, plugins, settings, shown
from perturbations.base.errors import ConfigError, cut
from perturbations.config import line_numbers, named_paths, problems, pruned, type_problems
from perturbations.config.line_numbers import COMMAND_LINE, NOWHERE, Key, LineOfKey, LinesOfKeys
from perturbations.config.problems import Problem
from perturbations.config.sections import Config


def load(paths: Iterable[str | Path]) -> LinesOfKeys:
    """The values of configuration files, later ones over earlier ones, as Snakemake merges them, and the lines of keys.

    A file that does not exist is left out: Snakemake names it. Raises `ConfigError` naming the file, and the line where
    known, for what is not YAML, or is no mapping.
    """
    merged: dict[str, Any] = {}
    lines: dict[Key, LineOfKey] = {}
    repeated: list[Problem] = []
    for order, path in enumerate(map(Path, paths)):
        if path.exists():
            source = cut(os.path.relpath(path) if path.absolute().is_relative_to(Path.cwd()) else str(path))
            values, keys = _read(path, source)
            lines = line_numbers.without(lines, [*_update(merged, values)])
            lines |= {key: (order, line, source) for key, line, _ in keys}
            repeated += [
                (key, f"is written twice: lines {before} and {line}; delete one")
                for key, line, before in keys
                if before
            ]
    return LinesOfKeys(lines, merged, repeated)


def read_config(paths: Sequence[Path], targets: Sequence[str] | None = None) -> Config:
    """The configuration of files that a command names. Raises `ConfigError` as `parse` does, and for no file."""
    if absent := [path for path in paths if not path.is_file()]:
        hint = "; run this where config.yaml is" if absent[0] == Path("config.yaml") else ""
        kind = "a directory, and no file" if absent[0].is_dir() else "no such file"
        raise ConfigError(f"{shown.line(str(absent[0]))}: {kind}{hint}")
    written = load(paths)
    return parse(written.values, written, targets=targets)


def parse(
    raw: object, written: LinesOfKeys = NOWHERE, place: Path = Path(), targets: Sequence[str] | None = None
) -> Config:
    """Check a configuration and give it types; `written` is what files say.

    Where jobs work in another folder, `place`, relative paths of files that exist before the run become absolute. The
    files of datasets that `targets` name must be there. Raises `ConfigError` with one line per mistake, each with
    its place and key.
    """
    places = written.places_in(raw)
    # What a plugin may bring is not looked up where a plugin is wrong.
    wrong = [*places.repeated]
    brought = _load_plugins(raw)
    config, of_types, values = _typed(raw, places, place)
    wrong += [(key, text) for key, text in of_types if not (brought and problems.may_be_brought(key))]
    if config is not None:
        named = [
            *problems.suite_problems(config.suites),
            *problems.dataset_problems(config),
            *problems.backend_problems(config),
        ]
        wrong += [] if brought else problems.not_following(named + features.problems(config), of_types, values)
        wrong += [] if targets is None else named_paths.missing_paths(config, targets)
    problems.raise_all([*brought, *wrong], places=places)
    assert config is not None, "an invalid configuration has a problem"
    config.locate(places, place)
    return config


def _load_plugins(raw: object) -> list[Problem]:
    """Load the user's files, so that the rest may name what they bring; what is wrong with them."""
    files = raw.get("plugins") if isinstance(raw, Mapping) else None
    wrong: list[Problem] = []
    for number, file in enumerate(files) if isinstance(files, list | tuple) else ():
        try:
            plugins.use([Path(settings.expanded(file))] if isinstance(file, str) else [])
        except (ConfigError, ValueError) as error:
            wrong.append((("plugins", str(number)), str(error)))
    return wrong


def _typed(raw: object, places: LinesOfKeys, place: Path) -> tuple[Config | None, list[Problem], Any]:
    """The configuration, what is wrong with the types of its values, and the values without the wrong ones.

    No configuration where nothing can be read. Snakemake reads what is nested in a value of the command line as texts:
    here they are read as YAML, except where a text is wanted.
    """
    texts: dict[Key, str] = {}
    values = _as_yaml(raw, places, (), texts)
    told: list[Problem] = []
    while True:
        try:
            context = settings.ABSOLUTE if place.parts else None
            return Config.model_validate(pruned.without_left_out(values), context=context), told, values
        except ValidationError as error:
            mistakes = type_problems.problems_of_types(error)
            wrong = [(pruned.key_of(values, key), text) for key, text in mistakes]
            wanted = {pruned.key_of(values, key) for key in type_problems.wants_text(error)} & texts.keys()
        before = [key for key, _ in told]
        told += [
            (key, text)
            for key, text in wrong
            if key not in wanted and not any(other[: len(key)] == key for other in before)
        ]
        for key in wanted:
            pruned.put(values, key, texts.pop(key))
        for key, _ in wrong:
            if key not in wanted and not pruned.leave_out(values, key):
                return None, told, values


def _as_yaml(raw: Any, places: LinesOfKeys, key: Key, texts: dict[Key, str]) -> Any:
    """A copy in which texts of the command line are the values that YAML reads in them; `texts` gets these texts."""
    if isinstance(raw, dict):
        return {name: _as_yaml(value, places, (*key, str(name)), texts) for name, value in raw.items()}
    if isinstance(raw, list | tuple):
        return [_as_yaml(value, places, (*key, str(place)), texts) for place, value in enumerate(raw)]
    if isinstance(raw, str) and len(key) > 1 and places.of(key)[2] == COMMAND_LINE:
        with suppress(yaml.YAMLError, ValueError):
            value = yaml.safe_load(raw)
            if value is None or isinstance(value, bool | int | float):
                texts[key] = raw
                return value
    return raw


_OF_YAML = {
    r"'\t'": "a tab; indent with spaces",
    "mapping values are not allowed": "a `:` where no key is; is one missing above? A text with `: ` has quotes",
    "expected alphabetic or numeric character": "a text that begins with * or & has quotes",
    "could not find expected ':'": "a key has no `:` behind it",
    "expected <block end>": "this line's indentation does not fit the lines above",
    "unexpected end of stream": "a quote is not closed",
    "expected ',' or": "a bracket is not closed, or a comma is missing",
    "unhashable key": "a list or a mapping cannot be a key",
    "undefined alias": "the anchor (&) of this alias (*) is missing; a text that begins with * has quotes",
}
"""What PyYAML says -> what it means."""


def _read(path: Path, name: str) -> tuple[dict[str, Any], list[tuple[Key, int, int]]]:
    """The values of a file that messages call `name`, and the lines of its keys (`line_numbers.lines_of_node`).

    Raises `ConfigError`.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        # JSON may be indented with tabs, and its texts hold none; YAML refuses them.
        loader = yaml.SafeLoader(text.replace("\t", " ") if text.startswith("{") else text)
        node = loader.get_single_node()
        keys = [*line_numbers.lines_of_node(node, loader)]
        values = None if node is None else loader.construct_document(node)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}; its owner lets you: chmod u+r") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}, line {line}: this is not UTF-8 text; save the file as UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark, begun = error.problem_mark or error.context_mark, error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        words = next((plain for part, plain in _OF_YAML.items() if part in str(error.problem)), cut(str(error.problem)))
        if mark and begun and begun.line != mark.line:  # often the line with the mistake: a text without second quote
            words += f"; {error.context} that begins in line {begun.line + 1}"
        raise ConfigError(f"{name}{place}: this is not YAML: {words}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"{name}, line {line}: this is not YAML: a letter that no text may hold: {error.character:#x}"
        ) from None
    except RecursionError:
        raise ConfigError(
            f"{name}: this is nested too deep; an alias (*) must not be within its own anchor (&)"
        ) from None
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:  # "!!int x"
        raise ConfigError(f"{name} is not YAML: {cut(str(error))}; leave out the tag (`!!...`) before it") from None
    if not isinstance(values, dict):  # Snakemake refuses it too, without its name
        empty = "; it is empty" if values is None else ""
        raise ConfigError(f"{name}: keys are expected at the top, as in `seed: 0`{empty}")
    return values, keys


def _update(merged: dict[str, Any], values: Mapping[str, Any], key: Key = ()) -> Iterator[Key]:
    """Put values over others; the keys of those that are replaced."""
    for name, value in values.items():
        own = (*key, str(name))
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            yield from _update(merged[name], value, own)
        else:
            if name in merged:
                yield own
            merged[name] = value
