"""Embeddings of clips and of sentences by CLIP (Radford et al., 2021; `openai/clip-vit-base-patch32`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image
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
    from transformers import CLIPImageProcessorPil, CLIPModel, PreTrainedTokenizerBase
    from transformers.modeling_outputs import BaseModelOutputWithPooling

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ClipModel:
    """A loaded CLIP model.

    Attributes:
        identity: name, revision, dtype, device and library version, for the manifest.
    """

    _model: CLIPModel
    _processor: CLIPImageProcessorPil
    _tokenizer: PreTrainedTokenizerBase
    identity: dict[str, str]

    def embed_video(self, frames: Sequence[Image]) -> Vector:
        """A clip's vector of length 1, float32, D.

        The mean of the frames' normalized features (CLIP4Clip's mean pooling; Luo et al., 2021), normalized. So the
        order of the frames does not count.

        Args:
            frames: at least one, uint8 RGB, height x width x 3, of any sizes.
        """
        return np.asarray(_unit(_unit(self._images(frames)).mean(axis=0)), np.float32)

    def mean_features(self, frames: Sequence[Image]) -> Vector:
        """The mean of the features of a clip's frames, without normalization, so of any length: float32, D.

        MLVP's code compares clips in this way: frames with long features count more. Otherwise as `embed_video`.
        """
        return np.asarray(self._images(frames).mean(axis=0), np.float32)

    def text_features(self, text: str) -> Vector:
        """The features of a sentence, without normalization, so of any length: float32, D.

        Words beyond the model's positions (77 tokens) are cut off.
        """
        longest = setting(self._model, "text_config", "max_position_embeddings")
        tokens = self._tokenizer([text], truncation=True, max_length=longest, return_tensors="pt")
        ids, mask = (tokens[name].to(self._model.device) for name in ("input_ids", "attention_mask"))
        with library("torch").inference_mode():
            features = self._model.get_text_features(input_ids=ids, attention_mask=mask)
        return np.asarray(_features(features).ravel(), np.float32)

    def _images(self, frames: Sequence[Image]) -> npt.NDArray[np.float64]:
        # Frame by frame: frames of several sizes cannot be stacked before they are resized.
        pixels = library("torch").from_numpy(np.stack([self._pixels(frame) for frame in frames]))
        with library("torch").inference_mode():
            inputs = pixels.to(self._model.device, self._model.dtype)
            return _features(self._model.get_image_features(pixel_values=inputs))

    def _pixels(self, frame: Image) -> npt.NDArray[np.float32]:
        # The layout is explicit: by its shape alone, a frame 1 or 3 pixels high would look channels-first.
        inputs = self._processor(frame, input_data_format="channels_last", return_tensors="np")
        return np.asarray(inputs["pixel_values"][0], np.float32)


def load(model: str, *, revision: str | None, device: str, dtype: str) -> ClipModel:
    """The CLIP checkpoint of this hub name or folder, on this device.

    Arguments are as of `owlv2.load`.

    Raises:
        ConfigError: a library, the checkpoint or the device is missing.
    """
    torch_device, torch_dtype = runtime(device, dtype)
    transformers = library("transformers")
    checkpoint = find_checkpoint(model, revision)
    loaded = load_model(transformers.CLIPModel, checkpoint, device=torch_device, dtype=torch_dtype)
    # Named explicitly: the automatic choice depends on whether torchvision imports, and the two resize differently.
    processor = load_part(transformers.CLIPImageProcessorPil, checkpoint)
    tokenizer = load_tokenizer(transformers.AutoTokenizer, checkpoint)
    return ClipModel(loaded, processor, tokenizer, identity(loaded, checkpoint))


def _features(output: BaseModelOutputWithPooling | tuple[torch.Tensor, ...]) -> npt.NDArray[np.float64]:
    assert not isinstance(output, tuple)  # only with return_dict=False
    assert output.pooler_output is not None
    return np.asarray(output.pooler_output.double().cpu().numpy(), np.float64)


def _unit(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each vector divided by its length; vectors of length 0 stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12))


MODELS = (
    Model(
        role="embedder",
        name="clip-vit-base-patch32",
        licence="MIT",
        load=load,
        of="guides",
    ),
)
