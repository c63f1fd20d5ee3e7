"""Clips and captions as a model's input, and their features: sampled frames or tokens of queries, encoded galleries.

The clean side of a dataset is encoded once per model, a perturbed gallery once per scenario, both without adaptation:
adaptation methods change only the query encoder.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from perturbations.api.clips import Clip
from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.base.progress import logged
from perturbations.base.readers import Reader
from perturbations.evaluation.features.feature_reading import Floats
from perturbations.evaluation.models.preprocessing import Images, check_distinct
from perturbations.evaluation.run.retrieval_of_scenario import Clean, ScenarioRow, usable
from perturbations.manifest.rows import CaptionRow, ClipRow, CompleteSource, TextRow
from perturbations.models.checkpoints import library
from perturbations.tta import encode_gallery
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Batch, ByteFrames

if TYPE_CHECKING:
    from perturbations.evaluation.models.encoder_loading import LoadedBackbone
    from perturbations.evaluation.plan.planned_runs import Modality

_log = logging.getLogger("perturbations")
_T = TypeVar("_T")
_CHUNK = 32  # clips encoded at once
_WAY_OUT = "delete it and run snakemake again"


def truncated(backbone: LoadedBackbone, texts: Sequence[str]) -> int | None:
    """How many texts have more tokens than the model reads; logged in advance. None without texts."""
    number = backbone.texts.truncated(texts) if texts else None
    if number:
        share = f"{number:,} of {len(texts):,} captions ({100 * number / len(texts):.1f} %)"
        most = backbone.texts.most_tokens
        _log.warning("%s have more than the %d tokens that the model reads: it never reads their end", share, most)
    return number


class Clips:
    """The sampled and resized frames of clips, read once and kept on disk: uint8, N x T x 3 x S x S."""

    def __init__(
        self,
        rows: Sequence[ClipRow | CompleteSource],
        num_frames: int,
        images: Images,
        folder: Path,
        reader: Reader = "pyav",
    ) -> None:
        shape = len(rows), num_frames, 3, images.size, images.size
        self._images = images
        path = folder / "frames.npy"
        storage.reserve(path, math.prod(shape))
        self._pixels = np.memmap(path, np.uint8, "r+", shape=shape)

        def read(place: int) -> None:
            self._pixels[place] = images.resized(Clip(rows[place]).sampled(num_frames, reader))

        with _readers() as pool:
            for _ in logged(pool.map(read, range(len(rows))), len(rows), "clips read"):
                pass

    def __len__(self) -> int:
        return len(self._pixels)

    def batch(self, part: Sequence[int]) -> ByteFrames:
        """Frames B x T x 3 x S x S of the clips at some places."""
        return self._images.batch(np.asarray(self._pixels[part]))


QueryItems = Clips | list[str]
"""The queries of a scenario: frames of clips, or captions."""


def _readers() -> ThreadPoolExecutor:
    """A pool with as many threads as torch may use, because the model (and a GPU) waits while clips are read."""
    return ThreadPoolExecutor(torch.get_num_threads())


def query_items(
    rows: Sequence[ScenarioRow], num_frames: int, backbone: LoadedBackbone, folder: Path, reader: Reader = "pyav"
) -> QueryItems:
    """The rows of one direction as queries: captions, or clips with their frames in `folder`."""
    clips = [row for row in rows if isinstance(row, ClipRow | CompleteSource)]
    if clips:
        return Clips(clips, num_frames, backbone.images, folder, reader)
    texts = [row.text for row in rows if isinstance(row, CaptionRow | TextRow)]
    check_distinct(backbone.texts, texts)
    return texts


def batches(queries: QueryItems, places: Sequence[int], size: int, backbone: LoadedBackbone) -> Iterator[Batch]:
    """The queries at some places, in that order, `size` per batch; the last batch may be shorter."""
    parts = (places[start : start + size] for start in range(0, len(places), size))
    inputs = (
        queries.batch(part) if isinstance(queries, Clips) else backbone.texts.tokens([queries[place] for place in part])
        for part in parts
    )
    return _fed(inputs, backbone.model.device)


def _fed(source: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """The batches; for a GPU, a thread makes the next batches in pinned memory while the GPU computes.

    On a CPU the model uses the cores itself.
    """
    if device.type != "cuda":
        return source
    return ahead(batch.pinned() if isinstance(batch, ByteFrames) else batch for batch in source)


def ahead(items: Iterator[_T]) -> Iterator[_T]:
    """The same items in the same order; a thread makes up to two of them before they are taken."""
    with ThreadPoolExecutor(1) as thread:
        coming = deque(thread.submit(lambda: [*islice(items, 1)]) for _ in range(2))
        try:
            while part := coming.popleft().result():
                coming.append(thread.submit(lambda: [*islice(items, 1)]))
                yield part[0]
        finally:
            thread.shutdown(cancel_futures=True)  # the reader has left: make no more


# --- features ---------------------------------------------------------------------------------------------------------


def encoded(backbone: LoadedBackbone, rows: Sequence[ScenarioRow], num_frames: int, reader: Reader = "pyav") -> Gallery:
    """The features of clips or of captions, in their order; clips are read and encoded in parts.

    Equal captions, and clips of equal frames, are encoded once: in different batches the last digits would differ.
    """
    keys = [_key(row) for row in rows]
    distinct = dict(zip(keys, rows, strict=True))
    place = {key: number for number, key in enumerate(distinct)}
    texts = [row.text for row in distinct.values() if isinstance(row, CaptionRow | TextRow)]
    clips = [row for row in distinct.values() if isinstance(row, ClipRow | CompleteSource)]
    features = _of_texts(backbone, texts) if texts else _of_clips(backbone, clips, num_frames, reader)
    if len(distinct) == len(rows):
        return features
    return Gallery(features.direction, features.features[[place[key] for key in keys]])


def _key(row: ScenarioRow) -> tuple[str | None, ...]:
    """What a caption's or a clip's feature depends on."""
    if isinstance(row, CaptionRow | TextRow):
        return (row.text,)
    return row.frames_sha256 or row.item_id, row.storage if isinstance(row, ClipRow) else None


def _of_texts(backbone: LoadedBackbone, texts: list[str]) -> Gallery:
    check_distinct(backbone.texts, texts)
    return encode_gallery(backbone.model, backbone.texts.tokens(texts), "v2t")


def _of_clips(
    backbone: LoadedBackbone, clips: Sequence[ClipRow | CompleteSource], num_frames: int, reader: Reader
) -> Gallery:
    def read(row: ClipRow | CompleteSource) -> NDArray[np.uint8]:
        return backbone.images.resized(Clip(row).sampled(num_frames, reader))

    def parts() -> Iterator[Batch]:
        with _readers() as pool:
            for start in range(0, len(clips), _CHUNK):
                yield backbone.images.batch(np.stack(list(pool.map(read, clips[start : start + _CHUNK]))))

    return encode_gallery(backbone.model, _fed(parts(), backbone.model.device), "t2v")


def vectors(features: Gallery) -> Floats:
    """One vector per clip, the mean over its frames, or per caption: float32, items x D."""
    rows = features.features
    return np.asarray((rows.mean(1) if rows.ndim == 3 else rows).cpu().numpy(), np.float32)


def text_vectors(backbone: LoadedBackbone, texts: Sequence[str]) -> Floats:
    """The features of texts, float32, texts x D."""
    return vectors(encode_gallery(backbone.model, backbone.texts.tokens([*texts]), "v2t"))


def write(
    path: Path, backbone: LoadedBackbone, clean: Clean, modality: Modality, num_frames: int, reader: Reader = "pyav"
) -> None:
    """Encode a dataset's clean clips or captions, once for all scenarios of a model."""
    rows = usable(clean.captions if modality == "captions" else clean.sources, clean, modality)
    if not rows:
        raise ManifestError(f"no {modality} to encode: every clip is quarantined, or none has a caption")
    features = encoded(backbone, rows, num_frames, reader).features
    with storage.atomic_path(path) as temporary:
        library("safetensors.torch", package="safetensors").save_file(
            {"features": features.cpu()}, temporary, metadata={"checkpoint": backbone.sha256}
        )


def read(path: Path, backbone: LoadedBackbone, modality: Modality) -> Gallery:
    """Features that `write` wrote, on the model's device. Raises `ManifestError` for features of other weights."""
    try:
        with library("safetensors").safe_open(path, framework="pt") as file:
            features, checkpoint = file.get_tensor("features"), (file.metadata() or {}).get("checkpoint")
    except (OSError, KeyError, library("safetensors").SafetensorError) as error:
        raise ManifestError(f"{path} holds no encoded {modality} ({error}); {_WAY_OUT}") from error
    if checkpoint != backbone.sha256:
        raise ManifestError(
            f"{path} was encoded with other weights than the model has now: they were replaced during the run; run "
            "snakemake again, which encodes with the new ones"
        )
    return Gallery("v2t" if modality == "captions" else "t2v", features.to(backbone.model.device))
