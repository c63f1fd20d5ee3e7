"""Composed retrieval: (clip, instruction) -> target clips, each query in a gallery of its own (EgoCVR).

Hummel, Karthik et al., EgoCVR, ECCV 2024 (arXiv 2407.16658), Sec. 5 and Tab. 1 to 3: R@1/5/10 among all clips, R@1/2/3
among those near the query, and the ways to use the two halves of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from perturbations.retrieval.matrices import Scores2D
from perturbations.retrieval.scoring import feature_rows, products, unit

Half = Literal["text", "visual", "average"]
Given = Literal["cross_attention", "two_stage_cross_attention"]
Strategy = Literal["text", "visual", "average", "two_stage", "two_stage_average"] | Given
Average = Literal["released", "unit"]
HALVES: tuple[Half, ...] = ("text", "visual", "average")
STRATEGIES: tuple[Strategy, ...] = (*HALVES, "two_stage", "two_stage_average")
GIVEN: tuple[Given, ...] = ("cross_attention", "two_stage_cross_attention")
"""Strategies of similarities that a model gives as they are."""
TWO_STAGE = "two_stage"
"""How strategies of two stages begin; the rest says what the second compares, and text has no name."""
AVERAGES: tuple[Average, ...] = ("released", "unit")
SHORTLIST = 15
"""Clips that the first of two stages keeps: EgoCVR, Sec. 5.2."""
GLOBAL_KS, LOCAL_KS = (1, 5, 10), (1, 2, 3)
NOT_RETRIEVED, SKIPPED = 0, -1
FEWEST = 2
"""Clips in a gallery: in one of a single clip there is nothing to choose, and the released code skips the query."""

_Floats = NDArray[np.float32]


def composed_places(
    strategy: Strategy,
    galleries: Mapping[str, Sequence[Scores2D]],
    *,
    gallery: Scores2D,
    targets: Sequence[Sequence[int]],
    visual: Scores2D | None = None,
    text: Scores2D | None = None,
    similarities: Scores2D | None = None,
    average: Average = "released",
    shortlist: int = SHORTLIST,
    filter_gallery: Scores2D | None = None,
    filter_visual: Scores2D | None = None,
    filter_text: Scores2D | None = None,
    filter_strategy: Half = "visual",
    kept: Callable[[str, int, NDArray[np.int64], NDArray[np.float32]], None] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """The place of each query's best target among its candidates, int64 (queries,), by gallery.

    A place counts from 1. It is 0 where no target was retrieved: none is among the candidates, or all are outside of
    the shortlist; and -1 where a query has fewer than two candidates and is skipped, as the released code does.

    Args:
        strategy: "text" and "visual" compare one half of the query; "average" the mean of both; "two_stage" keeps the
            `shortlist` candidates that `filter_strategy` ranks first, and ranks those by the text; "two_stage_average"
            ranks them by the mean of both halves; "cross_attention" and "two_stage_cross_attention" take
            `similarities`.
        galleries: each query's candidates, positions in `gallery`, by the galleries' names: scores are computed once
            for all of them. A position may repeat, and then counts as often.
        gallery: features of the clips, N x D, as stored: all comparisons are by cosine.
        targets: each query's targets, positions in `gallery`; the best one counts.
        visual, text: features of the queries' clips and words, queries x D.
        similarities: queries x N, of a model that has no feature of a query.
        average: "released" adds the clip's features as stored to the words' of unit length, as the authors' code
            does, so that long features outweigh the words; "unit" brings both to unit length first.
        shortlist: how many candidates the first stage keeps.
        filter_gallery, filter_visual, filter_text: the first stage's features, where another model makes the
            shortlist; default: those of the second stage.
        filter_strategy: which half of the query the first stage compares.
        kept: is called with a gallery's name, a query's place, its ranked candidates and their scores.

    Scores are float32, as the released code computes them. Ties are broken against the model.
    Raises ValueError for an unknown strategy, missing features, values that are not finite, positions outside of the
    gallery, or shapes that do not fit.
    """
    _check_choices(strategy, filter_strategy, average, shortlist)
    for candidates in galleries.values():
        if len(targets) != len(candidates):
            raise ValueError(f"targets of {len(targets)} queries, and candidates of {len(candidates)}")
    size = len(np.asarray(gallery))
    if strategy in GIVEN:
        rows = _given(similarities, len(targets), size)
    else:
        half = cast("Half", strategy.removeprefix(TWO_STAGE).removeprefix("_") or "text")
        rows = _compared(half, gallery, visual, text, average, len(targets))
    first_rows = None
    if strategy.startswith(TWO_STAGE):
        filtering = gallery if filter_gallery is None else filter_gallery
        if (filtered := len(np.asarray(filtering))) != size:
            raise ValueError(f"the first stage has {filtered} clips, the second {size}")
        filter_visual = visual if filter_visual is None else filter_visual
        filter_text = text if filter_text is None else filter_text
        first_rows = _compared(filter_strategy, filtering, filter_visual, filter_text, average, len(targets))
    places = {name: np.empty(len(targets), np.int64) for name in galleries}
    for query, scores in enumerate(rows):
        is_target = np.zeros(len(scores), bool)
        is_target[_positions(targets[query], len(scores), f"targets of query {query}")] = True
        by_filter = None if first_rows is None else next(first_rows)
        for name, candidates in galleries.items():
            positions = _positions(candidates[query], len(scores), f"candidates of query {query}")
            if len(positions) < FEWEST:
                places[name][query] = SKIPPED
                continue
            if by_filter is not None:
                positions = _shortlisted(positions, by_filter, is_target, shortlist)
            places[name][query] = _place(scores[positions], is_target[positions])
            if kept is not None:
                kept(name, query, positions, scores[positions])
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


def _compared(
    half: Half, gallery: Scores2D, visual: Scores2D | None, text: Scores2D | None, average: Average, queries: int
) -> Iterator[_Floats]:
    """The scores of each query against all clips by the features that one stage compares, in the queries' order."""
    clips = feature_rows(gallery, "the gallery")
    parts: dict[str, _Floats] = {}
    for name, values in (("visual", visual), ("text", text)):
        if half in (name, "average"):
            if values is None:
                raise ValueError(f"the strategy {half!r} needs the queries' {name} features")
            parts[name] = feature_rows(values, f"the queries' {name} features")
            if parts[name].shape != (expected := (queries, clips.shape[1])):
                raise ValueError(f"the queries' {name} features are {parts[name].shape}; expected {expected}")
    if half == "average":
        clip = parts["visual"] if average == "released" else unit(parts["visual"])
        query = (clip + unit(parts["text"])) / np.float32(2)
    else:
        query = parts[half]
    return (row for _, block in products(unit(query), unit(clips)) for row in block)


def _given(similarities: Scores2D | None, queries: int, clips: int) -> Iterator[_Floats]:
    """Similarities that one stage takes as they are."""
    held = None if similarities is None else np.asarray(similarities)
    if held is None or held.shape != (queries, clips):
        raise ValueError(f"similarities of {queries} queries with {clips} clips are needed")
    return iter(held)


def _check_choices(strategy: str, filter_strategy: str, average: str, shortlist: int) -> None:
    for value, allowed in ((strategy, (*STRATEGIES, *GIVEN)), (filter_strategy, HALVES), (average, AVERAGES)):
        if value not in allowed:
            raise ValueError(f"no strategy {value!r}; choose one of {', '.join(allowed)}")
    if shortlist < 1:
        raise ValueError(f"a shortlist has at least one clip, not {shortlist}")


def _positions(values: Scores2D, size: int, name: str) -> NDArray[np.int64]:
    positions = np.asarray(values)
    if positions.size == 0:
        return np.empty(0, np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a row of positions, not {positions.dtype} {positions.shape}")
    if positions.min() < 0 or positions.max() >= size:
        raise ValueError(f"{name} lie outside of the gallery of {size} clips")
    return np.asarray(positions, np.int64)
