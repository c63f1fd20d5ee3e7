"""The model of an evaluation, from local files: nothing here uses the network or runs code from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from torch import Tensor, nn

from perturbations.base import storage
from perturbations.base.errors import ConfigError, first_line
from perturbations.base.records import digest
from perturbations.evaluation import backbones
from perturbations.evaluation.models import openai_names
from perturbations.evaluation.models.preprocessing import Images, TokenizedTexts, read_images, read_texts, two_texts
from perturbations.evaluation.plan.evaluation_settings import Pooling
from perturbations.evaluation.plan.planned_runs import DirectionName
from perturbations.models.checkpoints import Checkpoint, find_checkpoint, library, load_model, read_config, read_weights
from perturbations.tta import encode_gallery
from perturbations.tta.encoders import DualEncoder, clip4clip, xpool
from perturbations.tta.inputs import Batch

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

CLIP_PREFIX, POOL_PREFIX = "clip.", "pool_frames."
_BUFFERS = (".position_ids",)
"""Suffixes of keys that older versions stored and newer ones compute."""


@dataclass(frozen=True)
class LoadedBackbone:
    """A model, the functions that prepare its inputs, and the hash of its weights.

    `num_frames` is how many frames its tower sees at once: 1 where it encodes each frame. `architecture` is the name of
    its vision tower, None where its configuration has no width or patch.
    """

    model: DualEncoder
    texts: TokenizedTexts
    images: Images
    sha256: str
    num_frames: int = 1
    architecture: str | None = None


def load(
    pretrained: str,
    *,
    pooling: str = "clip4clip",
    revision: str | None = None,
    num_frames: int = 12,
    checkpoint: str | Path | None = None,
    device: str = "cpu",
) -> LoadedBackbone:
    """The model of an evaluation; `pretrained` is the name or the folder of a model of transformers.

    Raises `ConfigError` when files are missing or do not fit, or the device cannot be used; the weights, which take
    longest, are read last.
    """
    _on_device(library("torch").zeros(1), device)
    located = find_checkpoint(pretrained, revision)
    folder = located.folder
    config_class = _model_class(located).config_class
    assert config_class is not None  # only the abstract classes of transformers have none
    try:
        described = config_class.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library's classes check little: nonsense can make them raise anything
        raise ConfigError(f"{folder}/config.json does not describe a model: {error}") from error
    declared = _declared(located)
    seen = described.vision_config.num_frames if declared.whole_videos else 1
    if declared.whole_videos and seen != num_frames:
        raise ConfigError(
            f"num_frames is {num_frames}, and {located.name} sees {seen} frames of a video: set num_frames to {seen}"
        )
    texts, images = read_texts(located, declared, described.text_config), read_images(located, described.vision_config)
    fine_tuned = None if checkpoint is None else Path(checkpoint)
    model = _encoder(located, pooling, fine_tuned, device)
    weights = [fine_tuned] if fine_tuned is not None else sorted(folder.glob("*.safetensors"))
    sha256 = digest([storage.sha256(path) for path in weights])
    return LoadedBackbone(model, texts, images, sha256, seen, _architecture(described))


_SIZES = {192: "T", 384: "S", 768: "B", 1024: "L", 1280: "H", 1408: "g", 1664: "G"}
"""The names of vision towers, by their width."""


def _architecture(described: PretrainedConfig) -> str | None:
    """The architecture: "clip ViT-B/32"."""
    width, patch = (getattr(described.vision_config, name, None) for name in ("hidden_size", "patch_size"))
    if isinstance(width, int) and isinstance(patch, int):
        return f"{described.model_type} ViT-{_SIZES.get(width, width)}/{patch}"
    return None


def check(backbone: LoadedBackbone) -> dict[str, object]:
    """Encode two texts and two images; returns a line about the check. Raises `ConfigError` for unusable features.

    Features that are NaN, or the same for different inputs, give recall at chance without an error.
    """
    texts = two_texts(backbone.texts)
    assert texts is not None  # `read_texts` refused the tokenizer otherwise
    size = backbone.images.size
    dark_and_bright = np.zeros((2, backbone.num_frames, 3, size, size), np.uint8)
    dark_and_bright[1, ..., : size // 2] = 255
    batches: tuple[tuple[DirectionName, str, Batch], ...] = (
        ("v2t", "texts", backbone.texts.tokens(texts)),
        ("t2v", "images", backbone.images.batch(dark_and_bright)),
    )
    for direction, what, batch in batches:
        features = encode_gallery(backbone.model, batch, direction).features.float().flatten(1)
        if not bool(features.isfinite().all()):
            raise ConfigError(f"the model's features of {what} are NaN or infinite: its weights are damaged")
        if bool((features[0] - features[1]).abs().max() <= _SAME * features.abs().max()):
            raise ConfigError(f"the model gives different {what} the same features: its parts are of different models")
    return {
        "sha256": backbone.sha256,
        "device": str(backbone.model.device),
        "tokens": len(backbone.texts.tokenizer.get_vocab()),
        "most_tokens": backbone.texts.most_tokens,
        "images": asdict(backbone.images),
    }


_SAME = 1e-6
"""Features that differ by less than this share of the largest value differ by rounding."""


def _on_device(values: Tensor | nn.Module, device: str) -> None:
    try:
        values.to(library("torch").device(device))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device {device!r} cannot be used: {first_line(error)}") from error


def load_encoder(
    pooling: str, pretrained: str, *, checkpoint: Path | None = None, revision: str | None = None, device: str = "cpu"
) -> DualEncoder:
    """A dual encoder ready for `adapt`, with the pooling "clip4clip" or "xpool".

    `pretrained`, a folder or a downloaded name, gives the architecture, and the weights where the checkpoint has none.
    A `checkpoint` is in the format that X-Pool and the re-implementation of CLIP4Clip publish: safetensors, or a torch
    file with a `state_dict`; keys `clip.*` and `pool_frames.*`.

    Raises `ConfigError` where files are missing, damaged or of another format, where weights are missing or
    superfluous, and for xpool where no checkpoint has the weights of its pooling.
    """
    return _encoder(find_checkpoint(pretrained, revision), pooling, checkpoint, device)


def _encoder(located: Checkpoint, pooling: str, checkpoint: Path | None, device: str) -> DualEncoder:
    if pooling not in get_args(Pooling):
        raise ConfigError(f"pooling {pooling!r} is unknown; allowed: {', '.join(get_args(Pooling))}")
    torch = library("torch")
    model = load_model(_model_class(located), located, device="cpu", dtype=torch.float32)
    clip_state, pool_state = ({}, {}) if checkpoint is None else _split_state(read_weights(checkpoint))
    if clip_state:
        load_clip(model, clip_state)
    elif checkpoint is not None and pooling == "clip4clip":
        raise ConfigError(f"{checkpoint} holds no weight under {CLIP_PREFIX}*, which clip4clip needs")
    if pooling == "xpool" and not pool_state:
        what = f"{checkpoint} holds none" if checkpoint is not None else "no checkpoint is given"
        raise ConfigError(f"xpool needs the weights {POOL_PREFIX}*, and {what}; download a published X-Pool checkpoint")
    _on_device(model, device)
    return clip4clip(model) if pooling == "clip4clip" else xpool(model, pool_state)


def _split_state(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights of CLIP and those of the pooling, each without its prefix; a leading `module.` is dropped."""
    bare = {name.removeprefix("module."): value for name, value in state.items()}
    clip = {name.removeprefix(CLIP_PREFIX): value for name, value in bare.items() if name.startswith(CLIP_PREFIX)}
    pool = {name.removeprefix(POOL_PREFIX): value for name, value in bare.items() if name.startswith(POOL_PREFIX)}
    other = [name for name in bare if not name.startswith((CLIP_PREFIX, POOL_PREFIX))]
    if other:
        pooled = {name.partition(".")[0] for name in other} & _HEADS
        raise ConfigError(
            f"{len(other)} weights are neither {CLIP_PREFIX}* nor {POOL_PREFIX}*; the first is {other[0]}"
            + ("; of CLIP4Clip's ways to pool frames only the mean is supported" if pooled else "")
        )
    return clip, pool


