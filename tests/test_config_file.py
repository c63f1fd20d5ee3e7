"""`config.yaml` is looked at before Snakemake loads it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import preloaded
import pytest
from looping import each

from perturbations.base.errors import ConfigError
from perturbations.config import file as config_file

REPOSITORY = Path(__file__).parents[1]
PLAIN = "datasets: {demo: {adapter: demo}}\nsuites: {mlvp: {}}\n"

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
RUNS = "__use_yte__: true\nx: ?open('opened', 'w')\n" + PLAIN
REFUSED = {
    "alias of an alias": (BOMB, r", line 6: more than 1,000,000 values, those of aliases counted"),
    "alias of itself": ("a: &a [*a]", r", line 1: the alias \*a has no anchor before it"),
    "deep": (PLAIN + "x: " + "[" * 100_000, r", line 3: nested deeper than 32 levels"),
    "deep JSON": ("[" * 100_000, r"nested deeper than 32 levels"),
    "large": (PLAIN + "# " + "x" * 4 * 1024**2, r"larger than 4 MiB"),
    "key twice": (PLAIN + "seed: 1\nseed: 2\n", r", line 4: the key 'seed' stands in line 3 already"),
    "inner key twice": ("a:\n  - b: 1\n    c: {d: 1}\n    'b': 2\n", r", line 4: the key 'b' stands in line 2 already"),
    "key twice in JSON": ('{"a": {"b": 1, "b": 2}}', r"has the key 'b' twice in one object"),
    "key twice among many in JSON": (
        "{" + ",".join(f'"{number % 199_999}": 0' for number in range(200_000)) + "}",
        r"has the key '0' twice in one object",
    ),
    "long key twice": (
        "a" * 900 + ": 1\n" + "a" * 900 + ": 2\n",
        r"line 2: the key 'a{10,100}\.\.\.a+' stands in line 1",
    ),
    "a program": (RUNS, r", line 1: __use_yte__ would evaluate this file as a program"),
    "tag": ("x: !!python/name:os.system\n", r", line 1: the tag '.*os.system' is not allowed"),
    "own tag": ("x: !thing [1]\n", r", line 1: the tag '!thing' is not allowed"),
    "no YAML": ("a: b: c\n", r", line 1: this is not YAML: mapping values are not allowed"),
    "tab": ("a:\n\tb: 1\n", r", line 2: this is not YAML"),
    "open": ("a: [1\nb: 2\n", r", line 2: this is not YAML"),
    "open text": (PLAIN + "seed: 'a\nb: 2\n", r", line 5: this is not YAML: .*quoted scalar that begins in line 3"),
    "UTF-16": (PLAIN.encode("utf-16"), r", line 1: this is not UTF-8 text; it is UTF-16: save it as UTF-8"),
    "NUL": ("a: \0", r"is not YAML: .*(control|special) characters are not allowed"),
    "not UTF-8": (b"a: 1\nb: \xff\n", r", line 2: this is not UTF-8 text"),
}


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "config.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@each(("content", "message"), REFUSED.values())
def test_what_is_refused(content: str | bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ConfigError, match=message) as caught:
        config_file.check(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


def test_all_keys_that_stand_twice_are_told_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, "a: 1\nb: {c: 1, d: 2, c: 3}\na: 2\n" + "".join(f"x{n % 30}: 0\n" for n in range(60)))
    with pytest.raises(ConfigError) as caught:
        config_file.check(path)
    lines = str(caught.value).split("\n")
    assert lines[0] == f"{path}, line 2: the key 'c' stands in line 2 already"
    assert lines[1] == f"{path}, line 3: the key 'a' stands in line 1 already"
    assert len(lines) == 21
    assert lines[-1] == "and more"


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        "",
        "\ufeff" + PLAIN,
        json.dumps({"datasets": {"a": {"b": 1}, "c": {"b": 1}}}, indent="\t"),
        "a: &a {x: 1}\nb: *a\nc: {<<: *a, <<: *a, y: 2}\n",  # a merge may be written twice
        "a: !!str 1\nb: !!float 2\n? [x, y]\n: 3\n? z\n: {z: 1}\n",
        "".join(f"x{number}: {number}\n" for number in range(20_000)),
        (REPOSITORY / "config.yaml").read_text(),
    ],
    ids=range(8),
)
def test_what_is_not(content: str, tmp_path: Path) -> None:
    config_file.check(written(tmp_path, content))


def test_a_file_that_does_not_exist_is_left_to_snakemake_and_a_folder_cannot_be_read(tmp_path: Path) -> None:
    config_file.check(tmp_path / "config.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        config_file.check(tmp_path)


def test_pyyaml_without_its_c_library_refuses_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(config_file.yaml, "CSafeLoader", raising=False)
    for content, message in REFUSED.values():
        if len(content) < 10_000:
            with pytest.raises(ConfigError, match=message):
                config_file.check(written(tmp_path, content))


def test_snakemake_stops_before_it_loads_the_file(tmp_path: Path) -> None:
    content, message = REFUSED["a program"]
    written(tmp_path, content)
    words = ("--snakefile", str(REPOSITORY / "Snakefile"), "--list-target-rules")
    output = preloaded.snakemake(tmp_path, *words, status=1)
    assert re.search(message, "\n".join(line for line in output.splitlines() if "config.yaml" in line))
    assert "Traceback" not in output
    assert not (tmp_path / "opened").exists()
