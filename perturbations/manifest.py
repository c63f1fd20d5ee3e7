"""Parquet manifests: their columns, and how they are written, read, checked and merged.

`manifests/README.md` explains every column to users. Files are deterministic: the same rows give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.errors import ManifestError
from perturbations.storage import atomic_path

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 3

COMPLETE = "complete"
QUARANTINED = "quarantined"

Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of manifest: its columns, and the columns that identify and order a row."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...]


def _schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


_TEXT, _INT, _FLOAT = pa.string(), pa.int64(), pa.float64()

SOURCES = Kind(
    "sources",
    _schema(
        {
            "dataset": _TEXT,
            "split": _TEXT,
            "item_id": _TEXT,
            "source_video_id": _TEXT,
            "start_s": _FLOAT,
            "end_s": _FLOAT,
            "path": _TEXT,
            "bytes": _INT,
            "sha256": _TEXT,
            "frames_sha256": _TEXT,
            "codec": _TEXT,
            "pix_fmt": _TEXT,
            "width": _INT,
            "height": _INT,
            "fps": _FLOAT,
            "frame_count": _INT,
            "duration_s": _FLOAT,
            "rotation": _INT,
            "status": _TEXT,
            "stage": _TEXT,
            "error": _TEXT,
        }
    ),
    ("item_id",),
)

CAPTIONS = Kind(
    "captions",
    _schema({"dataset": _TEXT, "caption_id": _TEXT, "item_id": _TEXT, "text": _TEXT}),
    ("caption_id",),
)

TEXTS = Kind(
    "texts",
    _schema(
        {
            "dataset": _TEXT,
            "caption_id": _TEXT,
            "item_id": _TEXT,
            "suite": _TEXT,
            "perturbation": _TEXT,
            "severity": _INT,
            "level": _TEXT,
            "variant": _TEXT,
            "params": _TEXT,
            "backend": _TEXT,
            "seed": _INT,
            "source_text": _TEXT,
            "text": _TEXT,
            "changed": pa.bool_(),
            "similarity": _FLOAT,
            "attempts": _INT,
            "accepted": pa.bool_(),
            "recipe": _TEXT,
            "recipe_id": _TEXT,
        }
    ),
    ("perturbation", "severity", "caption_id"),
)

TEXT_STATISTICS = Kind(
    "text_statistics",
    _schema(
        {
            "dataset": _TEXT,
            "suite": _TEXT,
            "perturbation": _TEXT,
            "severity": _INT,
            "level": _TEXT,
            "variant": _TEXT,
            "backend": _TEXT,
            "captions": _INT,
            "changed": _INT,
            "accepted": _INT,
            "similarity_mean": _FLOAT,
            "similarity_min": _FLOAT,
            "attempts_mean": _FLOAT,
            "attempts_max": _INT,
            "bleu4": _FLOAT,
            "meteor": _FLOAT,
        }
    ),
    ("perturbation", "severity"),
)

VIDEOS = Kind(
    "videos",
    _schema(
        {
            "dataset": _TEXT,
            "item_id": _TEXT,
            "suite": _TEXT,
            "perturbation": _TEXT,
            "severity": _INT,
            "level": _TEXT,
            "variant": _TEXT,
            "draw": _TEXT,
            "params": _TEXT,
            "backend": _TEXT,
            "guide": _TEXT,
            "donor_id": _TEXT,
            "donor_similarity": _FLOAT,
            "seed": _INT,
            "recipe": _TEXT,
            "recipe_id": _TEXT,
            "path": _TEXT,
            "storage": _TEXT,
            "codec": _TEXT,
            "pix_fmt": _TEXT,
            "width": _INT,
            "height": _INT,
            "fps": _FLOAT,
            "frame_count": _INT,
            "stored_frames": _INT,
            "duration_s": _FLOAT,
            "bytes": _INT,
            "bitrate_bps": _FLOAT,
            "sha256": _TEXT,
            "frames_sha256": _TEXT,
            "storage_psnr_db": _FLOAT,
            "psnr_db": _FLOAT,
            "ssim": _FLOAT,
            "source_path": _TEXT,
            "source_sha256": _TEXT,
            "source_frame_count": _INT,
            "start_s": _FLOAT,
            "end_s": _FLOAT,
            "cut": _TEXT,
            "status": _TEXT,
            "stage": _TEXT,
            "error": _TEXT,
        }
    ),
    ("item_id", "suite", "perturbation", "severity"),
)

MIXES = Kind(
    "mixes",
    pa.schema([pa.field("mix", _TEXT), pa.field("share", _FLOAT), *VIDEOS.schema]),
    ("mix", "share", "perturbation", "item_id"),
)

MULTIMODAL = Kind(
    "multimodal",
    _schema(
        {
            "caption_id": _TEXT,
            "text_perturbation": _TEXT,
            "text_severity": _INT,
            "text": _TEXT,
            "changed": pa.bool_(),
            "similarity": _FLOAT,
            "attempts": _INT,
            "accepted": pa.bool_(),
            "text_backend": _TEXT,
            "text_recipe_id": _TEXT,
            **{field.name: field.type for field in VIDEOS.schema},
        }
    ),
    ("perturbation", "severity", "text_perturbation", "caption_id", "item_id"),
)

ANALYSES = Kind(
    "analyses",
    _schema(
        {
            "dataset": _TEXT,
            "item_id": _TEXT,
            "analysis": _TEXT,
            "recipe": _TEXT,
            "recipe_id": _TEXT,
            "backend": _TEXT,
            "result": _TEXT,
            "vector": pa.list_(pa.float32()),
            "path": _TEXT,
            "bytes": _INT,
            "sha256": _TEXT,
            "width": _INT,
            "height": _INT,
            "fps": _FLOAT,
            "frame_count": _INT,
            "source_path": _TEXT,
            "source_sha256": _TEXT,
            "source_frames_sha256": _TEXT,
            "start_s": _FLOAT,
            "end_s": _FLOAT,
            "status": _TEXT,
            "stage": _TEXT,
            "error": _TEXT,
        }
    ),
    ("analysis", "item_id"),
)

_SCENARIO: dict[str, pa.DataType] = {
    "dataset": _TEXT,
    "suite": _TEXT,
    "perturbation": _TEXT,
    "severity": _INT,
    "mix": _TEXT,
    "share": _FLOAT,
    "direction": _TEXT,
    "model": _TEXT,
    "method": _TEXT,
    "seed": _INT,
}
_SCENARIO_KEY = ("direction", "suite", "mix", "share", "perturbation", "severity", "model", "method", "seed")
_COSTS = {f"{part}_ms_{point}": _FLOAT for part in ("encode", "adapt", "rerank", "total") for point in ("p50", "p95")}

RESULTS = Kind(
    "results",
    _schema(
        {
            **_SCENARIO,
            "level": _TEXT,
            "setting": _TEXT,
            "queries": _INT,
            "missing_queries": _INT,
            "gallery": _INT,
            **{f"r{k}": _FLOAT for k in (1, 5, 10, 50, 100)},
            "rsum": _FLOAT,
            "median_rank": _FLOAT,
            "mean_rank": _FLOAT,
            "hub_skewness": _FLOAT,
            "hub_truncated_skewness": _FLOAT,
            "hub_atkinson": _FLOAT,
            "hub_robin_hood": _FLOAT,
            "hub_antihub_rate": _FLOAT,
            "hub_occurrence": _FLOAT,
            **_COSTS,
            "peak_memory_mib": _FLOAT,
            "updates": _INT,
            "empty": _INT,
            "non_finite": _INT,
            "settings": _TEXT,
            "backend": _TEXT,
            "queries_sha256": _TEXT,
            "manifest_sha256": _TEXT,
            "checkpoint_sha256": _TEXT,
            "tools": _TEXT,
            "recipe_id": _TEXT,
        }
    ),
    _SCENARIO_KEY,
)

RANKS = Kind(
    "ranks",
    _schema({**_SCENARIO, "query_id": _TEXT, "rank": _INT}),
    (*_SCENARIO_KEY, "query_id"),
)

QRELS = Kind(
    "qrels",
    _schema({"query_id": _TEXT, "corpus_id": _TEXT, "score": _INT}),
    ("query_id", "corpus_id"),
)

QUARANTINE = Kind(
    "quarantine",
    _schema(
        {
            "dataset": _TEXT,
            "item_id": _TEXT,
            "stage": _TEXT,
            "suite": _TEXT,
            "perturbation": _TEXT,
            "severity": _INT,
            "error": _TEXT,
        }
    ),
    ("item_id", "stage", "suite", "perturbation", "severity", "error"),
)

KINDS = {
    kind.name: kind
    for kind in (
        SOURCES,
        CAPTIONS,
        TEXTS,
        TEXT_STATISTICS,
        VIDEOS,
        MIXES,
        MULTIMODAL,
        ANALYSES,
        RESULTS,
        RANKS,
        QRELS,
        QUARANTINE,
    )
}


def write(path: Path, kind: Kind, rows: Iterable[Row], metadata: Mapping[str, Any] | None = None) -> None:
    """Write rows of one kind, sorted by their key, whole or not at all.

    Columns a row lacks are null; a column the kind does not have raises `ManifestError`.
    """
    rows = sorted(rows, key=lambda row: _sort_key(row, kind))
    names = set(kind.schema.names)
    for row in rows:
        if unknown := set(row) - names:
            raise ManifestError(f"{kind.name} manifests have no column {sorted(unknown)}")
    columns = {
        name: pa.array([row.get(name) for row in rows], kind.schema.field(name).type) for name in kind.schema.names
    }
    described = {"kind": kind.name, "schema_version": SCHEMA_VERSION, **(metadata or {})}
    schema = kind.schema.with_metadata({"perturbations": json.dumps(described, sort_keys=True)})
    with atomic_path(path) as temporary:
        table = pa.table(columns, schema=schema)
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def _sort_key(row: Row, kind: Kind) -> tuple[tuple[bool, Any], ...]:
    return tuple((row.get(name) is not None, row.get(name)) for name in kind.key)


def read_rows(path: Path, kind: Kind | None = None) -> list[Row]:
    """The rows of a manifest as plain dicts. Raises `ManifestError` when it is not a manifest of that kind."""
    rows: list[Row] = _read_table(path, kind).to_pylist()
    return rows


def read_metadata(path: Path) -> dict[str, Any]:
    """What a manifest's file says of itself: kind, schema version, package and tool versions, configuration hash."""
    return _described(path, _read_schema(path))


