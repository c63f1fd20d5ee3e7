"""The columns of exported clips, captions and pairs, and how they become Parquet and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import storage
from perturbations.exports import names
from perturbations.exports.corpus import Clip, PairedText
from perturbations.manifest.kinds import CaptionRow, TextRow

_TYPES = {
    **dict.fromkeys(("severity", "text_severity", "seed", "width", "height", "frame_count"), pa.int64()),
    **dict.fromkeys(("share", "fps", "duration_s", "psnr_db", "ssim", "similarity"), pa.float64()),
    "changed": pa.bool_(),
    "captions": pa.list_(pa.string()),
}
"""The types of columns that are no text."""


def schema_of(columns: Iterable[str]) -> pa.Schema:
    """The schema of columns."""
    return pa.schema([(name, _TYPES.get(name, pa.string())) for name in columns])


CLIP = schema_of(
    (
        *("item", "dataset", "suite", "perturbation", "severity", "mix", "share", "caption", "captions", "level"),
        *("variant", "params", "seed", "recipe_id", "width", "height", "sample_aspect_ratio", "fps", "frame_count"),
        *("duration_s", "psnr_db", "ssim", "frames_sha256", "sha256"),
    )
)
"""An exported clip. `suite` and `perturbation` of clean clips are `clean`, their severity is 0.

`caption` is the first of the item's clean `captions`. `sha256` is the hash of the exported file.
"""

CAPTION = schema_of(
    (
        *("id", "item", "dataset", "suite", "perturbation", "severity", "text", "source_text", "changed"),
        *("similarity", "variant", "backend", "recipe_id"),
    )
)
"""An exported caption. `suite` and `perturbation` of clean captions are `clean`, their severity is 0."""

PAIRED = schema_of(PairedText._fields)
"""The caption of an exported pair."""

PAIR = pa.schema([*CLIP, *PAIRED])
"""An exported pair of a video and a caption: the columns of the clip before those of the caption."""

_EMPTY = {pa.string(): "", pa.int64(): 0, pa.float64(): math.nan, _TYPES["captions"]: [""]}


def of_clip(clip: Clip, sha256: str) -> dict[str, Any]:
    """The columns of a clip; `sha256` is the hash of its file."""
    own = {
        "item": clip.row.item_id,
        "mix": clip.mix,
        "share": clip.share,
        "caption": clip.captions[0] if clip.captions else "",
        "captions": list(clip.captions),
        "sha256": sha256,
    }
    return _of_row(CLIP, clip.row) | own


def of_caption(row: TextRow | CaptionRow) -> dict[str, Any]:
    """The columns of a perturbed or a clean caption."""
    clean = {"source_text": row.text, "changed": False} if isinstance(row, CaptionRow) else {}
    return _of_row(CAPTION, row) | {"id": row.caption_id, "item": row.item_id} | clean


def _of_row(schema: pa.Schema, row: object) -> dict[str, Any]:
    """The columns that a row has by the same names; of one that is not perturbed, those of a clean one."""
    values = {name: getattr(row, name, None) for name in schema.names}
    clean = {name: names.CLEAN for name in ("suite", "perturbation") if values[name] is None}
    return {**values, **clean, "severity": values["severity"] or 0}


def write(path: Path, schema: pa.Schema, parts: Iterable[Iterable[Mapping[str, Any]]]) -> int:
    """Write rows as Parquet, each part as a row group; the same rows give the same bytes. Returns their number."""
    count = 0
    with storage.atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for part in parts:
            table = pa.Table.from_pylist(list(part), schema)
            writer.write_table(table)
            count += table.num_rows
    return count


def as_json(schema: pa.Schema, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for JSON, whose values all have the type of their column.

    `datasets` takes the types of all samples from the first five, so that no null may be among them: text that is not
    known is empty, a number is 0 or NaN, and a list without texts holds an empty one.
    """
    known = ((column, row[column.name]) for column in schema)
    return {column.name: _EMPTY[column.type] if value in (None, []) else value for column, value in known}


def features(schema: pa.Schema) -> list[dict[str, str]]:
    """The columns as `datasets` describes them in a card."""
    return [_feature(column) for column in schema]


def _feature(column: pa.Field) -> dict[str, str]:
    if pa.types.is_list(column.type):
        return {"name": column.name, "list": str(column.type.value_type)}
    return {"name": column.name, "dtype": "float64" if column.type == pa.float64() else str(column.type)}


def with_file_name(schema: pa.Schema) -> pa.Schema:
    """A schema with the name of a video's file before the other columns."""
    return schema.insert(0, pa.field("file_name", pa.string()))
