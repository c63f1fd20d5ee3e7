"""`croissant.json`: the tables and videos of the layout `hub` in the vocabulary of Croissant 1.1 (JSON-LD).

The vocabulary: https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations import __version__
from perturbations.base import jsontext, storage
from perturbations.exports.writing import folder
from perturbations.exports.writing.columns import CaptionColumns, ClipColumns, Columns, PairColumns
from perturbations.exports.writing.hubfiles import METADATA, VIDEOS, Written
from perturbations.exports.writing.records import Request

NAME = "croissant.json"
_VERSION = "http://mlcommons.org/croissant/1.1"
_TERMS = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject"),
    *("fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5"),
    *("parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator"),
    *("source", "subField", "transform"),
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    **{term: f"cr:{term}" for term in _TERMS},
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "description": {"@container": "@language"},
    "name": {"@container": "@language"},
}
_TYPES = {pa.string(): "sc:Text", pa.int64(): "sc:Integer", pa.float64(): "sc:Float", pa.bool_(): "sc:Boolean"}

_RECORDS: dict[type[Columns], str] = {ClipColumns: "clips", CaptionColumns: "captions", PairColumns: "pairs"}
"""The name of the record set."""


def write(request: Request, written: Written) -> None:
    """Describe what was written to the request's folder, if any. The same tables give the same bytes."""
    if not written.tables:
        return
    schema = pq.read_schema(written.tables[0])
    is_nested = written.has_videos and any(path.parent.name != folder.DATA for path in written.tables)
    pattern = f"{folder.DATA}/*/{METADATA}" if is_nested else f"{folder.DATA}/*.parquet"
    sets = [_file_set("tables", "The rows, as Parquet.", "application/x-parquet", pattern)]
    if written.has_videos:
        nested = f"{folder.DATA}/*/{VIDEOS}/*" if is_nested else f"{folder.DATA}/{VIDEOS}/*"
        inner = [f"{nested}/*"] if any(path.is_dir() for path in request.output.glob(nested)) else []
        sets.append(_file_set("videos", "The videos, which `file_name` names.", "video/mp4", nested, *inner))
    kind = _RECORDS[written.kind]
    described = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": _title(request),
        "description": f"Video-text retrieval under perturbations: {kind}, made by perturbations {__version__}.",
        "conformsTo": _VERSION,
        "version": f"{__version__}",
        "distribution": sets,
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": kind,
                "name": kind,
                "field": [_field(kind, field) for field in schema],
            }
        ],
    }
    storage.write_text_if_changed(request.output / NAME, json.dumps(described, indent=1) + "\n")


def _title(request: Request) -> str:
    return str(jsontext.mapping((request.output / folder.MARKER).read_bytes())["corpus"])


def _file_set(name: str, description: str, form: str, *patterns: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": name,
        "name": name,
        "description": description,
        "encodingFormat": form,
        "includes": patterns[0] if len(patterns) == 1 else patterns,
    }


def _field(record_set: str, column: pa.Field) -> dict[str, Any]:
    is_list = pa.types.is_list(column.type)
    described: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"{record_set}/{column.name}",
        "name": column.name,
        "dataType": _TYPES[column.type.value_type if is_list else column.type],
        "source": {"fileSet": {"@id": "tables"}, "extract": {"column": column.name}},
    }
    return described | ({"isArray": True, "arrayShape": "-1"} if is_list else {})
