"""Embeddings of clips and of sentences by CLIP (Radford et al., 2021; `openai/clip-vit-base-patch32`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perturbations.arrays import Image
from perturbations.models.loading import (
    find_checkpoint,
    identity,
    library,
    load_model,
    load_part,
    load_tokenizer,
    runtime,
)

Vectors = npt.NDArray[np.float32]

_BATCH = 64  # frames of one forward pass


class Clip:
    """A loaded CLIP model.

    Attributes:
        identity: name, revision, dtype, device and library version, for the manifest.
    """

    def __init__(self, model: Any, processor: Any, tokenizer: Any, identity: dict[str, str]) -> None:
        self._model = model
        self._processor = processor
        self._tokenizer = tokenizer
        self.identity = identity

    def embed_videos(self, clips: Sequence[Sequence[Image]]) -> Vectors:
        """One vector of length 1 a clip, float32 N x D.

        The mean of the frames' normalized features (CLIP4Clip's mean pooling; Luo et al., 2021), normalized. So the
        order of the frames does not count. A clip goes through the model on its own: the last bits of a sum change with
        the batch, and an embedding must not depend on which clips share a job. Twelve frames fill a batch well enough.

        Args:
            clips: N clips of some frames each, uint8 RGB, height x width x 3, of any sizes.

        Raises:
            ValueError: a clip has no frame.
        """
        for index, frames in enumerate(clips):
            if not len(frames):
                raise ValueError(f"clip {index} of {len(clips)} has no frame")
        return self._stacked([_unit(self._images(frames).mean(axis=0)) for frames in clips])

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One vector of length 1 a sentence, float32 N x D.

        Words beyond the model's positions (77 tokens) are cut off. Each goes through the model on its own, as clips do.
        """
        return self._stacked([self._text(text) for text in texts])

    def _images(self, frames: Sequence[Image]) -> npt.NDArray[np.float64]:
        rows = []
        for start in range(0, len(frames), _BATCH):
            # One at a time: frames of several sizes cannot be stacked before they are resized.
            pixels = np.stack([self._pixels(frame) for frame in frames[start : start + _BATCH]])
            tensor = library("torch").from_numpy(pixels).to(self._model.device, self._model.dtype)
            rows.append(self._features(self._model.get_image_features, pixel_values=tensor))
        return np.concatenate(rows)

    def _pixels(self, frame: Image) -> npt.NDArray[np.float32]:
        # Told the layout: from the shape alone, a frame 1 or 3 pixels high passes for one with its channels first.
        made = self._processor(frame, input_data_format="channels_last", return_tensors="np")
        return np.asarray(made["pixel_values"][0], np.float32)

    def _text(self, text: str) -> npt.NDArray[np.float64]:
        longest = self._model.config.text_config.max_position_embeddings
        tokens = self._tokenizer([text], truncation=True, max_length=longest, return_tensors="pt")
        given = {name: tokens[name].to(self._model.device) for name in ("input_ids", "attention_mask")}
        return self._features(self._model.get_text_features, **given).ravel()

    def _features(self, function: Any, **inputs: Any) -> npt.NDArray[np.float64]:
        """Rows of length 1."""
        with library("torch").inference_mode():
            features = function(**inputs).pooler_output.double().cpu()
        return _unit(features.numpy())

    def _stacked(self, rows: list[npt.NDArray[np.float64]]) -> Vectors:
        return np.array(rows, np.float32).reshape(len(rows), self._model.config.projection_dim)


def load(model: str, *, revision: str | None, device: str, dtype: str) -> Clip:
    """The CLIP checkpoint of this hub name or folder, on this device.

    Args:
        model: a hub name that was downloaded before, or a folder.
        revision: see `loading.find_checkpoint`.
        device: "cpu", "cuda" or "cuda:N".
        dtype: "float32", "bfloat16" or "float16", what the model computes in.

    Raises:
        ConfigError: a library, the checkpoint or the device is missing.
    """
    torch_device, torch_dtype = runtime(device, dtype)
    transformers = library("transformers")
    checkpoint = find_checkpoint(model, revision)
    loaded = load_model(transformers.CLIPModel, checkpoint, device=torch_device, dtype=torch_dtype)
    # Named outright: the automatic choice depends on whether torchvision imports, and the two resize differently.
    processor = load_part(transformers.CLIPImageProcessorPil, checkpoint)
    tokenizer = load_tokenizer(transformers.AutoTokenizer, checkpoint)
    return Clip(loaded, processor, tokenizer, identity(loaded, checkpoint))


def _unit(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Vectors, or one, made of length 1; those of length 0 stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12))
