"""A split for composed retrieval as manifests, and back: queries, qrels, the pool, galleries as rows of the pool."""

from __future__ import annotations

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Literal

import numpy as np

from perturbations.base.errors import ManifestError
from perturbations.composed.audit import compared
from perturbations.composed.gallery_sets import NAMES as NAMED
from perturbations.composed.gallery_sets import WITH_SOURCE, gallery, is_global, ranges, rows_of, summary_of
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
_GALLERY, _SOURCE_IN_GALLERY = "authors_gallery", "source_in_gallery"
"""In the metadata: fields of `Split`."""


def names_of(
    split: Split, wanted: Sequence[str], source_in_gallery: bool | Literal["both"] | None = None
) -> tuple[str, ...]:
    """The galleries that are evaluated: those of the dataset win, and come before the configured ones.

    `source_in_gallery` says whether the query's own clip is in them; None: as the dataset's authors have it. The names
    of galleries with it end in `WITH_SOURCE`.
    """
    own = [split.gallery] if split.gallery else []
    return named([*split.galleries, *own, *wanted], split, source_in_gallery)


def named(
    names: Sequence[str], split: Split, source_in_gallery: bool | Literal["both"] | None = None
) -> tuple[str, ...]:
    """The names of galleries without the query's own clip, with it, or both, each once; see `names_of`."""
    in_gallery = split.source_in_gallery if source_in_gallery is None else source_in_gallery
    endings = {True: [WITH_SOURCE], False: [""], "both": ["", WITH_SOURCE]}[in_gallery]
    return tuple(distinct(name + ending for name in names for ending in endings))


def write(
    split: Split,
    folder: Path,
    dataset: str,
    wanted: Sequence[str],
    about: Mapping[str, object],
) -> None:
    """Write a split's manifests. `about` is their metadata; what the galleries are is added.

    `wanted` names galleries. The rows of those that the dataset brings, and of local ones, are written; a global one is
    every clip of the pool that its name says.
    """
    from perturbations.manifest import files, sets

    names = names_of(split, wanted, source_in_gallery=False)
    described = {
        **about,
        "dataset": dataset,
        "galleries": {name: summary_of(name) for name in names},
        "brought": [*split.galleries],
        _GALLERY: split.gallery,
        _SOURCE_IN_GALLERY: split.source_in_gallery,
        "sources": {
            "change": dict(Counter(query.change_source for query in split.queries)),
            "instruction": dict(Counter(query.instruction_source for query in split.queries)),
        },
        "official": compared(split),
    }
    texts = [(query.modified_caption, query.target_narration) for query in split.queries]
    blocks = sorted((name, [*rows]) for name, rows in split.blocks.items())
    described |= sets.together(_NAMES, [split.listed_sha256, texts, blocks, names])
    files.write(folder / manifest_paths.name("composed_pool"), POOL, _pool_rows(split, dataset), described)
    queries = [replace(query, dataset=dataset) for query in split.queries]
    files.write(folder / manifest_paths.name("composed_queries"), COMPOSED_QUERIES, queries, described)
    answers = [
        QrelRow(query_id=query.query_id, corpus_id=name, score=1)
        for query in queries
        for name in distinct(query.target_ids)
    ]
    files.write(folder / manifest_paths.name("composed_qrels"), QRELS, answers, described)
    kept = [name for name in names if name in split.galleries or not is_global(name)]
    rows = (row for name in kept for row in _gallery_rows(split, dataset, name))
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


def _gallery_rows(split: Split, dataset: str, name: str) -> Iterator[GalleryRow]:
    """The rows of a gallery: of a global one the shared rows, which are nearly all, then where each query differs."""
    shared = np.empty(0, np.int32)
    if is_global(name):
        shared = reduce(np.union1d, _as_brought(split, name), shared).astype(np.int32)
        yield GalleryRow(dataset=dataset, gallery=name, rows=array("i", shared.tobytes()))
    for query, rows in zip(split.queries, _as_brought(split, name), strict=True):
        differing = array("i", np.setxor1d(shared, np.asarray(rows, np.int32)).astype(np.int32).tobytes())
        yield GalleryRow(dataset=dataset, gallery=name, query_id=query.query_id, rows=differing)


def _as_brought(split: Split, name: str) -> Iterable[Sequence[int]]:
    return split.galleries[name] if name in split.galleries else gallery(split, name)


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
    own = _brought(files.read_part(folder / manifest_paths.name("composed_galleries"), GALLERIES), queries)
    about = files.read_metadata(folder / manifest_paths.name("composed_queries"))
    return Split(
        pool,
        queries,
        blocks,
        certain,
        own,
        gallery=str(about.get(_GALLERY, "")),
        source_in_gallery=about.get(_SOURCE_IN_GALLERY) is True,
    )


def _brought(rows: Sequence[GalleryRow], queries: Sequence[ComposedQuery]) -> dict[str, list[Sequence[int]]]:
    """The galleries that the dataset brought, of each query."""
    held: defaultdict[str, dict[str | None, array[int]]] = defaultdict(dict)
    for row in rows:
        if row.gallery not in NAMED:
            held[row.gallery][row.query_id] = row.rows
    galleries: dict[str, list[Sequence[int]]] = {}
    for name, members in held.items():
        shared = members.get(None)
        own: list[Sequence[int]] = [members.get(query.query_id, stored(())) for query in queries]
        if shared is not None:
            own = [stored(np.setxor1d(shared, some).tolist()) for some in own]
        galleries[name] = own
    return galleries


def restricted(split: Split, present: frozenset[str], query_ids: frozenset[str]) -> Split:
    """The split of the clips that there are, by their names, and of those queries, by their ids.

    A query without its clip, or without any target, is left out too; so are the targets that there are not.
    """
    if present >= {*split.rows_of} and query_ids >= {query.query_id for query in split.queries}:
        return split
    kept = [row for row, clip in enumerate(split.pool) if clip.clip_id in present]
    places = np.full(len(split.pool), -1, np.int32)
    places[kept] = np.arange(len(kept))

    def placed(rows: Sequence[int]) -> Sequence[int]:
        own = places[np.asarray(rows, np.int32)]
        return array("i", own[own >= 0].tobytes())

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
        {name: tuple(placed(rows)) for name, rows in split.blocks.items() if name in present},
        split.certain & present,
        {name: [placed(members[number]) for number in chosen] for name, members in split.galleries.items()},
        split.gallery,
        split.source_in_gallery,
    )
