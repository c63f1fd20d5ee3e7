"""The frames of a manifest's row, in any storage tier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import index
from pathlib import Path

import numpy as np

from perturbations.base import tars
from perturbations.base.arrays import Image
from perturbations.base.errors import ManifestError, MediaError
from perturbations.base.readers import READERS, Reader
from perturbations.corpus.plan.recipe import parse
from perturbations.corpus.render import rendering
from perturbations.corpus.render.clean_clips import source_of
from perturbations.manifest.columns import columns_of, row_from, values_of
from perturbations.manifest.rows import (
    COMPLETE,
    SOURCE_STORAGE,
    SOURCES,
    VIDEOS,
    ClipRow,
    CompleteSource,
    SourceRow,
    VideoRow,
)
from perturbations.media import decoding, framefile, other_readers
from perturbations.media.clip import Frame, MediaClip
from perturbations.media.profiles import is_picture

Frames = Image
"""T x H x W x 3, RGB, uint8."""


def open_clip(row: object, indices: Iterable[int] | None = None, reader: Reader = "pyav") -> Frames:
    """Read or render the frames of one manifest row, in any storage tier.

    Args:
        row: a row of `read_manifest` (a DataFrame row, a named tuple or a dict): a perturbed clip of a `videos`
            manifest, or a clean clip of a `sources` manifest. A row of the tier `recipe` is rendered now, from its
            source video. A row of the tier `frames` holds only the sampled frames.
        indices: which frames to return, as positions in the row's clip: a list, an array or a tensor of whole numbers;
            None returns all. Use it for long clips, which do not fit in memory.
        reader: what decodes the file of a `video` row or of a clean clip: "pyav", or "decord" or "torchcodec" for
            programs that have it (see `perturbations.media.other_readers`). All give the same frames: those of the
            others are compared with the row's `frames_sha256`, and refused where they differ. It changes nothing for
            pictures and `frames` rows, which no such library decodes, and for `recipe` rows, which this package renders
            from what PyAV decodes.

    Returns:
        The frames in the order of `indices`, T x H x W x 3, RGB, uint8.

    Raises:
        ManifestError: the row is quarantined, or has no `frames_sha256` for another reader than PyAV.
        MediaError: a file is missing, damaged or of another size than the row says, the content of a source changed,
            or the reader gives other frames. `perturb verify` compares the content of stored files.
        IndexError: the row does not hold a requested position.
        BackendError: the reader is not installed.
        TypeError: a position is no whole number.
        ValueError: an unknown reader, or no position in `indices`.
    """
    if reader not in READERS:
        raise ValueError(f"no reader {reader!r}; known: {', '.join(READERS)}")
    indices = None if indices is None else [index(position) for position in indices]
    if indices is not None and not indices:
        raise ValueError("indices names no frame; None returns all")
    clip = typed_row(row)
    if clip.status != COMPLETE:
        raise ManifestError(f"{clip.item_id!r} is not complete but {clip.status}: {clip.error}")
    try:
        return _frames_of(clip, indices, reader)
    except MediaError as error:
        path = clip.path or ""
        if path in str(error):
            raise
        raise MediaError(f"{path}: {error}") from error


def _frames_of(clip: ClipRow | SourceRow, indices: Sequence[int] | None, reader: Reader) -> Frames:
    if isinstance(clip, SourceRow):
        assert isinstance(clip, CompleteSource)
        source = source_of(clip)
        only = _only(indices, source.num_frames)
        return _collect(_decoded(source.clip, only, reader, clip), indices)
    tier = clip.storage.partition("/")[0]
    if tier == "frames":
        stack = framefile.read(_stored_file(clip))
        _only(indices, len(stack))
        return stack if indices is None else stack[indices]
    only = _only(indices, clip.frame_count)
    if tier == "video":
        path = _stored_file(clip)
        if only is not None and reader == "pyav":
            return _collect(decoding.decode_stored(path, only), indices)
        return _collect(_decoded(MediaClip(path), only, reader, clip), indices)
    if not isinstance(clip, VideoRow):
        raise ManifestError(f"{clip.item_id!r} has no frames: its storage is {clip.storage!r}")
    return _collect(rendering.planned_clip(parse(clip.recipe), source_of(clip)).frames(only=only), indices)


def _decoded(clip: MediaClip, only: set[int] | None, reader: Reader, row: ClipRow | SourceRow) -> Iterator[Frame]:
    if reader == "pyav" or is_picture(clip.path):
        return decoding.decode(clip, only=only)
    if not row.frames_sha256:
        raise ManifestError(f"the row of {row.item_id!r} has no frames_sha256, to compare the frames of {reader} with")
    return other_readers.decode(clip, reader, frames_sha256=row.frames_sha256, only=only)


def _stored_file(row: ClipRow) -> Path:
    if row.path is None:
        raise ManifestError(f"the row of {row.item_id!r} names no file")
    path = Path(row.path)
    # To hash every file whenever it is read would take longer than to decode a few of its frames.
    if row.bytes is not None and tars.is_file(path) and (held := tars.at(path)[2]) != row.bytes:
        raise MediaError(f"{path} is not the file that the row describes: {held:,} bytes, not {row.bytes:,}")
    return path


def _only(indices: Sequence[int] | None, held: int) -> set[int] | None:
    if indices is None:
        return None
    for position in indices:
        if not 0 <= position < held:
            raise IndexError(f"the row holds {held} frames; there is no frame {position}")
    return set(indices)


def _collect(frames: Iterable[Frame], indices: Sequence[int] | None) -> Frames:
    images = {frame.position: frame.image for frame in frames}
    if missing := sorted(set(indices or ()) - set(images)):
        raise MediaError(f"the clip has {len(images)} frames; there is no frame {missing[0]}")
    return np.stack([images[position] for position in (sorted(images) if indices is None else indices)])


def typed_row(row: object) -> ClipRow | SourceRow:
    """The typed row of a perturbed or a clean clip, from a row of a DataFrame, a named tuple, a dict or a typed row.

    Raises `ManifestError` where a column of the row's kind is missing.
    """
    if isinstance(row, SourceRow | VideoRow):
        return row
    if isinstance(row, ClipRow):
        row = values_of(row)
    as_dict = "_asdict" if hasattr(row, "_asdict") else "to_dict"  # of a named tuple, of a pandas Series
    columns: Mapping[object, object] = row if isinstance(row, Mapping) else getattr(row, as_dict)()
    plain = {str(name): _plain(value) for name, value in columns.items()}
    is_stored = str(plain.get("storage", "")).startswith(("video/", "frames/"))
    if plain.get("storage") == SOURCE_STORAGE:
        # A clean clip among perturbed ones.
        return row_from(SOURCES, plain | {"split": "", "rotation": 0})
    if is_stored:
        # The frames of a stored clip are in its file, so columns that the user left out, or made an index, are not
        # needed.
        needed = {column.name: column.type() for column in columns_of(VIDEOS.row) if not column.optional}
        return row_from(VIDEOS, needed | plain)
    return row_from(VIDEOS, plain) if "recipe" in plain else row_from(SOURCES, plain)


def _plain(value: object) -> object:
    """A cell of a table as Python has it; None where it is missing."""
    # `pandas.NA` by its type's name: who opens typed rows needs no pandas.
    if type(value).__name__ == "NAType" or (isinstance(value, float) and np.isnan(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value
