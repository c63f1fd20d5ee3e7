"""Whether results on a corpus compare with published ones, from its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from perturbations.base import shown
from perturbations.corpus.plan import recipe
from perturbations.corpus.store.clip_rows import offline_roles
from perturbations.corpus.tally import Tally
from perturbations.manifest.rows import ClipRow, TextRow
from perturbations.manifest.sets import ids_sha256
from perturbations.models import role_registry as models
from perturbations.suites import published_cells as tables
from perturbations.suites import suite_registry

_LEAST_DB = 40.0
"""The PSNR of stored against intended frames below which results are of other videos: that of the profile `high`."""

_TABLES_OF = "released"
"""The variant that made the published tables: the authors' code."""
_AS_STORED = {"msrvtt_p": "video/released", "mm_robustness": "video/jpeg"}
"""How the authors stored their videos or pictures, where they did so with loss."""


def verdict(videos: Tally, texts: Tally, *, adapter: str) -> str:
    """Whether results on these rows of one corpus are comparable with published ones, in one sentence.

    It asks whether retrieval under these perturbations and severities was published for the dataset at all, for which
    split, and how these rows differ from what was measured: variant, storage, stand-ins, parameters. The model, which
    a corpus does not know, must be the papers' too.
    """
    first = videos.first or texts.first
    if first is None:
        return "not comparable with anything: nothing was made"
    # A dataset has videos or pictures.
    is_image = videos.has_pictures or _cells(first.suite, "image", adapter)
    every = {"image" if is_image else "video": videos, "text": texts}
    tallies = {name: tally for name, tally in every.items() if tally.rows}
    reasons = [
        *(reason for modality, tally in tallies.items() for reason in _unpublished(tally, modality, adapter)),
        *_split(videos, texts, adapter),
        *differences(videos, texts),
    ]
    if reasons:
        return f"not comparable with published numbers: {'; '.join(dict.fromkeys(reasons))}"
    papers = dict.fromkeys(tables.PAPERS[cell.paper] for cell in _cells(first.suite, next(iter(tallies)), adapter))
    return f"comparable with published numbers of {' and '.join(papers)}, of the same model and weights"


def _cells(suite: str, modality: str, adapter: str) -> list[tables.Published]:
    return [cell for cell in tables.retrieval_of(suite, modality) if cell.dataset == adapter]


def differences(videos: Tally, texts: Tally) -> list[str]:
    """How perturbed rows differ from what the authors made: variant, storage, stand-ins, guides, parameters."""
    clips, captions = list(videos.distinct.values()), list(texts.distinct.values())
    every: list[ClipRow | TextRow] = [*clips, *captions]
    rows = [row for row in every if row.variant is not None]  # clean clips have none
    return [
        *_variant(rows),
        *_storage(videos),
        *_stand_ins(clips, captions),
        *sorted({text for row in clips for text in _guide(row, own_donors=videos.has_own_donors)}),
        *_parameters(rows),
    ]


def _unpublished(tally: Tally, modality: str, adapter: str) -> Iterator[str]:
    """The reason where no published table reports this dataset, or none of these perturbations at these severities."""
    suite = tally.first.suite
    what = {"image": "images", "video": "videos", "text": "captions"}[modality]
    measured = dict.fromkeys(cell.dataset for cell in tables.retrieval_of(suite, modality))
    if not measured:
        of_images = modality == "video" and tables.retrieval_of(suite, "image")
        yield f"no retrieval with {what} of {suite} was published" + (", only with images" if of_images else "")
    elif adapter not in measured:
        yield f"retrieval with {what} of {suite} was published for {', '.join(measured)}, not for {adapter}"
    elif {(row.perturbation, row.severity) for row in tally.distinct.values()}.isdisjoint(
        _scenarios(suite, modality, adapter)
    ):
        yield f"no retrieval with {what} of {suite} at these severities was published for {adapter}"


