"""Exported corpora as other libraries give them: rows without decoding, tasks of mteb and a model of known scores."""

from __future__ import annotations

from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from perturbations.base import storage
from perturbations.exports import export_registry
from perturbations.exports.export_registry import Request

FORMATS = ["hub", "webdataset", "mteb", "croissant"]
PLACES = {
    "videos": ("videos", "mlvp/videos.parquet"),
    "mixes": ("videos", "mlvp/mixed_types.parquet"),
    "texts": ("captions", "mm_robustness/captions.parquet"),
    "pairs": ("pairs", "mlvp/multimodal.parquet"),
}
"""Of each kind of the small corpus' manifests, what exports call it, and its place in the dataset's folder."""


def export(name: str, manifest: Path, output: Path, what: str = "videos", **fields: Any) -> Any:
    """Write a manifest in a format, as the command does."""
    return export_registry.get(name).write(what, Request(manifest=manifest, output=output, **fields))


def contents(output: Path) -> dict[str, str]:
    """The hash of each file."""
    return {str(path.relative_to(output)): storage.sha256(path) for path in output.rglob("*") if path.is_file()}


def undecoded(library: ModuleType, data: Any, column: str = "video") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = list(data.cast_column(column, library.Video(decode=False)))
    return rows


def loaded_tasks(output: Path) -> list[Any]:
    """The tasks as `tasks.py` of the folder gives them."""
    tasks: list[Any] = exported_module(output).tasks()
    return tasks


def exported_module(output: Path) -> Any:
    """`tasks.py` of the folder, loaded."""
    spec = util.spec_from_file_location("exported_tasks", output / "tasks.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Searcher:
    """A model for mteb that has a known score per query and document, and remembers the ids of its queries."""

    def __init__(self, score: Any, medium: str = "video") -> None:
        described = {"name": "test/known", "modalities": ["text", medium]}
        self.mteb_model_meta = import_module("mteb.models.model_meta").ModelMeta.create_empty(described)
        self.score = score
        self.subsets: dict[str, tuple[list[str], list[str]]] = {}
        self._documents: list[str] = []

    def index(self, corpus: Any, **_: Any) -> None:
        self._documents = list(corpus["id"])

    def search(self, queries: Any, *, hf_subset: str, top_k: int, **_: Any) -> dict[str, dict[str, float]]:
        self.subsets[hf_subset] = (list(queries["id"]), self._documents)
        return {
            query: {document: float(self.score(hf_subset, query, document)) for document in self._documents}
            for query in queries["id"]
        }


def known_scores(seed: int, levels: int) -> Any:
    """A score per scenario, query and document, of so many levels: few levels give ties."""

    def score(scenario: str, query: str, document: str) -> np.float32:
        key = storage.sha256_of(f"{seed} {scenario} {query} {document}".encode())
        return np.float32(int(key[:12], 16) % levels / levels)

    return score


SHOWN = {"rai:dataBiases": ["drawn by one hand"], "rai:personalSensitiveInformation": ["None."]}


TERMS: dict[str, Any] = {
    "license": "CC-BY-4.0",
    "creator": ("A. Author", "Ünal Ö."),
    "citation": "@misc{data}",
    "url": "https://data.test/x",
    "rai": SHOWN,
}
