"""The further columns of annotations, in everything that reads a corpus."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import pandas as pd
import pytest
from export_readers import export

from perturbations import Corpus, read_manifest
from perturbations.base.records import canonical
from perturbations.manifest import files
from perturbations.manifest.rows import SOURCES

pytestmark = pytest.mark.usefixtures("in_this_process")

COLUMNS: dict[str, dict[str, Any]] = {
    "a": {"label": "run", "stars": 3, "tags": ["x", "y"], "odd": 1, "split": "val"},
    "b": {"label": None, "stars": None, "tags": None, "odd": "one", "split": "val"},
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    rows = [
        replace(clips.source_row(clips.make(folder / f"{name}.mp4", frames=2), name), attributes=canonical(own))
        for name, own in COLUMNS.items()
    ]
    files.write(folder / "sources.parquet", SOURCES, rows, {"root": "."})
    return folder / "sources.parquet"


def test_readers_have_them_as_columns_of_their_own(sources: Path) -> None:
    frame = read_manifest(sources).set_index("item_id")
    assert frame.loc["a", ["label", "stars"]].tolist() == ["run", 3]
    assert frame.loc["a", "tags"] == ["x", "y"]
    corpus = Corpus(sources)
    assert [clip.label for clip in corpus] == ["run", None]
    assert [clip.attributes for clip in corpus] == [*COLUMNS.values()]
    samples = corpus.dataset(1)
    assert [samples[place]["label"] for place in range(2)] == ["run", ""]
    with pytest.raises(AttributeError, match="neither a clip nor its row has 'labels'"):
        _ = corpus[0].labels


def test_exports_have_them_with_types(sources: Path, tmp_path: Path) -> None:
    """Values of several types are JSON text; in JSON, where `datasets` takes no null, what is empty has its type."""
    export("hub", sources, tmp_path / "hub")
    table = pd.read_parquet(tmp_path / "hub/data/clean/metadata.parquet").set_index("item")
    assert table.loc["a", ["label", "stars", "odd", "split"]].tolist() == ["run", 3, "1", "val"]
    assert list(table.loc["a", "tags"]) == ["x", "y"]
    assert table.loc["b", ["label", "stars", "tags", "odd"]].isna().tolist() == [True, True, True, False]
    export("webdataset", sources, tmp_path / "shards")
    (shard,) = (tmp_path / "shards/data").glob("*.tar")
    with tarfile.open(shard) as tar:
        rows = [json.load(tar.extractfile(name)) for name in tar.getnames() if name.endswith(".json")]  # type: ignore[arg-type]
    kept = {row["item"]: {name: row[name] for name in COLUMNS["a"]} for row in rows}
    assert kept["a"] == COLUMNS["a"] | {"odd": "1"}
    assert kept["b"] == {"label": "", "stars": 0, "tags": [""], "odd": "one", "split": "val"}
