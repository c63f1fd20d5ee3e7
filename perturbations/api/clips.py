"""A clip of a corpus: its row, its captions, and its frames, which are read when they are needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from perturbations.api.clip_opening import Frames, open_clip
from perturbations.base.readers import Reader
from perturbations.manifest.attributes import of_row
from perturbations.manifest.rows import ClipRow, CompleteSource, MultimodalRow
from perturbations.media.clip import uniform_indices

CLEAN = "clean"


@dataclass(frozen=True)
class Clip:
    """A complete clip of a corpus. The columns of its row are attributes: `clip.item_id`, `clip.width`, `clip.path`.

    Attributes:
        row: its row.
        captions: the clean captions of its item.
        source: the row of the clean clip, where the dataset's `sources.parquet` lists it.
        source_text: of a pair: the clean caption that its `text` was made from, where `captions.parquet` lists it.
    """

    row: ClipRow | CompleteSource
    captions: tuple[str, ...] = ()
    source: CompleteSource | None = None
    source_text: str | None = None

    @property
    def clean(self) -> Clip | None:
        """The clip that it was made from: itself where it is clean; None where no `sources.parquet` lists it."""
        if isinstance(self.row, CompleteSource):
            return self
        return None if self.source is None else Clip(self.source, self.captions, self.source)

    @property
    def perturbation(self) -> str:
        """The perturbation's name; `clean` for a clean clip."""
        return (self.row.perturbation if isinstance(self.row, ClipRow) else None) or CLEAN

    @property
    def severity(self) -> int:
        """The severity; 0 for a clean clip."""
        return self.row.severity if isinstance(self.row, ClipRow) else 0

    @property
    def text(self) -> str | None:
        """Of a pair, its perturbed caption; None for a clip alone."""
        return self.row.text if isinstance(self.row, MultimodalRow) else None

    def frames(self, indices: Iterable[int] | None = None, reader: Reader = "pyav") -> Frames:
        """Its frames, T x H x W x 3, RGB, uint8, read or rendered now. Arguments and errors as of `open_clip`."""
        return open_clip(self.row, indices, reader)

    def sampled(self, num_frames: int, reader: Reader = "pyav") -> Frames:
        """So many frames, the middle ones of equal spans, as evaluations sample them; errors as of `open_clip`."""
        if isinstance(self.row, ClipRow) and self.row.storage.startswith("frames/"):
            stack = self.frames()
            return stack[uniform_indices(num_frames, len(stack))]
        return self.frames(uniform_indices(num_frames, self.row.frame_count), reader)

    @property
    def attributes(self) -> dict[str, Any]:
        """The further columns of its item in the annotations, such as a `label`; also attributes: `clip.label`."""
        return of_row(None if self.source is None else self.source.attributes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("row", "source"):  # while it is unpickled, there is no row yet
            raise AttributeError(name)
        try:
            return getattr(self.row, name)
        except AttributeError:
            if name in (attributes := self.attributes):
                return attributes[name]
            raise AttributeError(f"neither a clip nor its row has {name!r}") from None
