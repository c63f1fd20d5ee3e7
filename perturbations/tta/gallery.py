"""The gallery: features computed once, of clean items, before any adaptation; and its comparison with queries."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from perturbations.base.arrays import distinct_rows
from perturbations.tta import inputs
from perturbations.tta.encoders import DualEncoder, evaluating
from perturbations.tta.inputs import Batch, Direction
from perturbations.tta.losses import unit
from perturbations.tta.precision import tensor_cores, wide
from perturbations.tta.recording import Recording

CHUNK = 64  # items per pass
PAIRS = 2**16  # of a text and a video, with their vectors in memory: 128 MiB of 512 numbers each, times about 6


@dataclass(frozen=True)
class Gallery:
    """Encoded gallery items, reusable for every scenario of a model.

    Attributes:
        direction: of the retrieval.
        features: texts N_G x D (v2t) or frames N_G x T x D (t2v), projected, not normalized.
    """

    direction: Direction
    features: Tensor

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def split(self, size: int) -> list[Gallery]:
        """The same in parts of at most `size` items."""
        return [Gallery(self.direction, part) for part in self.features.split(size)]

    @cached_property
    def distinct(self) -> tuple[Tensor, Tensor]:
        """`distinct_rows` of the features, on their device."""
        firsts, places = distinct_rows(self.features.detach().cpu().numpy())
        device = self.features.device
        return torch.from_numpy(firsts).to(device), torch.from_numpy(places).to(device)

    def tied(self, scores: Tensor) -> Tensor:
        """Scores B x N_G in which items with equal features have those of the first of them.

        Sums and products over a column round as its place in a block of memory has it.
        """
        firsts, places = self.distinct
        return scores if len(firsts) == len(self) else scores[:, firsts[places]]


def encode_gallery(model: DualEncoder, items: Batch | Iterator[Batch], direction: Direction) -> Gallery:
    """Features of a gallery.

    Args:
        model: its weights do not change.
        items: tokens (v2t) or frames N_G x T x 3 x H x W (t2v) as `adapt` takes them, or an iterator of such parts
            where the whole does not fit into memory.
        direction: "v2t" or "t2v".

    Raises:
        ValueError: shapes do not fit, or there is no item.
    """
    with torch.inference_mode(False), torch.no_grad(), evaluating(model), tensor_cores("float32", model.device):
        encoded = [part for batch in _batches(items) for part in _encoded(model, batch, direction)]
    if not encoded:
        raise ValueError("the gallery is empty")
    return Gallery(direction, torch.cat([wide(part) for part in encoded]))


def _batches(items: Batch | Iterator[Batch]) -> Iterable[Batch]:
    return items if isinstance(items, Iterator) else (items,)


def _encoded(model: DualEncoder, batch: Batch, direction: Direction) -> Iterator[Tensor]:
    """Features of a batch, CHUNK items at a time.

    Texts of equal tokens are encoded once: in another chunk the last digits would be others, and they would not tie.
    """
    if direction == "v2t":
        ids, mask = inputs.tokens(batch, model.device)
        both = ids if mask is None else torch.cat([ids, mask.to(ids.dtype)], 1)
        firsts, places = map(torch.from_numpy, distinct_rows(both.cpu().numpy()))
        masks = itertools.repeat(None) if mask is None else mask[firsts].split(CHUNK)
        yield torch.cat([*map(model.encode_texts, ids[firsts].split(CHUNK), masks)])[places]
        return
    whole = isinstance(batch, inputs.ByteFrames) or (isinstance(batch, Tensor) and batch.ndim == 5)
    for part in cast(Tensor, batch).split(CHUNK) if whole else (batch,):
        yield model.encode_frames(inputs.frames(part, model.device))


class Comparison:
    """Cosine similarities of queries with a gallery, B x N_G.

    The gallery's side is computed once, and scores of items with equal features once for all of them, so that they tie.
    `normalized` is HAT-VTR's order: every frame and text is normalized first, then frames are pooled. The other methods
    pool raw features.
    """

    def __init__(self, model: DualEncoder, gallery: Gallery, recording: Recording, *, normalized: bool) -> None:
        self._pooling = model.pooling
        self._recording = recording
        self._direction = gallery.direction
        self.items = unit(gallery.features) if normalized else gallery.features
        """The gallery's features in that order: N_G x D texts or N_G x T x D frames."""
        firsts, self._places = gallery.distinct
        features = self._distinct = self.items if len(firsts) == len(gallery) else self.items[firsts]
        with torch.no_grad():
            self._units = unit(features if gallery.direction == "v2t" else features.mean(1))
            if self._pooling is not None and gallery.direction == "t2v":
                self._keys, self._values = self._pooling.keys_values(features)

    def __call__(self, queries: Tensor) -> Tensor:
        """Similarities of query features: frames B x T x D (v2t) or texts B x D (t2v)."""
        with self._recording.part("rerank"):
            scores = self._similarities(queries)
            return scores if self._distinct is self.items else scores[:, self._places]

    def _similarities(self, queries: Tensor) -> Tensor:
        if self._pooling is None:
            pooled = queries.mean(1) if self._direction == "v2t" else queries
            return unit(pooled) @ self._units.T
        # X-Pool computes a vector per pair, and keeps several with gradients. A large gallery is compared piece by
        # piece, and the backward pass computes the vectors again.
        size = max(1, PAIRS // len(queries))
        starts = range(0, len(self._distinct), size)
        if len(starts) == 1:
            return self._of_pairs(queries, slice(None))
        scores = partial(checkpoint, self._of_pairs, use_reentrant=False) if torch.is_grad_enabled() else self._of_pairs
        return torch.cat([scores(queries, slice(start, start + size)) for start in starts], dim=1)

    def _of_pairs(self, queries: Tensor, piece: slice) -> Tensor:
        assert self._pooling is not None
        if self._direction == "v2t":
            keys, values = self._pooling.keys_values(queries)
            videos = self._pooling(self._distinct[piece], keys, values)  # B x N x D
            return torch.einsum("bnd,nd->bn", unit(videos), self._units[piece])
        videos = self._pooling(queries, self._keys[piece], self._values[piece])  # N x B x D
        return torch.einsum("nbd,bd->bn", unit(videos), unit(queries))
