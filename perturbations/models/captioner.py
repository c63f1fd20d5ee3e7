"""One sentence about a clip, by Qwen2.5-VL (Bai et al., 2025; `Qwen/Qwen2.5-VL-7B-Instruct`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.errors import ConfigError
from perturbations.models import language_model
from perturbations.models.checkpoints import (
    find_checkpoint,
    identity,
    library,
    load_model,
    load_part,
    load_tokenizer,
    runtime,
)
from perturbations.models.role_registry import Model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Qwen2_5_VLProcessor, Qwen2VLImageProcessorPil


PROMPT = "Describe the main objects in this video and their actions in one sentence of 10 to 15 words."
_MAX_FRAMES = 16
_FRAMES_PER_SECOND = 1.0
MAX_NEW_TOKENS = 32

# Pixels per frame after resizing. Both are qwen-vl-utils' limits for a frame of a video; a token covers 28 x 28.
MIN_FRAME_PIXELS = 128 * 28 * 28
MAX_FRAME_PIXELS = 768 * 28 * 28

_VIDEO_TOKEN = "<|video_pad|>"
_VIDEO_TOKEN_TYPE = 2


@dataclass(frozen=True, eq=False)
class Captioner:
    """A loaded captioner.

    Attributes:
        identity: name, revision, dtype, device and library version, for the manifest.
    """

    _model: Any  # its `generate` does not type-check
    _tokenizer: PreTrainedTokenizerBase
    _image_processor: Qwen2VLImageProcessorPil
    _prompt: str
    identity: dict[str, str]

    def describe(self, frames: Sequence[Image]) -> str:
        """One line of text about a clip (MLVP, Alg. 3, QWEN2.5VL).

        Args:
            frames: 1 to 16, one per second of the clip, uint8 RGB, height x width x 3.
        """
        torch = library("torch")
        patches, grid = self.patches_of(frames)
        places = len(patches) // self._image_processor.merge_size**2
        tokens = self._tokenizer([self._prompt.replace(_VIDEO_TOKEN, _VIDEO_TOKEN * places)], return_tensors="pt")
        is_video = tokens["input_ids"] == self._model.config.video_token_id
        seconds = self._image_processor.temporal_patch_size / _FRAMES_PER_SECOND
        device = self._model.device
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=tokens["input_ids"].to(device),
                attention_mask=tokens["attention_mask"].to(device),
                mm_token_type_ids=(is_video * _VIDEO_TOKEN_TYPE).to(device),
                pixel_values_videos=torch.from_numpy(patches).to(device),
                video_grid_thw=torch.tensor([grid], device=device),
                second_per_grid_ts=torch.tensor([seconds], device=device),
            )
        answer = self._tokenizer.decode(output[0, tokens["input_ids"].shape[1] :], skip_special_tokens=True)
        return str(answer).strip().partition("\n")[0].strip()

    def patches_of(self, frames: Sequence[Image]) -> tuple[NDArray[np.float32], list[int]]:
        """The frames' patches, (patches) x (channels * 2 * 14 * 14), and their grid (time, height, width).

        The library makes patches of a video only with torchvision. Its patches of an image hold the image twice, once
        for each of the two moments that a patch spans; a video's patches hold a frame and the next.
        """
        if not 1 <= len(frames) <= _MAX_FRAMES:
            raise ValueError(f"a clip of {len(frames)} frames, it must have 1 to {_MAX_FRAMES}")
        processor = self._image_processor
        span = processor.temporal_patch_size
        images = [*frames, *[frames[-1]] * (-len(frames) % span)]
        features = processor(
            images,
            size={"shortest_edge": MIN_FRAME_PIXELS, "longest_edge": MAX_FRAME_PIXELS},
            # The layout is explicit: by its shape alone, a frame 1 or 3 pixels high would look channels-first.
            input_data_format="channels_last",
            return_tensors="np",
        )
        steps, (height, width) = len(images) // span, features["image_grid_thw"][0, 1:].tolist()
        side = processor.patch_size
        copies = features["pixel_values"].reshape(steps, span, height * width, -1, span, side, side)
        moments = copies[:, :, :, :, 0].transpose(0, 2, 3, 1, 4, 5)
        return np.ascontiguousarray(moments, np.float32).reshape(steps * height * width, -1), [steps, height, width]


def load(model: str, *, revision: str | None, device: str, dtype: str) -> Captioner:
    """The Qwen2.5-VL checkpoint of this hub name or folder, on this device.

    Arguments are as of `owlv2.load`; the 7B weights take 33 GB in float32 and 17 GB in the other types.

    Raises:
        ConfigError: a library, the checkpoint or the device is missing, or its chat template takes no video.
    """
    torch_device, torch_dtype = runtime(device, dtype)
    transformers = library("transformers")
    checkpoint = find_checkpoint(model, revision)
    tokenizer = load_tokenizer(transformers.AutoTokenizer, checkpoint)
    # Named explicitly: the automatic choice depends on whether torchvision imports, and the two resize differently.
    image_processor = load_part(transformers.Qwen2VLImageProcessorPil, checkpoint)
    prompt = _prompt(tokenizer, transformers.Qwen2_5_VLProcessor, checkpoint.folder)
    loaded = load_model(
        transformers.Qwen2_5_VLForConditionalGeneration, checkpoint, device=torch_device, dtype=torch_dtype
    )
    loaded.generation_config = language_model.greedy(loaded, tokenizer, MAX_NEW_TOKENS)
    return Captioner(loaded, tokenizer, image_processor, prompt, identity(loaded, checkpoint))


def _prompt(tokenizer: PreTrainedTokenizerBase, processor_class: type[Qwen2_5_VLProcessor], folder: Path) -> str:
    """The conversation up to the answer, with one token where the clip goes."""
    # The processor's template before the tokenizer's: in some checkpoints only the first knows videos.
    template = processor_class.get_processor_dict(folder, local_files_only=True)[0].get("chat_template")
    message = {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}
    conversation = cast(list[dict[str, str]], [message])  # the library's type does not know contents of several parts
    try:
        rendered = tokenizer.apply_chat_template(
            conversation, chat_template=template, add_generation_prompt=True, tokenize=False
        )
    except ValueError as error:
        raise ConfigError(f"the checkpoint in {folder} has no chat template: {error}") from error
    prompt = str(rendered)
    if prompt.count(_VIDEO_TOKEN) != 1:
        raise ConfigError(f"the chat template of the checkpoint in {folder} leaves no place for a video")
    return prompt


MODELS = (
    Model(
        role="captioner",
        name="Qwen2.5-VL-7B-Instruct",
        licence="Apache-2.0",
        load=load,
        of="guides",
    ),
)
