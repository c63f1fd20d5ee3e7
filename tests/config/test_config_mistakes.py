"""The mistakes of a configuration are told together: each with its line, its key, and what may have been meant."""

from __future__ import annotations

import copy
import os
import random
import re
from pathlib import Path
from typing import Any

import preloaded
import pytest
import yaml
from copies import ROOT
from looping import each
from snakemake.utils import update_config

from perturbations.base import features
from perturbations.base.errors import ConfigError
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.corpus.plan import tiers

PLAIN = """datasets:
  mine: {adapter: folder, annotations: captions.csv, videos: clips}
suites:
  mlvp: {}
"""
ALL_SECTIONS = """seed: 1
shard_size: 2
datasets:
  demo:
    adapter: demo
    clips: 4
  mine:
    adapter: demo
    donors: demo
  other: {adapter: msrvtt, annotations: a, videos: x, split: x}
suites:
  mlvp:
    variant: paper
  msrvtt_p:
    perturbations:
      - jpeg
      - freeze
    severities: [1, 5]
  transmission:
    perturbations: [rain]
    parameters:
      rain:
        1: {density: 0.1e-2}
        2: {density: 0}
backends:
  device: cuda
  style: {backend: offline}
evaluation:
  querybank: demo
  suites:
    - mlvp
    - msrvtt_p
  reader: pyav
  severities: [5]
storage: {tier: frames}
max_failed_items: 3
"""
"""A configuration that is right."""

MISTAKES = yaml.safe_load((ROOT / "tests/golden/config_mistakes.yaml").read_text(encoding="utf-8"))


def parsed(
    folder: Path, *texts: str, command_line: dict[str, Any] | None = None, targets: list[str] | None = None
) -> config.Config:
    """The configuration in files of a folder, read as the workflow reads it."""
    files = [folder / name for name in ("config.yaml", "more.yaml")[: len(texts)]]
    for path, text in zip(files, texts, strict=True):
        path.write_bytes(text.encode())
    written = config_file.load(files)
    values = copy.deepcopy(written.values)
    update_config(values, command_line or {})
    return config_file.parse(values, written, targets=targets)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The working directory is the file's, and the variables that the file names are not defined."""
    monkeypatch.chdir(tmp_path)
    for name in ("NONE", "NOR"):
        monkeypatch.delenv(name, raising=False)


@each("entry", MISTAKES)
def test_every_mistake_of_a_file_is_told_at_once(entry: dict[str, Any], tmp_path: Path) -> None:
    os.chdir(tmp_path)
    (tmp_path / "clips").mkdir()
    for name, text in {"captions.csv": "item_id,caption\na,b\n", **entry.get("plugin", {})}.items():
        (tmp_path / name).write_text(text)
    texts = [entry.get("config") or PLAIN + entry["after"], *([entry["more"]] if "more" in entry else [])]
    with pytest.raises(ConfigError) as caught:
        parsed(tmp_path, *texts, command_line=entry.get("command_line"), targets=entry.get("targets"))
    lines = [line.strip() for line in str(caught.value).split("\n")]
    lines = lines[lines[0] == "the configuration is not valid:" :]
    assert len(lines) == len(entry["says"]), lines
    for line, words in zip(lines, entry["says"], strict=True):
        assert re.fullmatch(re.escape(words).replace(r"\.\.\.", ".*"), line), line


def test_what_follows_from_a_mistake_is_not_told(tmp_path: Path) -> None:
    """The table has it too; here with every key of a configuration that is right, one after the other."""
    for key in ("datasets", "suites"):
        raw = yaml.safe_load(ALL_SECTIONS)
        for name in raw[key]:
            with pytest.raises(ConfigError) as caught:
                config_file.parse({**raw, key: {**raw[key], name: 3}})
            (line,) = str(caught.value).split("\n")[1:]
            assert line.strip().startswith(f"{key}.{name}: must be a mapping")


def test_what_is_left_empty_has_its_defaults_and_a_profile_no_effect_on_frames(tmp_path: Path) -> None:
    sections = "".join(f"{name}:\n" for name in ("backends", *features.sections(), "storage", "limits"))
    datasets = PLAIN.partition("suites")[0]
    empty = parsed(tmp_path, datasets + "suites:\n  mlvp:\n" + sections)
    assert empty == parsed(tmp_path, PLAIN)
    suite = "  mlvp: {parameters: , captions: }\n  mm_robustness: {captions: {parameters: }}\n"
    text = datasets + "suites:\n" + suite + "backends: {captions: , style: , frost: }\n"
    plain = PLAIN + "  mm_robustness:\n"
    assert parsed(tmp_path, text) == parsed(tmp_path, plain)
    plain = parsed(tmp_path, PLAIN + "storage: {tier: frames}\n")
    profiled = parsed(tmp_path, PLAIN + "storage: {tier: frames, profile: lossless}\n")
    assert tiers.storage_of(profiled.storage) == tiers.storage_of(plain.storage)


