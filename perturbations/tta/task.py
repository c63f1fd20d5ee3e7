"""One scenario of adaptation: a model, a gallery and an optimizer, with the steps that methods share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from perturbations.tta import inputs
from perturbations.tta.encoders import DualEncoder, evaluating
from perturbations.tta.gallery import Comparison, Gallery
from perturbations.tta.inputs import Batch
from perturbations.tta.precision import forward, tensor_cores, wide
from perturbations.tta.recording import Recording, Unadapted

_WEIGHT_DECAY = 1e-4

_Queries = Batch | Gallery
"""Queries to be encoded, or their features: a gallery of the other direction."""
Batches = Iterable[_Queries]
"""The queries, in batches."""
BatchScores = Iterator[Tensor]
"""The similarities of each batch, B x N_G, float32."""

_Objective = Callable[[Tensor, int], tuple[Tensor, Tensor | None]]
"""Query features and the step's number -> the similarities to record, and the loss (None: no query to learn from)."""


@dataclass(eq=False)
class Task:
    """The model, gallery and optimizer of a method.

    The model has the adapted weights only inside `adapting`, so that a caller never sees them, not even between two
    batches.

    Attributes:
        values: of all of the method's parameters, by name.
        bank: training queries, for methods that need them.
        gallery_bank: items of the gallery's kind; the gallery itself where none are given.
        parameters: the weights that adapt: weights and biases of the LayerNorms of the query's tower.
    """

    model: DualEncoder
    gallery: Gallery
    _: KW_ONLY
    steps: int
    values: Mapping[str, Any]
    seed: int
    precision: str
    bank: Gallery | None
    gallery_bank: Gallery
    recording: Recording
    unadapted: Unadapted

    def __post_init__(self) -> None:
        self.direction = self.gallery.direction
        self.parameters = layer_norms(self.model.vision if self.direction == "v2t" else self.model.text)
        self._batches = 0
        self._adapted = [parameter.detach().clone() for parameter in self.parameters]
        self._optimizer: torch.optim.Optimizer | None = None

    @property
    def temperature(self) -> float:
        """tau, the divisor of similarities in softmax, for methods that learn."""
        return float(self.values["temperature"])

    def comparison(self, gallery: Gallery | None = None, *, normalized: bool = False) -> Comparison:
        """The comparison of queries with the gallery, or with another one."""
        items = self.gallery if gallery is None else gallery
        return Comparison(self.model, items, self.recording, normalized=normalized)

    @contextmanager
    def adapting(self) -> Iterator[None]:
        """Inside, the model is in evaluation mode, has the adapted weights and learns in LayerNorms only.

        Afterwards the caller's state is back: weights, gradients, modes, `requires_grad`, the global random generator.
        """
        model_parameters = [parameter for module in self.model.modules for parameter in module.parameters()]
        flags = [parameter.requires_grad for parameter in model_parameters]
        weights = [parameter.detach().clone() for parameter in self.parameters]
        gradients = [parameter.grad for parameter in self.parameters]
        devices = [self.model.device.index or 0] if self.model.device.type == "cuda" else []
        try:
            for parameter in model_parameters:
                parameter.requires_grad_(False)
            self._load(self._adapted)
            for parameter in self.parameters:
                parameter.requires_grad_(True)
                parameter.grad = None
            if self._optimizer is None:
                self._optimizer = torch.optim.AdamW(
                    self.parameters, lr=self.values.get("lr", 0.0), weight_decay=_WEIGHT_DECAY
                )
            with (
                torch.inference_mode(False),
                torch.enable_grad(),
                torch.random.fork_rng(devices),
                evaluating(self.model),
            ):
                torch.manual_seed(self.seed + self._batches)
                yield
        finally:
            self._batches += 1
            self._adapted = [parameter.detach().clone() for parameter in self.parameters]
            self._load(weights)
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter.grad = gradient
            for parameter, flag in zip(model_parameters, flags, strict=True):
                parameter.requires_grad_(flag)

    def on_device(self, batch: _Queries) -> Batch:
        """The batch as the encoder takes it, on its device, so that steps do not move and normalize it again."""
        with self.recording.part("encode"):
            if self.direction == "v2t":
                return inputs.frames(batch, self.model.device)
            return inputs.tokens(batch, self.model.device)

    def encode(self, batch: Batch) -> Tensor:
        """Query features in float32 (float64 where the model is): frames B x T x D (v2t) or texts B x D (t2v)."""
        device = self.model.device
        with self.recording.part("encode"), forward(self.precision, device):
            if self.direction == "v2t":
                return wide(self.model.encode_frames(inputs.frames(batch, device)))
            return wide(self.model.encode_texts(*inputs.tokens(batch, device)))

    def score(self, batch: _Queries, compare: Comparison) -> Tensor:
        """Similarities of a batch, B x N_G, for methods that never change the weights."""
        with self.adapting(), torch.no_grad():
            return compare(self._encode_unadapted(batch))

    def _encode_unadapted(self, batch: _Queries) -> Tensor:
        """`encode`, once for all methods that share `unadapted`; the time is counted for each of them."""
        if isinstance(batch, Gallery):
            return batch.features
        key = self.seed, self._batches
        if key in self.unadapted:
            features, spent = self.unadapted[key]
            self.recording.again(spent)
            return features
        with self.recording.kept() as spent:
            features = self.encode(self.on_device(batch))
        self.unadapted[key] = features, spent
        return features

    def minimize(self, batch: _Queries, objective: _Objective) -> Tensor:
        """Adapt to a batch and return the similarities of the last forward pass, B x N_G."""
        with self.adapting():
            prepared = self.on_device(batch)
            for step in range(self.steps):
                features = self.encode(prepared)
                with self.recording.part("adapt"):
                    similarities, loss = objective(features, step)
                    self.descend(loss)
            return similarities.detach()

    def finish(self, similarities: Tensor) -> Tensor:
        """Close the timings of a batch; returns its similarities, those of equal gallery items equal to the bit."""
        with self.recording.part("rerank"):
            similarities = self.gallery.tied(similarities)
        self.recording.end_batch(len(similarities))
        return similarities

    def backward(self, loss: Tensor | None) -> bool:
        """Fill the gradients. Returns False, and counts it, without a loss or if a value is infinite or NaN."""
        for parameter in self.parameters:
            parameter.grad = None
        if loss is None:
            self.recording.counts["empty"] += 1
            return False
        with tensor_cores(self.precision, self.model.device):
            loss.backward()
        gradients = [parameter.grad.flatten() for parameter in self.parameters if parameter.grad is not None]
        # One look for all of them: a GPU stops for each.
        if bool(torch.cat([loss.detach().flatten(), *gradients]).isfinite().all()):
            return True
        self.recording.counts["non_finite"] += 1
        return False

    def update(self) -> None:
        """One step of AdamW with the current gradients."""
        assert self._optimizer is not None
        self._optimizer.step()
        self.recording.counts["updates"] += 1

    def descend(self, loss: Tensor | None) -> None:
        """Backward pass, and an update if all gradients are finite."""
        if self.backward(loss):
            self.update()

    @torch.no_grad()
    def _load(self, weights: list[Tensor]) -> None:
        for parameter, weight in zip(self.parameters, weights, strict=True):
            parameter.copy_(weight)


def layer_norms(tower: nn.Module) -> list[nn.Parameter]:
    """Weights and biases of the LayerNorms of a tower, in order."""
    norms = (module for module in tower.modules() if isinstance(module, nn.LayerNorm))
    both = itertools.chain.from_iterable((norm.weight, norm.bias) for norm in norms)
    return [parameter for parameter in both if parameter is not None]
