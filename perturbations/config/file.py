"""`config.yaml`: a check before Snakemake loads it, which refuses files that would fill the memory or run code; types.

Snakemake reads a configuration as JSON, or else as YAML with many of PyYAML's tags, and evaluates the Python
expressions of a file that sets `__use_yte__`. When a key appears twice, the second value silently replaces the first.
Nested aliases (an alias of an alias of an alias) grow to any size as soon as the configuration is copied or printed.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from perturbations.base import settings, shown, wings
from perturbations.base.errors import ConfigError, cut, short
from perturbations.config import line_numbers, problems
from perturbations.config.extension import ConfigWing
from perturbations.config.line_numbers import NOWHERE, LinesOfKeys
from perturbations.config.sections import Config

_MOST_BYTES = 4 * 1024**2
"""PyYAML needs about a minute for a file of this size."""
_MOST_NODES = 1_000_000
_MOST_DEPTH = 32
_EVALUATED = "__use_yte__"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TAGS = tuple(
    f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "map", "null", "omap", "seq", "set", "str")
)


def check(path: Path) -> None:
    """Refuse a configuration file that is too large, too deep, not YAML, has a key twice, or holds code.

    A file that does not exist is left to Snakemake. Raises `ConfigError` naming the file, and the line where known.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path} is larger than {_MOST_BYTES // 1024**2} MiB, the most a configuration may have")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        other = "; it is UTF-16: save it as UTF-8" if data.startswith(_UTF_16) else ""
        raise ConfigError(f"{path}, line {line}: this is not UTF-8 text{other}") from None
    # JSON first, as Snakemake does: it may contain tabs.
    if not _is_json(path, text):
        _check_yaml(path, text)


def load(paths: Iterable[Path]) -> dict[str, Any]:
    """The configuration of checked files, later ones over earlier ones, as Snakemake merges them.

    A file that does not exist is left out. Raises `ConfigError` as `check` does, and for a file that is no mapping.
    """
    merged: dict[str, Any] = {}
    for path in paths:
        check(path)
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8-sig")
        loaded = _constructed(path, text)
        if not isinstance(loaded, dict):  # Snakemake refuses it too, without its name
            empty = "; it is empty" if loaded is None else ""
            raise ConfigError(f"{path}: keys are expected at the top, as in `seed: 0`{empty}")
        _update(merged, loaded)
    return merged


def of_files(paths: Sequence[Path]) -> Config:
    """The configuration of files that a command names. Raises `ConfigError` as `parse` does, and for no file."""
    if absent := [path for path in paths if not path.is_file()]:
        hint = "; run this where config.yaml is" if absent[0] == Path("config.yaml") else ""
        kind = "a directory, and no file" if absent[0].is_dir() else "no such file"
        raise ConfigError(f"{shown.line(str(absent[0]))}: {kind}{hint}")
    return parse(load(paths), line_numbers.read(paths))


def _constructed(path: Path, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:  # such as a list that is a key
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        words = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise ConfigError(f"{path}{line}: {cut(words)}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:  # of PyYAML, such as for "!!int"
        raise ConfigError(f"{path} has a value that cannot be read: {cut(str(error))}") from None


def _update(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            _update(merged[name], value)
        else:
            merged[name] = value


def _is_json(path: Path, text: str) -> bool:
    try:
        json.loads(text, object_pairs_hook=lambda pairs: _members(path, pairs))
    except RecursionError:
        raise ConfigError(f"{path} is nested deeper than {_MOST_DEPTH} levels") from None
    except ValueError:
        return False
    return True


def _members(path: Path, pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name in members if counts[name] > 1)
        raise ConfigError(f"{path} has the key {short(twice)} twice in one object")
    return members


@dataclass
class _Open:
    """A mapping or sequence whose end has not been read yet."""

    anchor: str | None
    mapping: bool
    line: int
    nodes: int = 1  # including those that its aliases repeat
    members: int = 0
    keys: dict[str, int] = field(default_factory=dict)  # -> its line


def _check_yaml(path: Path, text: str) -> None:
    sizes: dict[str, int] = {}  # of anchors
    twice: list[str] = []
    around = [_Open(None, False, 0)]
    try:
        # The C library is ten times as fast, where PyYAML has it.
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            line = event.start_mark.line + 1
            if isinstance(event, yaml.CollectionEndEvent):
                closed = around.pop()
                _end(path, closed.line, around[-1], closed.nodes, closed.anchor, sizes)
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in sizes:
                    raise ConfigError(f"{path}, line {line}: the alias *{cut(event.anchor)} has no anchor before it")
                _end(path, line, around[-1], sizes[event.anchor], None, sizes)
            elif isinstance(event, yaml.NodeEvent):
                _check_tag(path, line, event)
                if isinstance(event, yaml.ScalarEvent):
                    twice += _repeated_key(path, line, around[-1], event.value)
                    _end(path, line, around[-1], 1, event.anchor, sizes)
                    if len(twice) > _MOST_REPEATED:
                        break
                    continue
                if len(around) > _MOST_DEPTH:
                    raise ConfigError(f"{path}, line {line}: nested deeper than {_MOST_DEPTH} levels")
                around.append(_Open(event.anchor, isinstance(event, yaml.MappingStartEvent), line))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}" if mark else ""
        column = f" (column {mark.column + 1})" if mark else ""
        words = cut(str(error.problem or error.context))
        raise ConfigError(f"{path}{place}: this is not YAML: {words}{column}{_begun(error)}") from None
    except yaml.YAMLError as error:  # characters that YAML does not allow
        raise ConfigError(f"{path}{_of_character(text)}: this is not YAML: {cut(str(error))}") from None
    if len(twice) > _MOST_REPEATED:
        twice[_MOST_REPEATED:] = ["and more"]
    if twice:
        raise ConfigError("\n".join(twice))


_MOST_REPEATED = 20


def _begun(error: yaml.MarkedYAMLError) -> str:
    """Where what is not ended begins, such as a text without its second quote: often the line with the mistake."""
    begun, noticed = error.context_mark, error.problem_mark
    if begun is None or noticed is None or begun.line == noticed.line:
        return ""
    return f", {cut(str(error.context))} that begins in line {begun.line + 1}"


def _of_character(text: str) -> str:
    """The line and column of the first character that YAML does not allow."""
    match = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if match is None:
        return ""
    before = text[: match.start()]
    return f", line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def _end(path: Path, line: int, around: _Open, nodes: int, anchor: str | None, sizes: dict[str, int]) -> None:
    """Add a finished node to the counts of the collection around it."""
    around.members += 1
    around.nodes += nodes
    if anchor is not None:
        sizes[anchor] = nodes
    if around.nodes > _MOST_NODES:
        raise ConfigError(f"{path}, line {line}: more than {_MOST_NODES:,} values, those of aliases counted")


def _repeated_key(path: Path, line: int, around: _Open, value: str) -> list[str]:
    """What is to be said of a key that its mapping has already; nothing of others."""
    if not around.mapping or around.members % 2:
        return []
    if value == _EVALUATED:
        raise ConfigError(f"{path}, line {line}: {_EVALUATED} would evaluate this file as a program; leave it out")
    if value != "<<" and value in around.keys:
        return [f"{path}, line {line}: the key {short(value)} stands in line {around.keys[value]} already"]
    around.keys[value] = line
    return []


def _check_tag(path: Path, line: int, event: yaml.NodeEvent) -> None:
    if event.tag is not None and event.tag != "!" and event.tag not in _TAGS:
        raise ConfigError(f"{path}, line {line}: the tag {short(event.tag)} is not allowed: a configuration holds data")


# --- types ------------------------------------------------------------------------------------------------------------


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
        *(problem for wing in wings.of(ConfigWing) for problem in wing.problems(config)),
    ]
    problems.raise_all(wrong, places=places)
    config.stand(places, place)
    return config
