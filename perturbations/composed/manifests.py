"""A split for composed retrieval as manifests, and back: queries, qrels, the pool, galleries as ranges of rows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from perturbations.base.errors import ManifestError
from perturbations.composed import labels
from perturbations.composed.audit import audit, compared
from perturbations.composed.gallery_sets import NAMES as NAMED
from perturbations.composed.gallery_sets import ComposedGallery, gallery, is_global, ranges, rows_of, summary_of
from perturbations.composed.modifications import ComposedQuery, PoolClip, Split, distinct, stored
from perturbations.composed.rows import COMPOSED_QUERIES, GALLERIES, POOL, ComposedQueryRow, GalleryRow
from perturbations.manifest import layout
from perturbations.manifest.kinds import QRELS, QrelRow

_SHARED = (
    *("query_id", "instruction", "narration", "target_narration", "modified_caption"),
    *("instruction_source", "caption_source"),
)
"""What a query and its row call alike."""


def labelled(split: Split) -> Split:
    """The split with the kind of each query's change: by rule where nobody says."""
    queries = tuple(
        query if query.kind else replace(query, kind=labels.kind_of(query.instruction), kind_source=labels.SOURCE)
        for query in split.queries
    )
    return replace(split, queries=queries)


def names_of(split: Split, wanted: Sequence[str]) -> tuple[str, ...]:
    """The galleries that are evaluated: those that the dataset brings win, and stand before the wanted ones."""
    return tuple(distinct([*split.galleries, *wanted]))


def write(
    split: Split,
    folder: Path,
    dataset: str,
    wanted: Sequence[str],
    about: Mapping[str, object],
    *,
    deduplicate: bool = False,
) -> None:
    """Write a split's manifests. `about` is their metadata; what the galleries are and what is odd is added.

    `wanted` names galleries; those that the dataset brings are always written too. With `deduplicate`, distractors that
    show the query's or a target's moment are left out.
    """
    from perturbations.manifest import files

    split = labelled(split)
    names = names_of(split, wanted)
    galleries = {name: gallery(split, name, deduplicate=deduplicate) for name in names}
    described = {
        **about,
        "dataset": dataset,
        "deduplicate": deduplicate,
        "galleries": {name: summary_of(name) for name in names},
        "odd": audit(split),
        "sources": {
            "change": dict(Counter(query.kind_source for query in split.queries)),
            "instruction": dict(Counter(query.instruction_source for query in split.queries)),
        },
        "official": [asdict(comparison) for comparison in compared(split)],
    }
    pool = _pool_rows(split, dataset)
    files.write(folder / layout.name("composed_pool"), POOL, pool, described)
    queries = list(_query_rows(split, dataset))
    files.write(folder / layout.name("composed_queries"), COMPOSED_QUERIES, queries, described)
    files.write(folder / layout.name("composed_qrels"), QRELS, qrels(queries), described)
    rows = (row for name, members in galleries.items() for row in _gallery_rows(split, dataset, name, members))
    files.write(folder / layout.name("composed_galleries"), GALLERIES, rows, described)


def _pool_rows(split: Split, dataset: str) -> list[PoolClip]:
    # The first row of a target's name says which distractors it has.
    targets = {split.rows_of[name][0] for name in split.blocks}
    return [
        replace(
            clip,
            dataset=dataset,
            row=row,
            distractors=json.dumps(ranges(split.blocks[clip.clip_id])) if row in targets else None,
            certain=clip.clip_id in split.certain if row in targets else None,
        )
        for row, clip in enumerate(split.pool)
    ]


def _query_rows(split: Split, dataset: str) -> Iterator[ComposedQueryRow]:
    for query in split.queries:
        assert query.kind
        yield ComposedQueryRow(
            dataset=dataset,
            clip_id=query.clip,
            targets=json.dumps(query.targets, ensure_ascii=False),
            change=query.kind,
            change_source=query.kind_source,
            **{name: getattr(query, name) for name in _SHARED},
        )


def qrels(rows: Iterable[ComposedQueryRow]) -> list[QrelRow]:
    """Which clips answer each query, each once."""
    return [
        QrelRow(query_id=row.query_id, corpus_id=name, score=1)
        for row in rows
        for name in distinct(_query(row).targets)
    ]


