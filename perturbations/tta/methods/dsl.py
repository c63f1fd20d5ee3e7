"""Dual softmax at inference (DSL; Cheng et al., arXiv 2109.04290, Sec. 3.3): an item's best query counts most."""

from __future__ import annotations

from perturbations.base.bounds import Range
from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Parameter, Task, Tensor


def _dsl(task: Task, batches: Batches) -> BatchScores:
    """Similarities times their softmax over all queries, which must all be known first. O(Q N_G) time and memory.

    As log(S softmax(scale S)) / scale, which has the same order and stays within float32, where the softmax does not.
    """
    from perturbations.tta.rescoring import after_all

    scale = task.values["scale"]
    yield from after_all(task, batches, lambda similarities: _dual_softmax(similarities, scale))


def _dual_softmax(similarities: Tensor, scale: float) -> Tensor:
    """Numbers in the order of S * softmax over queries of scale x S, for similarities of all Q queries, Q x N_G."""
    from perturbations.tta.rescoring import log_mass, signed

    logs = similarities + (similarities.abs().log() - log_mass([similarities], scale)) / scale
    return signed(similarities, logs)


METHOD = Method(
    name="dsl",
    title="DSL",
    paper="Cheng et al., arXiv 2109.04290",
    place=70,
    run=_dsl,
    minimizes="nothing: dual softmax over all queries",
    gives="re-weighted cosines, as logarithms",
    needs_all_queries=True,
    own=(
        Parameter(
            "scale",
            Range(0, 1e6, above=True),
            100.0,
            "factor of similarities in the softmax over queries, 1 / its temperature",
            "CLIP's own logit scale; the authors' code multiplies by 1,000",
        ),
    ),
)