def read_manifest(path: str | Path) -> pd.DataFrame:
    """Read a manifest as a DataFrame, one row a thing.

    The paths in the columns `path`, `source_path` and `guide` are made absolute, so that rows can be handed to
    `open_clip` from anywhere. `DataFrame.attrs` holds the file's metadata. Raises `ManifestError` when the file is
    missing or not a manifest.
    """
    path = Path(path)
    table = _read_table(path, None)
    frame: pd.DataFrame = table.to_pandas()
    described = _described(path, table.schema)
    root = manifest_root(path, described)
    for column, located in _LOCATED.items():
        if column in frame.columns:
            frame[column] = [
                located(value, root) if isinstance(value, str) and value else value for value in frame[column]
            ]
    frame.attrs.update(described)
    return frame


def read_captions(path: str | Path, *, accepted_only: bool = True) -> pd.DataFrame:
    """Read a manifest of perturbed captions; those that the fidelity gate did not accept are left out.

    The paper drops them too. Raises `ManifestError` when the file is missing or not such a manifest.
    """
    frame = read_manifest(path)
    if frame.attrs["kind"] != TEXTS.name:
        raise ManifestError(f"{path} is a manifest of {frame.attrs['kind']}, not of {TEXTS.name}")
    return frame[frame["accepted"]].reset_index(drop=True) if accepted_only else frame


