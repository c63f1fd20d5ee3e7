"""DualDIS of DBNorm (Wang et al., EMNLP 2023): the dynamic form of DualIS."""

from __future__ import annotations

from perturbations.base.bounds import whole
from perturbations.tta.methods.dual_is import BANKS
from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Parameter, Task


def _dual_dis(task: Task, batches: Batches) -> BatchScores:
    """DualIS, each factor only for queries whose nearest item is among the k nearest of an entry of its bank.

    Elsewhere the factor is the similarity itself. Cost as DualIS.
    """
    from perturbations.tta.rescoring import by_two_banks

    yield from by_two_banks(task, batches, dynamic=True)


METHOD = Method(
    name="dual_dis",
    title="DualDIS",
    paper="Wang et al., EMNLP 2023",
    place=120,
    run=_dual_dis,
    minimizes="nothing: dynamic inverted softmax over `bank=` and `gallery_bank=`",
    gives="normalized scores",
    by_default=False,
    needs_bank=True,
    takes_gallery_bank=True,
    needs_one_vector=True,
    own=(
        *BANKS,
        Parameter(
            "k", whole(1, 1_000_000), 1, "nearest items of an entry of a bank that count as hubs", "released code"
        ),
    ),
)
