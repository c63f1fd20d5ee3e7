"""What jobs of evaluations, and of splits of composed queries, would miss on this machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path

from perturbations.base import checkpoints
from perturbations.base.readers import NEEDS
from perturbations.config import sections as configuration
from perturbations.corpus import needs
from perturbations.evaluation.backbones import registry as backbones

_LIBRARIES = ("torch", "transformers", "safetensors")
_LOADING = ("evaluate", "gallery", "check_model")
"""The rules whose jobs load the evaluation's model."""


def problems(config: configuration.Config, rules: Collection[str], local: bool) -> Iterator[str]:
    """What is missing, a line each; `local`: jobs run on this machine."""
    writer = config.composed.language_model
    if writer is not None and "composed_split" in rules:
        yield from needs.of_weights("composed.language_model.model", writer.model, tokenizer=True)
    if not {*_LOADING} & {*rules}:
        return
    wanted = config.evaluation
    if local:
        yield from needs.missing_libraries(_LIBRARIES, "evaluations")
        if (how := NEEDS.get(wanted.reader)) and find_spec(wanted.reader) is None:
            yield f"evaluation.reader: {wanted.reader} is not installed: {how}; or take the reader pyav"
    for key, own in wanted.each_model():
        if local:
            yield from needs.of_device(f"{key}device", own.device)
        if own.pretrained is not None:
            of_backbone = f"{key}{'backbone' if wanted.models else 'pretrained'}"
            lacking = list(needs.of_weights(of_backbone, own.pretrained, tokenizer=True, weights=False))
            yield from lacking or _of_backbone(of_backbone, own.pretrained)


def models(config: configuration.Config, rules: Collection[str]) -> Iterator[str]:
    """The model that each evaluation loads, a line each."""
    if not {*_LOADING} & {*rules}:
        return
    for key, own in config.evaluation.each_model():
        of_backbone = f"{key}{'backbone' if config.evaluation.models else 'pretrained'}"
        if own.pretrained is None:
            yield (
                "model of the evaluation: a stand-in, the small encoder that the workflow trains on the demo's scenes; "
                f"{of_backbone} names a real one, and `perturb score` takes features of any"
            )
        else:
            tuned = f" with {own.checkpoint}" if own.checkpoint else ""
            yield f"model of the evaluation: {own.pretrained}{tuned}"


def _of_backbone(key: str, name: str) -> Iterator[str]:
    """What keeps a folder from being a model that evaluations know; its weights are not read."""
    folder = Path(name)
    if not folder.is_dir():
        return

    def look() -> None:
        described = checkpoints.read_config(checkpoints.Checkpoint(name, "", folder))
        backbones.backbone(described["model_type"], folder)

    if reason := needs.reason(look):
        yield f"{key}: {reason}"
    elif not any(folder.glob("*.safetensors")):
        yield f"{key}: {name} holds no weights: no *.safetensors file"
