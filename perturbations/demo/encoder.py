"""A small dual encoder for the demo's clips, trained in minutes: it allows a whole evaluation without any download.

It is a small CLIP of transformers: a vision transformer, a text transformer and a contrastive loss (Radford et al.
2021). It knows only the demo's drawn scenes; its results show that the workflow works, and nothing about robustness.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from perturbations.base import storage
from perturbations.base.progress import logged
from perturbations.demo import film
from perturbations.manifest import manifest_paths
from perturbations.media.clip import uniform_indices
from perturbations.models.checkpoints import library
from perturbations.tta import frames, towers

if TYPE_CHECKING:
    from transformers import CLIPModel, PreTrainedTokenizerFast

_log = logging.getLogger("perturbations")

FIRST = film.TRAINING.start
"""The first scene of the training set; demo datasets with fewer clips are never trained on."""


@dataclass(frozen=True)
class Training:
    """The settings of the training. The default takes about a minute on one core."""

    scenes: int = len(film.TRAINING)
    frames: int = 4
    passes: int = 12  # find 88 % of 40 held-out clips first; more passes find more
    batch_size: int = 64
    image_size: int = 64
    patch_size: int = 16  # half of it: the same recall on held-out clips, for four times the time
    width: int = 64  # of 96: no more, for twice the time of every evaluation
    layers: int = 3
    learning_rate: float = 2e-3


def train(folder: Path, *, seed: int, training: Training | None = None) -> None:
    """Train on clean drawn scenes and write a model's folder: configuration, weights, tokenizer, card.

    The same seed gives the same weights on the same machine. The caller's random generator is not changed.
    """
    training = training or Training()
    scenes = range(FIRST, FIRST + training.scenes)
    captions = [film.caption(scene) for scene in scenes]
    tokenizer = _tokenizer(captions)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # floating-point sums depend on the number of threads
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = _model(tokenizer, training)
            _fit(model, _tokens(tokenizer, captions), _drawn(scenes, training), training)
    finally:
        torch.set_num_threads(threads)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    storage.write_text(folder / "preprocessor_config.json", _processor(training.image_size))
    storage.write_text(folder / manifest_paths.name("card"), _CARD.format(last=scenes.stop - 1, seed=seed))


def _processor(size: int) -> str:
    """The settings of the image processor, as `frames.resized` and `frames.normalize` prepare images."""
    steps = {"do_resize": True, "do_center_crop": True, "do_rescale": True, "do_normalize": True, "resample": 3}
    sides = {"size": {"shortest_edge": size}, "crop_size": {"height": size, "width": size}}
    colours = {"rescale_factor": 1 / 255, "image_mean": frames.MEAN, "image_std": frames.STD}
    return json.dumps({"image_processor_type": "CLIPImageProcessor", **steps, **sides, **colours}, indent=2)


_CARD = """# A small dual encoder of synthetic scenes

Trained by the rule `demo_encoder` on the scenes 4000 to {last} that the adapter `demo` draws, seed {seed}. It
knows nothing else: for trying the evaluation, not for measuring robustness.
"""


def _tokenizer(captions: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer of the captions' words, in lower case; other words become `<unk>`."""
    tokenizers, transformers = library("tokenizers"), library("transformers")
    # CLIP treats an end of text with the id 2 as that of the first releases, and then pools at the largest id.
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
    words = [*special.values(), *sorted({word for caption in captions for word in caption.split()})]
    words_to_ids = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>")
    )
    words_to_ids.normalizer = tokenizers.normalizers.Lowercase()
    words_to_ids.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ends = special["bos_token"], special["eos_token"]
    words_to_ids.post_processor = tokenizers.processors.TemplateProcessing(
        single="{} $A {}".format(*ends), special_tokens=[(name, words.index(name)) for name in ends]
    )
    wrapped: PreTrainedTokenizerFast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words_to_ids, model_max_length=_MOST_TOKENS, **special
    )
    return wrapped


_MOST_TOKENS = 32


def _tokens(tokenizer: PreTrainedTokenizerFast, captions: Sequence[str]) -> dict[str, Tensor]:
    encoded = tokenizer(list(captions), padding=True, truncation=True, return_tensors="pt")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


def _model(tokenizer: PreTrainedTokenizerFast, training: Training) -> CLIPModel:
    transformers = library("transformers")
    tower = {
        "hidden_size": training.width,
        "intermediate_size": 4 * training.width,
        "num_attention_heads": training.width // 32,
        "hidden_act": "quick_gelu",  # CLIP's own, which the fast pass of `tta.towers` knows
    }
    text = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": _MOST_TOKENS,
        "num_hidden_layers": 2,
        **{name: getattr(tokenizer, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")},
    }
    vision = {
        "image_size": training.image_size,
        "patch_size": training.patch_size,
        "num_hidden_layers": training.layers,
    }
    config = transformers.CLIPConfig(
        text_config={**tower, **text}, vision_config={**tower, **vision}, projection_dim=training.width
    )
    model: CLIPModel = transformers.CLIPModel(config)
    return model


def _drawn(scenes: Sequence[int], training: Training) -> NDArray[np.uint8]:
    """Frames of clean clips, spread over their length: uint8, scenes x frames x 3 x S x S."""
    places = uniform_indices(training.frames, film.NUM_FRAMES)
    pixels = np.empty((len(scenes), len(places), 3, training.image_size, training.image_size), np.uint8)
    for row, scene in enumerate(logged(iter(scenes), len(scenes), "scenes drawn")):
        pixels[row] = frames.resized(np.stack(list(film.frames(scene, places))), training.image_size)
    return pixels


def _fit(model: CLIPModel, tokens: dict[str, Tensor], pixels: NDArray[np.uint8], training: Training) -> None:
    """Train with a contrastive loss within batches, whose clips show one of their frames."""
    generator = torch.Generator().manual_seed(torch.initial_seed())
    steps = training.passes * (len(pixels) // training.batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.learning_rate, weight_decay=0.05)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warm, 0.5 * (1 + math.cos(math.pi * max(0, step - warm) / max(1, steps - warm)))),
    )
    model.train()
    targets = torch.arange(training.batch_size)
    orders = (torch.randperm(len(pixels), generator=generator) for _ in range(training.passes))
    batches = (batch for order in orders for batch in order.split(training.batch_size) if len(batch) == len(targets))
    for chosen in logged(batches, steps, "steps"):
        shown = torch.randint(pixels.shape[1], (len(chosen),), generator=generator)
        video = towers.image_features(model, frames.normalize(torch.from_numpy(pixels[chosen.numpy(), shown.numpy()])))
        text = model.get_text_features(**{name: values[chosen] for name, values in tokens.items()}).pooler_output
        logits = model.logit_scale.clamp(max=math.log(100)).exp() * (
            functional.normalize(video, dim=-1) @ functional.normalize(text, dim=-1).T
        )
        loss = (functional.cross_entropy(logits, targets) + functional.cross_entropy(logits.T, targets)) / 2
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        _log.debug("loss %.3f", loss.item())
    model.train(False)
