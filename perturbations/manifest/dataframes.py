"""Manifests as pandas' tables, for evaluators."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base.errors import ManifestError
from perturbations.manifest import files, locations
from perturbations.manifest.attributes import by_column
from perturbations.manifest.companions import companion_path
from perturbations.manifest.rows import MIXES, MULTIMODAL, SOURCE_STORAGE, SOURCES, TEXTS, VIDEOS

if TYPE_CHECKING:
    import pandas as pd


def read_manifest(path: str | Path) -> pd.DataFrame:
    """Read a manifest as a DataFrame, one line per row.

    The paths in the columns `path`, `source_path` and `guide` are made absolute, so that rows can be handed to
    `open_clip` from anywhere. Rows of clips also have the further columns of the dataset's annotations, such as a
    `label`, which `sources.parquet` holds. `DataFrame.attrs` holds the file's metadata. Raises `ManifestError` when the
    file is missing or not a manifest, or when a row names a file outside the corpus.
    """
    path = Path(path)
    kind = files.kind_of(path)
    table = files.read_table(path, kind)
    frame: pd.DataFrame = table.to_pandas()
    described = files.read_metadata(path)
    root = locations.root_of(path, described)
    is_source = [described["kind"] == SOURCES.name] * len(frame)
    if "storage" in frame.columns:
        is_source = (frame["storage"] == SOURCE_STORAGE).tolist()
    locate = cache(partial(locations.absolute, root=root))  # most paths are in several rows
    for column in set(locations.COLUMNS) & set(frame.columns):
        cells = zip(frame[column].tolist(), is_source, strict=True)
        frame[column] = [
            locate(column, value, is_source=of_source) if isinstance(value, str) else value
            for value, of_source in cells
        ]
    if kind in (SOURCES, VIDEOS, MIXES, MULTIMODAL) and (sources := companion_path(path, SOURCES)):
        texts = files.read_columns(sources, "item_id", "attributes").to_pydict()
        of_items = dict(zip(texts["item_id"], texts["attributes"], strict=True))
        for name, values in by_column(frame["item_id"].tolist(), of_items).items():
            if name not in frame:  # sources have the `split`
                frame[name] = values
    frame.attrs.update(described)
    return frame


def read_captions(path: str | Path, *, accepted_only: bool = True) -> pd.DataFrame:
    """Read a manifest of perturbed captions, without those that the fidelity gate did not accept.

    The paper leaves them out too. Raises `ManifestError` when the file is missing or not such a manifest.
    """
    frame = read_manifest(path)
    if frame.attrs["kind"] != TEXTS.name:
        raise ManifestError(f"{path} is a manifest of {frame.attrs['kind']}, not of {TEXTS.name}")
    return frame[frame["accepted"]].reset_index(drop=True) if accepted_only else frame
