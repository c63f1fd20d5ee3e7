"""The second door: checkpoints and folders of models. No file runs code, and each refusal says what is wrong."""

from __future__ import annotations

import json
import os
import pickle
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from clips import DATASET

from perturbations.base.errors import ConfigError


class Pwned:
    """A pickle that leaves a file where it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {shlex.quote(str(self.mark))}",)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_a_checkpoint_runs_no_code(suffix: str, form: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from perturbations.models.checkpoints import read_weights

    path, mark = tmp_path / f"a{suffix}", tmp_path / "pwned"
    if form == "pickle":
        path.write_bytes(pickle.dumps({"state_dict": Pwned(mark)}))
    else:
        torch.save({"state_dict": Pwned(mark)}, path)
    with pytest.raises(ConfigError, match="cannot be read as weights only"):
        read_weights(path)
    assert not mark.exists()


def header(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


LYING = json.dumps({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}).encode()


@pytest.mark.parametrize(
    "data", [b"", (2**60).to_bytes(8, "little") + b"{}", header(b"{}"), header(b"{{"), header(LYING)]
)
def test_safetensors_with_a_lying_header_are_refused(data: bytes, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from perturbations.models.checkpoints import read_weights

    (tmp_path / "a.safetensors").write_bytes(data)
    with pytest.raises(ConfigError, match="cannot be read as safetensors|holds no named weights"):
        read_weights(tmp_path / "a.safetensors")


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    tiny_models = pytest.importorskip("tiny_models")
    folder: Path = tiny_models.save_clip(tmp_path / "clip")
    return folder


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "code of a hub": ({"attn_implementation": "evil/kernel"}, "asks for the code"),
    "code of a hub below": ({"vision_config": {"_attn_implementation": "evil/kernel:run"}}, "asks for the code"),
    "text": ({"vision_config": {"hidden_size": "x"}}, "cannot be loaded as"),
    "another type": ({"model_type": ["clip"]}, "does not say what it is"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_whose_config_is_wrong_is_refused(name: str, model_folder: Path) -> None:
    from perturbations.evaluation.models import encoder_loading

    changes, reason = CONFIGS[name]
    path = model_folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in changes.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) and key in config else value
    path.write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=reason):
        encoder_loading.load_encoder("clip4clip", str(model_folder))


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "null", "", "\x80", "{}"])
def test_a_config_that_is_none_is_refused(text: str, model_folder: Path) -> None:
    from perturbations.evaluation.models import encoder_loading

    (model_folder / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match="does not say what it is"):
        encoder_loading.load_encoder("clip4clip", str(model_folder))


def test_a_models_own_code_is_not_run(model_folder: Path, tmp_path: Path) -> None:
    from perturbations.evaluation.models import encoder_loading
    from perturbations.models import checkpoints

    mark = tmp_path / "pwned"
    (model_folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass Evil: pass\n")
    path = model_folder / "config.json"
    config = json.loads(path.read_text())
    auto = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"}
    path.write_text(json.dumps({**config, "auto_map": auto}))
    encoder_loading.load_encoder("clip4clip", str(model_folder))
    path = model_folder / "tokenizer_config.json"
    path.write_text(json.dumps({"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}}))
    transformers = pytest.importorskip("transformers")
    with suppress(ConfigError):  # refused, or read by the library's own class
        checkpoints.load_part(transformers.AutoTokenizer, checkpoints.find_checkpoint(str(model_folder), None))
    assert not mark.exists()


def test_pickled_weights_beside_no_safetensors_are_not_loaded(model_folder: Path, tmp_path: Path) -> None:
    from perturbations.evaluation.models import encoder_loading

    (model_folder / "model.safetensors").unlink()
    (model_folder / "pytorch_model.bin").write_bytes(pickle.dumps(Pwned(tmp_path / "pwned")))
    with pytest.raises(ConfigError, match="holds no \\*.safetensors file"):
        encoder_loading.load_encoder("clip4clip", str(model_folder))
    assert not (tmp_path / "pwned").exists()


def test_a_spacy_pipeline_is_no_way_to_import_a_package() -> None:
    pytest.importorskip("spacy")
    from perturbations.models import nouns

    with pytest.raises(ConfigError, match="is not on this machine"):
        nouns.load("snakemake")


def test_yolos_weights_are_asked_for_by_their_hash() -> None:
    from perturbations.config import file as config_file

    backends = {"main_object": {"backend": "pretrained", "detector": "yolo_world", "yolo_world": "yolo.pt"}}
    with pytest.raises(ConfigError, match="yolo_world_revision"):
        config_file.parse({"datasets": {"d": DATASET}, "suites": {"mlvp": {}}, "backends": backends})
