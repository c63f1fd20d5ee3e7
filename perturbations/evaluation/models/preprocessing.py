"""How a model's folder prepares images and texts, checked against the model's own configuration.

A folder whose tokenizer or image processor is missing or belongs to another model gives plausible numbers: the library
fills gaps with defaults, and recall falls to chance without an error. Everything here is a `ConfigError` instead.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from perturbations.base.errors import ConfigError
from perturbations.evaluation.backbones import Backbone
from perturbations.models.checkpoints import Checkpoint, how_to_replace, library, load_part
from perturbations.tta import frames
from perturbations.tta.inputs import ByteFrames

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass(frozen=True)
class TokenizedTexts:
    """How texts become token ids: by a tokenizer of transformers, or an object with its interface.

    With `full_length` every text is padded to the maximum length, and the padding is not masked, as SigLIP was trained.
    """

    tokenizer: Any
    most_tokens: int
    full_length: bool = False

    def tokens(self, texts: Sequence[str]) -> Mapping[str, Tensor]:
        """Token ids B x L and, where padding is masked, their mask; truncated to the maximum length."""
        padding = "max_length" if self.full_length else True
        encoded = self.tokenizer(
            list(texts), padding=padding, truncation=True, max_length=self.most_tokens, return_tensors="pt"
        )
        names = ("input_ids",) if self.full_length else ("input_ids", "attention_mask")
        return {name: encoded[name] for name in names}

    def truncated(self, texts: Sequence[str]) -> int:
        """How many texts have more tokens than the model reads."""
        ids = self.tokenizer(list(texts))["input_ids"]
        return sum(len(own) > self.most_tokens for own in ids)

    def same_inputs(self, pairs: Sequence[tuple[str, str]]) -> int:
        """How many pairs of different texts are equal to the model: they differ after its last token, or in case."""
        different = [pair for pair in pairs if pair[0] != pair[1]]
        if not different:
            return 0
        texts = list(dict.fromkeys(text for pair in different for text in pair))
        ids = dict(zip(texts, self.tokens(texts)["input_ids"].tolist(), strict=True))
        return sum(ids[first] == ids[second] for first, second in different)


_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model")
_PROBED = 64


def read_texts(checkpoint: Checkpoint, declared: Backbone, config: PreTrainedConfig) -> TokenizedTexts:
    """The tokenizer of a model's folder; `declared` is its architecture, `config` that of its text tower.

    Raises `ConfigError` when the tokenizer is missing, is empty, has ids without an embedding in the model, or lacks
    the token that the model reads.
    """
    if not any((checkpoint.folder / name).is_file() for name in _TOKENIZER_FILES):
        raise _unfit(checkpoint, f"it holds no tokenizer (none of {', '.join(_TOKENIZER_FILES)})")
    tokenizer = load_part(library("transformers").AutoTokenizer, checkpoint)
    rows, positions = _whole(checkpoint, config, "vocab_size"), _whole(checkpoint, config, "max_position_embeddings")
    if declared.places_follow_padding:
        positions -= _whole(checkpoint, config, "pad_token_id") + 1
    texts = TokenizedTexts(
        tokenizer, min(int(tokenizer.model_max_length), positions), full_length=not declared.masks_padding
    )
    vocabulary = tokenizer.get_vocab()
    highest = max(vocabulary.values(), default=-1)
    if highest >= rows:
        raise _unfit(checkpoint, f"its tokenizer has the id {highest}, the model {rows} embeddings of tokens")
    if tokenizer.pad_token_id is None or texts.most_tokens < 3:
        raise _unfit(checkpoint, "its tokenizer has no token for padding, or no place for words")
    probes = two_texts(texts)
    if probes is None:
        raise _unfit(checkpoint, f"its tokenizer has {len(vocabulary)} tokens, and gives different texts the same ids")
    for text in probes:
        ids = [int(value) for value in texts.tokens([text])["input_ids"][0]]
        _check_ends(checkpoint, declared, config, ids, tokenizer.all_special_ids)
    return texts


def two_texts(texts: TokenizedTexts) -> tuple[str, str] | None:
    """Two texts of the tokenizer's own vocabulary with different ids; None where there are none."""
    special = set(texts.tokenizer.all_special_ids)
    ids = sorted(value for value in texts.tokenizer.get_vocab().values() if value not in special)
    first: tuple[str, list[int]] | None = None
    for place in ids[:: max(1, len(ids) // _PROBED)]:
        text = texts.tokenizer.decode([place]).strip()
        encoded: list[int] = texts.tokens([text])["input_ids"][0].tolist() if text else []
        if not set(encoded) - special:
            continue
        if first is None:
            first = text, encoded
        elif encoded != first[1]:
            return first[0], text
    return None


def _check_ends(
    checkpoint: Checkpoint, declared: Backbone, config: PreTrainedConfig, ids: list[int], special: Sequence[int]
) -> None:
    """Refuse ids without the token whose output is the text's feature."""
    if declared.reads == "end":
        end = _whole(checkpoint, config, "eos_token_id")
        # Where the configuration says 2, as OpenAI's do, transformers reads the output at the largest id.
        if (end == 2 and ids[-1] != max(ids)) or (end != 2 and end not in ids):
            raise _unfit(checkpoint, f"its tokenizer does not end a text with the token that the model reads ({end})")
    elif declared.reads == "first" and ids[0] not in special:
        raise _unfit(checkpoint, "its tokenizer does not begin a text with the token that the model reads")


def check_distinct(texts: TokenizedTexts, captions: Sequence[str]) -> None:
    """Refuse a tokenizer that gives the same ids to all of a data set's different texts. Raises `ConfigError`."""
    different = list(dict.fromkeys(captions))[:_PROBED]
    if len(different) < 2:
        return
    ids = texts.tokens(different)["input_ids"]
    if bool((ids == ids[:1]).all()):
        raise ConfigError(
            f"the model's tokenizer gives {len(different)} different captions the same ids, the first "
            f"{different[0]!r}: it is of another language or another model"
        )


@dataclass(frozen=True)
class Images:
    """How frames become a model's input: images of `size` pixels a side; mean and std are of RGB in [0, 1].

    With `crop` the shorter side is resized and the centre cropped; otherwise both sides are resized.
    """

    size: int
    crop: bool = True
    resample: Literal["bicubic", "bilinear"] = "bicubic"
    mean: tuple[float, ...] = frames.MEAN
    std: tuple[float, ...] = frames.STD

    def resized(self, stack: frames.Pixels) -> frames.Pixels:
        """Frames T x H x W x 3 as T x 3 x size x size, uint8."""
        return frames.resized(stack, self.size, crop=self.crop, resample=self.resample)

    def batch(self, pixels: frames.Pixels) -> ByteFrames:
        """uint8 B x T x 3 x S x S as a batch, which becomes the model's input on the model's device."""
        return ByteFrames(torch.from_numpy(pixels), self.mean, self.std)


_FILTERS: Mapping[object, Literal["bicubic", "bilinear"]] = {2: "bilinear", 3: "bicubic"}
"""By the numbers of Pillow."""


def read_images(checkpoint: Checkpoint, config: PreTrainedConfig) -> Images:
    """The image processor of a model's folder; `config` is that of its image tower.

    Raises `ConfigError` when the processor is missing, has unsupported steps, or another image size than the model.
    """
    settings = _image_settings(checkpoint)
    for step in ("do_resize", "do_rescale"):
        if settings.get(step) is False:
            raise _unfit(checkpoint, f"its image processor says {step}: false, which is not supported")
    factor = settings.get("rescale_factor", 1 / 255)
    if not isinstance(factor, float) or not math.isclose(factor, 1 / 255, rel_tol=1e-3):
        raise _unfit(checkpoint, f"its image processor says rescale_factor: {factor!r}, which is not supported")
    resample = _FILTERS.get(settings.get("resample", 3))
    if resample is None:
        raise _unfit(checkpoint, f"its image processor says resample: {settings['resample']!r}, which is not supported")
    size, crop = _sides(checkpoint, settings)
    expected = _whole(checkpoint, config, "image_size")
    if size != expected:
        raise _unfit(checkpoint, f"its image processor makes images of {size} pixels, the model needs {expected}")
    if settings.get("do_normalize") is False:
        return Images(size, crop, resample, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    mean, std = (_channels(checkpoint, settings, name) for name in ("image_mean", "image_std"))
    if min(std) <= 0:
        raise _unfit(checkpoint, f"its image processor says image_std: {std}")
    return Images(size, crop, resample, mean, std)


def _image_settings(checkpoint: Checkpoint) -> Mapping[str, object]:
    for name, part in _PROCESSOR_FILES:
        path = checkpoint.folder / name
        if not path.is_file():
            continue
        try:
            held = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise _unfit(checkpoint, f"{name} cannot be read ({error})") from error
        held = held.get(part) if part and isinstance(held, dict) else held
        if isinstance(held, dict):
            return held
    raise _unfit(checkpoint, "it holds no preprocessor_config.json, which says how images are prepared")


_PROCESSOR_FILES = (
    ("video_preprocessor_config.json", None),
    ("preprocessor_config.json", None),
    ("processor_config.json", "video_processor"),
    ("processor_config.json", "image_processor"),
)


def _sides(checkpoint: Checkpoint, settings: Mapping[str, object]) -> tuple[int, bool]:
    """The side of the processor's images, and whether they are cropped."""
    size, cropped = settings.get("size"), bool(settings.get("do_center_crop", False))
    crop = settings.get("crop_size") if cropped else None
    crop = [crop, crop] if isinstance(crop, int) else _values(crop, "height", "width")
    square = [size, size] if isinstance(size, int) and not cropped else _values(size, "height", "width")
    shortest = [size] if isinstance(size, int) and cropped else _values(size, "shortest_edge")
    sides = {side for side in (*crop, *square, *shortest) if isinstance(side, int)}
    if len(sides) == 1 and (square or (shortest and crop)):
        return sides.pop(), not square
    settled = f"size: {size!r}, do_center_crop: {cropped}, crop_size: {settings.get('crop_size')!r}"
    raise _unfit(checkpoint, f"its image processor says {settled}, which is not supported")


def _values(held: object, *names: str) -> list[object]:
    return [held[name] for name in names] if isinstance(held, dict) and set(names) <= set(held) else []


def _channels(checkpoint: Checkpoint, settings: Mapping[str, object], name: str) -> tuple[float, ...]:
    values = settings.get(name)
    if isinstance(values, list) and len(values) == 3 and all(isinstance(value, int | float) for value in values):
        return tuple(map(float, values))
    raise _unfit(checkpoint, f"its image processor says {name}: {values!r}, not three numbers")


def _whole(checkpoint: Checkpoint, config: PreTrainedConfig, name: str) -> int:
    value: object = getattr(config, name, None)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unfit(checkpoint, f"config.json says {name}: {value!r}")
    return value


def _unfit(checkpoint: Checkpoint, reason: str) -> ConfigError:
    return ConfigError(
        f"model folder {checkpoint.folder}: {reason}. Its tokenizer, image processor and weights must be of one model: "
        f"{how_to_replace(checkpoint)}"
    )
