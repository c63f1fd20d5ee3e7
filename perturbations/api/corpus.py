"""A corpus as a sequence of clips, whose frames are read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from perturbations.api.clips import CLEAN, Clip
from perturbations.base.errors import ManifestError, did_you_mean, short
from perturbations.base.readers import Reader
from perturbations.base.shown import plural
from perturbations.base.storage import nfc
from perturbations.manifest import files, manifest_paths
from perturbations.manifest.companions import captions_of, companion, companion_path, read_clips
from perturbations.manifest.rows import (
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
from perturbations.manifest.stored_rows import StoredRows
from perturbations.suites import suite_registry

if TYPE_CHECKING:
    import pandas as pd

    from perturbations.api.torch_data import ClipDataset

_KINDS = (VIDEOS, SOURCES, MIXES, MULTIMODAL)
_PAIRS = manifest_paths.name(MULTIMODAL.name)


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
        rows = read_clips(self.path, kind)
        usable, others = self._usable_places()
        self._rows: StoredRows[ClipRow | CompleteSource] = rows.taken(usable)
        self._places = usable
        self.incomplete: tuple[ClipRow | SourceRow, ...] = tuple(rows.taken(others))

    @overload
    def __getitem__(self, place: int) -> Clip: ...
    @overload
    def __getitem__(self, place: slice) -> Corpus: ...
    def __getitem__(self, place: int | slice) -> Clip | Corpus:
        """The clip at a place, or a corpus of the clips of a slice."""
        if isinstance(place, slice):
            return self._of(range(*place.indices(len(self))))
        return self._clip(self._rows[place])

    def __len__(self) -> int:
        """The number of clips."""
        return len(self._rows)

    def __iter__(self) -> Iterator[Clip]:
        """The clips in order."""
        return map(self._clip, self._rows)

    def __repr__(self) -> str:
        return f"Corpus({str(self.path)!r}): {plural(len(self), 'clip')}"

    @property
    def perturbations(self) -> list[str]:
        """The names of its perturbations, sorted; `clean` where it has clean clips."""
        return self._values("perturbation")

    @property
    def severities(self) -> list[int]:
        """Its severities, sorted; 0 where it has clean clips."""
        return self._values("severity")

    @property
    def text_perturbations(self) -> list[str]:
        """The names of the perturbations of its pairs' captions, sorted; none where it has no pairs."""
        return [name for name in self._values("text_perturbation") if name != CLEAN]

    @property
    def items(self) -> list[str]:
        """The ids of its items, sorted."""
        return self._values("item_id")

    def where(
        self,
        *,
        perturbation: str | Iterable[str] | None = None,
        severity: int | Iterable[int] | None = None,
        item: str | Iterable[str] | None = None,
        text_perturbation: str | Iterable[str] | None = None,
    ) -> Corpus:
        """The clips of these perturbations, severities and items; one value or several, None: all.

        `text_perturbation` is that of a pair's caption. Raises `ValueError` for the name of a perturbation that there
        is neither here nor in any suite, and for a severity that there is not here, and `TypeError` for a severity that
        is no whole number, or a name or item that is no text.
        """
        values = {
            "perturbation": perturbation,
            "severity": severity,
            "item_id": item,
            "text_perturbation": text_perturbation,
        }
        chosen = np.ones(len(self), bool)
        for name, value in values.items():
            if value is None:
                continue
            members, column = _members(name, value), self._column(name)
            if name == "item_id":  # by the form in which names are compared
                column, members = column.map(nfc), frozenset(map(nfc, members))
            elif name != "severity":
                _check_names(members, self.perturbations if name == "perturbation" else self.text_perturbations)
            elif len(self) and (absent := members - {*self.severities}):
                raise ValueError(f"no severity {min(absent)}; these clips have {', '.join(map(str, self.severities))}")
            chosen &= column.isin(members).to_numpy()
        return self._of(np.nonzero(chosen)[0])

    def filter(self, is_chosen: Callable[[Clip], bool]) -> Corpus:
        """The clips for which a function is true."""
        return self._of([number for number, clip in enumerate(self) if is_chosen(clip)])

    @property
    def clean(self) -> Corpus:
        """The clean clips of its items. Raises `ManifestError` without the dataset's `sources.parquet`."""
        path = companion_path(self.path, SOURCES)
        if path is None:
            name = manifest_paths.name(SOURCES.name)
            raise ManifestError(f"no {name} beside or above {self.path}, which would list the clean clips")
        return Corpus(path).where(item=self.items)

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
            reader: what decodes: "pyav", "decord" or "torchcodec".
        """
        from perturbations.api.torch_data import ClipDataset

        return ClipDataset(self, num_frames, transform, reader)

    @cached_property
    def _captions(self) -> dict[str, tuple[CaptionRow, ...]]:
        return captions_of(companion(self.path, CAPTIONS))

    @cached_property
    def _sources(self) -> dict[str, CompleteSource]:
        return {row.item_id: row for row in companion(self.path, SOURCES) if isinstance(row, CompleteSource)}

    def _clip(self, row: ClipRow | CompleteSource) -> Clip:
        captions = self._captions.get(row.item_id, ())
        caption_id = row.caption_id if isinstance(row, MultimodalRow) else None
        source_text = next((caption.text for caption in captions if caption.caption_id == caption_id), None)
        texts = tuple(caption.text for caption in captions)
        return Clip(row, texts, self._sources.get(row.item_id), source_text)

    def _of(self, numbers: Sequence[int] | NDArray[np.int64]) -> Corpus:
        """The clips of these numbers."""
        part = object.__new__(Corpus)
        chosen = np.asarray(numbers, np.int64)
        part.__dict__.update(self.__dict__, _rows=self._rows.taken(chosen), _places=self._places[chosen])
        return part

    # --- columns, which are in memory: there may be millions of rows ---

    def _usable_places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the usable rows in the file, and of those that are not complete."""
        names = files.columns_in(self.path)
        table = files.read_columns(self.path, *(name for name in ("status", "accepted") if name in names))
        complete = np.asarray(pc.equal(table["status"], COMPLETE))
        accepted = np.asarray(table["accepted"]) if "accepted" in table.column_names else True
        return np.nonzero(complete & accepted)[0], np.nonzero(~complete)[0]

    @cached_property
    def _columns(self) -> pd.DataFrame:
        """The columns by which clips are chosen, of all rows of the file; texts that repeat take memory once."""
        there = [name for name in _CHOSEN_BY if name in files.columns_in(self.path)]
        frame: pd.DataFrame = files.read_columns(self.path, *there).to_pandas(strings_to_categorical=True)
        for name, clean in _CHOSEN_BY.items():
            if name not in frame:
                frame[name] = clean
            elif frame[name].isna().any():
                frame[name] = frame[name].astype(object).fillna(clean)
        return frame

    def _column(self, name: str) -> pd.Series:
        """The values by which the clips are chosen."""
        return self._columns[name].iloc[self._places]

    def _values(self, name: str) -> list[Any]:
        """The different ones, sorted."""
        return sorted(self._column(name).unique().tolist())


