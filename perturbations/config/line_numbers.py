"""Where the keys of a configuration are written: the file and line of each, or the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

Key = tuple[str, ...]
"""A key's path from the top of the configuration: ("suites", "mlvp", "severities", "0")."""

COMMAND_LINE = "command line"

LineOfKey = tuple[int, int, str]
"""Where a key is written: the source's number, later ones replace earlier ones; the line, from 1; the source's name.

A key of the command line has the line 0.
"""

ORIGIN: LineOfKey = (-1, 0, "")
"""The place of a key that is not written: before all lines."""


def prefix(place: LineOfKey) -> str:
    """What a line about a key begins with: `config.yaml, line 3: `; "" where it is written nowhere."""
    _, line, source = place
    return f"{source}, line {line}: " if line else f"{source}: " if source else ""


@dataclass(frozen=True)
class LinesOfKeys:
    """The place of every key; a key of several sources is written in the last one, whose value counts.

    Any two of them are equal, so that configurations with the same values are equal, wherever their keys are written.
    `values` are those of the files, `repeated` the keys that a file has twice, each with its message.
    """

    by_key: Mapping[Key, LineOfKey] = field(compare=False)
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)
    repeated: Sequence[tuple[Key, str]] = field(default=(), compare=False)

    def of(self, key: Key) -> LineOfKey:
        """Where a key is written, or else the nearest key around it; `ORIGIN` where nothing of it is written."""
        around = (key[:length] for length in range(len(key), 0, -1))
        return next((self.by_key[part] for part in around if part in self.by_key), ORIGIN)

    def before(self, key: str, line: str) -> str:
        """A text about a dotted key, after the file and line of the key; the text alone if the key is not written."""
        return prefix(self.of(tuple(key.split(".")))) + line

    def places_in(self, raw: object) -> LinesOfKeys:
        """The places where `raw` was read: values that are not those of the files are the command line's.

        In a module, `raw` may be a section of its user's file. If `raw` is neither, the places are `NOWHERE`.
        """
        section = next((name for name, values in self.values.items() if values and values == raw), None)
        if section is not None:
            inner = {key[1:]: place for key, place in self.by_key.items() if key[:1] == (section,)}
            return LinesOfKeys({key: place for key, place in inner.items() if key}, self.values[section])
        if not isinstance(raw, dict) or not _are_akin(raw, self.values):
            return NOWHERE
        other = dict.fromkeys(_differing(raw, self.values, ()), (len(self.by_key), 0, COMMAND_LINE))
        return LinesOfKeys({**without(self.by_key, other), **other}, self.values, self.repeated)


NOWHERE = LinesOfKeys({})


def without(by_key: Mapping[Key, LineOfKey], replaced: Collection[Key]) -> dict[Key, LineOfKey]:
    """The places without those of values that are replaced, and of what these held."""
    wholes = set(replaced)
    return {
        key: place
        for key, place in by_key.items()
        if not any(key[:length] in wholes for length in range(1, len(key) + 1))
    }


def _are_akin(raw: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether two configurations share a value, or the names of their datasets."""
    names = [datasets.keys() for own in (raw, values) if isinstance(datasets := own.get("datasets"), dict)]
    return any(name in raw and raw[name] == values[name] for name in values) or (
        len(names) == 2 and names[0] == names[1]
    )


def _differing(raw: Mapping[str, Any], values: Mapping[str, Any], key: Key) -> Iterator[Key]:
    for name, value in raw.items():
        written, inner = values.get(name), (*key, str(name))
        if isinstance(value, dict) and isinstance(written, dict):
            yield from _differing(value, written, inner)
        elif name not in values or value != written:
            yield inner
            yield from _differing(value, {}, inner) if isinstance(value, dict) else ()


def lines_of_node(node: yaml.Node, loader: yaml.SafeLoader, key: Key = ()) -> Iterator[tuple[Key, int, int]]:
    """Each key of a YAML document, its line, and the line of the same key before it in its mapping; 0 without one."""
    if isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*key, str(index)), value.start_mark.line + 1, 0
            yield from lines_of_node(value, loader, (*key, str(index)))
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    merged = [(name, value) for name, value in node.value if name.tag == "tag:yaml.org,2002:merge"]
    for _, value in merged:  # first what is merged in: what is written out replaces it
        for mapping in reversed(value.value) if isinstance(value, yaml.SequenceNode) else (value,):
            yield from lines_of_node(mapping, loader, key)
    for name, value in node.value:
        if (name, value) in merged or not isinstance(name, yaml.ScalarNode):
            continue
        line = name.start_mark.line + 1
        inner = (*key, str(loader.construct_object(name)))  # as Python writes it: `yes` is True, `0x5` is 5
        yield inner, line, lines.get(name.value, 0)
        lines[name.value] = line
        yield from lines_of_node(value, loader, inner)
