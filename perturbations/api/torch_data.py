"""A corpus as a dataset of torch: works with `DataLoader` and its workers, forked or spawned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset

from perturbations.api.clips import Clip
from perturbations.base.readers import Reader
from perturbations.manifest.rows import MultimodalRow


class ClipDataset(Dataset[dict[str, Any]]):
    """The clips of a corpus as dicts, which torch's own collation takes where the videos have one shape.

    A sample has `video` (uint8 T x 3 x H x W, or what `transform` made of it), `item`, `perturbation` ("clean" for a
    clean clip), `severity` (0 for a clean clip) and `caption` (the first clean one, "" where there is none), and the
    further columns of the annotations, such as a `label` ("" where there is none). Of a pair it also has `text`, the
    perturbed caption, `text_perturbation` and `text_severity`.
    """

    def __init__(
        self,
        corpus: Sequence[Clip],
        num_frames: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        reader: Reader = "pyav",
    ) -> None:
        """Of `corpus`, with so many frames per clip, or all; see `Corpus.dataset`."""
        self.corpus = corpus
        self._num_frames = num_frames
        self._transform = transform
        self._reader: Reader = reader

    def __len__(self) -> int:
        """The number of clips."""
        return len(self.corpus)

    def __getitem__(self, place: int) -> dict[str, Any]:
        """The sample at a place. Raises `MediaError` where the clip cannot be read, as `open_clip` does."""
        clip = self.corpus[place]
        reader = self._reader
        frames = clip.frames(reader=reader) if self._num_frames is None else clip.sampled(self._num_frames, reader)
        video: Any = torch.from_numpy(frames).permute(0, 3, 1, 2).contiguous()
        sample = {
            "video": video if self._transform is None else self._transform(video),
            "item": clip.row.item_id,
            "perturbation": clip.perturbation,
            "severity": clip.severity,
            "caption": clip.captions[0] if clip.captions else "",
            **{name: "" if value is None else value for name, value in clip.attributes.items()},
        }
        if isinstance(clip.row, MultimodalRow):
            sample |= {name: getattr(clip.row, name) for name in ("text", "text_perturbation", "text_severity")}
        return sample