_CHOSEN_BY: dict[str, Any] = {"perturbation": CLEAN, "severity": 0, "item_id": "", "text_perturbation": CLEAN}
"""The columns by which clips are chosen, and what clean clips have in them."""


def _manifest_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in (VIDEOS.name, SOURCES.name, MULTIMODAL.name):
        if (path / manifest_paths.name(name)).is_file():
            return path / manifest_paths.name(name)
    raise ManifestError(
        f"{path} holds neither {manifest_paths.name(VIDEOS.name)} nor {manifest_paths.name(SOURCES.name)}"
    )


def _members(name: str, value: Any) -> frozenset[Any]:
    """One value, which may be NumPy's, or several, as a set. Raises `TypeError` for a value of another type."""
    members = frozenset([value] if isinstance(value, str) or not isinstance(value, Iterable) else value)
    kind, text = ((int, np.integer), "a whole number") if name == "severity" else ((str,), "a text")
    for own in members:
        if not isinstance(own, kind) or isinstance(own, bool):
            raise TypeError(f"{name} is {text}, not {type(own).__name__}: {short(own)}")
    return members


def _check_names(names: Iterable[str], own: Sequence[str]) -> None:
    """Refuse what no perturbation is called: a mistyped name would give an empty corpus."""
    known = {CLEAN, *own, *(entry.name for entry in suite_registry.perturbations())}
    for name in names:
        if name not in known:
            hint = did_you_mean(name.rpartition("/")[2], own or sorted(known))
            raise ValueError(f"no perturbation {short(name)}; this corpus has {', '.join(own) or 'none'}{hint}")
