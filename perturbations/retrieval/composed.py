"""Composed retrieval: (clip, instruction) -> target clips, each query in a gallery of its own (EgoCVR).

Hummel, Karthik et al., EgoCVR, ECCV 2024 (arXiv 2407.16658), Sec. 5 and Tab. 1 to 3: R@1/5/10 among all clips, R@1/2/3
among those near the query, and the ways to use the two halves of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from perturbations.retrieval.matrices import Scores2D
from perturbations.retrieval.scoring import feature_rows, products, unit

Half = Literal["text", "visual", "average"]
Average = Literal["released", "unit"]
HALVES: tuple[Half, ...] = get_args(Half)
AVERAGES: tuple[Average, ...] = get_args(Average)
SHORTLIST = 15
"""Clips that the first of two stages keeps: EgoCVR, Sec. 5.2."""
GLOBAL_KS, LOCAL_KS = (1, 5, 10), (1, 2, 3)
NOT_RETRIEVED, SKIPPED = 0, -1
FEWEST = 2
"""Clips in a gallery: in one of a single clip there is nothing to choose, and the released code skips the query."""

_Floats = NDArray[np.float32]


def composed_scores(
    half: Half,
    gallery: Scores2D,
    *,
    visual: Scores2D | None = None,
    text: Scores2D | None = None,
    average: Average = "released",
) -> Iterator[_Floats]:
    """The cosine similarities of each query with all clips, float32 (N,), query by query, as `composed_places` takes.

    Args:
        half: what is compared of a query: its "visual" or its "text" half, or the "average" of both.
        gallery: features of the clips, N x D, as stored.
        visual: features of the queries' clips, queries x D.
        text: features of their words, queries x D.
        average: "released" adds the clip's features as stored to the words' of unit length, as the authors' code
            does, so that long features outweigh the words; "unit" brings both to unit length first.

    Scores are float32, as the released code computes them.
    Raises ValueError for unknown choices, missing features, values that are not finite, or shapes that do not fit.
    """
    if half not in HALVES or average not in AVERAGES:
        raise ValueError(f"no {half!r} with {average!r}; choose one of {', '.join(HALVES)}; {', '.join(AVERAGES)}")
    clips = feature_rows(gallery, "the gallery")
    parts: dict[str, _Floats] = {}
    for name, values in (("visual", visual), ("text", text)):
        if half in (name, "average"):
            if values is None:
                raise ValueError(f"{half!r} needs the queries' {name} features")
            parts[name] = feature_rows(values, f"the queries' {name} features")
    shapes = {name: rows.shape for name, rows in parts.items()}
    if len({*shapes.values()}) > 1 or any(width != clips.shape[1] for _, width in shapes.values()):
        raise ValueError(f"the queries' features are {shapes}; expected as many of both, {clips.shape[1]} numbers each")
    if half == "average":
        clip = parts["visual"] if average == "released" else unit(parts["visual"])
        query = (clip + unit(parts["text"])) / np.float32(2)
    else:
        query = parts[half]
    return (row for _, block in products(unit(query), unit(clips)) for row in block)


def composed_places(
    scores: Iterable[Scores2D],
    galleries: Mapping[str, Sequence[Scores2D]],
    targets: Sequence[Sequence[int]],
    *,
    first: Iterable[Scores2D] | None = None,
    shortlist: int = SHORTLIST,
    kept: Callable[[str, int, NDArray[np.int64], _Floats], None] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """The place of each query's best target among its candidates, int64 (queries,), by gallery.

    A place counts from 1. It is 0 where no target was retrieved: none is among the candidates, or all are outside of
    the shortlist; and -1 where a query has fewer than two candidates and is skipped, as the released code does.

    Args:
        scores: of each query its similarity with every clip: `composed_scores`, or a matrix queries x N.
        galleries: each query's candidates, positions among the clips, by the galleries' names. A position may repeat,
            and then counts as often.
        targets: each query's targets, positions among the clips; the best one counts.
        first: the same as `scores` of a first stage, which keeps the `shortlist` candidates that it ranks first.
        shortlist: how many candidates the first stage keeps.
        kept: is called with a gallery's name, a query's place, its ranked candidates and their scores.

    Ties are broken against the model.
    Raises ValueError for positions outside of the gallery, or numbers of queries or clips that do not fit.
    """
    if shortlist < 1:
        raise ValueError(f"a shortlist has at least one clip, not {shortlist}")
    for candidates in galleries.values():
        if len(targets) != len(candidates):
            raise ValueError(f"targets of {len(targets)} queries, and candidates of {len(candidates)}")
    places = {name: np.empty(len(targets), np.int64) for name in galleries}
    stages = zip(scores, repeat(None, len(targets)) if first is None else first, targets, strict=True)
    for query, (row, of_first, own_targets) in enumerate(stages):
        own = np.asarray(row)
        is_target = np.zeros(len(own), bool)
        is_target[_positions(own_targets, len(own), f"targets of query {query}")] = True
        if of_first is not None and len(of_first) != len(own):
            raise ValueError(f"the first stage has {len(of_first)} clips, the second {len(own)}")
        for name, candidates in galleries.items():
            positions = _positions(candidates[query], len(own), f"candidates of query {query}")
            if len(positions) < FEWEST:
                places[name][query] = SKIPPED
                continue
            if of_first is not None:
                positions = _shortlisted(positions, np.asarray(of_first), is_target, shortlist)
            places[name][query] = _place(own[positions], is_target[positions])
            if kept is not None:
                kept(name, query, positions, own[positions])
    return places


def _place(scores: _Floats, is_target: NDArray[np.bool_]) -> int:
    """The place of the best target, from 1, behind all others of its score; 0 where there is none."""
    if not is_target.any():
        return NOT_RETRIEVED
    return 1 + int(np.count_nonzero(~is_target & (scores >= scores[is_target].max())))


def _shortlisted(
    positions: NDArray[np.int64], scores: _Floats, is_target: NDArray[np.bool_], size: int
) -> NDArray[np.int64]:
    """The positions with the highest scores, at most `size`; of equal scores, targets come last."""
    if len(positions) <= size:
        return positions
    own = scores[positions]
    least = np.partition(own, len(own) - size)[len(own) - size]
    best, equal = positions[own > least], positions[own == least]
    equal = equal[np.argsort(is_target[equal], kind="stable")]
    return np.concatenate([best, equal[: size - len(best)]])


def chance(sizes: Sequence[int], num_targets: Sequence[int], k: int) -> float:
    """R@k of random orders, in percent: the mean over queries of the chance that a target is among the first k.

    `sizes` and `num_targets` count each query's candidates and the targets among them.
    """
    hits = []
    for size, count in zip(sizes, num_targets, strict=True):
        first = min(k, size)
        misses = np.prod([(size - count - draw) / (size - draw) for draw in range(first)]) if size - count > 0 else 0.0
        hits.append(0.0 if count == 0 else 1.0 - max(float(misses), 0.0))
    return 100 * float(np.mean(hits))


def average_precisions(
    scores: Scores2D, is_target: Scores2D, ks: Sequence[int], num_targets: int
) -> NDArray[np.float64]:
    """The average precision of a query at each k, float64 (len(ks),), from 0 to 1: their means over queries are mAP@k.

    The sum of the precisions at the places of the targets among the first k, over min(num_targets, k).

    Args:
        scores: of the candidates, (N,).
        is_target: which of them are targets, (N,). Of equal scores, targets come last.
        ks: how far each value looks.
        num_targets: how many targets the query has; 0 gives zeros.

    Source: TF-CoVR (arXiv 2506.05274), whose gallery may repeat a target: it then counts as often.
    """
    own, hits = np.asarray(scores), np.asarray(is_target, bool)
    most = min(max(ks), len(own))
    if not (num_targets and most):
        return np.zeros(len(ks))
    near = np.flatnonzero(own >= np.partition(own, len(own) - most)[len(own) - most])
    order = near[np.lexsort((hits[near], -own[near]))][:most]
    hit = hits[order]
    precisions = np.where(hit, np.cumsum(hit) / np.arange(1, most + 1), 0.0)
    return np.array([precisions[:k].sum() / min(num_targets, k) for k in ks])


def chance_of_map(sizes: Sequence[int], num_targets: Sequence[int], k: int) -> float:
    """mAP@k of random orders, in percent: the mean over queries of the expected average precision.

    `sizes` and `num_targets` count each query's candidates and the targets among them.
    """
    expected = []
    for size, count in zip(sizes, num_targets, strict=True):
        places = np.arange(1, min(k, size) + 1)
        others = (count - 1) / (size - 1) if size > 1 else 0.0  # the chance that another place before is a target's
        total = float(np.sum(count / size * (1 + (places - 1) * others) / places)) if count else 0.0
        expected.append(total / min(count, k) if count else 0.0)
    return 100 * float(np.mean(expected))


def _positions(values: Scores2D, size: int, name: str) -> NDArray[np.int64]:
    positions = np.asarray(values)
    if positions.size == 0:
        return np.empty(0, np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a row of positions, not {positions.dtype} {positions.shape}")
    if positions.min() < 0 or positions.max() >= size:
        raise ValueError(f"{name} lie outside of the gallery of {size} clips")
    return np.asarray(positions, np.int64)
