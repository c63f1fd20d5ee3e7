"""Embeddings of clips and of sentences by CLIP (Radford et al., 2021; `openai/clip-vit-base-patch32`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perturbations.base.checkpoints import (
    find_checkpoint,
    identity,
    library,
    load_model,
    load_part,
    load_tokenizer,
    runtime,
    setting,
)
from perturbations.models.registry import Model

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from perturbations.base.arrays import Image

    Vectors = npt.NDArray[np.float32]
    import torch
    from transformers import CLIPImageProcessorPil, CLIPModel, PreTrainedTokenizerBase
    from transformers.modeling_outputs import BaseModelOutputWithPooling


_BATCH = 64  # frames per forward pass


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

    def embed_videos(self, clips: Sequence[Sequence[Image]]) -> Vectors:
        """One vector of length 1 per clip, float32 N x D.

        The mean of the frames' normalized features (CLIP4Clip's mean pooling; Luo et al., 2021), normalized. So the
        order of the frames does not count. Each clip has its own forward passes: the last bits of a sum change with the
        batch, and an embedding must not depend on the other clips of a job. Twelve frames fill a batch well enough.

        Args:
            clips: N clips, the frames of each uint8 RGB, height x width x 3, of any sizes.

        Raises:
            ValueError: a clip has no frame.
        """
        _expect_frames(clips)
        return self._stacked([_unit(_unit(self._images(frames)).mean(axis=0)) for frames in clips])

    def mean_features(self, clips: Sequence[Sequence[Image]]) -> Vectors:
        """The mean of each clip's frames' features as the model gives them, of any length, float32 N x D.

        What MLVP's code compares clips by: frames with long features count more. Otherwise as `embed_videos`.
        """
        _expect_frames(clips)
        return self._stacked([self._images(frames).mean(axis=0) for frames in clips])

    def text_features(self, texts: Sequence[str]) -> Vectors:
        """Each sentence's features as the model gives them, of any length, float32 N x D.

        Words beyond the model's positions (77 tokens) are cut off. Each sentence has its own forward pass, as clips do.
        """
        return self._stacked([self._text(text) for text in texts])

    def _images(self, frames: Sequence[Image]) -> npt.NDArray[np.float64]:
        import numpy as np

        rows = []
        for start in range(0, len(frames), _BATCH):
            # Frame by frame: frames of several sizes cannot be stacked before they are resized.
            pixels = np.stack([self._pixels(frame) for frame in frames[start : start + _BATCH]])
            tensor = library("torch").from_numpy(pixels).to(self._model.device, self._model.dtype)
            with library("torch").inference_mode():
                rows.append(_features(self._model.get_image_features(pixel_values=tensor)))
        return np.concatenate(rows)

    def _pixels(self, frame: Image) -> npt.NDArray[np.float32]:
        # The layout is explicit: by its shape alone, a frame 1 or 3 pixels high would look channels-first.
        import numpy as np

        inputs = self._processor(frame, input_data_format="channels_last", return_tensors="np")
        return np.asarray(inputs["pixel_values"][0], np.float32)

    def _text(self, text: str) -> npt.NDArray[np.float64]:
        longest = setting(self._model, "text_config", "max_position_embeddings")
        tokens = self._tokenizer([text], truncation=True, max_length=longest, return_tensors="pt")
        ids, mask = (tokens[name].to(self._model.device) for name in ("input_ids", "attention_mask"))
        with library("torch").inference_mode():
            return _features(self._model.get_text_features(input_ids=ids, attention_mask=mask)).ravel()

    def _stacked(self, rows: list[npt.NDArray[np.float64]]) -> Vectors:
        import numpy as np

        dimensions = self._model.config.projection_dim
        assert dimensions is not None  # CLIPConfig has a default
        return np.array(rows, np.float32).reshape(len(rows), dimensions)


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


def _expect_frames(clips: Sequence[Sequence[Image]]) -> None:
    for index, frames in enumerate(clips):
        if not len(frames):
            raise ValueError(f"clip {index} of {len(clips)} has no frame")


def _features(output: BaseModelOutputWithPooling | tuple[torch.Tensor, ...]) -> npt.NDArray[np.float64]:
    import numpy as np

    assert not isinstance(output, tuple)  # only with return_dict=False
    assert output.pooler_output is not None
    return np.asarray(output.pooler_output.double().cpu().numpy(), np.float64)


def _unit(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each vector divided by its length; vectors of length 0 stay."""
    import numpy as np

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
