"""Where the keys of a configuration stand: the file and line of each, or the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from perturbations.base.errors import cut

Key = tuple[str, ...]
"""A key's path from the top of the configuration: ("suites", "mlvp", "severities", "0")."""

COMMAND_LINE = "command line"
_MOST_KEYS = 100_000
"""Aliases may repeat a value very often."""

_MISREAD = re.compile(r"[-+]?0[0-7_]+|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
"""Numbers that YAML 1.1 reads in base 8 or 60: 010, 1:30."""


@dataclass(frozen=True, order=True)
class LineOfKey:
    """Where a key stands: the source's number, later ones replace earlier ones; the line, from 1; the source's name.

    Of the command line and of a file whose lines are not known, `line` is 0.
    """

    order: int
    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}" if self.line else self.source


@dataclass(frozen=True)
class LinesOfKeys:
    """The place of every key; a key of several sources stands in the last one, whose value counts.

    All are equal, so that configurations that say the same are, wherever their keys stand. `misread` has the numbers
    that YAML reads as others than a reader does: key -> the number as it is written, and as it is read. `title` is what
    messages call the whole; `is_part` that it is a part of what the sources hold.
    """

    by_key: Mapping[Key, LineOfKey] = field(compare=False)
    misread: Mapping[Key, tuple[str, str]] = field(default_factory=dict, compare=False)
    title: str = field(default="config.yaml", compare=False)
    is_part: bool = field(default=False, compare=False)

    def of(self, key: Key) -> LineOfKey | None:
        """Where a key stands, or else the nearest key around it; None where nothing of it is written anywhere."""
        for length in range(len(key), 0, -1):
            if key[:length] in self.by_key:
                return self.by_key[key[:length]]
        return None

    def before(self, key: str, line: str) -> str:
        """A line about a dotted key, after the place of the key; as it is where the key is written nowhere."""
        place = self.of(tuple(key.split(".")))
        return f"{place}: {line}" if place else line


NOWHERE = LinesOfKeys({})


def of_module(
    name: str, part: object, whole: object, files: Iterable[Path], command_line: object = None
) -> LinesOfKeys:
    """The places of the configuration that a module is given: of a part of what its user's files hold, or of none.

    `part` is an object in `whole`, the configuration of the user's own Snakefile, which is read from `files`.
    """
    title = f"the configuration of the module `{cut(name)}`"
    path = _path_of(part, whole, ())
    if path is None:
        return LinesOfKeys({}, title=title)
    there = read(files, command_line)
    by_key = {key[len(path) :]: place for key, place in there.by_key.items() if key[: len(path)] == path}
    by_key.pop((), None)
    misread = {key[len(path) :]: numbers for key, numbers in there.misread.items() if key[: len(path)] == path}
    return LinesOfKeys(by_key, misread, title, is_part=True)


def _path_of(part: object, whole: object, path: Key) -> Key | None:
    """The path of an object in nested mappings; None where it is in none of them."""
    if part is whole:
        return path
    if not isinstance(whole, Mapping) or len(path) == _MOST_LEVELS:
        return None
    paths = (_path_of(part, value, (*path, str(name))) for name, value in whole.items())
    return next((path for path in paths if path is not None), None)


_MOST_LEVELS = 8


def read(files: Iterable[Path], command_line: object = None) -> LinesOfKeys:
    """The places of the keys of files that `config_file.check` passed, in Snakemake's order, and of `--config`.

    A file without lines that could be told (JSON with tabs) has none.
    """
    by_key: dict[Key, LineOfKey] = {}
    misread: dict[Key, tuple[str, str]] = {}
    order = 0
    for order, file in enumerate(files):
        name = _name(file)
        for key, line, node in _of_file(file):
            by_key[key] = LineOfKey(order, line, name)
            misread.pop(key, None)
            if (read_as := _misread(node)) is not None:
                misread[key] = read_as
    for key in _of_values(command_line, ()):
        by_key[key] = LineOfKey(order + 1, 0, COMMAND_LINE)
        misread.pop(key, None)
    return LinesOfKeys(by_key, misread)


def _name(file: Path) -> str:
    """The file as a user would write it: from the working directory where it lies in it."""
    try:
        return cut(str(file.relative_to(Path.cwd())))
    except ValueError:
        return cut(str(file))


def _misread(node: yaml.Node) -> tuple[str, str] | None:
    """A number as it is written and as YAML reads it, where a reader takes it for another: 010 is 8, 1:30 is 90."""
    if not isinstance(node, yaml.ScalarNode) or not node.tag.endswith((":int", ":float")):
        return None
    written = node.value.replace("_", "")
    if not _MISREAD.fullmatch(node.value) or (written.lstrip("+-").isdecimal() and int(written) == int(written, 8)):
        return None
    return cut(node.value, 40), cut(_as_python(node), 40)


def _of_file(file: Path) -> Iterator[tuple[Key, int, yaml.Node]]:
    """Each key of a file, its line, and its value."""
    try:
        node = yaml.compose(file.read_text(encoding="utf-8-sig"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, yaml.YAMLError):
        return
    for number, entry in enumerate(_of_node(node, ())):
        if number == _MOST_KEYS:
            return
        yield entry


def _of_node(node: yaml.Node | None, key: Key) -> Iterator[tuple[Key, int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        merged = [value for name, value in node.value if name.tag == "tag:yaml.org,2002:merge"]
        for value in reversed(merged):  # what is written out replaces what is merged in
            for mapping in reversed(value.value) if isinstance(value, yaml.SequenceNode) else (value,):
                yield from _of_node(mapping, key)
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode) and name.tag != "tag:yaml.org,2002:merge":
                inner = (*key, _as_python(name))
                yield inner, name.start_mark.line + 1, value
                yield from _of_node(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            inner = (*key, str(index))
            yield inner, value.start_mark.line + 1, value
            yield from _of_node(value, inner)


def _as_python(name: yaml.ScalarNode) -> str:
    """A key as its Python value is written: `yes` is True, `0x5` is 5."""
    if name.tag == "tag:yaml.org,2002:str":
        return str(name.value)
    try:
        return str(yaml.safe_load(name.value))
    except (ValueError, yaml.YAMLError):
        return str(name.value)


def _of_values(value: object, key: Key) -> Iterator[Key]:
    members = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield (*key, str(name))
        yield from _of_values(inner, (*key, str(name)))
