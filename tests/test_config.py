"""Every mistake in `config.yaml` is told by its full key, all at once, before any job."""

from __future__ import annotations

import copy
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from perturbations import config, registry
from perturbations.errors import ConfigError

REPOSITORY = Path(__file__).parents[1]
PLAIN: dict[str, Any] = {"datasets": {"demo": {"adapter": "demo"}}, "suites": {"mlvp": {}}}


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The plain configuration with values put at paths such as `suites/mlvp/variant`."""
    raw = copy.deepcopy(PLAIN)
    for path, value in changes:
        *folders, name = path.split("/")
        place = raw
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = value
    return raw


def mistakes(raw: Any) -> dict[str, str]:
    """What is said of each key."""
    with pytest.raises(ConfigError) as caught:
        config.parse(raw)
    first, *lines = str(caught.value).split("\n")
    assert first == "config.yaml is not valid:"
    assert all(line.startswith("  ") for line in lines)
    assert len(lines) == len(set(lines))
    return {key.strip(): said.strip() for key, _, said in (line.partition(":") for line in lines)}


# --- what is allowed -------------------------------------------------------------------------------------------------


def test_the_smallest_configuration_has_defaults() -> None:
    parsed = config.parse(PLAIN)
    assert parsed.seed == 0
    assert parsed.storage == config.VideoStorage(tier="video", profile="high")
    assert parsed.suites["mlvp"].severities == (1, 2, 3, 4, 5)
    assert parsed.suites["mlvp"].perturbations == "all"
    assert parsed.suites["mlvp"].variant == "released"


def test_the_repositorys_own_configuration_is_valid() -> None:
    config.parse(yaml.safe_load((REPOSITORY / "config.yaml").read_text()))


def test_a_datasets_own_limit_comes_before_the_global_one() -> None:
    raw = changed(("max_quarantine", 4), ("datasets/own", {"adapter": "demo", "max_quarantine": 0}))
    parsed = config.parse(raw)
    assert (parsed.max_quarantine_of("own"), parsed.max_quarantine_of("demo")) == (0, 4)


@pytest.mark.parametrize("value", [1, 1.0, -0.5, 1e30])
def test_a_whole_number_may_stand_for_a_float(value: float) -> None:
    config.parse(changed(("suites/mlvp/parameters", {"fog": {1: {"intensity": value}}})))


def test_every_published_number_may_be_written_out() -> None:
    for entry in registry.perturbations(kind="video"):
        for variant in registry.VARIANTS:
            tables = {severity: entry.parameters(severity, variant) for severity in entry.severities}
            config.parse({**PLAIN, "suites": {entry.suite: {"variant": variant, "parameters": {entry.name: tables}}}})


def test_a_parsed_configuration_cannot_be_changed() -> None:
    parsed = config.parse(PLAIN)
    with pytest.raises(ValueError, match="frozen"):
        parsed.seed = 3


# --- what is not -----------------------------------------------------------------------------------------------------

PARAMETERS = "suites/mlvp/parameters"
WRONG: list[tuple[str, Any, str, str]] = [
    # where, what, the key that is named, and what is said of it
    ("sead", 1, "sead", "unknown key"),
    ("seed", "x", "seed", "valid integer.*'x'"),
    ("seed", -1, "seed", "greater than or equal to 0, not -1"),
    ("seed", 1.5, "seed", "valid integer.*1.5"),
    ("seed", None, "seed", "valid integer, not None"),
    ("shard_size", 0, "shard_size", "not 0"),
    ("max_quarantine", -1, "max_quarantine", "not -1"),
    ("stall_limit_s", 0, "stall_limit_s", "not 0"),
    ("stall_limit_s", math.inf, "stall_limit_s", "finite"),
    ("datasets", {}, "datasets", "at least 1"),
    ("datasets", ["demo"], "datasets", "dictionary"),
    ("datasets/demo", None, "datasets.demo", "dictionary"),
    ("datasets/demo", {}, "datasets.demo.adapter", "is missing"),
    ("datasets/demo/adaptor", "demo", "datasets.demo.adaptor", "unknown key"),
    ("datasets/demo/adapter", "dmo", "datasets.demo.adapter", "'msrvtt'.*'demo', not 'dmo'"),
    ("datasets/demo/clips", 0, "datasets.demo.clips", "not 0"),
    ("datasets/demo/clips", "many", "datasets.demo.clips", "valid integer"),
    ("datasets/demo/captions", "some", "datasets.demo.captions", "'first' or 'all', not 'some'"),
    ("datasets/demo/subset", "a", "datasets.demo.subset", "tuple, not 'a'"),
    ("datasets/demo/subset", ["a", 7], "datasets.demo.subset.1", "string, not 7"),
    ("datasets/demo/annotations", 5, "datasets.demo.annotations", "path"),
    ("datasets/demo/columns", {"itemid": "x"}, "datasets.demo.columns.itemid", "unknown key"),
    ("datasets/MSR-VTT", {"adapter": "demo"}, "datasets.MSR-VTT", "pattern"),
    ("datasets/a b", {"adapter": "demo"}, "datasets.a b", "pattern"),
    ("datasets/..", {"adapter": "demo"}, "datasets...", "pattern"),
    ("datasets/x", {"adapter": "msrvtt", "videos": "v"}, "datasets.x.annotations", "the adapter 'msrvtt' needs it"),
    ("datasets/x", {"adapter": "folder", "annotations": "a"}, "datasets.x.videos", "the adapter 'folder' needs it"),
    ("datasets/x", {"adapter": "msvd", "annotations": "a", "videos": "v"}, "datasets.x.ids", "'msvd' needs it"),
    ("suites", {}, "suites", "at least 1"),
    ("suites/mlpv", {}, "suites.mlpv", "unknown suite; known: .*mlvp"),
    ("suites/mlvp/variant", "papr", "suites.mlvp.variant", "'released' or 'paper', not 'papr'"),
    ("suites/mlvp/perturbation", "all", "suites.mlvp.perturbation", "unknown key"),
    ("suites/mlvp/perturbations", "fog", "suites.mlvp.perturbations", "not 'fog'"),
    ("suites/mlvp/perturbations", ["fog", "fogg"], "suites.mlvp.perturbations", "unknown 'fogg'; known: .*fog, snow"),
    ("suites/mlvp/perturbations", ["fog", "fog"], "suites.mlvp.perturbations", r"twice: \['fog', 'fog'\]"),
    ("suites/mlvp/severities", [], "suites.mlvp.severities", "at least 1"),
    ("suites/mlvp/severities", 3, "suites.mlvp.severities", "not 3"),
    ("suites/mlvp/severities", [0], "suites.mlvp.severities.0", "not 0"),
    ("suites/mlvp/severities", [1, 6], "suites.mlvp.severities.1", "not 6"),
    ("suites/mlvp/severities", [1, 1.5], "suites.mlvp.severities.1", "not 1.5"),
    ("suites/mlvp/severities", [2, 1, 2], "suites.mlvp.severities", r"twice: \[2, 1, 2\]"),
    (PARAMETERS, {"fogg": {1: {}}}, "suites.mlvp.parameters", "unknown 'fogg'; known: .*fog"),
    (PARAMETERS, {"fog": 3}, "suites.mlvp.parameters.fog", "dictionary"),
    (PARAMETERS, {"fog": {6: {}}}, "suites.mlvp.parameters.fog.6", "less than or equal to 5"),
    (PARAMETERS, {"fog": {"one": {}}}, "suites.mlvp.parameters.fog.one", "valid integer"),
    (PARAMETERS, {"fog": {1: {"x": 1}}}, "suites.mlvp.parameters.fog.1.x", "known: intensity, decay"),
    (PARAMETERS, {"fog": {1: {"decay": "2"}}}, "suites.mlvp.parameters.fog.1.decay", "kind of 2.0, not '2'"),
    (PARAMETERS, {"fog": {1: {"decay": True}}}, "suites.mlvp.parameters.fog.1.decay", "not True"),
    (PARAMETERS, {"fog": {1: {"decay": math.nan}}}, "suites.mlvp.parameters.fog.1.decay", "not nan"),
    (PARAMETERS, {"fog": {1: {"decay": -math.inf}}}, "suites.mlvp.parameters.fog.1.decay", "not -inf"),
    (PARAMETERS, {"fog": {1: {"decay": 10**400}}}, "suites.mlvp.parameters.fog.1.decay", "not 1000"),
    (PARAMETERS, {"snow": {1: {"radius": 10.5}}}, "suites.mlvp.parameters.snow.1.radius", "kind of 10, not 10.5"),
    ("storage", "video", "storage", "not 'video'"),
    ("storage", {}, "storage.tier", "is missing"),
    ("storage", {"tier": "vdeo"}, "storage.tier", "'video', 'frames', 'recipe', not 'vdeo'"),
    ("storage", {"tier": "video", "profile": "hgh"}, "storage.profile", "'high'.*not 'hgh'"),
    ("storage", {"tier": "video", "num_frames": 12}, "storage.num_frames", "unknown key"),
    ("storage", {"tier": "video", "frames": 12}, "storage.frames", "unknown key"),
    ("storage", {"tier": "frames", "num_frames": 0}, "storage.num_frames", "not 0"),
    ("storage", {"tier": "recipe", "profile": "high"}, "storage.profile", "unknown key"),
]


@pytest.mark.parametrize(("path", "value", "key", "said"), WRONG, ids=[f"{one[2]}-{one[1]!r:.20}" for one in WRONG])
def test_a_mistake_is_told_by_its_full_key(path: str, value: Any, key: str, said: str) -> None:
    found = mistakes(changed((path, value)))
    assert key in found
    assert re.search(said, found[key])
    assert len(found) == 1 or "needs it" in said


def test_a_datasets_name_ends_where_its_line_does() -> None:
    with pytest.raises(ConfigError, match="pattern"):
        config.parse(changed(("datasets/demo\n", {"adapter": "demo"})))


@pytest.mark.parametrize("raw", [None, [], "text", 3])
def test_what_is_no_configuration_at_all(raw: Any) -> None:
    assert set(mistakes(raw)) == {"(top level)"}


def test_an_empty_configuration_names_what_it_lacks() -> None:
    assert mistakes({}) == {"datasets": "is missing", "suites": "is missing"}


def test_mistakes_of_form_are_told_together() -> None:
    raw = changed(
        ("sead", 1),
        ("shard_size", 0),
        ("datasets/Demo", {"adapter": "demo"}),
        ("datasets/x", {"adapter": "folderr", "annotation": "a"}),
        ("suites/mlvp/severities", [0, 7]),
        ("storage", {"tier": "video", "profile": "medium"}),
    )
    assert set(mistakes(raw)) == {
        "sead",
        "shard_size",
        "datasets.Demo",
        "datasets.x.adapter",
        "datasets.x.annotation",
        "suites.mlvp.severities.0",
        "suites.mlvp.severities.1",
        "storage.profile",
    }


def test_mistakes_of_meaning_are_told_together() -> None:
    raw = changed(
        ("datasets/x", {"adapter": "msvd"}),
        ("suites/mlpv", {}),
        ("suites/mlvp/perturbations", ["fogg"]),
        (PARAMETERS, {"snow": {1: {"radius": "x"}, 2: {"size": 1}}, "rain": {1: {}}}),
    )
    assert set(mistakes(raw)) == {
        "datasets.x.annotations",
        "datasets.x.videos",
        "datasets.x.ids",
        "suites.mlpv",
        "suites.mlvp.perturbations",
        "suites.mlvp.parameters",
        "suites.mlvp.parameters.snow.1.radius",
        "suites.mlvp.parameters.snow.2.size",
    }


# --- paths -----------------------------------------------------------------------------------------------------------


def test_every_path_that_does_not_exist_is_told_by_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    dataset = config.Dataset(
        adapter="msvd", annotations=tmp_path / "no.csv", videos=tmp_path / "file", ids=tmp_path / "no.txt"
    )
    with pytest.raises(ConfigError) as caught:
        config.check_paths("x", dataset)
    assert str(caught.value).split("\n")[1:] == [
        f"  datasets.x.annotations: no such file: {tmp_path}/no.csv",
        f"  datasets.x.ids: no such file: {tmp_path}/no.txt",
        f"  datasets.x.videos: no such directory: {tmp_path}/file",
    ]


def test_a_folder_is_no_annotation_file(tmp_path: Path) -> None:
    dataset = config.Dataset(adapter="folder", annotations=tmp_path, videos=tmp_path)
    with pytest.raises(ConfigError, match=r"datasets\.x\.annotations: no such file"):
        config.check_paths("x", dataset)


def test_paths_that_exist_are_fine(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config.check_paths("x", config.Dataset(adapter="folder", annotations=tmp_path / "file", videos=tmp_path))
