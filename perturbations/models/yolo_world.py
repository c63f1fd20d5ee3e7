"""Objects named by words, by YOLO-World through ultralytics: the alternative to OWLv2."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, Self

from perturbations.base.checkpoints import files_sha256, library, runtime
from perturbations.base.errors import ConfigError
from perturbations.models.owlv2 import MIN_SCORE, BoxCorners, crop, strongest
from perturbations.models.registry import Model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perturbations.analysis.detections import Detection
    from perturbations.base.arrays import Image

    Embed = Callable[[Sequence[Image]], NDArray[np.float32]]


class _Boxes(Protocol):
    """The boxes of a result: n x (x0, y0, x1, y1) in pixels, scores, numbers of words."""

    xyxy: NDArray[np.float32]
    conf: NDArray[np.float32]
    cls: NDArray[np.float32]

    def cpu(self) -> Self: ...
    def numpy(self) -> Self: ...


class _Result(Protocol):
    """What the model finds in an image."""

    @property
    def boxes(self) -> _Boxes: ...


class _Model(Protocol):
    """What is used of ultralytics' model, which has no types."""

    def set_classes(self, classes: list[str]) -> None: ...
    def predict(self, *, source: list[Image], conf: float, rect: bool, device: str, verbose: bool) -> list[_Result]: ...


class WorldDetector:
    """A loaded detector.

    Attributes:
        identity: name, revision, dtype, device and library version, for the manifest. It does not cover `embed`.
    """

    def __init__(self, model: _Model, embed: Embed, identity: dict[str, str], *, device: str, batch_size: int) -> None:
        self._model = model
        self._embed = embed
        self._device = device
        self._batch_size = batch_size
        self.identity = identity

    def detect(self, images: Sequence[Image], queries: Sequence[Sequence[str]]) -> list[list[Detection]]:
        """The best detections of each image, highest score first; arguments and result as `owlv2.Detector.detect`."""
        from perturbations.analysis.detections import Detection

        if len(images) != len(queries):
            raise ValueError(f"{len(images)} images, but {len(queries)} lists of queries")
        objects: list[list[tuple[BoxCorners, float, str]]] = [[] for _ in images]
        # The words are a state of the model, so that only images with the same words can share a batch.
        groups: dict[tuple[str, ...], list[int]] = {}
        for index, words in enumerate(queries):
            if words:
                groups.setdefault(tuple(words), []).append(index)
        for words, members in groups.items():
            self._model.set_classes(list(words))
            for start in range(0, len(members), self._batch_size):
                batch = members[start : start + self._batch_size]
                results = self._predict([images[index] for index in batch])
                for index, result in zip(batch, results, strict=True):
                    objects[index] = _best(result, words, images[index])
        embeddings = iter(self._crop_embeddings(images, objects))
        return [[Detection(box, score, label, next(embeddings)) for box, score, label in boxes] for boxes in objects]

    def _predict(self, images: list[Image]) -> list[_Result]:
        import numpy as np

        return self._model.predict(
            # ultralytics expects OpenCV's order of channels, BGR.
            source=[np.ascontiguousarray(image[:, :, ::-1]) for image in images],
            conf=MIN_SCORE,
            # The default pads less when all images of a batch have one shape: results would depend on the other images.
            rect=False,
            device=self._device,
            verbose=False,
        )

    def _crop_embeddings(
        self, images: Sequence[Image], objects: list[list[tuple[BoxCorners, float, str]]]
    ) -> list[NDArray[np.float32]]:
        import numpy as np

        crops = [crop(images[index], box) for index, boxes in enumerate(objects) for box, _, _ in boxes]
        if not crops:
            return []
        vectors = np.asarray(self._embed(crops), np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return list(vectors / np.maximum(lengths, np.finfo(np.float32).tiny))


def load(
    model: str, *, revision: str | None, device: str, dtype: str, embed: Embed, batch_size: int = 8
) -> WorldDetector:
    """The YOLO-World weights of this file, on this device.

    Args:
        model: a weights file (`.pt`). ultralytics' names are not accepted, because it would download them.
        revision: `sha256:...` of the file. Required: such a file is a pickle, and loading it runs its code in older
            releases of ultralytics.
        device: "cpu", "cuda" or "cuda:N".
        dtype: "float32"; releases of ultralytics differ in how to set another.
        embed: uint8 RGB crops -> float32 vectors, crops x length, for tracking; for example `owlv2.Detector.embed`.
        batch_size: images per forward pass.

    Raises:
        ConfigError: ultralytics, the weights, the text encoder or the device is missing, or the file has another hash.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, it must be at least 1")
    if dtype != "float32":
        raise ConfigError(f"dtype {dtype!r} is not for YOLO-World; allowed: float32")
    weights = Path(model).expanduser()
    if not weights.is_file():
        raise ConfigError(
            f"YOLO-World weights {model!r} are not a file on this machine, and nothing is downloaded during a run; "
            "fetch them before, from https://github.com/ultralytics/assets/releases, and give the path"
        )
    actual = files_sha256([weights], weights.parent)
    if revision != actual:
        raise ConfigError(
            f"YOLO-World weights {model!r} have revision {actual}, the configuration says {revision}; the file is a "
            "pickle that may run code when loaded, so set revision to this only if you trust it"
        )
    runtime(device, dtype)
    ultralytics = _ultralytics()
    loaded = ultralytics.YOLOWorld(str(weights))
    # Before the first words: the text encoder stays on the device where it is first used.
    loaded.to(device)
    try:
        loaded.set_classes(["object"])
    except Exception as error:
        # Each version of ultralytics raises other errors when fetching fails; without the encoder no word can be used.
        raise ConfigError(
            f"YOLO-World's text encoder cannot be loaded ({error}); it needs the clip package "
            "(pip install git+https://github.com/ultralytics/CLIP.git) and CLIP ViT-B/32's weights where that "
            "looks for them: call set_classes once on a machine with a network"
        ) from error
    known = {
        "name": weights.name,
        "revision": actual,
        "dtype": dtype,
        "device": device.partition(":")[0],
        "ultralytics": str(ultralytics.__version__),
        "batch_size": str(batch_size),
    }
    return WorldDetector(loaded, embed, known, device=device, batch_size=batch_size)


def _ultralytics() -> ModuleType:
    # ultralytics reads these when it is imported. It may neither install packages nor look for updates, and newer
    # releases then load weights with weights_only.
    os.environ["YOLO_AUTOINSTALL"] = "false"
    os.environ["YOLO_OFFLINE"] = "true"
    os.environ["ULTRALYTICS_SAFE_LOAD"] = "true"
    return library("ultralytics")


def _best(result: _Result, words: Sequence[str], image: Image) -> list[tuple[BoxCorners, float, str]]:
    boxes = result.boxes.cpu().numpy()
    height, width = image.shape[:2]
    return [
        (box, float(boxes.conf[index]), words[int(boxes.cls[index])])
        for index, box in strongest(boxes.xyxy, boxes.conf, height, width)
    ]


MODELS = (
    Model(
        role="detector",
        backends=("pretrained",),
        name="YOLO-World",
        weights="a file of the user",
        licence="AGPL-3.0",
        load=load,
        of="guides",
    ),
)