_HEADS = {"frame_position_embeddings", "transformerClip", "lstm_visual", "cross", "similarity_dense"}
"""The weights of CLIP4Clip's other ways to pool frames (seqTransf, seqLSTM, tightTransf)."""


def load_clip(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load all fine-tuned weights, under transformers' names or OpenAI's, into a model of transformers.

    Raises `ConfigError`, before the model is changed, where the weights do not fit the model, or where OpenAI's weights
    meet a model with another activation.
    """
    if openai_names.are_openai(state):
        state = openai_names.renamed(state)
        config: Any = model.config
        activations = {config.text_config.hidden_act, config.vision_config.hidden_act}
        if activations != {"quick_gelu"}:
            raise ConfigError(
                f"the checkpoint has OpenAI's names, so its activation is quick_gelu, but the pretrained model has "
                f"{', '.join(sorted(activations))}: name OpenAI's model of the same size as `model`"
            )
    kept = {name: value for name, value in state.items() if not name.endswith(_BUFFERS)}
    expected = model.state_dict()
    missing = sorted(name for name in expected if name not in kept and not name.endswith(_BUFFERS))
    extra = sorted(name for name in kept if name not in expected)
    shapes = sorted(name for name in kept if name in expected and kept[name].shape != expected[name].shape)
    problems = {"missing": missing, "left over": extra, "of another shape": shapes}
    if any(problems.values()):
        listed = "; ".join(f"{len(names)} {how}, {names[0]} the first" for how, names in problems.items() if names)
        raise ConfigError(f"the checkpoint does not fit {type(model).__name__}: {listed}")
    model.load_state_dict(kept, strict=False)


def _declared(checkpoint: Checkpoint) -> backbones.Backbone:
    """The registered backbone. Raises `ConfigError` for a model of another type."""
    return backbones.backbone(read_config(checkpoint)["model_type"], checkpoint.folder)


def _model_class(checkpoint: Checkpoint) -> type[PreTrainedModel]:
    model_class: type[PreTrainedModel] = getattr(library("transformers"), _declared(checkpoint).model_class)
    return model_class
