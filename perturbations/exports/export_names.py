"""The names of exported clips and scenarios, and how many files a layout may have.

Names hold letters, digits, `_` and `-` only: a dot would end the key of a WebDataset sample, and `*` or `[` would be a
pattern in the card of a dataset.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable

from perturbations.base import storage
from perturbations.base.errors import OutputError
from perturbations.datasets.listing import VIDEO_EXTENSIONS
from perturbations.manifest.rows import CaptionRow, ClipRow, MixRow, MultimodalRow, SourceRow, TextRow
from perturbations.media import profiles

CLEAN = "clean"
"""The suite, the perturbation and the scenario of clean clips and captions, as in manifests of results."""

FILES_PER_FOLDER = 10_000
FILES_PER_REPOSITORY = 100_000
"""What the Hugging Face Hub recommends at most (https://huggingface.co/docs/hub/storage-limits)."""

_OTHER_FILES = 5  # further files of a repository: the card, the marker, the lists, the description

_PLAIN = re.compile(r"(?!x[0-9a-f]{32}\Z)[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
_EXTENSIONS = (*VIDEO_EXTENSIONS, *profiles.PICTURE_EXTENSIONS)


def keys(ids: Iterable[str]) -> dict[str, str]:
    """A name per id; no two differ in case only.

    The name is the id without the extension of a media file, if it is plain and unique; otherwise a hash.
    """
    stems = {item_id: _stem(item_id) for item_id in sorted(set(ids))}
    folded = Counter(stem.casefold() for stem in stems.values())
    return {
        item_id: stem if _PLAIN.fullmatch(stem) and folded[stem.casefold()] == 1 else _hashed(item_id)
        for item_id, stem in stems.items()
    }


def _stem(item_id: str) -> str:
    stem, extension = os.path.splitext(item_id)
    return stem if extension.lower() in _EXTENSIONS else item_id


def _hashed(text: str) -> str:
    return "x" + storage.sha256_of(text.encode("utf-8", "surrogatepass"))[:32]


def scenario(row: ClipRow | SourceRow | TextRow) -> str:
    """The name of a row's scenario: `fog_3`, `clean`, `mixed_types_20` (percent), `mixed_severity_fog`."""
    if isinstance(row, SourceRow):
        return CLEAN
    perturbation = row.perturbation or CLEAN
    if isinstance(row, MixRow):
        return joined_name(row.mix, perturbation if row.share is None else _percent(row.share))
    return joined_name(perturbation, str(row.severity))


def scenario_of_text(row: MultimodalRow | CaptionRow) -> str:
    """The name of the scenario of a pair's caption: `no_verbs_1`, `clean`."""
    return CLEAN if isinstance(row, CaptionRow) else joined_name(row.text_perturbation, str(row.text_severity))


def _percent(share: float) -> str:
    return f"{100 * share:.6f}".rstrip("0").rstrip(".").replace(".", "p")


def joined_name(*parts: str) -> str:
    """Join the parts of a name."""
    return "_".join(part if _PLAIN.fullmatch(part) else _hashed(part) for part in parts)


def check_files(counts: Iterable[int]) -> None:
    """Raise `OutputError` where a layout of one file per clip has more files per folder than the Hub allows.

    The table of a folder counts as a further file, and so do the files of the repository itself.
    """
    counts = list(counts)
    count, most = sum(counts) + len(counts) + _OTHER_FILES, max(counts, default=0)
    if count > FILES_PER_REPOSITORY or most > FILES_PER_FOLDER:
        raise OutputError(
            f"the layout would have {count:,} files, {most:,} of them in one folder, and a Hugging Face repository "
            f"holds {FILES_PER_REPOSITORY:,} and {FILES_PER_FOLDER:,} at most: take --format webdataset, which packs "
            "them into shards, or export a part of the perturbations"
        )
