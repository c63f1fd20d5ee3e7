"""Where the keys of a configuration stand: the file and line of each, or the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

from perturbations.base.errors import ConfigError, cut, short

Key = tuple[str, ...]
"""A key's path from the top of the configuration: ("suites", "mlvp", "severities", "0")."""

COMMAND_LINE = "command line"
_MERGE = "tag:yaml.org,2002:merge"


class LineOfKey(NamedTuple):
    """Where a key stands: the source's number, later ones replace earlier ones; the line, from 1; the source's name.

    Of the command line `line` is 0.
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
        around = (key[:length] for length in range(len(key), 0, -1))
        return next((self.by_key[part] for part in around if part in self.by_key), None)

    def before(self, key: str, line: str) -> str:
        """A line about a dotted key, after the place of the key; as it is where the key is written nowhere."""
        place = self.of(tuple(key.split(".")))
        return f"{place}: {line}" if place else line


NOWHERE = LinesOfKeys({})


def of_node(node: yaml.Node | None, source: str, key: Key = ()) -> Iterator[tuple[Key, int]]:
    """Each key of a YAML document and its line. Raises `ConfigError` where a mapping has a key twice."""
    if isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            inner = (*key, str(index))
            yield inner, value.start_mark.line + 1
            yield from of_node(value, source, inner)
    if not isinstance(node, yaml.MappingNode):
        return
    for name, value in node.value:  # first what is merged in: what is written out replaces it
        if name.tag == _MERGE:
            for mapping in reversed(value.value) if isinstance(value, yaml.SequenceNode) else (value,):
                yield from of_node(mapping, source, key)
    lines: dict[str, int] = {}
    for name, value in node.value:
        if name.tag == _MERGE or not isinstance(name, yaml.ScalarNode):
            continue
        line = name.start_mark.line + 1
        if name.value in lines:
            stands = f"the key {short(name.value)} stands in line {lines[name.value]} already"
            raise ConfigError(f"{source}, line {line}: {stands}")
        lines[name.value] = line
        inner = (*key, _as_python(name))
        yield inner, line
        yield from of_node(value, source, inner)


def _as_python(name: yaml.ScalarNode) -> str:
    """A key as its Python value is written: `yes` is True, `0x5` is 5."""
    try:
        return str(name.value if name.tag == "tag:yaml.org,2002:str" else yaml.safe_load(name.value))
    except (ValueError, yaml.YAMLError):
        return cut(str(name.value))


def of_values(value: object, key: Key = ()) -> Iterator[Key]:
    """Each key of a value that stands in no file."""
    members = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield (*key, str(name))
        yield from of_values(inner, (*key, str(name)))
