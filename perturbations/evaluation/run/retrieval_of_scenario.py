"""The retrieval of one scenario: queries, gallery, and the relevant gallery items per query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from perturbations.base.errors import ManifestError
from perturbations.corpus.plan import clip_lists
from perturbations.evaluation.plan.planned_runs import MODALITIES, Half, Modality, halves
from perturbations.evaluation.result_rows import Run, listed_sha256, places_of
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import COMPLETE, CaptionRow, ClipRow, CompleteSource, MixRow, SourceRow, TextRow

ScenarioRow = ClipRow | CompleteSource | CaptionRow | TextRow
"""A query or an item of the gallery: a perturbed or clean clip, or a perturbed or clean caption."""

CandidateRow = ClipRow | SourceRow | CaptionRow | TextRow
"""A row of a manifest; its status and the scenario decide whether it becomes a query or a part of the gallery."""

Perturbed = Callable[[Run, Modality], tuple[Sequence[CandidateRow], str]]
"""A function: the rows from which a run's perturbed clips or captions are taken, and the hash of their manifests."""


@dataclass(frozen=True)
class Clean:
    """The clean rows of a dataset: all listed clips, the usable captions, and the number of unusable captions."""

    sources: Sequence[SourceRow]
    captions: Sequence[CaptionRow]
    rejected: int = 0

    @property
    def listed_sha256(self) -> str:
        """A hash of what the dataset lists."""
        return listed_sha256(self.sources, self.captions)


class Retrieval(NamedTuple):
    """The queries and the gallery of a scenario, each sorted by their ids.

    Attributes:
        queries, items: their rows.
        relevant: per query, the places of its relevant items in the gallery.
        missing: how many listed queries are left out: quarantined, not accepted, or without a relevant item.
    """

    queries: list[ScenarioRow]
    items: list[ScenarioRow]
    relevant: list[list[int]]
    missing: int


def id_of(row: ScenarioRow) -> str:
    """The id of a clip, or of a caption."""
    return row.caption_id if isinstance(row, CaptionRow | TextRow) else row.item_id


def usable(rows: Sequence[CandidateRow], clean: Clean, modality: Modality) -> list[ScenarioRow]:
    """The usable rows, sorted by id: complete clips, or captions that the gate accepted, of complete sources."""
    complete = {row.item_id for row in clean.sources if row.status == COMPLETE}
    known: Sequence[ScenarioRow]
    if modality == "clips":
        known = [row for row in rows if isinstance(row, ClipRow | CompleteSource) and row.status == COMPLETE]
    else:
        known = [row for row in rows if isinstance(row, CaptionRow) or (isinstance(row, TextRow) and row.accepted)]
    return sorted((row for row in known if row.item_id in complete), key=id_of)


def batches_of_clips(clean: Clean, seed: int, size: int) -> list[list[str]]:
    """The ids of clips that are queries, in batches, in a seed's order."""
    captioned = {row.item_id for row in usable(clean.captions, clean, "captions")}
    ids = [row.item_id for row in usable(clean.sources, clean, "clips") if row.item_id in captioned]
    in_order = [ids[place] for place in places_of(ids, seed)]
    return [in_order[start : start + size] for start in range(0, len(in_order), size)]


def retrieval(
    direction: str, clips: Sequence[CandidateRow], captions: Sequence[CandidateRow], clean: Clean
) -> Retrieval:
    """Clips that ask for their captions (v2t), or captions that ask for their clips (t2v).

    `clips` and `captions` are rows of manifests, perturbed or clean. Unusable rows are left out, and so is a query
    whose items are all missing in the gallery.

    Raises `ManifestError` when no query is left.
    """
    videos, texts = usable(clips, clean, "clips"), usable(captions, clean, "captions")
    queries, items = (videos, texts) if direction == "v2t" else (texts, videos)
    places = defaultdict(list)
    for place, row in enumerate(items):
        places[row.item_id].append(place)
    answered = [row for row in queries if row.item_id in places]
    if not answered:
        raise ManifestError("no query is left: every clip is quarantined, or none has a caption")
    listed = len(clean.sources) if direction == "v2t" else len(clean.captions) + clean.rejected
    return Retrieval(answered, items, [places[row.item_id] for row in answered], listed - len(answered))


def of_run(run: Run, perturbed: Perturbed, clean: Clean) -> tuple[Retrieval, str]:
    """The retrieval of a run's scenario, and the hash of the manifests of its perturbed rows.

    Raises `ManifestError` when no query is left.
    """
    rows: dict[str, Sequence[CandidateRow]] = {"clips": clean.sources, "captions": clean.captions}
    hashes = []
    for modality, half in zip(MODALITIES, halves(run), strict=True):
        if half is not None:
            candidates, sha256 = perturbed(run, modality)
            rows[modality] = [row for row in candidates if _is_of(row, run, half)]
            hashes.append(sha256)
    return retrieval(run.direction, rows["clips"], rows["captions"], clean), " ".join(hashes)


def _is_of(row: CandidateRow, run: Run, half: Half) -> bool:
    """Whether a perturbed row belongs to a run's scenario."""
    if isinstance(row, MixRow) and run.share is not None:
        return bool(row.share == run.share)
    _, perturbation, severity = half
    if not isinstance(row, ClipRow | TextRow) or row.perturbation != perturbation:
        return False
    return run.mix is not None or row.severity == severity


def parts_of(collection: str, modality: Modality, suite: str, perturbation: str, severity: int | None) -> list[Path]:
    """The parts of perturbed clips or captions, one per shard of their collection."""
    kind, lists = ("video_part", "shard_list") if modality == "clips" else ("text_part", "caption_list")
    fields = {"dataset": collection, "suite": suite, "perturbation": perturbation, "severity": severity}
    shards = clip_lists.shards(Path(manifest_paths.folder(lists, dataset=collection)))
    return [Path(manifest_paths.at(kind, **fields, shard=shard)) for shard in shards]
