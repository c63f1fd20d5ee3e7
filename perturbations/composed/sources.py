"""How each adapter of datasets gives a split for composed retrieval."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from perturbations.base.errors import AnnotationError, ConfigError, did_you_mean, short
from perturbations.composed import official
from perturbations.composed.split import ComposedQuery, PoolClip, Split, as_text, stored
from perturbations.composed.split_builder import build, words_of
from perturbations.config import sections as configuration
from perturbations.corpus.plan import items
from perturbations.datasets import adapter_registry, webvid_covr
from perturbations.datasets.adapter_registry import Dataset, annotations_of
from perturbations.datasets.egocvr import clips_table_of
from perturbations.datasets.listing import Collector, Listing
from perturbations.datasets.parsing import header
from perturbations.demo import dataset as demo
from perturbations.demo.film import FamilyMember

_log = logging.getLogger("perturbations")


def gives_splits(adapter: str) -> bool:
    """Whether an adapter's datasets give splits: whether their items are, or may be, parts of longer videos."""
    declared = adapter_registry.get(adapter)
    return _is_annotated(adapter) or declared is demo.ADAPTER or bool(declared.spans)


def files_of(dataset: Dataset) -> tuple[Path, ...]:
    """The files that a dataset's split is made from."""
    files = () if dataset.annotations is None else (dataset.annotations,)
    return (*files, *adapter_registry.get(dataset.adapter).further_files(dataset))


def read_split(dataset: Dataset, listing: Listing, seed: int, name: str) -> Split:
    """The split of a dataset, read or built; random choices depend on the seed and the dataset's name."""
    if dataset.adapter == "egocvr":
        return official.read(annotations_of(dataset), clips_table_of(dataset))
    if adapter_registry.get(dataset.adapter).queries is not None:
        return _of_entries(dataset, listing)
    if dataset.adapter == demo.ADAPTER.name:
        return _of_families(dataset, listing)
    return _of_spans(listing, seed, name)


def check(config: configuration.Config, name: str) -> None:
    """Raise `ConfigError` where a dataset has no split for composed retrieval."""
    if reason := _refusal(config.datasets[name]):
        key = f"datasets.{name}"
        raise ConfigError(config.places.before(key, f"{key}: no composed retrieval: {reason}"))


def _is_annotated(adapter: str) -> bool:
    """Whether the adapter's annotations are a split."""
    return adapter == "egocvr" or adapter_registry.get(adapter).queries is not None


def _refusal(dataset: Dataset) -> str | None:
    declared = adapter_registry.get(dataset.adapter)
    if _is_annotated(dataset.adapter):
        lacking = [path for path in declared.further_files(dataset) if not path.is_file()]
        return f"there is no {lacking[0]}, which its annotations need" if lacking else None
    if declared is demo.ADAPTER:
        drawn = "its scenes differ in every respect; `families: true` draws those for it"
        return None if demo.families(dataset) else drawn
    if declared.spans:
        return None if dataset.has_spans else declared.whole
    return f"the adapter '{dataset.adapter}' has whole videos, and a split needs several clips of each video"


def _pool(listing: Listing) -> tuple[PoolClip, ...]:
    """The listed items as clips. The first caption of each is its narration."""
    return tuple(
        PoolClip(
            clip_id=item.item_id,
            video_id=item.source_video_id,
            narration=item.texts[0] if item.texts else "",
            start_s=item.start_s,
            end_s=item.end_s,
        )
        for item in listing.items
    )


def _of_spans(listing: Listing, seed: int, name: str) -> Split:
    """The split of items that are parts of longer videos, with the tagger and the lemmas that work offline."""
    from perturbations.models import role_registry as models

    tagger, inflector = models.load("tagger", "offline"), models.load("inflector", "offline")
    return build(_pool(listing), partial(words_of, tagger=tagger, lemma=inflector.lemma), seed=seed, dataset=name)


# --- annotated queries ----------------------------------------------------------------------------------------------


