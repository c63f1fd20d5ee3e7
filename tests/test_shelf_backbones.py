"""A backbone is one file: with it, and nothing else edited, folders of its architecture are evaluated and listed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import shelves

from perturbations.base import shelf
from perturbations.base.errors import ConfigError, ShelfError
from perturbations.evaluation.backbones import registry
from perturbations.evaluation.backbones.registry import Backbone


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with one more file on the shelf."""
    files = {"perturbations/evaluation/backbones/groupvit.py": shelves.example("add-a-backbone")}
    return shelves.copy_with(tmp_path_factory.mktemp("copy"), files)


def test_a_folder_of_it_is_checked_and_encodes(copy: Path) -> None:
    tiny_models = pytest.importorskip("tiny_models")
    folder = tiny_models.save_groupvit(copy / "groupvit")
    settings = json.dumps({"model": "clip4clip", "pretrained": str(folder), "revision": None, "num_frames": 2})
    command = ["-m", "perturbations", "rule", "check-model", "--settings", settings, "--pretrained", str(folder)]
    shelves.run(copy, *command, "--output", "checked.json")
    checked = json.loads((copy / "checked.json").read_text())
    assert (checked["most_tokens"], checked["images"]["size"]) == (12, 32)


def test_the_command_lists_it(copy: Path) -> None:
    lines = shelves.run(copy, "-m", "perturbations", "list", "backbones").splitlines()
    names = [line.split()[0] for line in lines if not line.startswith(" ")]  # a narrow terminal wraps lines
    assert names == [*dict.fromkeys([*registry.backbones(), "groupvit"])]
    assert "nvidia/groupvit-gcc-yfcc" in lines[-1]
    listed = json.loads(shelves.run(copy, "-m", "perturbations", "list", "backbones", "--json"))
    assert listed[-1]["model_class"] == "GroupViTModel"


# --- the shelf -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.backbones())
def test_a_backbones_classes_are_those_of_transformers(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    entry = registry.backbone(name, "here")
    assert getattr(transformers, entry.model_class).config_class.model_type == name
    assert hasattr(transformers, entry.image_processor)


def test_an_unknown_backbone_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match="'chinese-clip' model; allowed: clip, .*; did you mean chinese_clip"):
        registry.backbone("chinese-clip", "folder")
    with pytest.raises(ConfigError) as refused:
        registry.backbone("x" * 10_000, "folder")
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"name": "klip"}, "declares the backbone 'klip'"), ({"title": "BLIP"}, "have the title 'BLIP'")],
)
def test_a_wrong_declaration_is_named(changes: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared: dict[str, Backbone] = dict(registry.backbones())
    declared["clip"] = replace(declared["clip"], **changes)
    monkeypatch.setattr(shelf, "things", lambda *arguments: declared)
    with pytest.raises(ShelfError, match=message):
        registry.backbones.__wrapped__()
