"""Where the keys of a configuration stand: the file and line of each, or the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import yaml

from perturbations.base.errors import cut

Key = tuple[str, ...]
"""A key's path from the top of the configuration: ("suites", "mlvp", "severities", "0")."""

COMMAND_LINE = "command line"
_MOST_KEYS = 100_000
"""Aliases may repeat a value very often."""


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

    All are equal, so that configurations that say the same are, wherever their keys stand. `title` is what messages
    call the whole.
    """

    by_key: Mapping[Key, LineOfKey] = field(compare=False)
    title: str = field(default="config.yaml", compare=False)

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


def read(files: Iterable[Path], command_line: object = None) -> LinesOfKeys:
    """The places of the keys of files that `config_file.check` passed, in Snakemake's order, and of `--config`.

    A file whose lines are not known (JSON with tabs) has none.
    """
    by_key: dict[Key, LineOfKey] = {}
    order = 0
    for order, file in enumerate(files):
        name = _name(file)
        for key, line in _of_file(file):
            by_key[key] = LineOfKey(order, line, name)
    for key in _of_values(command_line, ()):
        by_key[key] = LineOfKey(order + 1, 0, COMMAND_LINE)
    return LinesOfKeys(by_key)


def _name(file: Path) -> str:
    """The file as a user would write it: from the working directory where it lies in it."""
    try:
        return cut(str(file.relative_to(Path.cwd())))
    except ValueError:
        return cut(str(file))


def _of_file(file: Path) -> Iterator[tuple[Key, int]]:
    """Each key of a file and its line."""
    try:
        node = yaml.compose(file.read_text(encoding="utf-8-sig"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, yaml.YAMLError):
        return
    yield from islice(_of_node(node, ()), _MOST_KEYS)


def _of_node(node: yaml.Node | None, key: Key) -> Iterator[tuple[Key, int]]:
    if isinstance(node, yaml.MappingNode):
        merged = [value for name, value in node.value if name.tag == "tag:yaml.org,2002:merge"]
        for value in reversed(merged):  # what is written out replaces what is merged in
            for mapping in reversed(value.value) if isinstance(value, yaml.SequenceNode) else (value,):
                yield from _of_node(mapping, key)
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode) and name.tag != "tag:yaml.org,2002:merge":
                inner = (*key, _as_python(name))
                yield inner, name.start_mark.line + 1
                yield from _of_node(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            inner = (*key, str(index))
            yield inner, value.start_mark.line + 1
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
