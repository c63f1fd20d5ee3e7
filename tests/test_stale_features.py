"""Features of one model are never compared with those of another: weights in a folder may be replaced."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from test_evaluation import source

from perturbations.base.errors import ManifestError
from perturbations.evaluation import features as composed_features
from perturbations.evaluation import galleries
from perturbations.evaluation.features import Features
from perturbations.evaluation.scenarios import Clean
from perturbations.tta.gallery import Gallery


def model(sha256: str) -> Any:
    return SimpleNamespace(sha256=sha256, model=SimpleNamespace(device=torch.device("cpu")))


def test_a_gallery_of_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = torch.arange(12.0).reshape(2, 3, 2)
    monkeypatch.setattr(galleries, "encoded", lambda *_: Gallery("t2v", features))
    path = tmp_path / "clips.safetensors"
    galleries.write(path, model("old"), Clean([source("a")], []), "clips", 3)
    assert torch.equal(galleries.read(path, model("old"), "clips").features, features)
    with pytest.raises(ManifestError, match="encoded with other weights.*run snakemake again, which encodes"):
        galleries.read(path, model("new"), "clips")


def test_features_of_other_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "features.safetensors"
    rows = torch.ones(1, 4).numpy()
    composed_features.write(path, {"clean": Features(("a",), rows)}, model("old"))
    assert composed_features.read(path, "old")["clean"].names == ("a",)
    with pytest.raises(ManifestError, match="encoded with other weights.*run snakemake again, which encodes"):
        composed_features.read(path, "new")
