"""The columns of exported clips, captions and pairs, and how they become Parquet and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import storage
from perturbations.base.errors import UnknownPerturbationError
from perturbations.base.records import canonical
from perturbations.exports import export_names
from perturbations.exports.exported_corpus import ExportedClip, ExportedCorpus, PairedText
from perturbations.manifest.attributes import by_column
from perturbations.manifest.rows import CaptionRow, MultimodalRow, TextRow
from perturbations.suites import suite_registry as suites

_TYPES = {
    **dict.fromkeys(("severity", "text_severity", "seed", "width", "height", "frame_count"), pa.int64()),
    **dict.fromkeys(("share", "fps", "duration_s", "psnr_db", "ssim", "similarity"), pa.float64()),
    "changed": pa.bool_(),
    "captions": pa.list_(pa.string()),
}
"""The types of columns that are not text."""


def _schema_of(*columns: str) -> pa.Schema:
    return pa.schema([(name, _TYPES.get(name, pa.string())) for name in columns])


CLIP = _schema_of(
    *("item", "dataset", "suite", "perturbation", "severity", "mix", "share", "caption", "captions", "level"),
    *("variant", "params", "seed", "recipe_id", "width", "height", "sample_aspect_ratio", "fps", "frame_count"),
    *("duration_s", "psnr_db", "ssim", "frames_sha256", "sha256"),
)
"""An exported clip. `suite` and `perturbation` of clean clips are `clean`, their severity is 0.

`caption` is the first of the item's clean `captions`. `sha256` is the hash of the exported file.
"""

CAPTION = _schema_of(
    *("id", "item", "dataset", "suite", "perturbation", "severity", "text", "source_text", "changed"),
    *("similarity", "variant", "backend", "recipe_id"),
)
"""An exported caption. `suite` and `perturbation` of clean captions are `clean`, their severity is 0."""

PAIRED = _schema_of(
    *("caption_id", "text_perturbation", "text_severity", "text_level", "text", "source_text", "changed"),
    *("similarity", "text_backend", "text_recipe_id"),
)
"""The caption of an exported pair. `text_perturbation` of clean captions is `clean`, their severity is 0.

`source_text` is the caption that it was made from, empty where the dataset's `captions.parquet` does not have it.
"""

_EMPTY: dict[pa.DataType, Any] = {pa.string(): "", pa.int64(): 0, pa.float64(): math.nan, pa.bool_(): False}
_EMPTY |= {pa.list_(kind): [value] for kind, value in _EMPTY.items()}
"""The types of columns, each with its JSON value where nothing is known."""


class FurtherColumns(NamedTuple):
    """The further columns of a dataset's annotations: their types, and the values of each item."""

    schema: pa.Schema
    by_item: Mapping[str, Mapping[str, Any]]


def further_columns(corpus: ExportedCorpus) -> FurtherColumns:
    """The further columns of an exported corpus; columns with several types, and objects, become JSON text."""
    texts = {row.item_id: row.attributes for row in corpus.sources}
    fields, columns = [], {}
    for name, values in by_column(texts, texts).items():
        kind = pa.string()
        with suppress(pa.ArrowException, OverflowError):
            kind = pa.array(values).type
        kind = kind if kind in _EMPTY else pa.string()
        if kind == pa.string():
            values = [value if value is None or isinstance(value, str) else canonical(value) for value in values]
        fields.append((name, kind))
        columns[name] = values
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return FurtherColumns(pa.schema(fields), dict(zip(texts, rows, strict=False)))


def of_clip(clip: ExportedClip, sha256: str, further: FurtherColumns) -> dict[str, Any]:
    """The columns of a clip; `sha256` is the hash of its file."""
    texts = [caption.text for caption in clip.captions]
    own: dict[str, Any] = {"item": clip.row.item_id, "mix": clip.mix, "share": clip.share, "sha256": sha256}
    own |= {"caption": texts[0] if texts else "", "captions": texts}
    described = further.by_item.get(clip.row.item_id, {})
    return _of_row(CLIP, clip.row) | own | {name: described.get(name) for name in further.schema.names}


def of_texts(clip: ExportedClip) -> list[dict[str, Any]]:
    """The columns of each caption that a clip is paired with."""
    return [_of_text(row, {caption.caption_id: caption.text for caption in clip.captions}) for row in clip.texts]


def _of_text(row: PairedText, originals: Mapping[str, str]) -> dict[str, Any]:
    clean = {"text_perturbation": export_names.CLEAN, "text_severity": 0, "changed": False}
    level = None
    if isinstance(row, MultimodalRow):
        clean = {}
        with suppress(UnknownPerturbationError):  # the suite is of a package that is not installed here
            level = suites.get(f"{row.suite}/{row.text_perturbation}").category
    values = {name: getattr(row, name, None) for name in PAIRED.names}
    return values | clean | {"text_level": level, "source_text": originals.get(row.caption_id)}


def of_caption(row: TextRow | CaptionRow) -> dict[str, Any]:
    """The columns of a perturbed or a clean caption."""
    clean = {"source_text": row.text, "changed": False} if isinstance(row, CaptionRow) else {}
    return _of_row(CAPTION, row) | {"id": row.caption_id, "item": row.item_id} | clean


def _of_row(schema: pa.Schema, row: object) -> dict[str, Any]:
    """The columns that a row has under the same names; a row that is not perturbed gets the values of a clean clip."""
    values = {name: getattr(row, name, None) for name in schema.names}
    clean = {name: export_names.CLEAN for name in ("suite", "perturbation") if values[name] is None}
    return {**values, **clean, "severity": values["severity"] or 0}


def write(path: Path, schema: pa.Schema, parts: Iterable[Iterable[Mapping[str, Any]]]) -> int:
    """Write rows as Parquet, each part as a row group; equal rows give equal bytes. Returns the number of rows."""
    count = 0
    with storage.atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for part in parts:
            table = pa.Table.from_pylist(list(part), schema)
            writer.write_table(table)
            count += table.num_rows
    return count


def as_json(schema: pa.Schema, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for JSON, whose values all have the type of their column.

    `datasets` takes the types of all samples from the first five, so no value may be null: unknown text is empty, an
    unknown number is 0 or NaN, and a list without texts holds an empty text.
    """
    return {own.name: _EMPTY[own.type] if row[own.name] in (None, []) else row[own.name] for own in schema}


def features(schema: pa.Schema) -> list[dict[str, str]]:
    """The description of the columns for `datasets` in a card."""
    dtypes = {pa.float64(): "float64"}
    return [
        {"name": column.name, "list": dtypes.get(column.type.value_type, str(column.type.value_type))}
        if pa.types.is_list(column.type)
        else {"name": column.name, "dtype": dtypes.get(column.type, str(column.type))}
        for column in schema
    ]
