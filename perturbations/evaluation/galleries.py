"""Galleries of an evaluation: the clean clips or captions of a dataset, encoded once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.base.checkpoints import library
from perturbations.base.errors import ManifestError
from perturbations.base.readers import Reader
from perturbations.evaluation import queries
from perturbations.evaluation.backbone import Backbone
from perturbations.evaluation.planning import Direction
from perturbations.evaluation.processors import check_distinct
from perturbations.evaluation.scenarios import texts_of
from perturbations.manifest.kinds import CaptionRow, CompleteSource, SourceRow
from perturbations.tta import encode_gallery
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Batch

_CHUNK = 32  # clips encoded at once
_ANEW = "delete it and run snakemake again"
REPLACED = "they were replaced during the run; run snakemake again, which encodes with the new ones"


def of_clips(backbone: Backbone, sources: Sequence[SourceRow], num_frames: int, reader: Reader = "pyav") -> Gallery:
    """The features of every complete clip, sorted by item id; the clips are read and encoded in parts."""
    clips = sorted((row for row in sources if isinstance(row, CompleteSource)), key=lambda row: row.item_id)

    def read(row: CompleteSource) -> NDArray[np.uint8]:
        return backbone.images.resized(queries.sampled(row, num_frames, reader))

    def parts() -> Iterator[Batch]:
        with queries.readers() as pool:
            for start in range(0, len(clips), _CHUNK):
                yield backbone.images.batch(np.stack(list(pool.map(read, clips[start : start + _CHUNK]))))

    return encode_gallery(backbone.model, queries.fed(parts(), backbone.model.device), "t2v")


def of_captions(backbone: Backbone, captions: Sequence[CaptionRow]) -> Gallery:
    """The captions' features, in their order."""
    texts = [row.text for row in captions]
    check_distinct(backbone.texts, texts)
    return encode_gallery(backbone.model, backbone.tokens(texts), "v2t")


def write(
    path: Path, backbone: Backbone, sources: Sequence[SourceRow], num_frames: int, reader: Reader = "pyav"
) -> None:
    """Encode a dataset's clean clips, once for all scenarios of captions."""
    gallery = of_clips(backbone, sources, num_frames, reader)
    with storage.atomic_path(path) as temporary:
        library("safetensors.torch", package="safetensors").save_file(
            {"features": gallery.features.cpu()}, temporary, metadata={"checkpoint": backbone.sha256}
        )


def read(path: Path, backbone: Backbone) -> Gallery:
    """A gallery that `write` wrote, on the model's device. Raises `ManifestError` for one of other weights."""
    try:
        with library("safetensors").safe_open(path, framework="pt") as file:
            features, checkpoint = file.get_tensor("features"), (file.metadata() or {}).get("checkpoint")
    except (OSError, KeyError, library("safetensors").SafetensorError) as error:
        raise ManifestError(f"{path} holds no encoded clips ({error}); {_ANEW}") from error
    if checkpoint != backbone.sha256:  # planning notices weights that were replaced before
        raise ManifestError(f"{path} was encoded with other weights than the model has now: {REPLACED}")
    return Gallery("t2v", features.to(backbone.model.device))


def clean(
    direction: Direction,
    backbone: Backbone,
    captions: Sequence[CaptionRow],
    sources: Sequence[SourceRow],
    gallery: Path | None,
) -> Gallery:
    """The gallery of a dataset's scenarios: its captions (v2t), or the clips that `write` wrote to `gallery` (t2v)."""
    if direction == "v2t":
        return of_captions(backbone, texts_of(captions, sources)[1])
    assert gallery is not None
    return read(gallery, backbone)


def bank(
    direction: Direction, backbone: Backbone, captions: Sequence[CaptionRow], gallery: Path | None
) -> Gallery | None:
    """The bank of training queries: the clips in the file `gallery` (v2t) or captions (t2v); None without them."""
    if direction == "v2t":
        return None if gallery is None else read(gallery, backbone)
    return of_captions(backbone, captions) if captions else None
