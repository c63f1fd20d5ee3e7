"""HAT-VTR (Sec. 4): TCR with pseudo-positives and final scores that hubs do not dominate, on frames and videos."""

from __future__ import annotations

from perturbations.tta.methods.method_registry import (
    FLAG,
    HSM,
    RELIABLE,
    Batches,
    BatchScores,
    Method,
    Parameter,
    Task,
    Tensor,
)

_LOSSES = {
    "entropy": "the noise-robust entropy, Eq. 11",
    "inter": "uniformity of queries, Eq. 7",
    "intra": "uniformity of a video's frames, Eq. 8; videos as queries alone",
    "global": "alignment by the modality gap, Eq. 9",
    "frame": "alignment of the cross-covariance of frames, Eq. 10",
}


def hatvtr(task: Task, batches: Batches) -> BatchScores:
    """Total loss of Eq. 12: uniformity (7, 8), cross-modal alignment (9, 10), noise-robust entropy (11).

    Frames and texts are normalized before pooling. The first batch has no history and is not re-ranked. Without any of
    the losses the weights stay, and HSM alone changes the scores.
    """
    import torch
    from torch.nn.functional import mse_loss

    from perturbations.tta.losses import entropy, fraction, gap, robust_entropy, scatter, unit
    from perturbations.tta.memories import PairMemory, memory_of

    compare = task.comparison(normalized=True)
    videos_ask = task.direction == "v2t"
    values = task.values
    history = memory_of(values)
    memory = PairMemory(values["memory"], largest_first=True)
    share, t, targets = values["share"], values["t"], values["hsm_targets"]
    losses = [name for name in _LOSSES if values[name]]

    def objective(features: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        features = unit(features)
        similarities = compare(features)
        with torch.no_grad(), task.recording.part("rerank"):
            scores = history.rescore(similarities) if len(history) and targets else similarities
            positives = compare.items[scores.argmax(1)]
        queries = features.mean(1) if videos_ask else features
        items = positives if videos_ask else positives.mean(1)
        entropies = entropy(queries @ items.T / task.temperature)
        if step == 0:
            with torch.no_grad():
                distance = (queries - queries.mean(0)).norm(dim=-1)
                memory.add(distance, queries, items, entropies, fraction(share, len(queries)))
        robust = robust_entropy(entropies, memory.largest_entropy)
        if robust is None:
            return similarities, None
        terms = [robust] if "entropy" in losses else []
        uniform = [scatter(queries, queries.mean(0), t)] if "inter" in losses else []
        if "intra" in losses and videos_ask:
            uniform.append(scatter(features, queries[:, None], t))
        if uniform:
            terms.append(sum(uniform[1:], uniform[0]))
        if "global" in losses:
            terms.append((gap(queries, items) - gap(memory.queries, memory.items)) ** 2)
        if "frame" in losses:
            frames, texts = (features, positives) if videos_ask else (positives, features)
            repeated = texts[:, None].expand_as(frames)
            ours = _covariance(frames.flatten(0, 1), repeated.flatten(0, 1))
            theirs = (memory.queries, memory.items) if videos_ask else (memory.items, memory.queries)
            terms.append(mse_loss(ours, _covariance(*theirs)))
        return similarities, sum(terms[1:], terms[0]) if terms else None

    for batch in batches:
        similarities = task.minimize(batch, objective)
        with task.recording.part("rerank"):
            scores = history.rescore(similarities) if len(history) and values["hsm_rerank"] else similarities
            history.append(similarities)
        yield task.finish(scores)


def _covariance(videos: Tensor, texts: Tensor) -> Tensor:
    """Cross-covariance D x D of N x D rows of frames or videos and of texts, each row normalized (Eq. 10)."""
    from perturbations.tta.losses import unit

    return unit(videos).T @ unit(texts) / len(videos)


def _switch(name: str, about: str, source: str) -> Parameter:
    return Parameter(name, FLAG, True, about, source)


METHOD = Method(
    name="hatvtr",
    title="HAT-VTR",
    paper="HAT-VTR, Sec. 4",
    place=60,
    run=hatvtr,
    minimizes="the same on frames and videos, pseudo-positives without hubs",
    gives="HSM's scores",
    rates={"v2t": 3e-4, "t2v": 3e-5},
    own=(
        *RELIABLE,
        *HSM,
        _switch("hsm_targets", "HSM's scores choose the pseudo-positives", "HAT-VTR, Tab. 6"),
        _switch("hsm_rerank", "HSM re-ranks the final scores", "HAT-VTR, Tab. 6"),
        *(_switch(name, loss, "HAT-VTR, Tab. 7") for name, loss in _LOSSES.items()),
    ),
)
