"""DualIS of DBNorm (Wang et al., EMNLP 2023): inverted softmax over a bank of queries and one of gallery items."""

from __future__ import annotations

from perturbations.base.bounds import Choice, Range
from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Parameter, Task


def _dual_is(task: Task, batches: Batches) -> BatchScores:
    """The product of two inverted softmaxes, over the bank's M queries and over the gallery bank's L items.

    exp(b1 S) / sum over the bank of exp(b1 S_bank), times exp(b2 S) / sum over the gallery bank of exp(b2 S_items).
    O((M + L) N_G) time once, O(N_G) memory. The form `released`: see `rescoring._db_norm`.
    """
    from perturbations.tta.rescoring import by_two_banks

    yield from by_two_banks(task, batches, dynamic=False)


BANKS = (
    Parameter("beta_query", Range(0, 1e4, above=True), 1 / 1.99, "inverse temperature of the bank", "released code"),
    Parameter(
        "beta_gallery", Range(0, 1e4, above=True), 3.0, "inverse temperature of the gallery bank", "released code"
    ),
    Parameter(
        "form",
        Choice(("paper", "released")),
        "paper",
        "released: the gallery bank is used in place of the queries, as in the published function `db_norm`",
        "the paper's equations; the released code",
    ),
)

METHOD = Method(
    name="dual_is",
    title="DualIS",
    paper="Wang et al., EMNLP 2023",
    place=110,
    run=_dual_is,
    minimizes="nothing: inverted softmax over `bank=` and `gallery_bank=`",
    gives="normalized scores",
    by_default=False,
    needs_bank=True,
    takes_gallery_bank=True,
    needs_one_vector=True,
    own=BANKS,
)