# --- paths -----------------------------------------------------------------------------------------------------------


def test_paths_begin_with_the_home_folder_and_hold_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATA", "/da ta")
    monkeypatch.setenv("PART", "x")
    text = (
        "datasets: {a: {adapter: msrvtt, annotations: ~/a.csv, videos: '$DATA/${PART}s/$5'}}\n"
        "suites: {mlvp: {}}\n"
        "backends: {frost: {images: ~/frost}}\n"
        "evaluation: {model: $DATA/clip}\n"
    )
    read = parsed(tmp_path, text)
    dataset = read.datasets["a"]
    assert (dataset.annotations, dataset.videos) == (tmp_path / "home/a.csv", Path("/da ta/xs/$5"))
    assert dict(read.backends.roles()["frost"])["images"] == tmp_path / "home/frost"
    assert read.evaluation.model == "/da ta/clip"


def test_a_path_that_exists_is_taken_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "$NONE").mkdir()
    text = "datasets: {a: {adapter: msrvtt, annotations: $NONE, videos: a$}}\nsuites: {mlvp: {}}\n"
    dataset = parsed(tmp_path, text).datasets["a"]
    assert (dataset.annotations, dataset.videos) == (Path("$NONE"), Path("a$"))


# --- anything at all -------------------------------------------------------------------------------------------------

PIECES = ["", " ", "\n", *":-[]{}'|%\t~", '"', "&a", "*a", "<<: *a", "!!int", "0x"]
PIECES += ["null", ".inf", "1e999", "é\u2028", "\0", "#", "? ", "datasets", "suites: {}", "adapter: 3", "$X", "9" * 40]


def mutation(text: str, generator: random.Random) -> str:
    """The text with up to four pieces put in, taken out or moved."""
    for _ in range(generator.randint(1, 4)):
        start = generator.randrange(len(text) + 1)
        end = min(len(text), start + generator.choice((0, 0, 1, 3, 20)))
        kept = generator.choice((*PIECES, text[start:end] * 2, text[-30:]))
        text = text[:start] + kept + text[end:]
    return text


