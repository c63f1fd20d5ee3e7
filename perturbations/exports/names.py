"""The names of exported clips and scenarios, and how many files a layout may have.

Names hold letters, digits, `_` and `-` only: a dot would end the key of a WebDataset sample, and `*` or `[` would be a
pattern in the card of a dataset.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from perturbations.base import storage
from perturbations.base.errors import OutputError
from perturbations.datasets.listing import VIDEO_EXTENSIONS
from perturbations.manifest.kinds import ClipRow, MixRow, SourceRow, TextRow

CLEAN = "clean"
"""The suite, the perturbation and the scenario of clean clips and captions, as in manifests of results."""

FILES_PER_FOLDER = 10_000
FILES_PER_REPOSITORY = 100_000
"""What the Hugging Face Hub recommends at most (https://huggingface.co/docs/hub/storage-limits)."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
_EXTENSION = re.compile(
    rf"({'|'.join(map(re.escape, (*VIDEO_EXTENSIONS, *storage.PICTURE_EXTENSIONS)))})\Z", re.IGNORECASE
)
_HASHED = re.compile(r"x[0-9a-f]{32}")
_SHARE_DIGITS = 6


def keys(ids: Iterable[str]) -> dict[str, str]:
    """A name per id; no two differ in case only.

    It is the id itself, less the extension of a media file, where that is plain and no other id's, else a hash of it.
    """
    stems = {item_id: _EXTENSION.sub("", item_id) for item_id in sorted(set(ids))}
    folded = Counter(stem.casefold() for stem in stems.values())
    return {
        item_id: stem if _is_plain(stem) and folded[stem.casefold()] == 1 else _hashed(item_id)
        for item_id, stem in stems.items()
    }


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None and _HASHED.fullmatch(text) is None


def _hashed(text: str) -> str:
    return "x" + storage.sha256_of(text.encode("utf-8", "surrogatepass"))[:32]


def scenario(row: ClipRow | SourceRow | TextRow, *, with_suite: bool = False) -> str:
    """The name of a row's scenario: `fog_3`, `clean`, `mixed_types_20` (percent), `mixed_severity_fog`.

    `with_suite` puts the suite before it, for corpora of several suites.
    """
    if isinstance(row, SourceRow):
        return CLEAN
    parts = [row.suite] if with_suite and row.suite else []
    if isinstance(row, MixRow) and row.share is not None:
        percent = f"{100 * row.share:.{_SHARE_DIGITS}f}".rstrip("0").rstrip(".").replace(".", "p")
        parts += [row.mix, percent]
    elif isinstance(row, MixRow):
        parts += [row.mix, row.perturbation or CLEAN]
    else:
        parts += [row.perturbation or CLEAN, str(row.severity)]
    return named(*parts)


def named(*parts: str) -> str:
    """A name of several parts."""
    return "_".join(part if _is_plain(part) else _hashed(part) for part in parts)


def check_files(count: int) -> None:
    """Raise `OutputError` where a layout of one file per clip would have more files than a repository may."""
    if count > FILES_PER_REPOSITORY:
        raise OutputError(
            f"the layout would have {count:,} files, and a Hugging Face repository holds {FILES_PER_REPOSITORY:,} at "
            "most: take --format webdataset, which packs them into shards, or export a part of the perturbations"
        )


def check_shards(size: int, shard_bytes: int) -> None:
    """Raise `OutputError` where shards of videos of `size` bytes are so small that a folder would hold too many."""
    if (shards := size // shard_bytes) > FILES_PER_FOLDER:
        raise OutputError(
            f"the layout would have about {shards:,} shards in one folder, which holds {FILES_PER_FOLDER:,} at most: "
            "give a larger --shard-size"
        )


def subfolder(place: int, count: int) -> str:
    """The subfolder of the clip at a place of its scenario: none where one folder can hold them all."""
    return "" if count <= FILES_PER_FOLDER else f"{place // FILES_PER_FOLDER:04d}/"
