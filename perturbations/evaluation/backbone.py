"""The model of an evaluation, from local files: nothing here uses the network or runs code from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn

from perturbations.errors import ConfigError
from perturbations.plan.evaluation import ModelSettings
from perturbations.system import storage
from perturbations.system.checkpoints import (
    Checkpoint,
    find_checkpoint,
    library,
    load_model,
    load_part,
    read_config,
    read_weights,
)
from perturbations.system.records import digest
from perturbations.tta.encoders import DualEncoder, clip4clip, xpool

if TYPE_CHECKING:
    from transformers import PreTrainedModel

POOLINGS = ("clip4clip", "xpool")
MODEL_CLASSES = {
    "clip": "CLIPModel",
    "blip": "BlipForImageTextRetrieval",
    "siglip": "SiglipModel",
    "altclip": "AltCLIPModel",
    "chinese_clip": "ChineseCLIPModel",
}
"""The class of transformers per `model_type` of a folder's config.json."""

CLIP_PREFIX, POOL_PREFIX = "clip.", "pool_frames."
BUFFERS = (".position_ids",)
"""Suffixes of keys that older versions stored and newer ones compute."""


class Tokenizer(Protocol):
    """A tokenizer of transformers."""

    def __call__(
        self, texts: list[str], /, *, padding: bool, truncation: bool, max_length: int, return_tensors: str
    ) -> Mapping[str, Tensor]:
        """Token ids and attention mask, B x L each."""
        ...


@dataclass(frozen=True)
class Backbone:
    """A model with its tokenizer.

    Attributes:
        model: the dual encoder.
        tokenizer: of its texts.
        most_tokens: the maximum length of a text in tokens.
        image_size: the side of its images in pixels.
        sha256: a hash of the weights.
    """

    model: DualEncoder
    tokenizer: Tokenizer
    most_tokens: int
    image_size: int
    sha256: str

    def tokens(self, texts: Sequence[str]) -> Mapping[str, Tensor]:
        """Token ids and their mask, truncated to the model's maximum length."""
        return self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.most_tokens, return_tensors="pt"
        )


def load(settings: ModelSettings, folder: str, checkpoint: Path | None, device: str) -> Backbone:
    """The model of an evaluation; `folder` is the name or the folder of a model of transformers.

    Raises `ConfigError` when files are missing or do not fit.
    """
    transformers = library("transformers")
    model = load_encoder(settings["model"], folder, checkpoint=checkpoint, revision=settings["revision"], device=device)
    pretrained = find_checkpoint(folder, settings["revision"])
    tokenizer = load_part(transformers.AutoTokenizer, pretrained)
    described = read_config(pretrained)
    weights = [checkpoint] if checkpoint is not None else sorted(pretrained.folder.glob("*.safetensors"))
    weights = weights or sorted(pretrained.folder.glob("*.bin"))
    sha256 = digest([storage.sha256(path) for path in weights])
    try:
        most_tokens = min(tokenizer.model_max_length, described["text_config"].get("max_position_embeddings", 77))
        image_size = int(described["vision_config"]["image_size"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{pretrained.folder}/config.json lacks the sizes of its texts and images") from error
    return Backbone(model, tokenizer, most_tokens, image_size, sha256)


def load_encoder(
    pooling: str, pretrained: str, *, checkpoint: Path | None = None, revision: str | None = None, device: str = "cpu"
) -> DualEncoder:
    """A dual encoder ready for `adapt`.

    Args:
        pooling: "clip4clip" or "xpool".
        pretrained: folder or downloaded hub name of a CLIP, BLIP or similar model in transformers' format; it gives
            the architecture, and the weights where the checkpoint has none.
        checkpoint: fine-tuned weights in the format that X-Pool and the re-implementation of CLIP4Clip publish:
            safetensors, or a torch file with a `state_dict`; keys `clip.*` and `pool_frames.*`. None: pretrained
            weights only.
        revision: of `pretrained`, see `system.checkpoints.find_checkpoint`.
        device: "cpu", "cuda", "cuda:N" or "mps".

    Raises:
        ConfigError: files are missing, damaged or of another format; weights are missing or superfluous; xpool is
            requested without a checkpoint that has its pooling.
    """
    if pooling not in POOLINGS:
        raise ConfigError(f"pooling {pooling!r} is unknown; allowed: {', '.join(POOLINGS)}")
    torch = library("torch")
    located = find_checkpoint(pretrained, revision)
    model = load_model(_model_class(located), located, device="cpu", dtype=torch.float32)
    clip_state, pool_state = ({}, {}) if checkpoint is None else split_state(read_weights(checkpoint))
    if clip_state:
        load_clip(model, clip_state)
    elif checkpoint is not None and pooling == "clip4clip":
        raise ConfigError(f"{checkpoint} holds no weight under {CLIP_PREFIX}*, which clip4clip needs")
    if pooling == "xpool" and not pool_state:
        what = f"{checkpoint} holds none" if checkpoint is not None else "no checkpoint is given"
        raise ConfigError(f"xpool needs the weights {POOL_PREFIX}*, and {what}; download a published X-Pool checkpoint")
    try:
        model.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from error
    return clip4clip(model) if pooling == "clip4clip" else xpool(model, pool_state)


def split_state(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights of CLIP and those of the pooling, each without its prefix; a leading `module.` is dropped.

    Raises:
        ConfigError: a key belongs to neither.
    """
    bare = {name.removeprefix("module."): value for name, value in state.items()}
    clip = {name.removeprefix(CLIP_PREFIX): value for name, value in bare.items() if name.startswith(CLIP_PREFIX)}
    pool = {name.removeprefix(POOL_PREFIX): value for name, value in bare.items() if name.startswith(POOL_PREFIX)}
    other = [name for name in bare if not name.startswith((CLIP_PREFIX, POOL_PREFIX))]
    if other:
        raise ConfigError(
            f"{len(other)} weights are neither {CLIP_PREFIX}* nor {POOL_PREFIX}*; the first is {other[0]}"
        )
    return clip, pool


def load_clip(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load all fine-tuned weights into a model of transformers.

    Raises:
        ConfigError: weights are missing, superfluous or of another shape; then the model is unchanged.
    """
    kept = {name: value for name, value in state.items() if not name.endswith(BUFFERS)}
    expected = model.state_dict()
    missing = sorted(name for name in expected if name not in kept and not name.endswith(BUFFERS))
    extra = sorted(name for name in kept if name not in expected)
    shapes = sorted(name for name in kept if name in expected and kept[name].shape != expected[name].shape)
    problems = {"missing": missing, "left over": extra, "of another shape": shapes}
    if any(problems.values()):
        listed = "; ".join(f"{len(names)} {how}, {names[0]} the first" for how, names in problems.items() if names)
        hint = ""
        if any(name.startswith("visual.") for name in extra):
            hint = "; these are OpenAI's names: convert them with transformers' convert_clip_original_pytorch_to_hf.py"
        raise ConfigError(f"the checkpoint does not fit {type(model).__name__}: {listed}{hint}")
    model.load_state_dict(kept, strict=False)


def _model_class(checkpoint: Checkpoint) -> type[PreTrainedModel]:
    transformers = library("transformers")
    kind = read_config(checkpoint)["model_type"]
    if kind not in MODEL_CLASSES:
        raise ConfigError(f"{checkpoint.folder} holds a {kind!r} model; allowed: {', '.join(MODEL_CLASSES)}")
    model_class: type[PreTrainedModel] = getattr(transformers, MODEL_CLASSES[kind])
    return model_class
