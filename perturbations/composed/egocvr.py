"""The export of the files that EgoCVR's released evaluation reads: queries, the pool of clips, and galleries of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base.errors import ConfigError, ManifestError, short
from perturbations.exports.registry import Request

if TYPE_CHECKING:
    from perturbations.composed.split import Split


def write_splits(request: Request) -> list[Path]:
    """Write `egocvr_annotations.csv`, `egocvr_data.csv` and `egocvr_annotations_gallery.csv`; returns their paths.

    The galleries are those of the split: deduplicated where the split's are. Raises `ManifestError` where the released
    code would take a name or an instruction for a missing value, and `ConfigError` for an unknown gallery.
    """
    from perturbations.composed import gallery_sets, manifests, official
    from perturbations.manifest import files

    split, _ = manifests.read(request.manifest.parent)
    _check(split)
    local = request.gallery or ("local_official" if "local_official" in split.galleries else gallery_sets.DEFAULT_LOCAL)
    known = [name for name in (*gallery_sets.NAMES, *split.galleries) if not gallery_sets.is_global(name)]
    if local not in known:
        raise ConfigError(f"--gallery: no local gallery {local!r}; choose one of {', '.join(known)}")
    deduplicate = files.read_metadata(request.manifest).get("deduplicate") is True
    columns: dict[str, Sequence[Sequence[int]]] = {}
    columns["local_idx"] = gallery_sets.gallery(split, local, deduplicate=deduplicate)
    if request.global_gallery:
        everywhere = "global_official" if "global_official" in split.galleries else "global_rows"
        columns["global_idx"] = gallery_sets.gallery(split, everywhere, deduplicate=deduplicate)
    return official.write(split, request.output, galleries=columns)


def _check(split: Split) -> None:
    """Raise `ManifestError` for a text that pandas, with which the released code reads, takes for a missing value."""
    import pandas as pd

    texts = [(query, text) for query in split.queries for text in (query.instruction, query.clip_id, *query.target_ids)]
    with io.StringIO(newline="") as file:
        csv.writer(file).writerows([text.strip()] for _, text in texts)
        file.seek(0)
        missing = pd.read_csv(file, header=None, dtype=str)[0].isna()
    for (query, text), is_missing in zip(texts, missing, strict=True):
        if is_missing:
            raise ManifestError(
                f"query {short(query.query_id)} has the text {short(text)}, which EgoCVR's code reads as a missing "
                "value"
            )
