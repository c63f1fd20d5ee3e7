"""Captions of a manifest for an export, and the order of a test split."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from perturbations.base import jsontext
from perturbations.base.errors import ManifestError
from perturbations.exports.writing.filenames import scenario
from perturbations.manifest import files, row_groups
from perturbations.manifest.companions import numbered
from perturbations.manifest.kinds import TEXTS


def first_captions(path: Path, names: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each scenario of a `texts` manifest with each video's first caption; those of one are in memory.

    A caption that the fidelity gate rejected is replaced by its original. `names` is as for `scenario`.
    Raises `ManifestError` for another kind of manifest.
    """
    kind = files.kind_of(path)
    if kind != TEXTS:
        raise ManifestError(f"{path} is a manifest of {kind.name}; captions are exported from texts")
    rows = row_groups.by_key(files.read_rows(path, TEXTS), lambda row: scenario(row, names))
    for name, members in rows.items():
        texts: dict[str, str] = {}
        for row in sorted(members, key=lambda row: numbered(row.caption_id)):
            texts.setdefault(row.item_id, row.text if row.accepted else row.source_text)
        yield name, texts


def split_order(path: Path) -> list[str]:
    """The ids of a test split, as its file lists them.

    Formats: a CSV file with a column `video_id` (MSR-VTT), JSON lines with `clip_id` (ActivityNet), tab-separated lines
    whose first column is the id (LSMDC), or one id per line (MSVD). Raises `ManifestError` for another file.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            if path.suffix == ".jsonl":
                ids = [str(jsontext.mapping(line)["clip_id"]) for line in file if line.strip()]
            else:
                text = file.read()
                first = text.partition("\n")[0].strip()
                if "\t" not in first and ("," in first or first == "video_id"):
                    ids = [row["video_id"] for row in csv.DictReader(io.StringIO(text, newline=""))]
                else:
                    ids = [line.partition("\t")[0].strip() for line in text.split("\n") if line.strip()]
    except (OSError, ValueError, csv.Error, KeyError, TypeError) as error:
        raise ManifestError(f"{path} does not list the videos of a test split: {error}") from error
    if not ids:
        raise ManifestError(f"{path} lists no video")
    return ids
