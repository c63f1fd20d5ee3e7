"""The queries as the model's input: sampled frames of clips, or tokens of captions, in batches."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from perturbations.api.clips import Clip
from perturbations.base import storage
from perturbations.base.progress import logged
from perturbations.base.readers import Reader
from perturbations.evaluation.processors import Images, TokenizedTexts, check_distinct
from perturbations.evaluation.scenarios import ScenarioRow
from perturbations.manifest.kinds import CaptionRow, ClipRow, CompleteSource, TextRow
from perturbations.tta.inputs import Batch, ByteFrames

if TYPE_CHECKING:
    from perturbations.evaluation.backbone import LoadedBackbone

_T = TypeVar("_T")


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

        with readers() as pool:
            for _ in logged(pool.map(read, range(len(rows))), len(rows), "clips read"):
                pass

    def __len__(self) -> int:
        return len(self._pixels)

    def batch(self, part: Sequence[int]) -> ByteFrames:
        """Frames B x T x 3 x S x S of the clips at some places."""
        return self._images.batch(np.asarray(self._pixels[part]))


QueryItems = Clips | list[str]
"""The queries of a scenario: frames of clips, or captions."""


def readers() -> ThreadPoolExecutor:
    """A pool with as many threads as torch may use, because the model (and a GPU) waits while clips are read."""
    return ThreadPoolExecutor(torch.get_num_threads())


def of_rows(
    rows: Sequence[ScenarioRow], num_frames: int, backbone: LoadedBackbone, folder: Path, reader: Reader = "pyav"
) -> QueryItems:
    """The rows of one direction as queries: captions, or clips with their frames in `folder`."""
    clips = [row for row in rows if isinstance(row, ClipRow | CompleteSource)]
    if clips:
        return Clips(clips, num_frames, backbone.images, folder, reader)
    texts = [row.text for row in rows if isinstance(row, CaptionRow | TextRow)]
    check_distinct(backbone.texts, texts)
    return texts


def read_as_clean(rows: Sequence[ScenarioRow], texts: TokenizedTexts) -> int | None:
    """How many perturbed captions the model reads as the clean ones; None where no caption is perturbed."""
    pairs = [(row.source_text, row.text) for row in rows if isinstance(row, TextRow)]
    return texts.same_inputs(pairs) if pairs else None


def batches(queries: QueryItems, places: Sequence[int], size: int, backbone: LoadedBackbone) -> Iterator[Batch]:
    """The queries at some places, in that order, `size` per batch; the last batch may be shorter."""
    return fed(_batches(queries, places, size, backbone), backbone.model.device)


def _batches(queries: QueryItems, places: Sequence[int], size: int, backbone: LoadedBackbone) -> Iterator[Batch]:
    for start in range(0, len(places), size):
        part = places[start : start + size]
        if isinstance(queries, Clips):
            yield queries.batch(part)
        else:
            yield backbone.tokens([queries[place] for place in part])


def fed(source: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """The batches, and for a GPU a thread that makes the next ones in pinned memory while it computes.

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
            thread.shutdown(cancel_futures=True)  # nothing is made for a reader that has left


def identity(row: ScenarioRow) -> list[str | None]:
    """The identity of a query: of its frames, and of its text."""
    if isinstance(row, CaptionRow):
        return [None, row.text]
    return [row.recipe_id, row.text] if isinstance(row, TextRow) else [row.frames_sha256, None]