def located(row: Row, root: Path) -> Row:
    """A row with its paths made absolute."""
    return {**row, **{name: make(row[name], root) for name, make in _LOCATED.items() if row.get(name)}}


def _located_path(path: str, root: Path) -> str:
    return str(root / path)


def _located_guide(guide: str, root: Path) -> str:
    facts = json.loads(guide)
    files = {name: path and str(root / path) for name, path in facts.pop("files", {}).items()}
    return json.dumps({**facts, "files": files}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


_LOCATED = {"path": _located_path, "source_path": _located_path, "guide": _located_guide}


def manifest_root(path: Path, described: Mapping[str, Any]) -> Path:
    """The folder that a manifest's relative paths start from."""
    return (Path(path).resolve().parent / str(described.get("root", "."))).resolve()


def merge(parts: Sequence[Path], kind: Kind) -> list[Row]:
    """All rows of several parts. Raises `ManifestError` when two rows have the same key."""
    rows = [row for part in parts for row in read_rows(part, kind)]
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        key = tuple(row[name] for name in kind.key)
        if key in seen:
            raise ManifestError(f"two rows of {kind.name} have the key {dict(zip(kind.key, key, strict=True))}")
        seen.add(key)
    return rows


def concatenate(parts: Sequence[Path], output: Path, kind: Kind, metadata: Mapping[str, Any] | None = None) -> None:
    """Write the rows of parts that have no key in common as one manifest, as `write` does; for millions of them."""
    table = pa.concat_tables([_read_table(part, kind) for part in parts])
    table = table.sort_by([(name, "ascending") for name in kind.key], null_placement="at_start")
    described = {"kind": kind.name, "schema_version": SCHEMA_VERSION, **(metadata or {})}
    table = table.replace_schema_metadata({"perturbations": json.dumps(described, sort_keys=True)})
    with atomic_path(output) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


_ANEW = "where the workflow made it: delete it and run snakemake again, which makes it anew"


def _read_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except FileNotFoundError as error:
        raise ManifestError(f"no such manifest: {path}") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ManifestError(f"{path} is not a Parquet file: {error}; {_ANEW}") from error


def _described(path: Path, schema: pa.Schema) -> dict[str, Any]:
    raw = (schema.metadata or {}).get(b"perturbations")
    if raw is None:
        raise ManifestError(f"{path} is Parquet, but no manifest of this package")
    try:
        described: dict[str, Any] = json.loads(raw)
    except ValueError as error:
        raise ManifestError(f"{path} does not describe itself as manifests do: {error}") from error
    if described.get("schema_version") != SCHEMA_VERSION:
        raise ManifestError(
            f"{path} has schema version {described.get('schema_version')}, this package reads {SCHEMA_VERSION}"
        )
    return described


def _read_table(path: Path, kind: Kind | None) -> pa.Table:
    schema = _read_schema(path)
    described = _described(path, schema)
    if kind is None:
        kind = KINDS.get(described["kind"])
        if kind is None:
            raise ManifestError(f"{path} says it is a manifest of kind '{described['kind']}'; known: {sorted(KINDS)}")
    elif described["kind"] != kind.name:
        raise ManifestError(f"{path} is a manifest of {described['kind']}, not of {kind.name}")
    if not schema.remove_metadata().equals(kind.schema):
        raise ManifestError(f"{path} does not have the columns of {kind.name} manifests: {kind.schema.names}")
    try:
        return pq.read_table(path, page_checksum_verification=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ManifestError(f"{path} cannot be read: {error}; {_ANEW}") from error
