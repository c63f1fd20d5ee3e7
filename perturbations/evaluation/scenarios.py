"""The queries of one scenario, its clean gallery, and the relevant gallery items per query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perturbations.base.errors import ManifestError
from perturbations.evaluation.planning import CLEAN, ScenarioSettings
from perturbations.manifest.kinds import COMPLETE, CaptionRow, ClipRow, CompleteSource, MixRow, SourceRow, TextRow

Query = ClipRow | CompleteSource | CaptionRow | TextRow
"""A query: a perturbed or clean clip, or a perturbed or clean caption."""

Candidate = ClipRow | SourceRow | CaptionRow | TextRow
"""A row of a manifest of queries; its status and the scenario decide whether it becomes a query."""

Asking = Callable[[ScenarioSettings], tuple[Sequence[Candidate], str]]
"""Returns the rows of a scenario, and the hash of their manifests."""


@dataclass(frozen=True)
class Retrieval:
    """Queries, a gallery, and the places of the relevant gallery items per query."""

    query_ids: tuple[str, ...]
    gallery_ids: tuple[str, ...]
    relevant: tuple[tuple[int, ...], ...]
    rows: tuple[Query, ...]  # of the queries, in their order
    missing: int  # rows that are no queries: quarantined, not accepted, or without a relevant item


def of_videos(
    videos: Sequence[ClipRow | SourceRow], captions: Sequence[CaptionRow], sources: Sequence[SourceRow]
) -> Retrieval:
    """Videos as queries for their captions. The gallery holds the captions of every complete clip.

    Raises `ManifestError` when no query is left.
    """
    of_item, texts = texts_of(captions, sources)
    complete = [row for row in videos if isinstance(row, ClipRow | CompleteSource) and row.status == COMPLETE]
    queries = sorted((row for row in complete if of_item[row.item_id]), key=lambda row: row.item_id)
    return _retrieval(
        [row.item_id for row in queries],
        [row.caption_id for row in texts],
        [of_item[row.item_id] for row in queries],
        queries,
        len(videos) - len(queries),
    )


def texts_of(
    captions: Sequence[CaptionRow], sources: Sequence[SourceRow]
) -> tuple[dict[str, list[int]], list[CaptionRow]]:
    """The captions of complete clips in the gallery's order, and per clip the places of its captions."""
    complete = {row.item_id for row in sources if row.status == COMPLETE}
    texts = sorted((row for row in captions if row.item_id in complete), key=lambda row: row.caption_id)
    of_item = defaultdict(list)
    for place, row in enumerate(texts):
        of_item[row.item_id].append(place)
    return of_item, texts


def of_captions(captions: Sequence[CaptionRow | TextRow], sources: Sequence[SourceRow]) -> Retrieval:
    """Captions as queries for their clips. The gallery holds every complete clip; rejected captions are left out.

    Raises `ManifestError` when no query is left.
    """
    clips = sorted((row for row in sources if row.status == COMPLETE), key=lambda row: row.item_id)
    places = {row.item_id: place for place, row in enumerate(clips)}
    passed = [row for row in captions if row.item_id in places and not (isinstance(row, TextRow) and not row.accepted)]
    queries = sorted(passed, key=lambda row: row.caption_id)
    return _retrieval(
        [row.caption_id for row in queries],
        [row.item_id for row in clips],
        [[places[row.item_id]] for row in queries],
        queries,
        len(captions) - len(queries),
    )


def _retrieval(
    query_ids: Sequence[str],
    gallery_ids: Sequence[str],
    relevant: Sequence[Sequence[int]],
    rows: Sequence[Query],
    missing: int,
) -> Retrieval:
    if not query_ids:
        raise ManifestError("no query is left: every clip is quarantined, or none has a caption")
    return Retrieval(tuple(query_ids), tuple(gallery_ids), tuple(map(tuple, relevant)), tuple(rows), missing)


def of_scenario(
    scenario: ScenarioSettings,
    rows: Sequence[Candidate],
    captions: Sequence[CaptionRow],
    sources: Sequence[SourceRow],
) -> Retrieval:
    """The retrieval of a scenario; `rows` are those of its manifests.

    Raises `ManifestError` when no query is left.
    """
    chosen = [row for row in rows if _is_asked(row, scenario)]
    if scenario["direction"] == "v2t":
        return of_videos([row for row in chosen if isinstance(row, ClipRow | SourceRow)], captions, sources)
    return of_captions([row for row in chosen if isinstance(row, CaptionRow | TextRow)], sources)


def name_of(scenario: ScenarioSettings) -> str:
    """A readable name: "v2t mlvp/fog 5"."""
    severity = (
        scenario["severity"] if scenario["mix"] is None else f"{scenario['mix']} {scenario['share'] or ''}".strip()
    )
    return f"{scenario['direction']} {scenario['suite']}/{scenario['perturbation']} {severity}"


def _is_asked(row: Candidate, scenario: ScenarioSettings) -> bool:
    if scenario["suite"] == CLEAN:
        return True
    if isinstance(row, MixRow) and scenario["mix"] == "mixed_types":
        return bool(row.share == scenario["share"])
    if not isinstance(row, ClipRow | TextRow) or row.perturbation != scenario["perturbation"]:
        return False
    return scenario["mix"] is not None or row.severity == scenario["severity"]
