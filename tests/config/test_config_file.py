"""The files of a configuration: what is no configuration is refused, naming the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from looping import each

from perturbations.base.errors import ConfigError
from perturbations.config import file as config_file

REFUSED = {
    "deep": ("x: " + "[" * 100_000, ": this is nested too deep"),
    "not UTF-8": (b"a: 1\nb: \xff\n", ", line 2: this is not UTF-8 text"),
    "UTF-16": ("a: 1".encode("utf-16"), ", line 1: this is not UTF-8 text"),
}


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "config.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@each(("content", "message"), REFUSED.values())
def test_what_is_refused(content: str | bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ConfigError, match=message) as caught:
        config_file.load([path])
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


@each(
    ("content", "values"),
    [
        ("\ufeffseed: 1\n", {"seed": 1}),
        (
            json.dumps({"datasets": {"a": {"b": 1}, "c": {"b": 1}}}, indent="\t"),
            {"datasets": {"a": {"b": 1}, "c": {"b": 1}}},
        ),
        ("a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\n", {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2}}),
        ("a: !!str 1\nb: !!float 2\nyes: 3\n", {"a": "1", "b": 2.0, True: 3}),
    ],
)
def test_what_is_read(content: str, values: dict[object, object], tmp_path: Path) -> None:
    assert config_file.load([written(tmp_path, content)]).values == values


def test_later_files_replace_single_values_and_say_where_keys_stand(tmp_path: Path) -> None:
    first = written(tmp_path, "seed: 1\nstorage: {tier: frames, num_frames: 3}\n")
    second = tmp_path / "more.yaml"
    second.write_text("# more\nstorage: {tier: recipe}\n")
    files = config_file.load([first, second, tmp_path / "absent.yaml"])
    assert files.values == {"seed": 1, "storage": {"tier": "recipe", "num_frames": 3}}
    lines = files.places_in({"seed": 2, "storage": {"tier": "recipe", "num_frames": 3}})
    assert lines.of(("storage", "tier")) == (1, 2, str(second))
    assert lines.of(("storage", "num_frames")) == (0, 2, str(first))
    assert lines.before("seed", "seed: no") == "command line: seed: no"
    assert files.places_in({"seed": 4}) == lines
    assert not files.places_in({"seed": 4}).by_key, "the configuration of another workflow's module"


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        config_file.load([tmp_path])
