"""The features of a corpus's clips and captions, in the files that `perturb score` reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perturbations.base.errors import ManifestError
from perturbations.base.readers import Reader
from perturbations.evaluation import feature_scores, stored_features
from perturbations.evaluation import features as composed_features
from perturbations.evaluation.backbone import LoadedBackbone
from perturbations.evaluation.planning import CLEAN
from perturbations.manifest import files, locations
from perturbations.manifest.kinds import CAPTIONS, COMPLETE, SOURCES, TEXTS, VIDEOS, CaptionRow, RowKind, TextRow

CLIPS_FOLDER, CAPTIONS_FOLDER = "clips", "captions"


def write(
    manifest: Path, output: Path, backbone: LoadedBackbone, num_frames: int, reader: Reader = "pyav"
) -> Iterator[str]:
    """Encode the rows of a manifest of sources, videos or captions; yields a line per file.

    Clips go to `output`/clips, captions to `output`/captions: `clean.npz`, and `SUITE/PERTURBATION/SEVERITY.npz` of
    perturbed ones. A clip's feature is the mean over its frames; ids are those of items and captions. Clean captions
    have `t2v.csv` and `v2t.csv` beside them, which say what answers what. Rows that are not complete, and captions that
    are not accepted, are left out. Raises `ManifestError` for manifests of other kinds, and where no row is left.
    """
    kind = files.kind_of(manifest)
    if kind not in (SOURCES, VIDEOS, CAPTIONS, TEXTS):
        raise ManifestError(f"{manifest} is a manifest of {kind.name}: features are of sources, videos or captions")
    is_text = kind in (CAPTIONS, TEXTS)
    groups: dict[tuple[str, ...], list[Any]] = {}
    for row in _rows(manifest, kind):
        perturbed = kind in (VIDEOS, TEXTS)
        parts = [row.suite, row.perturbation, str(row.severity)] if perturbed else [CLEAN]
        groups.setdefault(tuple(parts), []).append(row)
    if not groups:
        raise ManifestError(f"{manifest} has no row that can be encoded")
    folder = output / (CAPTIONS_FOLDER if is_text else CLIPS_FOLDER)
    for name, rows in sorted(groups.items()):
        path = folder.joinpath(*name).with_suffix(".npz")
        if is_text:
            ids: Sequence[str] = [row.caption_id for row in rows]
            features = composed_features.of_texts(backbone, [row.text for row in rows])
        else:
            held = composed_features.of_clips(backbone, rows, num_frames=num_frames, kept="mean", reader=reader)
            ids, features = held.names, held.rows
        stored_features.write(path, ids, np.asarray(features, np.float32))
        yield f"{path}: {len(ids):,} {'captions' if is_text else 'clips'}, {features.shape[1]} numbers each"
    if kind is CAPTIONS:
        pairs = [(row.caption_id, row.item_id) for row in groups[CLEAN,]]
        feature_scores.write_answers(folder / "t2v.csv", pairs)
        feature_scores.write_answers(folder / "v2t.csv", [(item, caption) for caption, item in pairs])


def _rows(manifest: Path, kind: RowKind[Any]) -> Iterator[Any]:
    """The rows that can be encoded, with absolute paths."""
    root = locations.root_of(manifest, files.read_metadata(manifest))
    for row in files.read_rows(manifest, kind):
        if isinstance(row, CaptionRow | TextRow):
            if not isinstance(row, TextRow) or row.accepted:
                yield row
        elif row.status == COMPLETE:
            yield locations.located(row, root)
