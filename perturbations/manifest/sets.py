"""A manifest is a set of rows: which items were listed, the status of each, and that no row is missing or twice.

Each of a dataset's listed items is complete, quarantined or missing, in the manifest, on the card and on the page.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import Path
from typing import TypeVar, get_type_hints

from perturbations.base.errors import ManifestError
from perturbations.base.records import digest
from perturbations.manifest import files, manifest_paths
from perturbations.manifest.rows import (
    CAPTIONS,
    COMPLETE,
    MISSING,
    QRELS,
    QUARANTINED,
    SOURCES,
    CaptionRow,
    ClipRow,
    QrelRow,
    QuarantineRow,
    RowKind,
    RowStatus,
    RowT,
    SourceRow,
)
from perturbations.manifest.skipped import SET as SET
from perturbations.manifest.skipped import SKIPPED

LOSSES = "source_losses"
"""In the metadata of a corpus: `losses_of` its sources, where these lost something."""

TOGETHER = "together"
"""In the metadata of manifests that one job writes: their names, and a hash of what they are of."""

_SHOWN = 5

_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Listed:
    """How many of a dataset's listed items have each status in one manifest.

    Attributes:
        listed: the number of listed items.
        listed_sha256: a hash of their ids.
        complete: items with every scenario.
        quarantined: items that lack at least one scenario.
        missing: items without a video file.
        scenarios: the number of scenarios per item; 1 in a manifest of sources.
    """

    listed: int
    listed_sha256: str
    complete: int
    quarantined: int
    missing: int
    scenarios: int = 1

    def sentence(self, noun: str) -> str:
        """For people: "3 of 1,000 listed clips complete; 997 missing"."""
        parts = [f"{self.complete:,} of {self.listed:,} listed {noun} complete"]
        parts += [f"{self.quarantined:,} quarantined"] if self.quarantined else []
        parts += [f"{self.missing:,} missing"] if self.missing else []
        return "; ".join(parts)

    def columns(self) -> dict[str, object]:
        """For a manifest's metadata."""
        return asdict(self)


def read_listed(path: Path) -> Listed | None:
    """The listed items' statuses in a manifest's metadata; None where it has none. Raises `ManifestError`."""
    described = files.read_metadata(path).get(SET)
    if described is None:
        return None
    values = {name: own for name, own in described.items() if name != SKIPPED} if isinstance(described, dict) else {}
    if {name: type(own) for name, own in values.items()} != get_type_hints(Listed):
        raise ManifestError(f"{path} does not say, as manifests do, what was listed")
    return Listed(**values)


def ids_sha256(item_ids: Iterable[str]) -> str:
    """A hash of a set of ids."""
    digest = hashlib.sha256()
    for item_id in sorted(item_ids):
        encoded = item_id.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def of_sources(sources: Iterable[SourceRow], complete: Counter[str] | None = None, scenarios: int = 1) -> Listed:
    """The statuses of a dataset's items, or of its items in a corpus.

    In a corpus an item is complete when all its scenarios are; `complete` is the number of complete rows of each item.
    """
    statuses: dict[str, RowStatus] = {}
    for row in sources:
        statuses[row.item_id] = row.status
        if row.status == COMPLETE and complete is not None and complete[row.item_id] < scenarios:
            statuses[row.item_id] = QUARANTINED
    counts = Counter(statuses.values())
    return Listed(
        listed=len(statuses),
        listed_sha256=ids_sha256(statuses),
        complete=counts[COMPLETE],
        quarantined=counts[QUARANTINED],
        missing=counts[MISSING],
        scenarios=scenarios,
    )


def of_captions(caption_ids: Collection[str], rejected: int, scenarios: int = 1) -> Listed:
    """The statuses of a dataset's captions: those with these ids are usable, and `rejected` others are not.

    The hash is of the usable ones: a rejected caption may have no id, or that of another.
    """
    return Listed(
        listed=len(caption_ids) + rejected,
        listed_sha256=ids_sha256(caption_ids),
        complete=len(caption_ids),
        quarantined=rejected,
        missing=0,
        scenarios=scenarios,
    )


def losses_of(sources: Iterable[SourceRow]) -> dict[str, int]:
    """The number of clips per thing that their videos have and no perturbed clip: "10 bits" -> 3."""
    return dict(
        sorted(Counter(name for row in sources if row.source_losses for name in row.source_losses.split(", ")).items())
    )


