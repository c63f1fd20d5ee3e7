"""The tables of mteb's tasks: texts, videos, which document answers a query, and which documents a query ranks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import storage, tars
from perturbations.exports import export_columns, webdataset
from perturbations.exports.export_registry import Request
from perturbations.exports.exported_corpus import ExportedClip, ExportedCorpus

_GROUP_BYTES = 64_000_000  # bytes of videos in a row group, which readers hold in memory

_TEXTS = pa.schema([("id", pa.string()), ("text", pa.string())])
_TOP_RANKED = pa.schema([("query-id", pa.string()), ("corpus-ids", pa.list_(pa.string()))])
_QRELS = pa.schema([("query-id", pa.string()), ("corpus-id", pa.string()), ("score", pa.int32())])


def write_texts(path: Path, texts: Iterable[tuple[str, str]]) -> None:
    """Write texts with their ids."""
    export_columns.write(path, _TEXTS, [[{"id": own, "text": text} for own, text in texts]])


def write_ranked(request: Request, scenario: str, documents: Mapping[str, Sequence[str]]) -> Path:
    """Write the documents that each query ranks, by their ids."""
    path = request.data / f"{scenario}-top_ranked.parquet"
    rows = ({"query-id": query, "corpus-ids": names} for query, names in documents.items())
    export_columns.write(path, _TOP_RANKED, [rows])
    return path


def write_qrels(request: Request, subset: str, answers: Iterable[tuple[str, str]]) -> Path:
    """Write which document answers which query, by their ids."""
    path = request.data / f"{subset}-qrels.parquet"
    rows = ({"query-id": query, "corpus-id": target, "score": 1} for query, target in sorted(answers))
    export_columns.write(path, _QRELS, [rows])
    return path


_VideoCell = tuple[str, ExportedClip, Path]
"""The id of a video in a task, its clip, and its file."""


def write_parts(
    exported: ExportedCorpus,
    name: str,
    cells: Sequence[_VideoCell],
    texts: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write videos by their ids, with their `texts` if they have any, as files of limited size; returns the files."""

    def size(cell: _VideoCell) -> int:
        return webdataset.size_in_tar(("", cell[2]))

    medium = "image" if exported.has_pictures else "video"
    schema, paths = _schema(medium, has_texts=texts is not None), []
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": ["id"]}
    for number, part in enumerate(webdataset.split(cells, exported.request.shard_bytes, size)):
        paths.append(exported.request.data / f"{name}-{number:06d}.parquet")
        with storage.atomic_path(paths[-1]) as temporary, pq.ParquetWriter(temporary, schema, **plain) as writer:
            for group in webdataset.split(part, _GROUP_BYTES, size):
                held = []
                for _, clip, file in group:
                    with tars.opened(file) as content:
                        held.append({"bytes": content.read(), "path": f"{clip.key}{file.suffix}"})
                rows: dict[str, list[Any]] = {"id": [own for own, _, _ in group], medium: held}
                if texts is not None:
                    rows["text"] = [texts[own] for own, _, _ in group]
                writer.write_table(pa.Table.from_pydict(rows, schema))
    return paths


def _schema(medium: str, *, has_texts: bool) -> pa.Schema:
    """The schema of videos or images, with or without texts, which tells `datasets` the type of the cells."""
    features = {"id": {"dtype": "string", "_type": "Value"}, medium: {"_type": medium.capitalize()}}
    columns_of = [("id", pa.string()), (medium, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))]
    if has_texts:
        features["text"] = features["id"]
        columns_of.append(("text", pa.string()))
    return pa.schema(columns_of, metadata={"huggingface": json.dumps({"info": {"features": features}})})