@pytest.mark.parametrize("seed", range(4))
def test_no_file_gives_anything_but_a_configuration_or_its_mistakes(seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    wrong = 0
    for _ in range(40):
        try:
            parsed(tmp_path, mutation(ALL_SECTIONS, generator))
        except ConfigError as error:
            wrong += 1
            assert re.match("config.yaml|the configuration is not valid:", str(error))
            assert all(len(line) < 2000 for line in str(error).split("\n"))
    assert wrong


VALUES: list[Any] = [None, True, -1, 1.5, 10**30, "", "x", "$X", [], [[]], {}, {"x": {"y": 1}}, [None], {3: 4}, "all"]


@pytest.mark.parametrize("seed", range(4))
def test_any_value_anywhere_is_told_or_taken(seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    for _ in range(40):
        raw: Any = yaml.safe_load(ALL_SECTIONS)
        inner = raw
        while isinstance(inner, dict) and inner:
            key = generator.choice(list(inner))
            if generator.random() < 0.4 or not inner[key] or not isinstance(inner[key], dict):
                inner[generator.choice((key, key, "x", 7))] = generator.choice(VALUES)
                break
            inner = inner[key]
        try:
            parsed(tmp_path, yaml.safe_dump(raw))
        except ConfigError as error:
            lines = str(error).split("\n")
            assert lines[0] == "the configuration is not valid:"
            assert lines[1:]


def test_snakemake_tells_them_without_a_traceback(tmp_path: Path) -> None:
    text = PLAIN.replace("mlvp: {}", "mlvp: {perturbations: [fogg]}") + "seed: '0'\n"
    (tmp_path / "config.yaml").write_text(text)
    output = preloaded.snakemake(
        tmp_path, "--snakefile", str(ROOT / "Snakefile"), "-n", "--config", "timeout_s=0", status=1
    )
    assert "Traceback" not in output
    told = re.findall(r"^  (config\.yaml, line \d+: [\w.]+|command line: \w+)", output, re.MULTILINE)
    assert told == [
        "config.yaml, line 4: suites.mlvp.perturbations.0",
        "config.yaml, line 5: seed",
        "command line: timeout_s",
    ]


# --- calls -----------------------------------------------------------------------------------------------------------

MODULE = """configfile: "settings.yaml"


module own:
    snakefile: {snakefile!r}
    config: config["own"]
    prefix: {prefix!r}


use rule * from own as own_*
"""
FOG = PLAIN.replace("mlvp: {}", "mlvp: {perturbations: [fog], severities: [1]}")
CALLS: dict[str, tuple[list[str], dict[str, str], str]] = {
    # the words after snakemake, files beside config.yaml, and the whole of what is said of the mistake
    "command line": (
        ["mlvp_mine", "--config", "suites={mlvp: {severities: [6], perturbations: [fogg]}}"],
        {},
        "  command line: suites.mlvp.severities.0: must be a whole number from 1 to 5, not 6\n"
        "  command line: suites.mlvp.perturbations.0: unknown 'fogg'",
    ),
    "profile": (
        ["mlvp_mine", "--profile", "mine"],
        {"mine/config.yaml": "configfile: [more.yaml]\n", "more.yaml": "seed: '0'\n"},
        "  more.yaml, line 1: seed: must be a whole number",
    ),
    "files": (
        [],
        {"config.yaml": FOG.replace("captions.csv", "caption.csv").replace("[1]", "['1']")},
        "  config.yaml, line 2: datasets.mine.annotations: no such file: caption.csv; did you mean captions.csv?\n"
        "  config.yaml, line 4: suites.mlvp.severities.0: must be a whole number from 1 to 5, without quotes",
    ),
    "columns": (["mlvp_mine"], {"captions.csv": "video_id,sentence\na,b\n"}, "has no column 'item_id'"),
    "no captions": (["mlvp_mine"], {"captions.csv": "item_id,caption\n"}, "lists no item"),
    "no configuration": (["mlvp_mine"], {"config.yaml": ""}, "config.yaml: keys are expected at the top"),
    "module": (
        ["own_mlvp_mine"],
        {"Snakefile": MODULE.replace("{prefix!r}", "'results/x'"), "settings.yaml": "seed: 3\nown:\n"},
        "  settings.yaml, line 6: suites.mlvp.perturbations.0: unknown 'fogg'",
    ),
    "prefix": (
        ["-n"],
        {"Snakefile": MODULE.replace("{prefix!r}", "'work/x'"), "settings.yaml": "own:\n"},
        "prefix: work/x: ",
    ),
    "what is in the way": (
        ["mlvp_mine"],
        {"work/plugins.json/x": ""},
        "cannot write work/plugins.json: Is a directory",
    ),
    "recipes that cannot be written": (
        ["mlvp_mine"],
        {"work/mine/mlvp/recipes": ""},
        "work/mine/mlvp/recipes/videos.jsonl: Not a directory",
    ),
    "plugin": (["mlvp_mine"], {"config.yaml": FOG + "plugins: [~/none.py]\n"}, "plugins.0: "),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_ends_with_its_mistakes_alone(name: str, tmp_path: Path) -> None:
    words, texts, said = CALLS[name]
    section = "".join(
        f"  {line}\n" for line in FOG.replace("fog]", "fogg]" if name == "module" else "fog]").splitlines()
    )
    files = {"config.yaml": FOG, "captions.csv": "item_id,caption\na,b\n", "clips/a.mp4": "", **texts}
    files.setdefault("Snakefile", f"include: {str(ROOT / 'Snakefile')!r}\n")
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        text = text.replace("{snakefile!r}", repr(str(ROOT / "workflow/Snakefile")))
        (tmp_path / file).write_text(text + section if file == "settings.yaml" else text)
    output = preloaded.snakemake(tmp_path, "-n", *words, status=1)
    assert said in output
    assert not re.search('Traceback|Exception|File "|WorkflowError|Error in file', output), output


def test_numbers_of_the_command_line_are_numbers(tmp_path: Path) -> None:
    for name, text in {"config.yaml": FOG, "captions.csv": "item_id,caption\na,b\n"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips/a.mp4").touch()
    values = ("suites={mlvp: {severities: [1, 3]}}", 'storage={"tier": "frames", "num_frames": 20}')
    words = ("--snakefile", str(ROOT / "Snakefile"), "-n", "mlvp_mine", "--config", *values)
    assert "mlvp on mine: 1 video x 2 = 2 videos" in preloaded.snakemake(tmp_path, *words)
