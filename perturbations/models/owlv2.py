"""Objects named by words, by OWLv2 (Minderer et al., 2023; `google/owlv2-base-patch16-ensemble`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.models.analysis.tracking import Detection
from perturbations.models.checkpoints import (
    find_checkpoint,
    identity,
    library,
    load_model,
    load_part,
    load_tokenizer,
    runtime,
    setting,
)
from perturbations.models.role_registry import Model

if TYPE_CHECKING:
    import torch
    from transformers import Owlv2ForObjectDetection, Owlv2Processor


MIN_SCORE = 0.1
_MAX_DETECTIONS = 3
_OF_TEXTS = ("input_ids", "attention_mask")

_BoxCorners = tuple[float, float, float, float]
LabelledBox = tuple[_BoxCorners, float, str]
"""A box, its score and its label."""
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class OpenVocabularyDetector:
    """A loaded detector.

    Attributes:
        identity: name, revision, dtype, device, batch size and library version, for the manifest.
    """

    _model: Owlv2ForObjectDetection
    _processor: Owlv2Processor
    identity: dict[str, str]
    _batch_size: int

    def detect(self, images: Sequence[Image], words: Sequence[str]) -> list[list[Detection]]:
        """The best detections of each image, highest score first (MLVP, Alg. 3).

        An image's detections do not depend on the other images, except by rounding: the last bits of a sum change with
        the batch's size. Give one clip's frames per call.

        Args:
            images: uint8 RGB, height x width x 3, of any sizes.
            words: what to look for; without any there are no detections.

        Returns:
            At most 3 per image, each with a score of at least MIN_SCORE, one word as its label and a box
            of at least a pixel inside the image. Where scores are equal, the model's own order decides.
        """
        if not words:
            return [[] for _ in images]
        results = [result for batch in _batches(images, self._batch_size) for result in self._forward(batch, words)]
        objects: list[list[LabelledBox]] = [
            [
                (box, float(result["scores"][best]), words[int(result["labels"][best])])
                for best, box in strongest(result["boxes"], result["scores"], *image.shape[:2])
            ]
            for image, result in zip(images, results, strict=True)
        ]
        return embedded(images, objects, self.embed)

    def embed(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """L2-normalized class tokens of the vision tower, images x width of the tower.

        The token is taken before the projection to text, which detection does not use and did not train.
        """
        torch = library("torch")
        width = setting(self._model, "vision_config", "hidden_size")
        rows = [np.zeros((0, width), np.float32)]
        for batch in _batches(images, self._batch_size):
            with torch.inference_mode():
                tokens = self._model.owlv2.vision_model(pixel_values=self._pixels(batch)).pooler_output.float()
                rows.append(torch.nn.functional.normalize(tokens, dim=-1).cpu().numpy())
        return np.concatenate(rows)

    def _forward(self, images: Sequence[Image], words: Sequence[str]) -> list[dict[str, NDArray[Any]]]:
        """Boxes in pixels, scores and numbers of words (labels) of the model's places that reach MIN_SCORE."""
        torch = library("torch")
        length = setting(self._model, "text_config", "max_position_embeddings")
        tokens = self._processor.tokenizer(
            list(words), padding="max_length", truncation=True, max_length=length, return_tensors="pt"
        )
        texts = {name: tokens[name].repeat(len(images), 1).to(self._model.device) for name in _OF_TEXTS}
        with torch.inference_mode():
            outputs = self._model(**texts, pixel_values=self._pixels(images))
        outputs.logits = outputs.logits.float().cpu()
        outputs.pred_boxes = outputs.pred_boxes.float().cpu()
        # The library keeps scores above its threshold, the paper's pipeline also those equal to it.
        just_below = float(np.nextafter(np.float32(MIN_SCORE), np.float32(0)))
        results = self._processor.post_process_grounded_object_detection(
            outputs, threshold=just_below, target_sizes=[image.shape[:2] for image in images]
        )
        return [{name: result[name].numpy() for name in ("boxes", "scores", "labels")} for result in results]

    def _pixels(self, images: Sequence[Image]) -> torch.Tensor:
        # The layout is explicit: by its shape alone, an image 1 or 3 pixels high would look channels-first.
        inputs = self._processor.image_processor(list(images), input_data_format="channels_last", return_tensors="pt")
        pixels: torch.Tensor = inputs["pixel_values"].to(self._model.device, self._model.dtype)
        return pixels


def load(model: str, *, revision: str | None, device: str, dtype: str, batch_size: int = 8) -> OpenVocabularyDetector:
    """The OWLv2 checkpoint of this hub name or folder, on this device.

    Args:
        model: a hub name that was downloaded before, or a folder.
        revision: see `checkpoints.find_checkpoint`.
        device: "cpu", "cuda" or "cuda:N".
        dtype: "float32", "bfloat16" or "float16". Boxes come out of the model in this type: bfloat16 places an edge
            within 1/256 of the image's longer side.
        batch_size: images, and later crops, per forward pass.

    Raises:
        ConfigError: a library, the checkpoint or the device is missing.
    """
    torch_device, torch_dtype = runtime(device, dtype)
    transformers = library("transformers")
    library("scipy")  # resizes the processor's images
    checkpoint = find_checkpoint(model, revision)
    loaded = load_model(transformers.Owlv2ForObjectDetection, checkpoint, device=torch_device, dtype=torch_dtype)
    # Named explicitly: the automatic choice depends on whether torchvision imports, and the two resize differently.
    processor = transformers.Owlv2Processor(
        image_processor=load_part(transformers.Owlv2ImageProcessorPil, checkpoint),
        tokenizer=load_tokenizer(transformers.AutoTokenizer, checkpoint),
    )
    known = {**identity(loaded, checkpoint), "batch_size": str(batch_size)}
    return OpenVocabularyDetector(loaded, processor, known, batch_size)


def strongest(
    boxes: NDArray[np.floating], scores: NDArray[np.floating], height: int, width: int
) -> list[tuple[int, _BoxCorners]]:
    """Indices and clipped boxes of the 3 highest scores, highest first; equal scores keep their order.

    Boxes are n x (x0, y0, x1, y1) in pixels; those with less than a pixel inside the image in either direction, or with
    NaN, are left out.
    """
    limits = np.array([width, height, width, height], np.float64)
    kept: list[tuple[int, _BoxCorners]] = []
    for index in np.argsort(-scores, kind="stable"):
        x0, y0, x1, y1 = np.clip(boxes[index].astype(np.float64), 0, limits).tolist()
        if x1 - x0 >= 1 and y1 - y0 >= 1:
            kept.append((int(index), (x0, y0, x1, y1)))
        if len(kept) == _MAX_DETECTIONS:
            break
    return kept


def embedded(
    images: Sequence[Image],
    objects: Sequence[Sequence[LabelledBox]],
    embed: Callable[[Sequence[Image]], NDArray[np.float32]],
) -> list[list[Detection]]:
    """The detections of each image, with the embedding of all pixels that its box touches."""
    crops = [
        image[math.floor(y0) : math.ceil(y1), math.floor(x0) : math.ceil(x1)]
        for image, boxes in zip(images, objects, strict=True)
        for (x0, y0, x1, y1), _, _ in boxes
    ]
    vectors = iter(embed(crops) if crops else ())
    return [[Detection(*labelled, next(vectors)) for labelled in boxes] for boxes in objects]


def _batches(items: Sequence[_T], size: int) -> list[list[_T]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


MODELS = (
    Model(
        role="detector",
        name="owlv2-base-patch16-ensemble",
        licence="Apache-2.0",
        load=load,
        of="guides",
    ),
)
