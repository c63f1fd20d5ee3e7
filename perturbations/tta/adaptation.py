"""`adapt`: queries in batches, once, in order; after each batch its similarities are final."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from perturbations.errors import ConfigError
from perturbations.tta import inputs
from perturbations.tta.encoders import DualEncoder
from perturbations.tta.gallery import Gallery, encode_gallery
from perturbations.tta.inputs import Direction
from perturbations.tta.methods import METHODS, Method
from perturbations.tta.recording import Counts, Timings
from perturbations.tta.task import Task

LEARNING_RATES: dict[str, tuple[float, float]] = {
    "tent": (3e-5, 3e-5),
    "read": (3e-5, 3e-5),
    "sar": (3e-5, 3e-5),
    "eata": (3e-4, 3e-4),
    "tcr": (3e-4, 3e-4),
    "hatvtr": (3e-4, 3e-5),
}
"""v2t, t2v (HAT-VTR, App. B.3)."""

PRECISIONS: dict[str, torch.dtype | None] = {"float32": None, "bfloat16": torch.bfloat16}


def adapt(
    model: DualEncoder,
    method: str,
    batches: Iterable[Any],
    gallery: Any,
    *,
    direction: Direction,
    steps: int = 3,
    lr: float | None = None,
    temperature: float = 0.02,
    seed: int = 42,
    precision: str = "float32",
    bank: Any = None,
    counts: Counts | None = None,
    timings: Timings | None = None,
) -> Generator[Tensor, None, None]:
    """Similarities of queries with a gallery, the model adapting to each batch.

    The model's weights are the caller's again whenever this generator is not running. Works on the model's device.

    Args:
        model: from `clip4clip` or `xpool`, or a DualEncoder.
        method: one of METHODS.
        batches: v2t: frames B x T x 3 x H x W, normalized, floating point; t2v: (token ids B x L, attention mask
            B x L or None), or a tokenizer's output with `input_ids` and `attention_mask`. Any B from 1.
        gallery: the other modality in the same form (N_G items), or what `encode_gallery` made of it.
        direction: "v2t" (videos are queries) or "t2v".
        steps: of the optimizer, a batch.
        lr: AdamW's learning rate; None takes the method's of LEARNING_RATES.
        temperature: tau, by which similarities are divided in softmax.
        seed: of torch's generator while a batch is worked on. No method draws; it is for models that do.
        precision: "float32", or "bfloat16" for the query encoder's matrix products. Towers of at most 64 numbers' width
            work in double precision on the CPU instead of float32.
        bank: qbnorm only: training captions (t2v) or training videos (v2t), as a batch or as the gallery's kind.
        counts: counts what the run's steps came to.
        timings: records milliseconds a query.

    Yields:
        One B x N_G float32 tensor a batch, of the last forward pass before its update. tent, read, sar and eata give
        similarities divided by the temperature, the others undivided. dsl, which needs all queries, yields after the
        last of them.

    Raises:
        ConfigError: the method, direction, precision or a number is not allowed.
        ValueError: an input has another shape.
    """
    if method not in METHODS:
        raise ConfigError(f"method {method!r} is unknown; allowed: {', '.join(METHODS)}")
    if direction not in inputs.DIRECTIONS:
        raise ConfigError(f"direction {direction!r} is unknown; allowed: {', '.join(inputs.DIRECTIONS)}")
    if precision not in PRECISIONS:
        raise ConfigError(f"precision {precision!r} is unknown; allowed: {', '.join(PRECISIONS)}")
    if steps < 1:
        raise ConfigError(f"steps is {steps}; 1 at least (the method none does not adapt)")
    if not temperature > 0:
        raise ConfigError(f"temperature is {temperature}; it must be above 0")
    if lr is None:
        lr = LEARNING_RATES.get(method, (0.0, 0.0))[inputs.DIRECTIONS.index(direction)]
    if not 0 <= lr < float("inf"):
        raise ConfigError(f"lr is {lr}; it must be a number from 0")
    if isinstance(gallery, Gallery) and gallery.direction != direction:
        raise ConfigError(f"the gallery was encoded for {gallery.direction}, the direction is {direction}")
    if (method == "qbnorm") != (bank is not None):
        raise ConfigError("qbnorm needs a bank of training queries" if bank is None else f"{method} takes no bank")
    task_of = partial(
        Task,
        model,
        steps=steps,
        lr=lr,
        temperature=temperature,
        seed=seed,
        autocast=PRECISIONS[precision],
        counts=Counts() if counts is None else counts,
        timings=Timings() if timings is None else timings,
    )
    return _run(task_of, METHODS[method], model, batches, gallery, direction, bank)


def _run(
    task_of: Callable[..., Task],
    method: Method,
    model: DualEncoder,
    batches: Iterable[Any],
    gallery: Any,
    direction: Direction,
    bank: Any,
) -> Generator[Tensor, None, None]:
    encoded = _encoded(model, gallery, direction)
    # The bank's items are queries: a gallery of the other direction.
    other: Direction = "t2v" if direction == "v2t" else "v2t"
    task = task_of(encoded, bank=None if bank is None else _encoded(model, bank, other))
    task.timings.start(model.device)
    stream = method(task, batches)
    while True:
        # What is made in a caller's inference mode cannot be learned from.
        with torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
            similarities = next(stream, None)
        if similarities is None:
            return
        yield similarities


def _encoded(model: DualEncoder, given: Any, direction: Direction) -> Gallery:
    if not isinstance(given, Gallery):
        return encode_gallery(model, given, direction)
    with torch.inference_mode(False):
        features = given.features.to(model.device)
        return Gallery(given.direction, features.clone() if features.is_inference() else features)
