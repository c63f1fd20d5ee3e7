"""Frozen encoders: models of sentence-transformers with image input, behind the interface of dual encoders.

Their own code prepares texts and images, and nothing in them adapts. Only modules of the library itself are loaded,
from local files in safetensors: a folder may name any class, and code beside the weights is never run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from perturbations.base.checkpoints import library
from perturbations.base.errors import ConfigError, first_line, short
from perturbations.evaluation.processors import Images, TokenizedTexts
from perturbations.tta.encoders import DualEncoder

_MODULES = "modules.json"
"""The file of a sentence-transformers model that names its modules."""

_OWN = "sentence_transformers."
_SIZE = 448  # of frames for a model whose processor states no size
_LONGEST = 8192  # bytes of a text
_IMAGES = 32  # per pass


def is_frozen(folder: Path) -> bool:
    """Whether a folder holds a model of sentence-transformers."""
    return (folder / _MODULES).is_file()


def load(folder: Path, device: str) -> tuple[DualEncoder, TokenizedTexts, Images]:
    """The model of a folder: its encoder, and what prepares texts and frames for it.

    A text goes to the encoder as its UTF-8 bytes, and a frame as pixels in [0, 1], one feature per frame. Frames are
    cut to the square that the model's own processor makes, or to 448 pixels where it states none.

    Raises:
        ConfigError: a module is not the library's own, there are no weights in safetensors, something is damaged, or
            the model takes no images.
    """
    _check_modules(folder)
    package = library("sentence_transformers", package="'perturbations[encoders]'")
    try:
        model: Any = package.SentenceTransformer(
            str(folder),
            device=device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    except Exception as error:  # modules check little: nonsense in their settings can make them raise anything
        raise ConfigError(f"{folder} cannot be loaded by sentence-transformers: {first_line(error)}") from error
    if not (model.supports("image") and model.supports("text")):
        raise ConfigError(f"{folder} takes {', '.join(map(str, model.modalities))}; an evaluation needs text and image")
    model.requires_grad_(False).train(False)
    texts = TokenizedTexts(_Utf8(model.tokenizer), _LONGEST)
    return _encoder(model), texts, Images(_side(model), mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


def weights(folder: Path) -> list[Path]:
    """The weight files of all modules."""
    return sorted(folder.rglob("*.safetensors"))


def _check_modules(folder: Path) -> None:
    try:
        modules = json.loads((folder / _MODULES).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{folder / _MODULES} cannot be read ({error})") from error
    listed = modules if isinstance(modules, list) and modules else [None]
    kinds = [entry.get("type") if isinstance(entry, dict) else None for entry in listed]
    other = [kind for kind in kinds if not (isinstance(kind, str) and kind.startswith(_OWN))]
    if other:
        raise ConfigError(f"{folder / _MODULES} names the class {short(other[0])}; only {_OWN}* is loaded")
    if not weights(folder):
        raise ConfigError(f"{folder} holds no *.safetensors file; save the model again with sentence-transformers")


def _side(model: Any) -> int:
    processor = getattr(model[0], "processor", None)
    images = getattr(processor, "image_processor", processor)
    for name in ("crop_size", "size"):
        held = getattr(images, name, None)
        sides = dict(held) if held else {}
        side = sides.get("height") or sides.get("shortest_edge")
        if isinstance(side, int):
            return side
    return _SIZE


def _encoder(model: Any) -> DualEncoder:
    image = library("PIL.Image", package="pillow")

    def encode(inputs: Sequence[object]) -> Tensor:
        features = model.encode(inputs, batch_size=_IMAGES, convert_to_tensor=True, show_progress_bar=False)
        own: Tensor = torch.as_tensor(features).clone()
        return own

    def encode_frames(frames: Tensor) -> Tensor:
        pixels: NDArray[np.uint8] = (frames.flatten(0, 1) * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
        encoded = encode([{"image": image.fromarray(frame)} for frame in pixels])
        return encoded.view(*frames.shape[:2], -1)

    def encode_texts(ids: Tensor, mask: Tensor | None) -> Tensor:
        return encode([{"text": _text(row)} for row in ids.tolist()])

    return DualEncoder(model, model, encode_frames, encode_texts, None, (model,), frozen=True)


class _Utf8:
    """Texts as their UTF-8 bytes, each plus 1; 0 is padding. The words are those of the model's own tokenizer."""

    def __init__(self, words: Any) -> None:
        self._words = words
        self.all_special_ids: list[int] = list(words.all_special_ids)

    def __call__(
        self, texts: list[str], /, *, padding: bool | str, truncation: bool, max_length: int, return_tensors: str
    ) -> Mapping[str, Tensor]:
        rows = [[byte + 1 for byte in text.encode("utf-8", "replace")[:max_length]] or [_SPACE] for text in texts]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}

    def get_vocab(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self._words.get_vocab()
        return vocabulary

    def decode(self, token_ids: list[int], /) -> str:
        return str(self._words.decode(token_ids))


_SPACE = ord(" ") + 1


def _text(row: Sequence[int]) -> str:
    return bytes(value - 1 for value in row if value > 0).decode("utf-8", "ignore")
