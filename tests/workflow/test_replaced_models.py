"""A model whose files are replaced: its evaluations are run again, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from clips import DATASET
from workflow_project import Project, tiny_clip

from perturbations import read_manifest
from perturbations.base import plugins
from perturbations.config import file as config_file
from perturbations.config import sections as configuration
from perturbations.evaluation.plan import model_files, planned_runs
from perturbations.manifest import manifest_paths

# --- the hash of a model's files --------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model, in a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "preprocessor_config.json", "model.safetensors", "README.md"):
        (folder / name).write_text(name)
    return folder


def wanted(dataset: Mapping[str, Any] = DATASET, **values: Any) -> configuration.Config:
    raw = {"datasets": {"demo": dataset}, "suites": {"mlvp": {}}}
    return config_file.parse({**raw, "evaluation": {"model": "model", **values}})


def test_a_copy_with_other_times_is_the_same_model(model: Path) -> None:
    before = model_files.sha256(wanted())
    shutil.copytree(model, "copy")
    shutil.rmtree(model)
    shutil.move("copy", model)
    for path in model.iterdir():
        os.utime(path, (1, 1))
    assert model_files.sha256(wanted()) == before is not None


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "preprocessor_config.json", "model.safetensors"])
def test_a_replaced_file_is_another_model_also_with_the_same_size_and_time(name: str, model: Path) -> None:
    before, times = model_files.sha256(wanted()), (model / name).stat()
    (model / name).write_text(name.upper())
    os.utime(model / name, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert model_files.sha256(wanted()) != before


def test_files_that_are_loaded_count_and_no_others(model: Path) -> None:
    before = model_files.sha256(wanted())
    (model / "README.md").write_text("another text")
    (model / "pytorch_model.bin").write_text("the same weights for others")
    (model / ".cache").mkdir()
    (model / "onnx.json").mkdir()
    assert model_files.sha256(wanted()) == before
    (model / "added_tokens.json").write_text("{}")
    assert model_files.sha256(wanted()) != before
    (model / "added_tokens.json").unlink()
    assert model_files.sha256(wanted()) == before
    (model / "tokenizer.json").unlink()
    assert model_files.sha256(wanted()) != before


def test_the_file_of_a_backbone_from_outside_counts(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_plugins", {})
    (model / "config.json").write_text('{"model_type": "mine"}')
    fields = "name='mine', title='', source='', model_class='', example=''"
    text = f"from perturbations.evaluation.backbones import Backbone\nBACKBONE = Backbone({fields})\n"
    hashes = [model_files.sha256(wanted())]
    for name in ("one.py", "other.py"):
        Path(name).write_text(f"{text}# {name}\n")
        plugins._plugins.clear()
        plugins.use([Path(name)])
        hashes.append(model_files.sha256(wanted()))
    plugins._plugins.clear()
    plugins.use([])
    assert len({*hashes}) == 3


def test_fine_tuned_weights_count(model: Path) -> None:
    Path("tuned.pt").write_text("one")
    with_weights = wanted(checkpoint="tuned.pt")
    before = model_files.sha256(with_weights)
    assert before != model_files.sha256(wanted())
    Path("tuned.pt").write_text("two")
    assert model_files.sha256(with_weights) != before


def test_a_model_that_is_gone_is_as_it_was_checked(model: Path) -> None:
    before = model_files.sha256(wanted())
    record = Path(manifest_paths.at("checked_model", model=planned_runs.model_key(wanted())))
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"files": before}))
    shutil.rmtree(model)
    assert model_files.sha256(wanted()) == before
    model.mkdir()
    assert model_files.sha256(wanted()) == before
    record.write_text("{")
    assert model_files.sha256(wanted()) is model_files.sha256(wanted(model="never here")) is None


def test_the_demos_encoder_is_what_its_rule_makes(model: Path) -> None:
    assert model_files.sha256(wanted({"adapter": "demo"}, model=None)) is None
    assert not Path("work").exists()


def test_a_name_that_is_no_utf_8_hinders_nothing(model: Path) -> None:
    (model / os.fsdecode(b"\xff.json")).write_text("{}")
    assert model_files.sha256(wanted()) is not None


def test_a_model_of_the_hub_is_found_in_its_cache(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(model.parent / "hub"))
    cache = Path("hub/models--some--clip")
    shutil.copytree(model, cache / "snapshots" / "abc")
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("abc")
    assert model_files.sha256(wanted(model="some/clip")) == model_files.sha256(wanted())
    assert model_files.sha256(wanted(model="some/other")) is None
    assert model_files.sha256(wanted(model="no hub's/name/at all")) is None


OF_A_MODEL = {"check_model", "gallery", "evaluate", "results", "evaluate_tiny"}


def jobs(project: Project, *arguments: str) -> set[str]:
    """Run Snakemake: the rules whose jobs ran."""
    counts = re.search(r"^\d+ jobs?: (.*)$", project.snakemake("evaluate_tiny", *arguments).stderr, re.MULTILINE)
    return {count.split()[0] for count in counts[1].split(", ")} if counts else set()


def results(project: Project) -> dict[str, bytes]:
    """What the evaluations of each model gave, by the model's key."""
    paths = (project.root / "manifests/tiny/evaluation").glob("*/results.parquet")
    return {path.parent.name: path.read_bytes() for path in paths}


def weights(project: Project) -> dict[str, set[str]]:
    """The hash of the weights in each model's results."""
    folder = project.root / "manifests/tiny/evaluation"
    return {key: set(read_manifest(folder / key / "results.parquet")["checkpoint_sha256"]) for key in results(project)}


def test_only_the_evaluations_of_a_replaced_model_are_made_anew(tmp_path: Path) -> None:
    tiny_models = pytest.importorskip("tiny_models")
    for index, name in enumerate("ab"):
        tiny_clip(tmp_path / "videos" / f"{name}.mp4", seed=index, frames=4)
    first, _ = (tiny_models.save_clip(tmp_path / name, seed=seed) for seed, name in enumerate(("one", "two")))
    captions = {"perturbations": ["keyboard"], "severities": [5]}
    project = Project(
        tmp_path,
        {
            "datasets": {"tiny": {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}},
            "suites": {"mm_robustness": {"perturbations": ["pixelate"], "severities": [5], "captions": captions}},
            "evaluation": {"model": "two", "num_frames": 2, "directions": ["t2v"]},
        },
    )
    project.write_captions(["a", "b"])
    assert jobs(project) > OF_A_MODEL
    project.config["evaluation"]["model"] = "one"
    assert jobs(project) == OF_A_MODEL
    clips, before, hashes = project.outputs(), results(project), weights(project)
    (key,) = (key for key in before if "clip4clip-one" in key)
    (other,) = set(before) - {key}

    shutil.copytree(first, tmp_path / "copy")  # the same bytes at another time
    shutil.rmtree(first)
    (tmp_path / "copy").rename(first)
    assert jobs(project) == set()

    tiny_models.save_clip(first, seed=7)
    assert jobs(project) == OF_A_MODEL
    assert weights(project)[key].isdisjoint(hashes[key])
    assert weights(project)[other] == hashes[other]
    assert jobs(project) == set()

    project.config["evaluation"]["model"] = "two"
    assert jobs(project) == set()
    assert results(project)[other] == before[other]
    assert results(project)[key] != before[key]
    assert {name: when for name, when in project.outputs().items() if "evaluation" not in name} == clips
    project.output_of("verify", "manifests")