def _gallery_rows(split: Split, dataset: str, name: str, members: ComposedGallery) -> Iterator[GalleryRow]:
    """The ranges of a gallery: the shared ones, then what each query has of its own, or has not."""

    def of(query_id: str | None, rows: Iterable[int], *, included: bool) -> Iterator[GalleryRow]:
        for first, end in ranges(sorted(rows)):
            yield GalleryRow(
                dataset=dataset, gallery=name, query_id=query_id, first_row=first, end_row=end, included=included
            )

    shared = frozenset(members.shared)
    common: Sequence[int] = members.shared
    if not shared and is_global(name):
        # The dataset's own: nearly all rows of all queries.
        shared = frozenset().union(*members)
        common = sorted(shared)
    yield from of(None, common, included=True)
    for place, query in enumerate(split.queries):
        if members.shared:
            yield from of(query.query_id, shared & {*members.left_out(place)}, included=False)
        elif shared:
            yield from of(query.query_id, shared - {*members[place]}, included=False)
        else:
            yield from of(query.query_id, members[place], included=True)


def read(folder: Path) -> tuple[Split, str]:
    """The split of a folder's manifests, and the dataset's name. Raises `ManifestError`."""
    from perturbations.manifest import files

    pool_rows = files.read_part(folder / layout.name("composed_pool"), POOL)
    queries = tuple(_query(row) for row in files.read_part(folder / layout.name("composed_queries"), COMPOSED_QUERIES))
    pool = tuple(replace(row, dataset="", row=0, distractors=None, certain=None) for row in pool_rows)
    if not pool or not queries:
        raise ManifestError(f"{folder} holds no query: the captions allow none")
    blocks = {row.clip_id: rows_of(json.loads(row.distractors)) for row in pool_rows if row.distractors is not None}
    certain = frozenset(row.clip_id for row in pool_rows if row.certain)
    split = Split(pool, queries, blocks, certain)
    own = _official(files.read_part(folder / layout.name("composed_galleries"), GALLERIES), queries)
    return replace(split, galleries=own), pool_rows[0].dataset


def _query(row: ComposedQueryRow) -> ComposedQuery:
    return ComposedQuery(
        clip=row.clip_id,
        targets=tuple(json.loads(row.targets)),
        kind=row.change,
        kind_source=row.change_source,
        **{name: getattr(row, name) for name in _SHARED},
    )


def _official(rows: Sequence[GalleryRow], queries: Sequence[ComposedQuery]) -> dict[str, list[Sequence[int]]]:
    """The galleries that the dataset brought, of each query."""
    held: defaultdict[str, defaultdict[str | None, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        if row.gallery not in NAMED:
            held[row.gallery][row.query_id].update(range(row.first_row, row.end_row))
    # Absent rows are shared ones, which no query is named for; others are not.
    return {
        name: [stored(sorted(members[None] ^ members[query.query_id])) for query in queries]
        for name, members in held.items()
    }


def restricted(split: Split, present: frozenset[str], query_ids: frozenset[str]) -> Split:
    """The split of the clips that there are, by their names, and of those queries, by their ids.

    A query without its clip, or without any target, is left out too; so are the targets that there are not.
    """
    if present >= {*split.rows_of} and query_ids >= {query.query_id for query in split.queries}:
        return split
    kept = [row for row, clip in enumerate(split.pool) if clip.clip_id in present]
    place = {row: number for number, row in enumerate(kept)}
    chosen = [
        number
        for number, query in enumerate(split.queries)
        if query.query_id in query_ids and query.clip in present and present & {*query.targets}
    ]
    return Split(
        tuple(split.pool[row] for row in kept),
        tuple(
            replace(query, targets=tuple(name for name in query.targets if name in present))
            for query in (split.queries[number] for number in chosen)
        ),
        {
            name: tuple(place[row] for row in rows if row in place)
            for name, rows in split.blocks.items()
            if name in present
        },
        split.certain & present,
        {
            name: [tuple(place[row] for row in members[number] if row in place) for number in chosen]
            for name, members in split.galleries.items()
        },
    )
