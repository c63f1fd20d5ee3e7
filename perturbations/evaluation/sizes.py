"""What the jobs of an evaluation request: memory and time, from their clips, captions, frames, scenarios and methods.

Rates were measured (docs/measurements/performance.md). No NumPy: Snakemake imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perturbations.config import sections as configuration
from perturbations.corpus import costs
from perturbations.corpus.sharding import DatasetPlan
from perturbations.evaluation import model_files, planning
from perturbations.evaluation.backbones import registry as backbones
from perturbations.evaluation.rows import Run
from perturbations.evaluation.section import Evaluation
from perturbations.tta.methods import registry as methods

# --- memory -----------------------------------------------------------------------------------------------------------

_MIB = 2**20

_DEMO = {"v2t": 17 * 64 * 3, "t2v": 32 * 64 * 2}
"""Tokens per image or text x width x layers of the tower whose LayerNorms adapt, of the demo's encoder."""

_PER_LAYER, _OWN_PASS = {"v2t": 20, "t2v": 25}, 12
"""Numbers that a step keeps per token, in units of the width, and of images in the pass of `tta.towers`; measured 16,
23 and 10, with SAR's two passes too."""

_PAIRS_MIB = 800
"""X-Pool's vectors of pairs of a text and a video, at most (`tta.gallery.PAIRS`)."""

_FEATURE = 512
"""Numbers per frame or text of the gallery."""


def job_memory_mb(config: configuration.Config, runs: Sequence[Run], plan: DatasetPlan) -> int:
    """The memory of a job of `evaluate` in MB, from its direction, methods, scenarios, queries and gallery."""
    wanted, direction = config.evaluation, runs[0].direction
    clips_ask = direction == "v2t"
    queries, gallery = (plan.listed, plan.captions) if clips_ask else (plan.captions, plan.listed)
    asking_frames, answering_frames = (wanted.num_frames, 1) if clips_ask else (1, wanted.num_frames)
    similarities = 6 * 4 * queries * gallery  # with their copies in the metrics
    features = 4 * _FEATURE * (4 * gallery * answering_frames + queries * asking_frames)
    total = model_mib(config) + (similarities + features) // _MIB + len(runs) * (1 + queries // 1000)
    total += _PAIRS_MIB if wanted.model == "xpool" else 0
    if not wanted.gpus and any(methods.method(run.method).adapts for run in runs):
        kept = _OWN_PASS if clips_ask and _has_own_pass(wanted) else _PER_LAYER[direction]
        total += 4 * kept * wanted.batch_size * asking_frames * _tower(wanted, direction) // _MIB
    return mb(total)


def _described(wanted: Evaluation) -> Mapping[str, Any]:
    return {} if wanted.pretrained is None else model_files.described(wanted.pretrained, wanted.revision)


def _has_own_pass(wanted: Evaluation) -> bool:
    declared = backbones.backbones().get(str(_described(wanted).get("model_type", "clip")))
    return wanted.pretrained is not None and declared is not None and declared.own_pass


def _tower(wanted: Evaluation, direction: str) -> int:
    """Tokens per image or text x width x layers of the tower whose LayerNorms adapt; what is not said is ViT-B/32's."""
    if wanted.pretrained is None:
        return _DEMO[direction]
    images = direction == "v2t"
    config = _described(wanted).get("vision_config" if images else "text_config")
    values = config if isinstance(config, dict) else {}
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    patches = numbers.get("image_size", 224) // max(1, numbers.get("patch_size", 32))
    tokens = patches**2 + 1 if images else min(77, numbers.get("max_position_embeddings", 77))
    return tokens * numbers.get("hidden_size", 768 if images else 512) * numbers.get("num_hidden_layers", 12)


def gallery_memory_mb(config: configuration.Config, plan: DatasetPlan) -> int:
    """The memory of the job that encodes a dataset's clean clips, in MB."""
    features = 3 * 4 * plan.listed * config.evaluation.num_frames * _FEATURE
    return mb(model_mib(config) + 500 + features // _MIB)


def model_mib(config: configuration.Config) -> int:
    """A process with its libraries and the model, while it is loaded, in MiB."""
    wanted: Evaluation = config.evaluation
    on_gpu = 2500 * wanted.gpus  # CUDA's libraries; not measured
    return on_gpu + (1000 if wanted.pretrained is None else 2500)


def mb(mib: int) -> int:
    """MiB in MB, rounded up."""
    return -(-mib * _MIB // 10**6)


# --- time -------------------------------------------------------------------------------------------------------------

_PER_FRAME, _PER_TEXT = 0.09, 0.3
"""CPU seconds of ViT-B/32 per frame and per text; a larger tower takes more."""

_VIT_B32 = {"v2t": 50 * 768 * 12, "t2v": 77 * 512 * 12}

_ADAPTING = 6
"""Passes of a method that learns, in units of one without: TCR with 3 steps."""

_ON_GPU = 0.2
"""The same on a GPU, where reading clips takes the time; not measured."""

_MOST_MINUTES = 1440
"""Of a job with a journal: its next attempt goes on where it stopped, and many partitions allow a day."""


def encoding_minutes(
    config: configuration.Config, plan: DatasetPlan, modality: planning.Modality, times: int = 1
) -> int:
    """The time that a job requests that encodes all clips or captions of a dataset, or so many versions of them."""
    return costs.requested_minutes(times * _seconds(config, plan, modality))


def job_minutes(config: configuration.Config, runs: Sequence[Run], plan: DatasetPlan) -> int:
    """The time that a job of `evaluate` requests."""
    return min(_MOST_MINUTES, costs.requested_minutes(job_seconds(config, runs, plan)))


def job_seconds(config: configuration.Config, runs: Sequence[Run], plan: DatasetPlan) -> float:
    """The estimated time of a job of `evaluate`: per scenario, each method's passes over what is perturbed."""
    direction = runs[0].direction
    passes = sum(_ADAPTING if methods.method(run.method).adapts else 1 for run in runs)
    seconds = passes * _seconds(config, plan, planning.asks(direction))
    answering = planning.answers(direction)
    galleries = {run.scenario for run in runs if planning.perturbs(answering, direction, run.side)}
    return seconds + len(galleries) * _seconds(config, plan, answering)


def _seconds(config: configuration.Config, plan: DatasetPlan, modality: planning.Modality) -> float:
    """Of encoding all clips or captions once."""
    wanted, direction = config.evaluation, "v2t" if modality == "clips" else "t2v"
    seconds = plan.listed * wanted.num_frames * _PER_FRAME if modality == "clips" else plan.captions * _PER_TEXT
    larger = max(1.0, _tower(wanted, direction) / _VIT_B32[direction])
    return seconds * larger * (_ON_GPU if wanted.gpus else 1)
