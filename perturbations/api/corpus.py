"""A corpus as a sequence of clips, whose frames are read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from perturbations.api.clips import Clip
from perturbations.base.errors import ManifestError
from perturbations.base.readers import Reader
from perturbations.manifest import files, layout, locations
from perturbations.manifest.companions import companion, texts_of
from perturbations.manifest.kinds import (
    CAPTIONS,
    COMPLETE,
    MIXES,
    MULTIMODAL,
    SOURCES,
    VIDEOS,
    CaptionRow,
    ClipRow,
    CompleteSource,
    MultimodalRow,
    SourceRow,
)

if TYPE_CHECKING:
    from perturbations.api.torch_data import ClipDataset

_KINDS = (VIDEOS, SOURCES, MIXES, MULTIMODAL)
_PAIRS = layout.name(MULTIMODAL.name)


class Corpus(Sequence[Clip]):
    """The complete clips of a manifest, in its order.

    `Corpus("manifests/msrvtt/mlvp")` reads `videos.parquet` there, or else `sources.parquet` or `multimodal.parquet`; a
    manifest of videos, sources, mixes or multimodal pairs can be named itself. Of pairs, whose captions are perturbed
    too, those whose caption the fidelity gate rejected are left out, as `read_captions` does. The files of clips are
    found from the manifest's place, whatever the working directory is.

    Attributes:
        path: the manifest.
        incomplete: the rows that are quarantined or missing.
    """

    def __init__(self, path: str | Path) -> None:
        """Read the manifest. Raises `ManifestError` where there is none, or one of another kind, or a damaged one."""
        self.path = _manifest_of(Path(path))
        kind = files.kind_of(self.path)
        if kind not in _KINDS:
            names = ", ".join(known.name for known in _KINDS)
            raise ManifestError(f"{self.path} is a manifest of {kind.name}, and a corpus is one of {names}")
        root = locations.root_of(self.path, files.read_metadata(self.path))
        rows = [locations.located(row, root) for row in files.read_rows(self.path, kind)]
        self.incomplete: tuple[ClipRow | SourceRow, ...] = tuple(row for row in rows if row.status != COMPLETE)
        self._rows: tuple[ClipRow | CompleteSource, ...] = tuple(row for row in rows if _is_usable(row))

    @overload
    def __getitem__(self, place: int) -> Clip: ...
    @overload
    def __getitem__(self, place: slice) -> Corpus: ...
    def __getitem__(self, place: int | slice) -> Clip | Corpus:
        """The clip at a place, or a corpus of the clips of a slice."""
        return self._of(self._rows[place]) if isinstance(place, slice) else self._clip(self._rows[place])

    def __len__(self) -> int:
        """The number of clips."""
        return len(self._rows)

    def __iter__(self) -> Iterator[Clip]:
        """The clips in order."""
        return map(self._clip, self._rows)

    def __repr__(self) -> str:
        return f"Corpus({str(self.path)!r}): {len(self):,} clips"

    @property
    def perturbations(self) -> list[str]:
        """The names of its perturbations, sorted; `clean` where it has clean clips."""
        return sorted({clip.perturbation for clip in self})

    @property
    def severities(self) -> list[int]:
        """Its severities, sorted; 0 where it has clean clips."""
        return sorted({clip.severity for clip in self})

    @property
    def text_perturbations(self) -> list[str]:
        """The names of the perturbations of its pairs' captions, sorted; none where it has no pairs."""
        return sorted({row.text_perturbation for row in self._rows if isinstance(row, MultimodalRow)})

    @property
    def items(self) -> list[str]:
        """The ids of its items, sorted."""
        return sorted({row.item_id for row in self._rows})

    def where(
        self,
        *,
        perturbation: str | Iterable[str] | None = None,
        severity: int | Iterable[int] | None = None,
        item: str | Iterable[str] | None = None,
        text_perturbation: str | Iterable[str] | None = None,
    ) -> Corpus:
        """The clips of these perturbations, severities and items; one value or several, None: all.

        `text_perturbation` is that of a pair's caption.
        """
        perturbations, severities = _wanted(perturbation), _wanted(severity)
        items, text_perturbations = _wanted(item), _wanted(text_perturbation)
        chosen = [
            clip.row
            for clip in self
            if (perturbations is None or clip.perturbation in perturbations)
            and (severities is None or clip.severity in severities)
            and (items is None or clip.row.item_id in items)
            and (text_perturbations is None or getattr(clip.row, "text_perturbation", None) in text_perturbations)
        ]
        return self._of(chosen)

    def filter(self, wanted: Callable[[Clip], bool]) -> Corpus:
        """The clips for which `wanted` is true."""
        return self._of([clip.row for clip in self if wanted(clip)])

    @property
    def clean(self) -> Corpus:
        """The clean clips of its items. Raises `ManifestError` without the dataset's `sources.parquet`."""
        if not self._sources:
            raise ManifestError(f"no sources.parquet beside or above {self.path}, which would list the clean clips")
        return self._of([self._sources[item] for item in self.items if item in self._sources])

    @property
    def pairs(self) -> Corpus:
        """The pairs of perturbed videos and captions beside it, in `multimodal.parquet`: itself where it is of pairs.

        Raises `ManifestError` where there is no such manifest.
        """
        if files.kind_of(self.path) == MULTIMODAL:
            return self
        path = self.path.with_name(_PAIRS)
        if not path.is_file():
            raise ManifestError(f"no {_PAIRS} beside {self.path}: no target `multimodal_*` was made")
        return Corpus(path)

    def dataset(
        self,
        num_frames: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        reader: Reader = "pyav",
    ) -> ClipDataset:
        """The corpus as a `torch.utils.data.Dataset`; see `perturbations.api.torch_data.ClipDataset`. Needs torch.

        Args:
            num_frames: how many frames of each clip, sampled uniformly; None: all.
            transform: called with the frames, a uint8 tensor T x 3 x H x W; its result is the `video`.
            reader: what decodes: "pyav" or "decord".
        """
        from perturbations.api.torch_data import ClipDataset

        return ClipDataset(self, num_frames, transform, reader)

    @cached_property
    def _listed_captions(self) -> list[CaptionRow]:
        return companion(self.path, CAPTIONS)

    @cached_property
    def _captions(self) -> dict[str, tuple[str, ...]]:
        return texts_of(self._listed_captions)

    @cached_property
    def _caption_of_id(self) -> dict[str, str]:
        return {row.caption_id: row.text for row in self._listed_captions}

    @cached_property
    def _sources(self) -> dict[str, CompleteSource]:
        rows = self._rows if files.kind_of(self.path) == SOURCES else companion(self.path, SOURCES)
        return {row.item_id: row for row in rows if isinstance(row, CompleteSource)}

    def _clip(self, row: ClipRow | CompleteSource) -> Clip:
        source_text = self._caption_of_id.get(row.caption_id) if isinstance(row, MultimodalRow) else None
        return Clip(row, self._captions.get(row.item_id, ()), self._sources.get(row.item_id), source_text)

    def _of(self, rows: Sequence[ClipRow | CompleteSource]) -> Corpus:
        part = object.__new__(Corpus)
        part.__dict__.update(self.__dict__, _rows=tuple(rows))
        return part


def _manifest_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in (VIDEOS.name, SOURCES.name, MULTIMODAL.name):
        if (path / layout.name(name)).is_file():
            return path / layout.name(name)
    raise ManifestError(f"{path} holds neither {layout.name(VIDEOS.name)} nor {layout.name(SOURCES.name)}")


def _is_usable(row: ClipRow | SourceRow) -> bool:
    return row.status == COMPLETE and (not isinstance(row, MultimodalRow) or row.accepted)


def _wanted(values: Any) -> frozenset[Any] | None:
    """One value, which may be NumPy's, or several, as a set."""
    if values is None:
        return None
    return frozenset([values] if isinstance(values, str) or not isinstance(values, Iterable) else values)