def losses_sentence(about: Mapping[str, object]) -> str:
    """What the sources of a corpus lost, from its metadata, in words; empty where they lost nothing."""
    counted = about.get(LOSSES)
    parts = [f"{name} of {count:,} clips" for name, count in counted.items()] if isinstance(counted, dict) else []
    return f"not in the perturbed videos: {', '.join(parts)}" if parts else ""


def quarantine_of(sources: Iterable[SourceRow], videos: Iterable[ClipRow]) -> list[QuarantineRow]:
    """The sources and videos that are not complete, and why."""
    names = [field.name for field in fields(QuarantineRow)]
    rows: Iterable[SourceRow | ClipRow] = chain(sources, videos)
    return [
        QuarantineRow(**{name: getattr(row, name) for name in names if hasattr(row, name)})
        for row in rows
        if row.status != COMPLETE
    ]


def qrels(captions: Sequence[CaptionRow], sources: Sequence[SourceRow]) -> list[QrelRow]:
    """The clip of each caption, where it is complete."""
    complete = {row.item_id for row in sources if row.status == COMPLETE}
    return [
        QrelRow(query_id=row.caption_id, corpus_id=row.item_id, score=1) for row in captions if row.item_id in complete
    ]


# --- manifests beside each other --------------------------------------------------------------------------------------


def together(names: Iterable[str], content: object) -> dict[str, object]:
    """What the metadata of manifests that one job writes has in common; `content` is JSON that tells runs apart."""
    return {TOGETHER: {"files": sorted(names), "sha256": digest(content)}}


def contradictions(path: Path, kind: RowKind[RowT], rows: Sequence[RowT], about: Mapping[str, object]) -> Iterator[str]:
    """What a manifest, with these rows and metadata, contradicts in files beside it. Raises `ManifestError`."""
    yield from of_other_runs(path, about)
    if kind in (CAPTIONS, QRELS) and (path.parent / manifest_paths.name(SOURCES.name)).is_file():
        listed = of_sources(files.read_rows(path.parent / manifest_paths.name(SOURCES.name), SOURCES))
        if about.get(SET) != listed.columns():
            yield f"it is of other clips than {manifest_paths.name(SOURCES.name)} lists"
    if kind.contradictions is not None:
        yield from kind.contradictions(path, rows, about)


def of_other_runs(path: Path, about: Mapping[str, object]) -> Iterator[str]:
    """The manifests beside one that were written together with others. Raises `ManifestError`."""
    held = about.get(TOGETHER)
    for name in held.get("files", ()) if isinstance(held, dict) else ():
        beside = path.parent / Path(str(name)).name
        if beside.is_file() and files.read_metadata(beside).get(TOGETHER) != held:
            yield f"it is not of the same run as {beside.name}: one of them is of another configuration"


# --- merging ---------------------------------------------------------------------------------------------------------


def merge(parts: Iterable[tuple[Path, Collection[object]]], kind: RowKind[RowT], key: Sequence[str]) -> Iterator[RowT]:
    """All rows of several parts, one part at a time; each part must hold exactly the rows of its keys.

    `key` names the columns of a key: a key is the tuple of their values, or the value of a single column. A part with
    other rows is removed, so that the next run makes it again. Raises `ManifestError`, after all rows, with the problem
    of each part.
    """
    problems = []
    for path, expected in parts:
        try:
            members = files.read_rows(path, kind)
        except ManifestError as error:
            problems.append(f"{error}{files.remove_part(path)}")
            continue
        if problem := difference(Counter(_key(row, key) for row in members), expected):
            problems.append(f"{path} {problem}{files.remove_part(path)}")
        else:
            yield from members
    if problems:
        rest = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise ManifestError("; ".join([*problems[:_SHOWN], *rest]) + ". Run snakemake again: it regenerates them")


def _key(row: object, names: Sequence[str]) -> object:
    values = tuple(getattr(row, name) for name in names)
    return values if len(values) > 1 else values[0]


def difference(keys: Counter[_Key], expected: Collection[_Key]) -> str | None:
    """How a set of keys differs from the expected one, in words; None where it does not."""
    due = set(expected)
    parts = []
    for what, group in (
        ("lacks", due - set(keys)),
        ("holds what was not requested:", set(keys) - due),
        ("holds twice", {key for key, count in keys.items() if count > 1}),
    ):
        if group:
            shown = ", ".join(sorted(map(repr, group))[:_SHOWN])
            more = f" and {len(group) - _SHOWN} more" if len(group) > _SHOWN else ""
            parts.append(f"{what} {shown[:400]}{more}")
    return "; ".join(parts) or None
