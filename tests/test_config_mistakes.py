"""The mistakes of a configuration are told together: each with its line, its key, and what may have been meant."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import clips
import preloaded
import pytest
import yaml

from perturbations.base import features
from perturbations.base.errors import ConfigError
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.corpus import tiers

REPOSITORY = Path(__file__).parents[1]

# Line by line: what is right, and what is wrong in its place, its key, and words of what is said of it.
LINES: list[tuple[str, ...]] = [
    ("seed: 1", "seed: -1", "seed", "greater than or equal to 0, not -1"),
    ("shard_size: 2", "shardsize: 2", "shardsize", "unknown key; known: seed, .*did you mean shard_size"),
    ("datasets:",),
    ("  demo:",),
    ("    adapter: demo",),
    ("    clips: 4", "    clps: 4", "datasets.demo.clps", "unknown key; known: .*did you mean clips"),
    ("  mine:",),
    ("    adapter: demo", "    adapter: dmo", "datasets.mine.adapter", "'demo', not 'dmo'; did you mean demo"),
    ("    donors: demo", "    donors: demmo", "datasets.mine.donors", "unknown dataset 'demmo'; .*did you mean demo"),
    ("  other:",),
    ("    adapter: msrvtt",),
    (
        "    annotations: a",
        "    annotations: $NONE/a",
        "datasets.other.annotations",
        r"is not defined: \$NONE",
    ),
    ("    videos: x", "    videos: ${NONE}/${NOR}", "datasets.other.videos", r"are not defined: \$NONE, \$NOR"),
    (
        "    split: x",
        "    columns: {item_id: id}",
        "datasets.other.columns",
        "for the adapters folder, pictures, not 'msrvtt'",
    ),
    ("  more: {adapter: demo}", "  logs: {adapter: demo}", "datasets.logs", "taken by a folder"),
    ("suites:",),
    ("  mlvp:",),
    ("    variant: paper", "    variant: papr", "suites.mlvp.variant", "not 'papr'; did you mean paper"),
    ("  mm_robustness:", "  mm_robustnes:", "suites.mm_robustnes", "unknown suite; .*did you mean mm_robustness"),
    ("  msrvtt_p:",),
    ("    perturbations:",),
    ("      - jpeg",),
    ("      - freeze", "      - freexe", "suites.msrvtt_p.perturbations.1", "unknown 'freexe'.*did you mean freeze"),
    ("    severities: [1, 5]", "    severities: [1, 9]", "suites.msrvtt_p.severities.1", "equal to 5, not 9"),
    ("  transmission:",),
    ("    perturbations: [rain]",),
    ("    parameters:",),
    ("      #", "      h264_crf: {1: {}}", "suites.transmission.parameters.h264_crf", "lists rain; add it"),
    ("      rain:",),
    (
        "        1: {density: 0.1e-2}",
        "        1: {densty: 1}",
        "suites.transmission.parameters.rain.1.densty",
        "did you mean density",
    ),
    ("        2: {density: 0}", "        2: {density: 7}", "suites.transmission.parameters.rain.2.density", "not 7"),
    ("backends:",),
    ("  device: cuda", "  device: gpu", "backends.device", "must be cpu, mps, cuda or, of several, cuda:1, not 'gpu'"),
    (
        "  style: {backend: offline}",
        "  style: {backend: offlne}",
        "backends.style.backend",
        "not 'offlne'; did you mean offline",
    ),
    ("evaluation:",),
    (
        "  querybank: demo",
        "  querybank: dem",
        "evaluation.querybank",
        "'dem' is not among `datasets`: .*did you mean demo",
    ),
    ("  suites:",),
    ("    - mlvp",),
    ("    - msrvtt_p", "    - mlpv", "evaluation.suites.1", "'mlpv' is not among `suites`: .*did you mean mlvp"),
    (
        "  reader: pyav",
        "  reader: pyavv",
        "evaluation.reader",
        "'pyav', .*not 'pyavv'; did you mean pyav",
    ),
    ("  severities: [5]", "  severities: 5", "evaluation.severities", r"must be a list, such as \[1, 2\], not 5"),
    ("storage: {tier: frames}", "storage: {tier: frmes}", "storage.tier", "not 'frmes'; did you mean frames"),
    ("max_failed_items: 3", "max_failed_items: lots", "max_failed_items", "valid integer, not 'lots'"),
]
WRONG = [(number, *line[1:]) for number, line in enumerate(LINES, start=1) if len(line) > 1]


def parsed(folder: Path, *texts: str, command_line: dict[str, Any] | None = None) -> config.Config:
    """The configuration in files of a folder, read as the workflow reads it."""
    files = [folder / name for name in ("config.yaml", "more.yaml")[: len(texts)]]
    for path, text in zip(files, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    written = config_file.load(files)
    return config_file.parse({**written.values, **(command_line or {})}, written)


def mistakes(folder: Path, *texts: str, command_line: dict[str, Any] | None = None) -> list[str]:
    """What is said of it, line by line."""
    with pytest.raises(ConfigError) as caught:
        parsed(folder, *texts, command_line=command_line)
    first, *lines = str(caught.value).split("\n")
    assert first == "config.yaml is not valid:"
    return [line.strip() for line in lines]


def places(*given: Any, **more: Any) -> list[str]:
    """The places of what is said of it: file, line and key."""
    return [line.partition(": I")[0] for line in mistakes(*given, **more)]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The working directory is the file's, and the variables that the file names are not defined."""
    monkeypatch.chdir(tmp_path)
    for name in ("NONE", "NOR"):
        monkeypatch.delenv(name, raising=False)