def _scenarios(suite: str, modality: str, adapter: str) -> set[tuple[str, int | None]]:
    """The perturbations and severities that published tables report."""
    parts = (part for cell in _cells(suite, modality, adapter) for part in json.loads(cell.parts or "[]"))
    return {
        (more[0], more[1]) if modality == "text" and any(more[:1]) else (name, severity)
        for part in parts
        for _, name, severity, *more in part["runs"]
    }


def _split(videos: Tally, texts: Tally, adapter: str) -> Iterator[str]:
    """How the listed items differ from the published split, and how many of them are not complete.

    Nothing where no split was published.
    """
    published = tables.SPLITS.get(adapter)
    if published is None:
        return
    items, captions = videos.items | texts.items, len(texts.captions)
    expected = published.get(len(items))
    if expected is None:
        printed = " or ".join(f"{number:,}" for number in published)
        yield f"{len(items):,} items are listed, and the published split of {adapter} has {printed}"
    elif captions not in (0, expected):
        yield f"{captions:,} captions are listed, and the published split of {adapter} has {expected:,}"
    elif problem := tables.other_items(adapter, len(items), ids=ids_sha256(items)):
        yield problem
    if lacking := {row.item_id for row in videos.failed}:
        yield f"{len(lacking):,} of {len(items):,} clips are missing under at least one perturbation"


def _variant(rows: Sequence[ClipRow | TextRow]) -> Iterator[str]:
    """The perturbations that differ between the rows' variant and the authors' code."""
    differing: dict[str, set[str]] = {}
    for row in rows:
        entry = suite_registry.get(f"{row.suite}/{row.perturbation}")
        own, theirs = (entry.others.get(str(variant), entry) for variant in (row.variant, _TABLES_OF))
        if own is not theirs:
            differing.setdefault(str(row.variant), set()).add(entry.name)
    for variant, names in sorted(differing.items()):
        listed = ", ".join(sorted(names))
        yield f"the variant is {shown.name(variant)}; the authors' code makes these otherwise: {listed}"


def _storage(videos: Tally) -> Iterator[str]:
    lossy = {
        storage: low
        for (suite, storage), values in videos.losses.items()
        if storage != _AS_STORED.get(suite) and (low := [value for value in values if value < _LEAST_DB])
    }
    if lossy:
        values = [value for low in lossy.values() for value in low]
        yield (
            f"stored with loss ({shown.name(', '.join(sorted(lossy)))}): {min(values):.1f} to {max(values):.1f} dB "
            f"against the intended frames, in {len(values):,} of {videos.rows:,} videos"
        )


def _stand_ins(videos: Sequence[ClipRow], texts: Sequence[TextRow]) -> Iterator[str]:
    pairs = {(row.perturbation, role) for row in videos for role in offline_roles(row.backend)}
    for text in {row.recipe for row in texts}:
        parsed = recipe.recorded_text(text)
        offline = (
            role for role in suite_registry.get(parsed.key).makers if parsed.players.get(role) in models.stand_ins()
        )
        pairs |= {(parsed.perturbation, role) for role in offline}
    if pairs:
        listed = ", ".join(f"{shown.name(name)} ({shown.name(role)})" for name, role in sorted(pairs))
        yield f"offline backends made {listed}"
    named = {name for name, _ in pairs}
    limits = {row.perturbation: suite_registry.get(f"{row.suite}/{row.perturbation}").not_comparable for row in texts}
    yield from (
        f"offline, {shown.name(name)} {limit}" for name, limit in sorted(limits.items()) if limit and name in named
    )


def _guide(row: ClipRow, *, own_donors: bool) -> Iterable[str]:
    """How a guide differs from the authors': donors are from the dataset itself, or style pictures are generated."""
    guide = recipe.recorded(row.recipe).guide_recipe if row.recipe and row.guide else None
    return () if guide is None else guide.differences(own_donors=own_donors)


def _parameters(rows: Sequence[ClipRow | TextRow]) -> Iterator[str]:
    if own := {str(row.perturbation) for row in rows if not recipe.is_published(row)}:
        yield f"parameters are not the published ones: {', '.join(sorted(own))}"
