"""A split for composed retrieval as manifests, and back: queries, qrels, the pool, galleries as ranges of rows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from perturbations.base.errors import ManifestError
from perturbations.composed import labels
from perturbations.composed.audit import audit, compared
from perturbations.composed.gallery_sets import NAMES as NAMED
from perturbations.composed.gallery_sets import gallery, is_global, ranges, rows_of, summary_of
from perturbations.composed.split import (
    COMPOSED_QUERIES,
    GALLERIES,
    POOL,
    ComposedQuery,
    GalleryRow,
    PoolClip,
    Split,
    as_text,
    distinct,
    stored,
)
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import QRELS, QrelRow

_NAMES = [manifest_paths.name(f"composed_{kind}") for kind in ("galleries", "pool", "qrels", "queries")]


def labelled(split: Split) -> Split:
    """The split with the kind of each query's change: by rule where nobody says."""
    queries = tuple(
        query
        if query.change_source
        else replace(query, change=labels.kind_of(query.instruction), change_source=labels.SOURCE)
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
    from perturbations.manifest import files, sets

    split = labelled(split)
    names = names_of(split, wanted)
    described = {
        **about,
        "dataset": dataset,
        "deduplicate": deduplicate,
        "galleries": {name: summary_of(name) for name in names},
        "odd": audit(split),
        "sources": {
            "change": dict(Counter(query.change_source for query in split.queries)),
            "instruction": dict(Counter(query.instruction_source for query in split.queries)),
        },
        "official": compared(split),
    }
    texts = [(query.modified_caption, query.target_narration) for query in split.queries]
    blocks = sorted((name, [*rows]) for name, rows in split.blocks.items())
    described |= sets.together(_NAMES, [split.listed_sha256, texts, blocks, names, deduplicate])
    files.write(folder / manifest_paths.name("composed_pool"), POOL, _pool_rows(split, dataset), described)
    queries = [replace(query, dataset=dataset) for query in split.queries]
    files.write(folder / manifest_paths.name("composed_queries"), COMPOSED_QUERIES, queries, described)
    answers = [
        QrelRow(query_id=query.query_id, corpus_id=name, score=1)
        for query in queries
        for name in distinct(query.target_ids)
    ]
    files.write(folder / manifest_paths.name("composed_qrels"), QRELS, answers, described)
    rows = (row for name in names for row in _gallery_rows(split, dataset, name, deduplicate))
    files.write(folder / manifest_paths.name("composed_galleries"), GALLERIES, rows, described)


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


def _gallery_rows(split: Split, dataset: str, name: str, deduplicate: bool) -> Iterator[GalleryRow]:
    """The ranges of a gallery: the shared ones, then what each query has of its own, or has not."""

    def of(query_id: str | None, rows: Iterable[int], *, included: bool) -> Iterator[GalleryRow]:
        for first, end in ranges(sorted(rows)):
            yield GalleryRow(
                dataset=dataset, gallery=name, query_id=query_id, first_row=first, end_row=end, included=included
            )

    members = partial(gallery, split, name, deduplicate=deduplicate)
    # Nearly all rows are of all queries.
    shared: frozenset[int] = frozenset().union(*members()) if is_global(name) else frozenset()
    yield from of(None, shared, included=True)
    for query, rows in zip(split.queries, members(), strict=True):
        own = shared.difference(rows) if shared else rows
        yield from of(query.query_id, own, included=not shared)


def read(folder: Path) -> Split:
    """The split of a folder's manifests. Raises `ManifestError`, also where they are not of one run."""
    from perturbations.manifest import files, sets

    paths = [folder / name for name in _NAMES]
    for path in filter(Path.is_file, paths):
        for problem in sets.of_other_runs(path, files.read_metadata(path)):
            raise ManifestError(f"{path}: {problem}; delete them and run snakemake again")
    pool_rows = files.read_part(folder / manifest_paths.name("composed_pool"), POOL)
    listed = files.read_part(folder / manifest_paths.name("composed_queries"), COMPOSED_QUERIES)
    queries = tuple(replace(row, dataset="") for row in listed)
    pool = tuple(replace(row, dataset="", row=0, distractors=None, certain=None) for row in pool_rows)
    if not pool or not queries:
        raise ManifestError(f"{folder} holds no query: the captions allow none")
    blocks = {row.clip_id: rows_of(json.loads(row.distractors)) for row in pool_rows if row.distractors is not None}
    certain = frozenset(row.clip_id for row in pool_rows if row.certain)
    own = _official(files.read_part(folder / manifest_paths.name("composed_galleries"), GALLERIES), queries)
    return Split(pool, queries, blocks, certain, own)


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
        if query.query_id in query_ids and query.clip_id in present and present & {*query.target_ids}
    ]
    return Split(
        tuple(split.pool[row] for row in kept),
        tuple(
            replace(query, targets=as_text(name for name in query.target_ids if name in present))
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