def numbers_of(lines: list[str]) -> list[int]:
    """The lines of the file that messages name; each also names its key, and says what is wrong."""
    by_number = {number: (key, words) for number, _, key, words in WRONG}
    numbers = []
    for line in lines:
        match = re.match(r"config\.yaml, line (\d+): ", line)
        assert match, line
        key, words = by_number[int(match[1])]
        assert line[match.end() :].startswith(f"{key}: "), line
        assert re.search(words, line), line
        numbers.append(int(match[1]))
    return numbers


def test_wrong_types_are_told_first_and_then_what_does_not_fit_in_the_order_of_lines(
    tmp_path: Path,
) -> None:
    lines = [line[1] if len(line) > 1 else line[0] for line in LINES]
    of_types = numbers_of(mistakes(tmp_path, "\n".join(lines)))
    assert of_types == sorted(of_types)
    for number in of_types:
        lines[number - 1] = LINES[number - 1][0]
    of_meaning = numbers_of(mistakes(tmp_path, "\n".join(lines)))
    assert of_meaning == sorted(of_meaning)
    assert sorted(of_types + of_meaning) == [number for number, *_ in WRONG]
    assert len(WRONG) >= 20


MINE = "adapter: folder, annotations: a.csv, videos: v"
PLAIN = f"datasets: {{mine: {{{MINE}}}}}\nsuites: {{mlvp: {{}}}}\n"


def test_a_key_of_the_command_line_has_no_line(tmp_path: Path) -> None:
    wrong = places(tmp_path, PLAIN + "seed: -1\n", command_line={"shard_size": 0})
    assert wrong == ["config.yaml, line 3: seed", "command line: shard_size"]


def test_keys_stand_where_they_are_written_or_missing(tmp_path: Path) -> None:
    wrong = places(tmp_path, PLAIN + "seed: -1\nshard_size: 0\n", "# more\nseed: -2\n")
    assert wrong == ["config.yaml, line 4: shard_size", "more.yaml, line 2: seed"]
    text = "suites: {mlvp: {}}\ndatasets:\n  a:\n    clips: 3\n  b:\n    adapter: msrvtt\n    videos: v\n"
    assert mistakes(tmp_path, text) == ["config.yaml, line 3: datasets.a.adapter: is missing"]
    assert mistakes(tmp_path, text.replace("clips: 3", MINE.replace(", ", "\n    "))) == [
        "config.yaml, line 7: datasets.b.annotations: the adapter 'msrvtt' needs it"
    ]
    (line,) = mistakes(
        tmp_path, json.dumps({"datasets": {"mine": clips.DATASET}, "suites": {"mlvp": {"draww": 1}}}, indent=0)
    )
    assert line.startswith("config.yaml, line 11: suites.mlvp.draww: unknown key")
    dataset = MINE.replace(", ", "\n    ")
    text = f"datasets:\n  a: &a\n    {dataset}\n    language: 0\n  b:\n    <<: *a\nsuites: {{mlvp: {{}}}}\n"
    assert places(tmp_path, text) == [f"config.yaml, line 6: datasets.{name}.language" for name in "ab"]


