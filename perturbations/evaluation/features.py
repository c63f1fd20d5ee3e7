"""Features of clips for composed retrieval: one vector per clip, as the model gives it, in files of named sets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from perturbations.base import storage
from perturbations.base.checkpoints import library
from perturbations.base.errors import ManifestError
from perturbations.base.readers import Reader
from perturbations.evaluation import galleries
from perturbations.evaluation.backbone import LoadedBackbone
from perturbations.evaluation.galleries import WAY_OUT
from perturbations.evaluation.stored_features import Floats, StoredFeatures
from perturbations.manifest.kinds import COMPLETE, ClipRow, CompleteSource, SourceRow
from perturbations.tta import encode_gallery

CLEAN = "clean"
"""The name of the set of clean clips."""


def of_clips(
    backbone: LoadedBackbone,
    rows: Iterable[ClipRow | SourceRow],
    *,
    num_frames: int,
    kept: Literal["mean", "middle"],
    reader: Reader = "pyav",
) -> StoredFeatures:
    """The features of the complete clips among rows, sorted by name: the mean over frames, or the middle frame's."""
    complete = [row for row in rows if isinstance(row, ClipRow | CompleteSource) and row.status == COMPLETE]
    clips = sorted(complete, key=lambda row: row.item_id)
    sampled = num_frames if kept == "mean" else 1
    if not clips:
        return StoredFeatures(Path(), (), np.empty((0, 1), np.float32))
    features = galleries.encoded(backbone, clips, sampled, reader).features.mean(1).cpu().numpy()
    return StoredFeatures(Path(), tuple(row.item_id for row in clips), np.asarray(features, np.float32))


def of_texts(backbone: LoadedBackbone, texts: Sequence[str]) -> Floats:
    """The features of texts, float32, texts x D; equal texts are encoded once."""
    distinct = list(dict.fromkeys(texts))
    place = {text: number for number, text in enumerate(distinct)}
    encoded = encode_gallery(backbone.model, backbone.tokens(distinct), "v2t").features.cpu().numpy()
    return np.asarray(encoded[[place[text] for text in texts]], np.float32)


def write(path: Path, sets: Mapping[str, StoredFeatures], backbone: LoadedBackbone) -> None:
    """Write sets of features, by their names, whole or not at all."""
    names = json.dumps({name: features.ids for name, features in sets.items()})
    with storage.atomic_path(path) as temporary:
        library("safetensors.torch", package="safetensors").save_file(
            {name: torch.from_numpy(np.ascontiguousarray(features.rows)) for name, features in sets.items()},
            temporary,
            metadata={"checkpoint": backbone.sha256, "names": names},
        )


def read(path: Path, checkpoint: str) -> dict[str, StoredFeatures]:
    """What `write` wrote with the weights of this hash. Raises `ManifestError` for anything else."""
    try:
        with library("safetensors").safe_open(path, framework="np") as file:
            about = file.metadata() or {}
            names = json.loads(about.get("names", ""))
            sets = {
                name: StoredFeatures(path, tuple(names[name]), file.get_tensor(name))
                for name in file.keys()  # noqa: SIM118
            }
    except (OSError, KeyError, ValueError, TypeError, library("safetensors").SafetensorError) as error:
        raise ManifestError(f"{path} holds no features ({error}); {WAY_OUT}") from error
    if any(len(features.ids) != len(features.rows) for features in sets.values()):
        raise ManifestError(f"{path} has another number of names than of features; {WAY_OUT}")
    galleries.check_weights(path, about.get("checkpoint"), checkpoint)
    return sets
