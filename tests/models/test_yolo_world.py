"""YOLO-World, on a small random model of the same class."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import numpy as np
import PIL.Image
import pytest
from tiny_models import CPU, picture, torch

from perturbations.base.errors import ConfigError
from perturbations.models import checkpoints, yolo_world

pytestmark = pytest.mark.usefixtures("no_network")


class WordFeatures:
    """A text encoder of YOLO-World that needs no weights: 512 features drawn per word."""

    def tokenize(self, words: list[str]) -> torch.Tensor:
        return torch.tensor([list(word.encode().ljust(16)) for word in words])

    def encode_text(self, tokens: torch.Tensor) -> torch.Tensor:
        drawn = [torch.randn(512, generator=torch.Generator().manual_seed(int((row**2).sum()))) for row in tokens]
        return torch.nn.functional.normalize(torch.stack(drawn), dim=-1)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Random weights of YOLO-World's smallest architecture, as ultralytics stores them, and features for any word."""
    folder = tmp_path_factory.mktemp("yolo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YOLO_CONFIG_DIR", str(folder))
        # `load` sets these, which ultralytics reads when it is imported.
        for name, value in (("OFFLINE", "true"), ("AUTOINSTALL", "false")):
            patch.setenv(f"YOLO_{name}", value)
        patch.setenv("ULTRALYTICS_SAFE_LOAD", "true")
        patch.setattr(PIL.Image, "open", PIL.Image.open)  # which ultralytics replaces
        needs.ultralytics(patch)
        from ultralytics import YOLOWorld

        encoders = types.ModuleType("ultralytics.nn.text_model")  # which imports CLIP
        encoders.build_text_model = lambda *arguments, **settings: WordFeatures()  # type: ignore[attr-defined]
        patch.setitem(sys.modules, encoders.__name__, encoders)
        torch.manual_seed(0)
        model = YOLOWorld("yolov8s-worldv2.yaml")
        for head in model.model.model[-1].cv4:
            # As they begin, no score comes near the threshold, and all are alike.
            head.bias.data.zero_()
            head.logit_scale.data.fill_(6)
        model.save(str(folder / "tiny-world.pt"))
        yield folder / "tiny-world.pt"


def mean_color(images: Any) -> Any:
    return np.stack([image.reshape(-1, 3).mean(0) + 1 for image in images]).astype(np.float32)


def load_world(weights: Path, **settings: Any) -> yolo_world.WorldDetector:
    revision = checkpoints.files_sha256([weights], weights.parent)
    return yolo_world.load(str(weights), **{**CPU, "revision": revision}, embed=mean_color, **settings)


def test_yolo_world_detects_in_any_batch_what_ultralytics_does(weights: Path) -> None:
    detector = load_world(weights, batch_size=2)
    images, words = [picture(n, 40 + n, 60) for n in range(3)], ["cat", "hat"]
    assert detector.detect(images, []) == [[], [], []]
    for image, detections in zip(images, detector.detect(images, words), strict=True):
        (direct,) = detector._model.predict(image[:, :, ::-1], conf=0.1, rect=False, verbose=False)
        best = direct.boxes[int(direct.boxes.conf.argmax())]
        assert (detections[0].label, detections[0].score) == (words[int(best.cls)], pytest.approx(float(best.conf)))
        for detection in detections:
            x0, y0, x1, y1 = detection.box
            assert 0 <= x0 < x1 <= image.shape[1]
            assert 0 <= y0 < y1 <= image.shape[0]
            assert np.linalg.norm(detection.embedding) == pytest.approx(1, abs=1e-5)


def test_yolo_world_says_what_it_is(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it may not install or download."""
    for name in ("YOLO_OFFLINE", "YOLO_AUTOINSTALL", "ULTRALYTICS_SAFE_LOAD"):
        monkeypatch.setenv(name, "")
    known = load_world(weights).identity
    assert known["name"] == "tiny-world.pt"
    assert known["revision"] == checkpoints.files_sha256([weights], weights.parent)
    assert (known["dtype"], known["device"]) == ("float32", "cpu")
    assert (os.environ["YOLO_OFFLINE"], os.environ["YOLO_AUTOINSTALL"]) == ("true", "false")
    assert os.environ["ULTRALYTICS_SAFE_LOAD"] == "true"


def test_yolo_world_weights_are_pinned_before_they_are_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ultralytics", None)
    path = tmp_path / "tiny-world.pt"
    path.write_bytes(b"weights")
    for revision in (None, "sha256:0"):
        with pytest.raises(ConfigError, match="has|have revision sha256:"):
            yolo_world.load(str(path), **{**CPU, "revision": revision}, embed=mean_color)
    with pytest.raises(ConfigError, match="'yolov8s-worldv2.pt' are not a file on this machine"):
        yolo_world.load("yolov8s-worldv2.pt", **CPU, embed=mean_color)
    with pytest.raises(ConfigError, match="ultralytics cannot be imported.*pip install ultralytics"):
        load_world(path)


def test_pictures_are_opened_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = tmp_path / "tiny-world.pt", PIL.Image.open
    path.write_bytes(b"weights")
    monkeypatch.setattr(PIL.Image, "open", opened)

    def world(name: str) -> types.SimpleNamespace:
        PIL.Image.open = load_world  # type: ignore[assignment]
        return types.SimpleNamespace(to=list, set_classes=list)

    fake = types.SimpleNamespace(YOLOWorld=world, __version__="0")
    monkeypatch.setitem(sys.modules, "ultralytics", fake)  # type: ignore[arg-type]
    load_world(path)
    assert PIL.Image.open is opened


def test_yolo_world_without_its_text_encoder(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*arguments: Any, **settings: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(sys.modules["ultralytics.nn.text_model"], "build_text_model", no_network)
    with pytest.raises(ConfigError, match="text encoder cannot be loaded .no route"):
        load_world(weights)
