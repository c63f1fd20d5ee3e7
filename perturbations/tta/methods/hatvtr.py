"""HAT-VTR (Sec. 4): TCR with pseudo-positives and final scores that hubs do not dominate, on frames and videos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from perturbations.tta.methods.registry import Method, Rates

if TYPE_CHECKING:
    from torch import Tensor

    from perturbations.tta.inputs import Batch
    from perturbations.tta.task import Task


HISTORY = 0.1  # batches in the hubness memory, as a share of the gallery's size
SHARE = 0.3  # of a batch enters the reliable memory


def hatvtr(task: Task, batches: Iterable[Batch]) -> Iterator[Tensor]:
    """Total loss of Eq. 12: uniformity (7, 8), cross-modal alignment (9, 10), noise-robust entropy (11).

    Frames and texts are normalized before pooling. The first batch has no history and is not re-ranked.
    """
    import torch
    from torch.nn.functional import mse_loss

    from perturbations.tta.hsm import HubnessMemory
    from perturbations.tta.losses import entropy, fraction, gap, robust_entropy, scatter, unit
    from perturbations.tta.memory import PairMemory

    compare = task.comparison(normalized=True)
    videos_ask = task.direction == "v2t"
    history = HubnessMemory(fraction(HISTORY, len(task.gallery)))
    memory = PairMemory(largest_first=True)

    def objective(features: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        features = unit(features)
        similarities = compare(features)
        with torch.no_grad(), task.timings.part("rerank"):
            scores = history.rescore(similarities) if len(history) else similarities
            positives = compare.items[scores.argmax(1)]
        queries = features.mean(1) if videos_ask else features
        items = positives if videos_ask else positives.mean(1)
        entropies = entropy(queries @ items.T / task.temperature)
        if step == 0:
            with torch.no_grad():
                distance = (queries - queries.mean(0)).norm(dim=-1)
                memory.add(distance, queries, items, entropies, fraction(SHARE, len(queries)))
        robust = robust_entropy(entropies, memory.largest_entropy)
        if robust is None:
            return similarities, None
        uniform = scatter(queries, queries.mean(0))
        if videos_ask:
            uniform = uniform + scatter(features, queries[:, None])
        steady = (gap(queries, items) - gap(memory.queries, memory.items)) ** 2
        frames, texts = (features, positives) if videos_ask else (positives, features)
        repeated = texts[:, None].expand_as(frames)
        ours = covariance(frames.flatten(0, 1), repeated.flatten(0, 1))
        theirs = (memory.queries, memory.items) if videos_ask else (memory.items, memory.queries)
        return similarities, robust + uniform + steady + mse_loss(ours, covariance(*theirs))

    for batch in batches:
        similarities = task.minimize(batch, objective)
        with task.timings.part("rerank"):
            scores = history.rescore(similarities) if len(history) else similarities
            history.append(similarities)
        yield task.finish(scores)


def covariance(videos: Tensor, texts: Tensor) -> Tensor:
    """Cross-covariance D x D of N x D rows of frames or videos and of texts, each row normalized (Eq. 10)."""
    from perturbations.tta.losses import unit

    return unit(videos).T @ unit(texts) / len(videos)


METHOD = Method(
    name="hatvtr",
    title="HAT-VTR",
    paper="HAT-VTR, Sec. 4",
    place=60,
    run=hatvtr,
    minimizes="the same on frames and videos, pseudo-positives without hubs",
    gives="HSM's scores",
    rates=Rates(v2t=3e-4, t2v=3e-5),
)
