"""`adapt`: queries in batches, once, in order; after each batch its similarities are final. And of known features."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from perturbations.base.errors import ConfigError
from perturbations.tta import inputs
from perturbations.tta import precision as precisions
from perturbations.tta.encoders import DualEncoder
from perturbations.tta.gallery import Gallery, encode_gallery
from perturbations.tta.inputs import Batch, Direction
from perturbations.tta.methods import method_registry
from perturbations.tta.recording import Recording, Unadapted
from perturbations.tta.task import Task

_Floats = NDArray[np.float32]


def adapt(
    model: DualEncoder,
    method: str,
    batches: Iterable[Batch | Gallery],
    gallery: Gallery | Batch | Iterator[Batch],
    *,
    direction: Direction,
    steps: int = 3,
    parameters: Mapping[str, object] | None = None,
    seed: int = 42,
    precision: str = "float32",
    bank: Gallery | Batch | Iterator[Batch] | None = None,
    gallery_bank: Gallery | Batch | Iterator[Batch] | None = None,
    recording: Recording | None = None,
    unadapted: Unadapted | None = None,
) -> Generator[Tensor, None, None]:
    """Similarities of queries with a gallery, while the model adapts to each batch.

    Whenever this generator is not running, the model has the caller's weights. It works on the model's device.

    Args:
        model: from `clip4clip` or `xpool`, or a DualEncoder.
        method: name of a method of `perturbations.tta.methods`.
        batches: v2t: frames B x T x 3 x H x W, normalized, floating point, or `ByteFrames`; t2v: (token ids B x L,
            attention mask B x L or None), or a tokenizer's output with `input_ids` and `attention_mask`. Any B from 1.
            For methods that change no weights also features, as `encode_gallery` gives them of the other direction.
        gallery: the other modality in the same form (N_G items), an iterator of its parts, or what
            `encode_gallery` returned.
        direction: "v2t" (videos are queries) or "t2v".
        steps: of the optimizer, per batch.
        parameters: of the method, by name, such as {"lr": 1e-4}; the others have their published values. Each method's
            file declares its own.
        seed: of torch's generator during a batch. No method draws random numbers; a model may.
        precision: of the query encoder's matrix products: "float32", "bfloat16", or on an NVIDIA GPU "tf32".
        bank: for methods that need one: training captions (t2v) or training videos (v2t), as a batch or as the
            gallery's kind.
        gallery_bank: for methods that take one: training videos (t2v) or training captions (v2t); None: the gallery.
        recording: counts the run's updates and skipped steps, and milliseconds per query.
        unadapted: keeps the features of methods that do not change weights, for the next of them.

    Yields:
        One B x N_G tensor per batch, of the last forward pass before its update, in float32, or in float64 where the
        model is. `gives` of a method describes its values. A method that needs all queries yields after the last of
        them.

    Raises:
        ConfigError: the method, direction, precision or a number is not allowed.
        ValueError: an input has another shape.
    """
    declared = method_registry.method(method)
    if direction not in inputs.DIRECTIONS:
        raise ConfigError(f"direction {direction!r} is unknown; allowed: {', '.join(inputs.DIRECTIONS)}")
    if steps < 1:
        raise ConfigError(f"steps is {steps}; 1 at least (the method {method_registry.baseline().name} does not adapt)")
    given = method_registry.validated(method, parameters or {})
    _check_inputs(declared, direction, gallery, bank, gallery_bank)
    if declared.adapts and model.frozen:
        others = ", ".join(name for name, entry in method_registry.methods().items() if not entry.adapts)
        raise ConfigError(f"{declared.name} adapts weights, and this encoder is frozen; methods for it: {others}")
    if declared.needs_one_vector and model.pooling is not None:
        raise ConfigError(f"{declared.name} needs one vector per video, and X-Pool pools frames for each text")
    precisions.check(precision, model.device)

    def run() -> Generator[Tensor, None, None]:
        # The bank's items are queries: a gallery of the other direction.
        other: Direction = "t2v" if direction == "v2t" else "v2t"
        encoded = _encoded(model, gallery, direction)
        task = Task(
            model,
            encoded,
            steps=steps,
            values=method_registry.effective(method, given, direction, len(encoded)),
            seed=seed,
            precision=precision,
            bank=None if bank is None else _encoded(model, bank, other),
            gallery_bank=encoded if gallery_bank is None else _encoded(model, gallery_bank, direction),
            recording=recording or Recording(),
            unadapted={} if unadapted is None else unadapted,
        )
        task.recording.start(model.device)
        stream = declared.run(task, batches)
        while True:
            # Tensors that are created in a caller's inference mode cannot have gradients.
            with torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
                similarities = next(stream, None)
            if similarities is None:
                return
            yield similarities

    return run()


def _check_inputs(
    method: method_registry.Method, direction: Direction, gallery: object, bank: object, gallery_bank: object
) -> None:
    """Raise `ConfigError` for a gallery of the other direction, or a bank that is missing or not used."""
    for what, items in (("gallery", gallery), ("gallery bank", gallery_bank)):
        if isinstance(items, Gallery) and items.direction != direction:
            raise ConfigError(f"the {what} was encoded for {items.direction}, the direction is {direction}")
    if gallery_bank is not None and not method.takes_gallery_bank:
        raise ConfigError(f"{method.name} takes no gallery bank")
    if method.needs_bank and bank is None:
        raise ConfigError(f"{method.name} needs a bank of training queries")
    if not method.needs_bank and bank is not None:
        raise ConfigError(f"{method.name} takes no bank")


def _encoded(model: DualEncoder, items: Gallery | Batch | Iterator[Batch], direction: Direction) -> Gallery:
    if not isinstance(items, Gallery):
        return encode_gallery(model, items, direction)
    with torch.inference_mode(False):
        features = items.features.to(model.device)
        if features is items.features and not features.is_inference():
            return items  # with what it knows of its equal rows
        return Gallery(items.direction, features.clone() if features.is_inference() else features)


# --- features that are known: no model, no pixels, no tokens ----------------------------------------------------------


def scores_of_features(
    method: str,
    direction: Direction,
    queries: _Floats,
    gallery: _Floats,
    batch_size: int,
    bank: _Floats | None = None,
    gallery_bank: _Floats | None = None,
) -> _Floats:
    """The scores of queries N x D with a gallery N_G x D, float32, N x N_G, by a method that changes no weights.

    Queries come in batches of `batch_size`, in order, as in `adapt`: a method may remember those before. `bank` holds
    features of training queries, `gallery_bank` of items of the gallery's kind; each is used by the methods that take
    it. Raises `ConfigError` for a method that is unknown, adapts weights, or lacks its bank.
    """
    declared = method_registry.method(method)
    asking: Direction = "t2v" if direction == "v2t" else "v2t"  # the direction in which the queries are a gallery
    norm = nn.LayerNorm(1)
    similarities = adapt(
        DualEncoder(norm, norm, _unknown, _unknown, pooling=None, modules=(norm,), frozen=True),
        method,
        _gallery(queries, asking).split(batch_size),
        _gallery(gallery, direction),
        direction=direction,
        bank=_gallery(bank, asking) if bank is not None and declared.needs_bank else None,
        gallery_bank=_gallery(gallery_bank, direction)
        if gallery_bank is not None and declared.takes_gallery_bank
        else None,
    )
    return np.concatenate([part.numpy() for part in similarities])


def _gallery(rows: _Floats, direction: Direction) -> Gallery:
    """Features as a gallery of texts (v2t), or of clips with one frame (t2v)."""
    features = torch.from_numpy(rows)
    return Gallery(direction, features if direction == "v2t" else features[:, None])


def _unknown(*given: Tensor | None) -> Tensor:
    raise TypeError("features are known; nothing is encoded")
