"""Where the keys of a configuration stand: the file and line of each, or the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from perturbations.base.errors import ConfigError, short

Key = tuple[str, ...]
"""A key's path from the top of the configuration: ("suites", "mlvp", "severities", "0")."""

COMMAND_LINE = "command line"

LineOfKey = tuple[int, int, str]
"""Where a key stands: the source's number, later ones replace earlier ones; the line, from 1; the source's name.

Of the command line, the line is 0.
"""

ORIGIN: LineOfKey = (-1, 0, "")
"""Of what is written nowhere: before all lines."""


def prefix(place: LineOfKey) -> str:
    """What a line about a key begins with: `config.yaml, line 3: `; "" where it is written nowhere."""
    _, line, source = place
    return f"{source}, line {line}: " if line else f"{source}: " if source else ""


@dataclass(frozen=True)
class LinesOfKeys:
    """The place of every key; a key of several sources stands in the last one, whose value counts.

    All are equal, so that configurations that say the same are, wherever their keys stand. `values` are those of the
    files.
    """

    by_key: Mapping[Key, LineOfKey] = field(compare=False)
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def of(self, key: Key) -> LineOfKey:
        """Where a key stands, or else the nearest key around it; `ORIGIN` where nothing of it is written anywhere."""
        around = (key[:length] for length in range(len(key), 0, -1))
        return next((self.by_key[part] for part in around if part in self.by_key), ORIGIN)

    def before(self, key: str, line: str) -> str:
        """A line about a dotted key, after the place of the key; as it is where the key is written nowhere."""
        return prefix(self.of(tuple(key.split(".")))) + line

    def given(self, raw: object) -> LinesOfKeys:
        """The places where `raw` was read: values that are not those of the files are the command line's.

        Nowhere, where none is: the configuration of a module stands in its user's workflow.
        """
        if not isinstance(raw, dict) or not any(name in raw and raw[name] == self.values[name] for name in self.values):
            return NOWHERE
        other = dict.fromkeys(_differing(raw, self.values, ()), (len(self.by_key), 0, COMMAND_LINE))
        return LinesOfKeys({**self.by_key, **other}, self.values)


NOWHERE = LinesOfKeys({})


def _differing(raw: Mapping[str, Any], values: Mapping[str, Any], key: Key) -> Iterator[Key]:
    for name, value in raw.items():
        written, inner = values.get(name), (*key, str(name))
        if isinstance(value, dict) and isinstance(written, dict):
            yield from _differing(value, written, inner)
        elif name not in values or value != written:
            yield inner
            yield from _differing(value, {}, inner) if isinstance(value, dict) else ()


def of_node(node: yaml.Node, loader: yaml.SafeLoader, source: str, key: Key = ()) -> Iterator[tuple[Key, int]]:
    """Each key of a YAML document and its line. Raises `ConfigError` where a mapping has a key twice."""
    if isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*key, str(index)), value.start_mark.line + 1
            yield from of_node(value, loader, source, (*key, str(index)))
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    merged = [(name, value) for name, value in node.value if name.tag == "tag:yaml.org,2002:merge"]
    for _, value in merged:  # first what is merged in: what is written out replaces it
        for mapping in reversed(value.value) if isinstance(value, yaml.SequenceNode) else (value,):
            yield from of_node(mapping, loader, source, key)
    for name, value in node.value:
        if (name, value) in merged or not isinstance(name, yaml.ScalarNode):
            continue
        line = name.start_mark.line + 1
        if name.value in lines:
            stands = f"the key {short(name.value)} stands in line {lines[name.value]} already"
            raise ConfigError(f"{source}, line {line}: {stands}")
        lines[name.value] = line
        inner = (*key, str(loader.construct_object(name)))  # as Python writes it: `yes` is True, `0x5` is 5
        yield inner, line
        yield from of_node(value, loader, source, inner)