def test_a_wrong_dataset_is_not_told_as_unknown_where_it_is_named(tmp_path: Path) -> None:
    text = "datasets: {demo: {adapter: demo}, more: {adapter: dmo}}\nsuites: {mlvp: {}}\n"
    text += "evaluation: {querybank: more}\n"
    (line,) = mistakes(tmp_path, text)
    assert "datasets.more.adapter" in line


def test_what_is_left_empty_has_its_defaults_and_a_profile_no_effect_on_frames(tmp_path: Path) -> None:
    sections = "".join(f"{name}:\n" for name in ("backends", *features.sections(), "storage", "limits"))
    empty = parsed(tmp_path, PLAIN.partition("suites")[0] + "suites:\n  mlvp:\n" + sections)
    assert empty == parsed(tmp_path, PLAIN)
    suite = "  mlvp: {parameters: , captions: }\n  mm_robustness: {captions: {parameters: }}\n"
    text = PLAIN.partition("suites")[0] + "suites:\n" + suite + "backends: {captions: , style: , frost: }\n"
    plain = PLAIN.replace("{mlvp: {}}", "{mlvp: , mm_robustness: }")
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
        "evaluation: {pretrained: $DATA/clip}\n"
    )
    read = parsed(tmp_path, text)
    dataset = read.datasets["a"]
    assert (dataset.annotations, dataset.videos) == (tmp_path / "home/a.csv", Path("/da ta/xs/$5"))
    assert dict(read.backends.roles()["frost"])["images"] == tmp_path / "home/frost"
    assert read.evaluation.pretrained == "/da ta/clip"


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
    original = "\n".join(line[0] for line in LINES)
    wrong = 0
    for _ in range(40):
        try:
            parsed(tmp_path, mutation(original, generator))
        except ConfigError as error:
            wrong += 1
            assert "config.yaml" in str(error)
            assert all(len(line) < 2000 for line in str(error).split("\n"))
    assert wrong


VALUES: list[Any] = [None, True, -1, 1.5, 10**30, "", "x", "$X", [], [[]], {}, {"x": {"y": 1}}, [None], {3: 4}, "all"]


@pytest.mark.parametrize("seed", range(4))
def test_any_value_anywhere_is_told_or_taken(seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    original = yaml.safe_load("\n".join(line[0] for line in LINES))
    for _ in range(40):
        raw: Any = yaml.safe_load(yaml.safe_dump(original))
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
            assert lines[0] == "config.yaml is not valid:"
            assert lines[1:]


def test_snakemake_tells_them_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("\n".join(line[1] if len(line) > 1 else line[0] for line in LINES))
    words = ("--snakefile", str(REPOSITORY / "Snakefile"), "-n", "--config", "timeout_s=0")
    output = preloaded.snakemake(tmp_path, *words, status=1)
    assert "Traceback" not in output
    lines = re.findall(r"^  (config\.yaml, line .*)", output, re.MULTILINE)
    assert len(numbers_of(lines)) > 10
    assert "  command line: timeout_s: Input should be greater than or equal to 1, not 0" in output


@pytest.mark.parametrize(
    ("suite", "hint"),
    [
        ("perturbations: [mlvp/fog]", "did you mean fog?"),
        ("perturbations: [jpeg_compression]", "it is a perturbation of mm_robustness"),
        ("captions: {perturbations: [keyboard]}", "known: none; it is a perturbation of mm_robustness and msrvtt_p"),
    ],
)
def test_a_name_of_another_place_brings_its_own(suite: str, hint: str, tmp_path: Path) -> None:
    (mistake,) = mistakes(tmp_path, PLAIN.replace("{mlvp: {}}", f"{{mlvp: {{{suite}}}}}"))
    assert mistake.endswith(hint)


@pytest.mark.parametrize("key", ["yes", "on", "true"])
@pytest.mark.parametrize("place", ["parameters: {fog", "captions: {parameters: {typos"])
def test_a_severity_called_yes_is_not_1(key: str, place: str) -> None:
    """YAML reads it as true, which Python takes for 1."""
    body = place + ": {" + key + ": {}}" + "}" * place.count("{")
    with pytest.raises(ConfigError, match="a severity is a whole number; YAML reads yes and on as true"):
        config_file.parse(yaml.safe_load(PLAIN.replace("mlvp: {}", f"mlvp: {{{body}}}")))
