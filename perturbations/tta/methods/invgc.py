"""InvGC (Jian and Wang, Findings of EMNLP 2023): gallery items are moved away from what they are near to."""

from __future__ import annotations

from perturbations.base.bounds import SHARE, Range
from perturbations.tta.methods.method_registry import FLAG, Batches, BatchScores, Method, Parameter, Task


def _invgc(task: Task, batches: Batches) -> BatchScores:
    """Cosines with the gallery after an inverse graph convolution with the gallery bank and with the bank.

    The mean of the items convolved with either bank, each of length 1 (LocalAdj: with the nearest share of a bank
    only). O((M + L) N_G D) time once, O(N_G D) memory.
    """
    from perturbations.tta.gallery import Gallery
    from perturbations.tta.losses import unit
    from perturbations.tta.rescoring import batch_by_batch, convolved, vectors

    assert task.bank is not None
    values = task.values
    share = values["share"] if values["local"] else None
    items = vectors(task.gallery)
    itself = task.gallery_bank is task.gallery
    moved = convolved(items, vectors(task.gallery_bank), values["rate_gallery"], share, itself=itself)
    moved = unit(moved + convolved(items, vectors(task.bank), values["rate_query"], share))
    gallery = Gallery(task.direction, moved if task.direction == "v2t" else moved[:, None])
    yield from batch_by_batch(task, batches, task.comparison(gallery), lambda similarities: similarities)


_TUNED = "no published value: the paper tunes it per dataset"

METHOD = Method(
    name="invgc",
    title="InvGC",
    paper="Jian and Wang, Findings of EMNLP 2023",
    place=150,
    run=_invgc,
    minimizes="nothing: inverse graph convolution with `bank=` and `gallery_bank=`",
    gives="cosines with the moved items",
    by_default=False,
    needs_bank=True,
    takes_gallery_bank=True,
    needs_one_vector=True,
    own=(
        Parameter("rate_gallery", Range(0, 1e4), 1.0, "r_g, how far items move from the gallery bank", _TUNED),
        Parameter("rate_query", Range(0, 1e4), 1.0, "r_q, how far items move from the bank", _TUNED),
        Parameter("local", FLAG, True, "LocalAdj: only an item's nearest entries of a bank count", "released code"),
        Parameter("share", SHARE, 0.01, "LocalAdj's k, a share of the bank; at least one entry", "released code"),
    ),
)
