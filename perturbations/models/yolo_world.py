"""Objects named by words, by YOLO-World through ultralytics: the alternative to OWLv2."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.errors import ConfigError
from perturbations.models.analysis.tracking import Detection
from perturbations.models.checkpoints import files_sha256, library, runtime
from perturbations.models.owlv2 import MIN_SCORE, LabelledBox, embedded, strongest
from perturbations.models.role_registry import Model

Embed = Callable[[Sequence[Image]], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class WorldDetector:
    """A loaded detector.

    Attributes:
        identity: name, revision, dtype, device and library version, for the manifest. It does not cover `embed`.
    """

    _model: Any  # ultralytics' model has no types
    _embed: Embed
    identity: dict[str, str]
    _device: str
    _batch_size: int

    def detect(self, images: Sequence[Image], words: Sequence[str]) -> list[list[Detection]]:
        """The best detections of each image, highest score first; arguments and result as of OWLv2's."""
        if not words:
            return [[] for _ in images]
        self._model.set_classes(list(words))
        objects: list[list[LabelledBox]] = []
        for start in range(0, len(images), self._batch_size):
            batch = images[start : start + self._batch_size]
            results = self._model.predict(
                # ultralytics expects OpenCV's order of channels, BGR.
                source=[np.ascontiguousarray(image[:, :, ::-1]) for image in batch],
                conf=MIN_SCORE,
                # The default pads less when all images of a batch have one shape: results would depend on the others.
                rect=False,
                device=self._device,
                verbose=False,
            )
            for image, result in zip(batch, results, strict=True):
                boxes = result.boxes.cpu().numpy()
                best = strongest(boxes.xyxy, boxes.conf, *image.shape[:2])
                objects.append([(box, float(boxes.conf[at]), words[int(boxes.cls[at])]) for at, box in best])

        def embed(crops: Sequence[Image]) -> NDArray[np.float32]:
            vectors = np.asarray(self._embed(crops), np.float32)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny))

        return embedded(images, objects, embed)


def load(
    model: str, *, revision: str | None, device: str, dtype: str, embed: Embed, batch_size: int = 8
) -> WorldDetector:
    """The YOLO-World weights of this file, on this device.

    Args, beside those of OWLv2:
        model: a weights file (`.pt`). ultralytics' names are not accepted, because it would download them.
        revision: `sha256:...` of the file. Required: such a file is a pickle, and loading it runs its code in older
            releases of ultralytics.
        dtype: "float32"; releases of ultralytics differ in how to set another.
        embed: uint8 RGB crops -> float32 vectors, crops x length, for tracking; for example OWLv2's `embed`.

    Raises:
        ConfigError: ultralytics, the weights, the text encoder or the device is missing, or the file has another hash.
    """
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
    # ultralytics reads these when it is imported. It may neither install packages nor look for updates, and newer
    # releases then load weights with weights_only.
    os.environ.update(YOLO_AUTOINSTALL="false", YOLO_OFFLINE="true", ULTRALYTICS_SAFE_LOAD="true")
    # It replaces Pillow's `open` by one that ends the job where a file is no picture: by the lack of a HEIF library.
    pictures = library("PIL.Image", package="pillow")
    opened = pictures.open
    try:
        ultralytics = library("ultralytics")
        loaded = ultralytics.YOLOWorld(str(weights))
    finally:
        pictures.open = opened  # type: ignore[attr-defined]
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
    return WorldDetector(loaded, embed, known, device, batch_size)


MODELS = (
    Model(
        role="detector",
        name="YOLO-World",
        weights="a file of the user",
        licence="AGPL-3.0",
        load=load,
        of="guides",
    ),
)