def _of_entries(dataset: Dataset, listing: Listing) -> Split:
    """The split of annotations that have the queries, over all listed clips.

    Queries that cannot be used are logged; raises `AnnotationError` where none is left.
    """
    adapter, path = adapter_registry.get(dataset.adapter), annotations_of(dataset)
    assert adapter.queries is not None
    pool = _pool(listing)
    row_of = {clip.clip_id: row for row, clip in enumerate(pool)}
    collector, queries, galleries = Collector(path), list[ComposedQuery](), list[Sequence[int]]()
    for entry in adapter.queries(dataset, collector):
        if unlisted := [name for name in (entry.source, *entry.targets) if name not in row_of]:
            collector.reject(entry.where, entry.query_id, f"{short(unlisted[0])} is no listed clip")
            continue
        queries.append(
            ComposedQuery(
                query_id=entry.query_id,
                clip_id=entry.source,
                targets=as_text(entry.targets),
                instruction=entry.instruction,
                narration=pool[row_of[entry.source]].narration,
                target_narration=pool[row_of[entry.targets[0]]].narration,
                modified_caption=entry.modified_caption,
                instruction_source="official",
                caption_source="official" if entry.modified_caption else "",
                category=entry.category,
            )
        )
        if entry.gallery:
            galleries.append(stored(sorted({row_of[name] for name in entry.gallery if name in row_of})))
    for rejected in collector.rejected:
        _log.warning("%s: not a query: %s", path, rejected.reason)
    if not queries:
        raise AnnotationError(f"{path} lists no query")
    if own := [query.query_id for query in queries if {*query.target_ids} == {query.clip_id}]:
        _log.warning("%s: %d queries have no target but their own clip, the first %s", path, len(own), short(own[0]))
    return Split(
        pool,
        tuple(queries),
        {},
        galleries={"candidates": galleries} if galleries else {},
        gallery=adapter.gallery(dataset) if callable(adapter.gallery) else adapter.gallery,
        source_in_gallery=adapter.source_in_gallery,
    )


# --- synthetic families ---------------------------------------------------------------------------------------------

_DRAWN = "drawn"


def _of_families(dataset: Dataset, listing: Listing) -> Split:
    """Every pair of a family that differs in one thing; each query retrieves from its whole family."""
    listed = {item.item_id for item in listing.items}
    members = [member for member in demo.families(dataset) if member.item_id in listed]
    pool = tuple(
        PoolClip(
            clip_id=member.item_id,
            video_id=f"family-{member.family:04d}",
            narration=member.caption,
            start_s=member.start_s,
            end_s=member.end_s,
        )
        for member in members
    )
    blocks = {
        clip.clip_id: tuple(
            row for row, other in enumerate(pool) if other.video_id == clip.video_id and other.clip_id != clip.clip_id
        )
        for clip in pool
    }
    return Split(pool, tuple(_queries(members)), blocks, frozenset(blocks))


def _queries(members: Sequence[FamilyMember]) -> Iterator[ComposedQuery]:
    for query in members:
        for target in members:
            moves, coloured = query.motion != target.motion, query.colour != target.colour
            if query.family != target.family or moves == coloured:
                continue
            old, new = (query.motion, target.motion) if moves else (query.colour, target.colour)
            yield ComposedQuery(
                query_id=f"{query.item_id}:{target.item_id}",
                clip_id=query.item_id,
                targets=as_text([target.item_id]),
                instruction=f"Now it {new} instead." if moves else f"Make it {new} instead.",
                narration=query.caption,
                target_narration=target.caption,
                modified_caption=query.caption.replace(old, new, 1),
                change="temporal" if moves else "object",
                change_source=_DRAWN,
                instruction_source=_DRAWN,
            )


def of_file(
    path: Path, adapter: str | None = None, columns: Mapping[str, str] | None = None, pool: Path | None = None
) -> Split:
    """The split of an annotation file.

    Args:
        path: the file.
        adapter: the adapter that reads it; None: EgoCVR's, or WebVid-CoVR's where it has those columns.
        columns: what the table of `composed_table` calls the columns.
        pool: the table of all clips, where galleries have more than the queries name.

    Raises `AnnotationError`, and `ConfigError` for an adapter that has no composed queries, or unknown columns.
    """
    if adapter is None:
        names = {*header(path)}
        if names.issuperset(official.TEXTS):
            return official.read(path)
        if not names.issuperset(webvid_covr.COLUMNS.required):
            raise AnnotationError(
                f"{path} has neither EgoCVR's nor WebVid-CoVR's columns: `--adapter` says who reads it, and "
                "`--adapter composed_table --columns source=... targets=... instruction=...` reads any table"
            )
        adapter = "webvid_covr"
    known = [name for name in adapter_registry.adapters() if _is_annotated(name)]
    if adapter not in known:
        hint = f"choose of {', '.join(known)}{did_you_mean(adapter, known)}"
        raise ConfigError(f"--adapter {short(adapter)}: its annotations have no composed queries; {hint}")
    settings: dict[str, Any] = {"adapter": adapter, "annotations": path, "videos": Path()}
    declared = adapter_registry.get(adapter)
    if columns and "columns" not in declared.takes:
        raise ConfigError(f"--columns: the columns of {adapter} are known; `--adapter composed_table` takes others")
    settings |= {"columns": dict(columns)} if columns else {}
    settings |= {"pool": pool} if pool else {}
    try:
        dataset = declared.settings.model_validate(settings)
    except ValidationError as error:
        (first, *_) = error.errors()
        raise ConfigError(f"--adapter {adapter}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return read_split(dataset, items.read(adapter, dataset, videos=False), 0, adapter)
