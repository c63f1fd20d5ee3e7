"""One hash of the files that an evaluation's model is loaded from: a replaced file outdates its evaluations.

The bytes are hashed, so that a copy of a folder is the same model. No NumPy: Snakemake imports this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perturbations.base import storage
from perturbations.base.records import digest
from perturbations.config import sections as configuration
from perturbations.evaluation import backbones
from perturbations.evaluation.plan import planned_runs
from perturbations.manifest import manifest_paths
from perturbations.models.checkpoints import local_folder

_LOADED = {".json", ".txt", ".model", ".jinja", ".safetensors"}
"""Endings of what transformers loads from a folder: settings, tokenizers, image processors and weights."""


def sha256(config: configuration.Config) -> str | None:
    """The hash of all files of the configured model.

    For an architecture from outside, the file that declares it is included. A model that was deleted counts as it was
    when it was last checked. None for the demo's encoder, which a rule makes, and for a model that was never on this
    machine.
    """
    wanted = config.evaluation
    if wanted.model is None:
        return None
    try:
        files = dict(_loaded(wanted.model, wanted.revision))
        if files and wanted.checkpoint is not None:
            files["checkpoint"] = wanted.checkpoint
        hashes = {name: storage.sha256(path) for name, path in files.items()}
    except OSError:
        hashes = {}
    if hashes and (code := backbones.code(str(described(wanted.model, wanted.revision).get("model_type")))):
        hashes["backbone"] = code  # for an architecture from outside
    return digest(hashes) if hashes else _as_checked(config)


def described(pretrained: str, revision: str | None) -> Mapping[str, Any]:
    """The model's config.json; empty where it cannot be read: the job that loads the model says what is wrong."""
    try:
        held = json.loads(dict(_loaded(pretrained, revision))["config.json"].read_bytes())
    except (OSError, ValueError, KeyError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}


def _as_checked(config: configuration.Config) -> str | None:
    """The hash that the job `check_model` recorded."""
    try:
        record = json.loads(
            config.at(manifest_paths.at("checked_model", model=planned_runs.model_key(config))).read_bytes()
        )
    except (OSError, ValueError):
        return None
    known: str | None = record.get("files")
    return known


def _loaded(pretrained: str, revision: str | None) -> Iterator[tuple[str, Path]]:
    """The name and the place of each file that is loaded; none where the model is not on this machine."""
    try:
        folder = local_folder(pretrained, revision)
    except (ImportError, ValueError):
        return
    for path in () if folder is None else sorted(folder.iterdir()):
        if path.suffix in _LOADED and path.is_file():
            yield path.name, path.resolve()
