"""What the jobs of an evaluation request: memory and time, from their clips, captions, frames, scenarios and methods.

Rates were measured (docs/measurements/performance.md). No NumPy: Snakemake imports this module.
"""

from __future__ import annotations

from perturbations.config import sections as configuration
from perturbations.evaluation import planning as evaluation
from perturbations.plan import costs
from perturbations.plan.sharding import DatasetPlan
from perturbations.tta.methods import registry as methods

# --- memory -----------------------------------------------------------------------------------------------------------

_MIB = 2**20


_TOWERS = {
    "v2t": {True: 50 * 768 * 12, False: 17 * 96 * 3},
    "t2v": {True: 77 * 512 * 12, False: 32 * 96 * 2},
}
"""Tokens per image or text x width x layers of the tower whose LayerNorms adapt: of ViT-B/32, and of the demo's."""

_PER_LAYER = {"v2t": 20, "t2v": 25}
"""Numbers that a step keeps per token, in units of the width: measured 16 and 23, with SAR's two passes too."""

_PAIRS_MIB = 800
"""X-Pool's vectors of pairs of a text and a video, at most (`tta.gallery.PAIRS`)."""

_FEATURE = 512
"""Numbers per frame or text of the gallery."""


def job_memory_mb(
    config: configuration.Config, dataset: str, job: evaluation.JobKey, group: str, plan: DatasetPlan
) -> int:
    """The memory of a job of `evaluate` in MB, from its direction, methods, scenarios, queries and gallery."""
    direction, wanted = job[0], config.evaluation
    scenarios = len(evaluation.jobs(config, dataset).get(job, ()))
    names = evaluation.methods(config, group)
    queries, gallery = (plan.listed, plan.captions) if direction == "v2t" else (plan.captions, plan.listed)
    similarities = 6 * 4 * queries * gallery  # with their copies in the metrics
    of_gallery = 4 * 4 * gallery * _FEATURE * (wanted.num_frames if direction == "t2v" else 1)
    kept = 4 * queries * _FEATURE * (wanted.num_frames if direction == "v2t" else 1)
    rows = _MIB * scenarios * len(names) * (1 + queries // 1000)
    total = _process_mib(config) + (similarities + of_gallery + kept + rows) // _MIB
    total += _PAIRS_MIB if wanted.model == "xpool" else 0
    if _on_cpu(config) and any(methods.method(name).adapts for name in names):
        per_query = _TOWERS[direction][wanted.pretrained is not None] * (wanted.num_frames if direction == "v2t" else 1)
        total += 4 * _PER_LAYER[direction] * wanted.batch_size * per_query // _MIB
    return _mb(total)


def gallery_memory_mb(config: configuration.Config, plan: DatasetPlan) -> int:
    """The memory of the job that encodes a dataset's clean clips, in MB."""
    features = 3 * 4 * plan.listed * config.evaluation.num_frames * _FEATURE
    return _mb(_process_mib(config) + 500 + features // _MIB)


def model_memory_mb(config: configuration.Config) -> int:
    """The memory of the job that checks a model, in MB."""
    return _mb(_process_mib(config))


def _mb(mib: int) -> int:
    return -(-mib * _MIB // 10**6)


def _on_cpu(config: configuration.Config) -> bool:
    return not config.evaluation.device.startswith("cuda")


def _process_mib(config: configuration.Config) -> int:
    """A process with its libraries and the model, while it is loaded."""
    on_gpu = 0 if _on_cpu(config) else 2500  # CUDA's libraries; not measured
    return on_gpu + (1000 if config.evaluation.pretrained is None else 2500)


# --- time -------------------------------------------------------------------------------------------------------------

_PER_FRAME, _PER_TEXT = 0.09, 0.3
"""CPU seconds of ViT-B/32 per frame and per text."""

_ADAPTING = 6
"""Passes of a method that learns, in units of one without: TCR with 3 steps."""

_ON_GPU = 0.2
"""The same on a GPU, where reading clips takes the time; not measured."""

_MOST_MINUTES = 1440
"""Of a job with a journal: its next attempt goes on where it stopped, and many partitions allow a day."""


def encoding_minutes(
    config: configuration.Config, plan: DatasetPlan, modality: evaluation.Modality, times: int = 1
) -> int:
    """The time that a job requests that encodes all clips or captions of a dataset, or so many versions of them."""
    return costs.requested_minutes(times * _seconds(config, plan, modality))


def job_minutes(
    config: configuration.Config, dataset: str, job: evaluation.JobKey, group: str, plan: DatasetPlan
) -> int:
    """The time that a job of `evaluate` requests: per scenario, each method's passes over what is perturbed."""
    direction, side = job[:2]
    asks: evaluation.Modality = "clips" if direction == "v2t" else "captions"
    answers: evaluation.Modality = "captions" if asks == "clips" else "clips"
    names = evaluation.methods(config, group)
    passes = sum(_ADAPTING if methods.method(name).adapts else 1 for name in names)
    seconds = passes * _seconds(config, plan, asks)
    if evaluation.perturbs(answers, direction, side):
        seconds += _seconds(config, plan, answers)
    scenarios = len(evaluation.jobs(config, dataset).get(job, ()))
    return min(_MOST_MINUTES, costs.requested_minutes(scenarios * seconds))


def _seconds(config: configuration.Config, plan: DatasetPlan, modality: evaluation.Modality) -> float:
    """Of encoding all clips or captions once."""
    frames = plan.listed * config.evaluation.num_frames * _PER_FRAME
    return (frames if modality == "clips" else plan.captions * _PER_TEXT) * (1 if _on_cpu(config) else _ON_GPU)
