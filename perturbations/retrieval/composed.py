"""Composed retrieval: (clip, instruction) -> target clips, among all clips or those of one long video (EgoCVR).

EgoCVR, Sec. 5: R@1/5/10 in the global gallery (every clip but the query's), R@1/2/3 in the local one (the query's own
long video), and ways to use the two halves of a query, Tab. 1 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from perturbations.retrieval.arrays import Numbers, Values, as_array, as_scores
from perturbations.retrieval.metrics import ranks

Strategy = Literal["text", "visual", "average", "two_stage"]
STRATEGIES: tuple[Strategy, ...] = ("text", "visual", "average", "two_stage")
CANDIDATES = 15  # EgoCVR, Sec. 5.2
GLOBAL_KS, LOCAL_KS = (1, 5, 10), (1, 2, 3)
_FEWEST = 2  # clips in a gallery; in a gallery of one clip there is nothing to choose


def global_gallery(query_clips: Sequence[str], clips: Sequence[str]) -> NDArray[np.bool_]:
    """Every clip but the query's own: bool, queries x clips."""
    return np.asarray(np.asarray(query_clips, object)[:, None] != np.asarray(clips, object)[None, :], bool)


def local_gallery(
    query_clips: Sequence[str], query_videos: Sequence[str], clips: Sequence[str], videos: Sequence[str]
) -> NDArray[np.bool_]:
    """The other clips of the query's long video: bool, queries x clips. `videos` is the long video of each clip."""
    same = np.asarray(query_videos, object)[:, None] == np.asarray(videos, object)[None, :]
    return np.asarray(same & global_gallery(query_clips, clips), bool)


def composed_scores(
    strategy: Strategy,
    *,
    gallery: Values,
    candidates: NDArray[np.bool_],
    text: Values | None = None,
    visual: Values | None = None,
    filter_gallery: Values | None = None,
    shortlist: int = CANDIDATES,
) -> NDArray[np.float64]:
    """Scores of a query's clip and words against a gallery, float64 queries x gallery; minus infinity: not retrieved.

    Args:
        strategy: "text" and "visual" use one half of the query; "average" the mean of both, each of unit length;
            "two_stage" takes the `shortlist` clips nearest to the query's clip and orders those by the text alone.
        gallery: features of the gallery's clips by the model that compares (gallery x dim).
        candidates: bool queries x gallery, as from `global_gallery` or `local_gallery`.
        text: features of the queries' words (queries x dim): the instruction, or the modified caption for TF-CVR and
            TFR-CVR, or the target's narration for the upper bound.
        visual: features of the queries' clips (queries x dim). For "two_stage", by the model that makes the shortlist.
        filter_gallery: "two_stage": features of the gallery by the model that makes the shortlist; default `gallery`.
        shortlist: how many clips the first stage keeps (the paper: 15). Clips that tie for the last place all stay.

    Features need no unit length: they are compared by cosine. Raises ValueError for an unknown strategy, missing
    features, or shapes that do not fit.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"no strategy {strategy!r}; choose one of {', '.join(STRATEGIES)}")
    needed = {"text": text} if strategy == "text" else {"visual": visual}
    if strategy in ("average", "two_stage"):
        needed["text"] = text
    for name, features in needed.items():
        if features is None:
            raise ValueError(f"strategy {strategy!r} needs the queries' {name} features")
    compared = _unit(gallery)
    if strategy == "average":
        scores = _unit(_unit(text) + _unit(visual)) @ compared.T
    else:
        scores = _unit(visual if strategy == "visual" else text) @ compared.T
    _check_mask(scores, candidates)
    scores[~candidates] = -np.inf
    if strategy == "two_stage":
        near = _unit(visual) @ (compared if filter_gallery is None else _unit(filter_gallery)).T
        _check_mask(near, candidates)
        near[~candidates] = -np.inf
        kept = min(shortlist, near.shape[1])
        least = np.partition(near, near.shape[1] - kept, axis=1)[:, near.shape[1] - kept, None]
        scores[near < least] = -np.inf
    return scores


def composed_recall(
    similarities: Values,
    targets: Sequence[Sequence[int]],
    candidates: NDArray[np.bool_],
    ks: Sequence[int] = GLOBAL_KS,
) -> dict[str, float]:
    """Recall of composed queries, each in its own gallery.

    Args:
        similarities: queries x gallery, as `composed_scores` gives them.
        targets: each query's targets, positions in the gallery; any of them is a hit.
        candidates: bool queries x gallery: each query's gallery.
        ks: the k of each R@k; the papers' are `GLOBAL_KS` and `LOCAL_KS`.

    Returns `r<k>` in percent (NaN where no query is left), `queries`, how many were counted, and `skipped`: queries
    whose gallery has fewer than two clips or none of the targets. Ties are broken against the model; a target that was
    not retrieved is a miss for every k.
    """
    scores = as_scores(similarities)
    _check_mask(scores, candidates)
    if len(targets) != len(scores):
        raise ValueError(f"targets of {len(targets)} queries; the similarities have {len(scores)}")
    best_ranks: list[float] = []
    for row, query_targets, allowed in zip(scores, targets, candidates, strict=True):
        places = np.flatnonzero(allowed)
        is_target = np.isin(places, np.asarray(query_targets, np.int64))
        if places.size < _FEWEST or not is_target.any():
            continue
        own_scores = row[places]
        retrieved = np.nanmax(own_scores[is_target], initial=-np.inf) > -np.inf
        best_ranks.append(float(ranks(own_scores[None], is_target[None])[0]) if retrieved else np.inf)
    result = {f"r{k}": 100 * float(np.mean(np.array(best_ranks) <= k)) if best_ranks else float("nan") for k in ks}
    return result | {"queries": len(best_ranks), "skipped": len(scores) - len(best_ranks)}


def _unit(features: Values | None) -> NDArray[np.float64]:
    assert features is not None  # checked for the strategy
    rows = as_array(features).astype(np.float64)
    if rows.ndim != 2:
        raise ValueError(f"features have shape {rows.shape}; expected one row each")
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length == 0, 1, length))


def _check_mask(scores: Numbers, candidates: NDArray[np.bool_]) -> None:
    if candidates.shape != scores.shape or candidates.dtype != bool:
        raise ValueError(
            f"candidates are {candidates.dtype} {candidates.shape}; expected bool {scores.shape}, queries x gallery"
        )
