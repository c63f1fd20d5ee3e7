"""Every mistake in `config.yaml` is told by its full key, all at once, before any job."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import clips
import pytest
from copies import ROOT
from looping import each

from perturbations.base.errors import ConfigError
from perturbations.config import file as config_file
from perturbations.config import named_paths
from perturbations.config import sections as config
from perturbations.suites import suite_registry

PLAIN: dict[str, Any] = {"datasets": {"mine": clips.DATASET}, "suites": {"mlvp": {}}}


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
        config_file.parse(raw)
    first, *lines = str(caught.value).split("\n")
    assert first == "the configuration is not valid:"
    assert all(line.startswith("  ") for line in lines)
    assert len(lines) == len(set(lines))
    return {key.strip(): message.strip() for key, _, message in (line.partition(":") for line in lines)}


# --- what is allowed -------------------------------------------------------------------------------------------------


def test_the_smallest_configuration_has_defaults_and_cannot_be_changed() -> None:
    parsed = config_file.parse(PLAIN)
    assert parsed.seed == 0
    assert parsed.storage == config.StorageSettings() == config.StorageSettings(tier="video", profile="high")
    assert parsed.suites["mlvp"].severities == (1, 2, 3, 4, 5)
    assert parsed.suites["mlvp"].perturbations == "all"
    assert parsed.suites["mlvp"].variant == "released"
    with pytest.raises(ValueError, match="frozen"):
        parsed.seed = 3


def test_the_repositorys_own_configuration_is_valid() -> None:
    assert set(config_file.read_config([ROOT / "config.yaml"]).datasets)


def test_a_datasets_own_limit_comes_before_the_global_one() -> None:
    raw = changed(("max_failed_items", 4), ("datasets/own", {**clips.DATASET, "max_failed_items": 0}))
    parsed = config_file.parse(raw)
    assert (parsed.max_failed_items_of("own"), parsed.max_failed_items_of("mine")) == (0, 4)


@pytest.mark.parametrize("value", [1, 1.0, 0, 0.5])
def test_a_whole_number_may_stand_for_a_float(value: float) -> None:
    config_file.parse(changed(("suites/mlvp/parameters", {"fog": {1: {"intensity": value}}})))


def test_every_published_number_may_be_written_out() -> None:
    for entry in suite_registry.perturbations(kind="video"):
        for form in entry.forms():
            tables = {severity: form.parameters(severity) for severity in form.severities}
            suite = {"variant": form.variant, "parameters": {form.name: tables}}
            config_file.parse({**PLAIN, "suites": {form.suite: suite}})


# --- what is not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [None, [], "text", 3])
def test_what_is_no_configuration_at_all(raw: Any) -> None:
    assert set(mistakes(raw)) == {"(top level)"}


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda", "cuda:0", "cuda:15"])
def test_devices(device: str) -> None:
    parsed = config_file.parse(changed(("evaluation/device", device), ("backends/device", device)))
    assert (parsed.evaluation.device, parsed.backends.device) == (device, device)


def test_seeds_that_a_manifest_can_store() -> None:
    parsed = config_file.parse(changed(("seed", 2**63 - 1), ("evaluation/seeds", [0, 2**63 - 1])))
    assert (parsed.seed, parsed.evaluation.seeds) == (2**63 - 1, (0, 2**63 - 1))


MEGABYTES = "x" * 3_000_000
PARAMETERS, CAPTIONS = "suites/mlvp/parameters", "suites/msrvtt_p/captions"


@each(
    "raw",
    [
        {MEGABYTES: 1},
        changed(("datasets/mine/adapter", MEGABYTES)),
        changed((f"datasets/{MEGABYTES}", clips.DATASET)),
        changed((f"suites/{MEGABYTES}", {})),
        changed(("suites/mlvp/perturbations", [MEGABYTES])),
        changed(("suites/mlvp/captions", {"perturbations": [MEGABYTES]})),
        changed((PARAMETERS, {MEGABYTES: {1: {}}})),
        changed((PARAMETERS, {"fog": {1: {MEGABYTES: 1}}})),
        changed((PARAMETERS, {"fog": {1: {"decay": MEGABYTES}}})),
        changed(("storage", {"tier": MEGABYTES})),
        changed(("evaluation/suites", [MEGABYTES])),
        changed(("evaluation/querybank", MEGABYTES)),
        changed(("evaluation/model", "m"), ("evaluation/checkpoint", MEGABYTES)),
        changed(("datasets/mine/donors", MEGABYTES)),
        changed(("suites/mlvp/severities", [1] * 1_000_000)),
    ],
)
def test_a_message_is_short_whatever_the_file_holds(raw: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        config_file.parse(raw)
    assert len(str(caught.value)) < 5000


# --- paths -----------------------------------------------------------------------------------------------------------


def test_every_path_that_does_not_exist_is_told_by_its_key(tmp_path: Path) -> None:
    for name in ("file", "not.txt"):
        (tmp_path / name).touch()
    dataset = config.Dataset(adapter="msvd", annotations=tmp_path, videos=tmp_path / "file", ids=tmp_path / "no.txt")
    with pytest.raises(ConfigError) as caught:
        named_paths.check_paths("x", dataset)
    assert str(caught.value).split("\n")[1:] == [
        f"  datasets.x.annotations: no such file: {tmp_path}; it is a directory",
        f"  datasets.x.ids: no such file: {tmp_path}/no.txt; did you mean not.txt?",
        f"  datasets.x.videos: no such directory: {tmp_path}/file; it is a file",
    ]
    (tmp_path / "file").touch()
    named_paths.check_paths("x", config.Dataset(adapter="folder", annotations=tmp_path / "file", videos=tmp_path))


@pytest.mark.parametrize(
    ("videos", "message"),
    [
        ("clips/*.mp4", "no such directory: clips/*.mp4; name the folder that holds the files: clips"),
        ("clip", "no such directory: clip; did you mean clips?"),
        (
            "https://example.org/a",
            "no such directory: https://example.org/a; an address is not read: download the files",
        ),
    ],
)
def test_a_path_that_is_no_folder_brings_the_way_out(
    videos: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clips").mkdir()
    for name in ("clip.mp4", "a.csv"):
        Path(name).touch()
    with pytest.raises(ConfigError) as caught:
        named_paths.check_paths("x", config.Dataset(adapter="folder", annotations=Path("a.csv"), videos=Path(videos)))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["a" * 100_000, "nul\0", "new\nline"])
def test_paths_that_no_disk_can_hold_do_not_exist(name: str) -> None:
    dataset = config.Dataset(adapter="folder", annotations=Path(name), videos=Path(name))
    with pytest.raises(ConfigError, match=r"datasets\.x\.annotations: no such file") as caught:
        named_paths.check_paths("x", dataset)
    assert len(str(caught.value).split("\n")) == 3
    assert len(str(caught.value)) < 600
