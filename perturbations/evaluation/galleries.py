"""Features of clips and captions that do not adapt: the clean side of a dataset, encoded once per model, and galleries.

A perturbed gallery is encoded once per scenario, by the model as it is: adaptation methods change the query encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perturbations.api.clips import Clip
from perturbations.base import storage
from perturbations.base.checkpoints import library
from perturbations.base.errors import ManifestError
from perturbations.base.readers import Reader
from perturbations.evaluation import queries, scenarios
from perturbations.evaluation.backbone import LoadedBackbone
from perturbations.evaluation.planning import Modality
from perturbations.evaluation.processors import check_distinct
from perturbations.evaluation.scenarios import Clean, ScenarioRow
from perturbations.manifest.kinds import CaptionRow, ClipRow, CompleteSource, TextRow
from perturbations.tta import encode_gallery
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Batch

_CHUNK = 32  # clips encoded at once
WAY_OUT = "delete it and run snakemake again"


def encoded(backbone: LoadedBackbone, rows: Sequence[ScenarioRow], num_frames: int, reader: Reader = "pyav") -> Gallery:
    """The features of clips or of captions, in their order; clips are read and encoded in parts.

    Equal captions, and clips of equal frames, are encoded once: in another batch the last digits would be others.
    """
    keys = [_key(row) for row in rows]
    distinct = dict(zip(keys, rows, strict=True))
    features = _encoded(backbone, list(distinct.values()), num_frames, reader)
    if len(distinct) == len(rows):
        return features
    place = {key: number for number, key in enumerate(distinct)}
    return Gallery(features.direction, features.features[[place[key] for key in keys]])


def _key(row: ScenarioRow) -> tuple[str | None, ...]:
    """What a caption's or a clip's feature depends on."""
    if isinstance(row, CaptionRow | TextRow):
        return (row.text,)
    return row.frames_sha256 or row.item_id, row.storage if isinstance(row, ClipRow) else None


def _encoded(backbone: LoadedBackbone, rows: Sequence[ScenarioRow], num_frames: int, reader: Reader) -> Gallery:
    texts = [row.text for row in rows if isinstance(row, CaptionRow | TextRow)]
    if texts:
        check_distinct(backbone.texts, texts)
        return encode_gallery(backbone.model, backbone.tokens(texts), "v2t")
    clips = [row for row in rows if isinstance(row, ClipRow | CompleteSource)]

    def read(row: ClipRow | CompleteSource) -> NDArray[np.uint8]:
        return backbone.images.resized(Clip(row).sampled(num_frames, reader))

    def parts() -> Iterator[Batch]:
        with queries.readers() as pool:
            for start in range(0, len(clips), _CHUNK):
                yield backbone.images.batch(np.stack(list(pool.map(read, clips[start : start + _CHUNK]))))

    return encode_gallery(backbone.model, queries.fed(parts(), backbone.model.device), "t2v")


def write(
    path: Path, backbone: LoadedBackbone, clean: Clean, modality: Modality, num_frames: int, reader: Reader = "pyav"
) -> None:
    """Encode a dataset's clean clips or captions, once for all scenarios of a model."""
    rows = usable(clean, modality)
    if not rows:
        raise ManifestError(f"no {modality} to encode: every clip is quarantined, or none has a caption")
    features = encoded(backbone, rows, num_frames, reader).features
    with storage.atomic_path(path) as temporary:
        library("safetensors.torch", package="safetensors").save_file(
            {"features": features.cpu()}, temporary, metadata={"checkpoint": backbone.sha256}
        )


def usable(clean: Clean, modality: Modality) -> Sequence[ScenarioRow]:
    """The clean clips or captions that are encoded, in the order of their features."""
    if modality == "clips":
        return scenarios.clips_of(clean.sources, clean)
    return scenarios.captions_of(clean.captions, clean)


def read(path: Path, backbone: LoadedBackbone, modality: Modality) -> Gallery:
    """Features that `write` wrote, on the model's device. Raises `ManifestError` for those of other weights."""
    try:
        with library("safetensors").safe_open(path, framework="pt") as file:
            features, checkpoint = file.get_tensor("features"), (file.metadata() or {}).get("checkpoint")
    except (OSError, KeyError, library("safetensors").SafetensorError) as error:
        raise ManifestError(f"{path} holds no encoded {modality} ({error}); {WAY_OUT}") from error
    check_weights(path, checkpoint, backbone.sha256)
    return Gallery("t2v" if modality == "clips" else "v2t", features.to(backbone.model.device))


def check_weights(path: Path, stored: str | None, present: str) -> None:
    """Refuse features of other weights; planning notices those that were replaced before the run."""
    if stored != present:
        raise ManifestError(
            f"{path} was encoded with other weights than the model has now: they were replaced during the run; run "
            "snakemake again, which encodes with the new ones"
        )
