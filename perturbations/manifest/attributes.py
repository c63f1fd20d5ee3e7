"""The further columns of annotations, `label` or `split`: kept as JSON in `sources.parquet`, read as columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from perturbations.manifest.columns import columns_of
from perturbations.manifest.rows import MixRow, MultimodalRow, SourceRow

_OF_EXPORTS = (
    *("item", "caption", "captions", "text_level", "source_text", "file_name", "video", "image", "pairs"),
    *("mp4", "png", "txt", "json", "__key__", "__url__"),
)
_OF_CLIPS = {"row", "source", "clean", "frames", "sampled"}
RESERVED = frozenset(
    {column.name for row in (SourceRow, MixRow, MultimodalRow) for column in columns_of(row)} - {"split"}
) | {*_OF_EXPORTS, *_OF_CLIPS}
"""Names of columns of manifests and of exports, and of what a clip of a `Corpus` has.

`split` is not reserved: a dataset may have a column of that name.
"""

_OWN = "own_"


@lru_cache(10_000)
def column_name(column: str) -> str:
    """The name under which a column of annotations is kept: with `own_` before one that manifests or exports have.

    `own_width` becomes `own_own_width`, so that no two columns get one name.
    """
    return _OWN + column if re.sub(f"^({_OWN})+", "", column) in RESERVED else column


def of_row(text: str | None) -> dict[str, Any]:
    """The attributes of an item, from the column `attributes` of its row of sources; none where it is empty."""
    return json.loads(text) if text else {}


def by_column(item_ids: Iterable[str], texts: Mapping[str, str | None]) -> dict[str, Sequence[Any]]:
    """The attributes of items, in their order, column by column; `texts` has the column `attributes` by item."""
    parsed = {item_id: of_row(text) for item_id, text in texts.items()}
    names = dict.fromkeys(name for own in parsed.values() for name in own)
    rows = [parsed.get(item_id, {}) for item_id in item_ids]
    return {name: [row.get(name) for row in rows] for name in names}
