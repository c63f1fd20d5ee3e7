"""Embeddings of clips and sentences by CLIP (Radford et al. 2021), the `pretrained` embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perturbations.models.loading import (
    find_checkpoint,
    identity,
    library,
    load_model,
    load_part,
    load_tokenizer,
    runtime,
)

Image = npt.NDArray[np.uint8]
Vectors = npt.NDArray[np.float32]

_BATCH = 64  # frames or sentences


class Clip:
    """A loaded CLIP model. `identity` says which."""

    def __init__(self, model: Any, processor: Any, tokenizer: Any, identity: dict[str, str]) -> None:
        self._model = model
        self._processor = processor
        self._tokenizer = tokenizer
        self.identity = identity

    def embed_videos(self, clips: Sequence[Sequence[Image]]) -> Vectors:
        """N clips of a few RGB uint8 frames each -> float32 N x D, each of length 1.

        The mean of the frames' normalized embeddings (CLIP4Clip's mean pooling), normalized.
        """
        frames = [frame for clip in clips for frame in clip]
        parts = []
        for start in range(0, len(frames), _BATCH):
            batch = frames[start : start + _BATCH]
            # One at a time: frames of several sizes cannot be stacked before they are resized.
            pixels = np.concatenate([self._pixels(one) for one in batch])
            parts.append(self._features(self._model.get_image_features, pixel_values=self._tensor(pixels)))
        features = np.concatenate(parts)
        ends = np.cumsum([len(clip) for clip in clips])[:-1]
        return _unit(np.stack([part.mean(axis=0) for part in np.split(features, ends)]))

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """N sentences -> float32 N x D, each of length 1. What is longer than the model reads is cut off."""
        longest = self._model.config.text_config.max_position_embeddings
        parts = []
        for start in range(0, len(texts), _BATCH):
            tokens = self._tokenizer(
                list(texts[start : start + _BATCH]),
                padding=True,
                truncation=True,
                max_length=longest,
                return_tensors="pt",
            ).to(self._model.device)
            parts.append(
                self._features(
                    self._model.get_text_features,
                    input_ids=tokens["input_ids"],
                    attention_mask=tokens["attention_mask"],
                )
            )
        return _unit(np.concatenate(parts))

    def _pixels(self, frame: Image) -> npt.NDArray[np.floating]:
        # Told the layout: from the shape alone, a frame 1 or 3 pixels high passes for one with its channels first.
        made = self._processor(frame, input_data_format="channels_last", return_tensors="np")
        return np.asarray(made["pixel_values"])

    def _tensor(self, pixels: npt.NDArray[np.floating]) -> Any:
        import torch

        return torch.from_numpy(np.ascontiguousarray(pixels)).to(self._model.device, self._model.dtype)

    def _features(self, function: Any, **inputs: Any) -> npt.NDArray[np.float64]:
        import torch

        with torch.inference_mode():
            pooled = function(**inputs).pooler_output
        return _unit(pooled.float().cpu().numpy().astype(np.float64)).astype(np.float64)


def load(model: str, *, revision: str | None, device: str, dtype: str) -> Clip:
    """A CLIP model by its name or its folder. Raises `ConfigError` when it is not on this machine."""
    torch_device, torch_dtype = runtime(device, dtype)
    transformers = library("transformers")
    checkpoint = find_checkpoint(model, revision)
    loaded = load_model(transformers.CLIPModel, checkpoint, device=torch_device, dtype=torch_dtype)
    # Named outright: the automatic choice depends on whether torchvision imports, and the two resize differently.
    processor = load_part(transformers.CLIPImageProcessorPil, checkpoint)
    tokenizer = load_tokenizer(transformers.AutoTokenizer, checkpoint)
    return Clip(loaded, processor, tokenizer, identity(loaded, checkpoint))


def _unit(vectors: npt.NDArray[np.floating]) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)
