"""The Parquet tables of retrieval tasks, as the loaders of mteb name their columns: texts, answers and videos."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import storage, tars
from perturbations.exports.writing import shardfiles

_GROUP_BYTES = 64_000_000  # of videos in a row group, which readers hold in memory

_TEXTS = pa.schema([("id", pa.string()), ("text", pa.string())])
_QRELS = pa.schema([("query-id", pa.string()), ("corpus-id", pa.string()), ("score", pa.int32())])


def _schema(medium: str, *, has_texts: bool) -> pa.Schema:
    """The schema of videos or images, with or without texts, which tells `datasets` what the cells are."""
    features = {"id": {"dtype": "string", "_type": "Value"}, medium: {"_type": medium.capitalize()}}
    columns_of = [("id", pa.string()), (medium, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))]
    if has_texts:
        features["text"] = features["id"]
        columns_of.append(("text", pa.string()))
    return pa.schema(columns_of, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def texts(rows: Iterable[tuple[str, str]]) -> pa.Table:
    """Texts with their ids; at least one."""
    ids, written = zip(*rows, strict=True)
    return pa.Table.from_arrays([pa.array(ids, pa.string()), pa.array(written, pa.string())], schema=_TEXTS)


def qrels(pairs: Iterable[tuple[str, str]]) -> pa.Table:
    """Which document answers which query, in their order; at least one pair."""
    queries, targets = zip(*sorted(pairs), strict=True)
    scores = pa.array([1] * len(queries), pa.int32())
    return pa.Table.from_arrays([pa.array(queries, pa.string()), pa.array(targets, pa.string()), scores], schema=_QRELS)


def write_videos(path: Path, samples: Sequence[shardfiles.Sample], texts: Mapping[str, str] | None) -> None:
    """Write videos as cells, in row groups of limited size; they are compressed already."""
    medium = "image" if any(storage.is_picture(name) for name, _ in samples[0].members) else "video"
    schema = _schema(medium, has_texts=texts is not None)
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, write_statistics=["id"]) as writer:
        for group in shardfiles.split(samples, _GROUP_BYTES):
            cells = [{"bytes": _content(file), "path": name} for sample in group for name, file in sample.members]
            rows: dict[str, list[Any]] = {"id": [sample.key for sample in group], medium: cells}
            if texts is not None:
                rows["text"] = [texts[sample.key] for sample in group]
            writer.write_table(pa.Table.from_pydict(rows, schema))


def _content(stored: bytes | Path) -> bytes:
    if isinstance(stored, bytes):
        return stored
    with tars.opened(stored) as file:
        return file.read()
