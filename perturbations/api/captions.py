"""Perturb a caption that is in memory."""

from __future__ import annotations

from perturbations.api.array_clips import check_text, checked_id, checked_seed, declaration, plain_int
from perturbations.base.errors import short
from perturbations.corpus.captions.pipeline import PerturbedText, perturb_captions
from perturbations.manifest.rows import CaptionRow


def perturb_text(
    text: str,
    name: str,
    severity: int = 1,
    *,
    seed: int = 0,
    item_id: str | int = "",
    dataset: str = "",
    variant: str | None = None,
    backend: str | None = None,
) -> PerturbedText:
    """Perturb a caption.

    Args:
        text: the caption; any string. One that is empty or only white space stays as it is, as every kernel leaves it.
        severity: 1 up to the highest of the perturbation; 0 gives the caption itself.
        name, seed, item_id, dataset, variant: as of `corrupt`; the id is the caption's.
        backend: which models play the roles: "offline", the default, or "pretrained".

    Returns:
        The perturbed `text`; whether it `changed`; its `similarity` to the original, where there is a fidelity gate;
        the number of `attempts`, and whether the gate `accepted` the text; the `backend`.

    Raises:
        TypeError: `text`, `item_id` or `dataset` is no text.
        ValueError: `seed` is one that config.yaml could not have.
        UnknownPerturbationError: no such text perturbation, severity or variant.
        BackendError: no such backend, or a library, program or weight file that it needs is missing.
        ToolError: what plays a role is installed, but fails or does not work as it should.
    """
    if not isinstance(text, str):
        raise TypeError(f"a caption must be a str, not {type(text).__name__}: {short(text)}")
    entry = declaration(name, "text", variant)
    severity, seed, item_id = plain_int(severity), checked_seed(seed), checked_id(item_id)
    check_text(dataset, "dataset")
    caption = CaptionRow(dataset=dataset, caption_id=item_id, item_id=item_id, text=text)
    return next(
        perturb_captions([caption], entry.key, severity, seed=seed, dataset=dataset, variant=variant, backend=backend)
    )
