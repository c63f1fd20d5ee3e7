"""The columns of exported clips and captions, and how they become Parquet and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import storage
from perturbations.exports.writing import export_layout
from perturbations.exports.writing.export_rows import ExportedClip
from perturbations.manifest.kinds import CaptionRow, MixRow, TextRow


@dataclass(frozen=True, kw_only=True)
class ClipColumns:
    """An exported clip. `suite` and `perturbation` of clean clips are `clean`, their severity is 0.

    `caption` is the first of the item's clean `captions`. `sha256` is the hash of the exported file.
    """

    item: str
    dataset: str
    suite: str
    perturbation: str
    severity: int
    mix: str | None
    share: float | None
    caption: str
    captions: tuple[str, ...]
    level: str | None
    variant: str | None
    params: str | None
    seed: int | None
    recipe_id: str | None
    width: int
    height: int
    sample_aspect_ratio: str | None
    fps: float
    frame_count: int
    duration_s: float
    psnr_db: float | None
    ssim: float | None
    frames_sha256: str | None
    sha256: str


@dataclass(frozen=True, kw_only=True)
class CaptionColumns:
    """An exported caption. `suite` and `perturbation` of clean captions are `clean`, their severity is 0."""

    id: str
    item: str
    dataset: str
    suite: str
    perturbation: str
    severity: int
    text: str
    source_text: str
    changed: bool
    similarity: float | None
    variant: str | None
    backend: str | None
    recipe_id: str | None


@dataclass(frozen=True, kw_only=True)
class PairedText:
    """The caption of an exported pair.

    `source_text` is the caption that it was made from, None where the dataset's `captions.parquet` does not have it.
    `text_perturbation` of clean captions is `clean`, their severity is 0.
    """

    caption_id: str
    text_perturbation: str
    text_severity: int
    text_level: str | None
    text: str
    source_text: str | None
    changed: bool
    similarity: float | None
    text_backend: str | None
    text_recipe_id: str | None


@dataclass(frozen=True, kw_only=True)
class PairColumns(PairedText, ClipColumns):
    """An exported pair of a video and a caption: the columns of the clip before those of the caption."""


_TYPES = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    tuple[str, ...]: pa.list_(pa.string()),
}

_EMPTY = {pa.string(): "", pa.int64(): 0, pa.float64(): math.nan, pa.list_(pa.string()): [""]}

Columns = ClipColumns | CaptionColumns | PairColumns


def of_clip(clip: ExportedClip, sha256: str) -> ClipColumns:
    """The columns of a clip; `sha256` is the hash of its file."""
    row, mixed = clip.row, clip.listed if isinstance(clip.listed, MixRow) else None
    own = {
        "item": row.item_id,
        "mix": mixed.mix if mixed else None,
        "share": mixed.share if mixed else None,
        "caption": clip.captions[0] if clip.captions else "",
        "captions": clip.captions,
        "sha256": sha256,
    }
    return ClipColumns(**_columns(ClipColumns, row, own))


def _columns(kind: type[Columns], row: object, own: Mapping[str, object]) -> dict[str, Any]:
    """The columns that a row has by the same names; of one that is not perturbed, those of a clean one."""
    values = {field.name: getattr(row, field.name, None) for field in fields(kind)}
    clean = {name: export_layout.CLEAN for name in ("suite", "perturbation") if values[name] is None}
    return {**values, **clean, "severity": values["severity"] or 0, **own}


def of_pair(clip: ClipColumns, text: PairedText) -> PairColumns:
    """The columns of a pair."""
    values = {field.name: getattr(part, field.name) for part in (clip, text) for field in fields(part)}
    return PairColumns(**values)


def of_caption(row: TextRow | CaptionRow) -> CaptionColumns:
    """The columns of a perturbed or a clean caption."""
    own: dict[str, object] = {"id": row.caption_id, "item": row.item_id}
    if isinstance(row, CaptionRow):
        own |= {"source_text": row.text, "changed": False}
    return CaptionColumns(**_columns(CaptionColumns, row, own))


def schema(kind: type[Columns | PairedText]) -> pa.Schema:
    """The Parquet schema of clips, captions or pairs."""
    hints = get_type_hints(kind)
    return pa.schema([(field.name, _TYPES[_plain(hints[field.name])]) for field in fields(kind)])


def _plain(hint: Any) -> Any:
    alternatives = [] if hint == tuple[str, ...] else [part for part in getattr(hint, "__args__", ()) if part]
    return next((part for part in alternatives if part is not type(None)), hint)


def table(kind: type[Columns], rows: Sequence[Columns]) -> pa.Table:
    """Rows as a table, whose schema does not depend on the rows."""
    arrays = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in schema(kind)]
    return pa.Table.from_arrays(arrays, schema=schema(kind))


def write_table(path: Path, content: pa.Table) -> None:
    """Write a table as Parquet, whole or not at all; the same table gives the same bytes."""
    write_tables(path, content, [])


def write_tables(path: Path, first: pa.Table, others: Iterable[pa.Table]) -> None:
    """Write tables of one schema as one, each as a row group."""
    with storage.atomic_path(path) as temporary, pq.ParquetWriter(temporary, first.schema, compression="zstd") as table:
        for part in chain([first], others):
            table.write_table(part)


def as_json(row: Columns | PairedText) -> dict[str, Any]:
    """A row for JSON, whose values all have the type of their column.

    `datasets` takes the types of all samples from the first five, so that no null may be among them: text that is not
    known is empty, a number is 0 or NaN, and a list without texts holds an empty one.
    """
    types = {column.name: column.type for column in schema(type(row))}
    values = {name: getattr(row, name) for name in types}
    return {name: _EMPTY[types[name]] if value in (None, ()) else value for name, value in values.items()}
