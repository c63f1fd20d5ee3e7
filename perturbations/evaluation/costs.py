"""What the jobs of an evaluation take: CPU seconds on one core. No torch: Snakemake imports this room.

Coarse: within a factor of two. Measured with ViT-B/32 and on the demo (docs/measurements/adaptation.md). Other models
take as long as their tower has tokens x width^2 x layers. The time of a GPU is not estimated.
"""

from __future__ import annotations

from perturbations.base.storage import PROFILES
from perturbations.config import sections as configuration
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation import sizes as evaluation_sizes
from perturbations.preflight.costs import Volume
from perturbations.tta.methods import registry as methods

TRAIN_S = 95.0
"""Of training the demo's encoder."""

CHECK_S = 5.6
"""Of checking a model."""

_START_S, _WEIGHTS_S = 4.6, 1.0
"""Of a job's libraries, and of a pretrained model's weights."""

_PLAIN_S = {"v2t": 0.65, "t2v": 0.05}
"""Per query with ViT-B/32, 12 frames, of a method that only encodes."""

_LEARNING_S = {"v2t": 2.8, "t2v": 0.25}
"""Likewise with 3 steps of the optimizer."""

_TWICE = ("sar",)
"""Methods whose step is two passes."""

_SMALL_S = 0.001
"""Per query and method, whatever the model: similarities, ranks, calls."""

_READ_S = {"lossless": 0.030, "high": 0.0155, "compatible": 0.0065, "released": 0.0018, "recipe": 0.007}
"""Per million pixels that a clip has, decoded to its end."""

_FRAME_S = {"lossless": 0.036, "high": 0.017, "frames": 0.007}
"""Per million pixels of the frames that are read, where each is a key frame or a picture of its own."""

SOURCE_READ_S = 0.0055
"""Per million pixels of a clean clip."""


def computes_on_cpu(config: configuration.Config) -> bool:
    """Whether the model runs on the CPU."""
    return config.evaluation.device == "cpu"


def read_s(config: configuration.Config, tier: str, clip: Volume) -> float:
    """The time to read a perturbed clip."""
    profile = PROFILES.get(tier)
    if tier == "frames" or (profile is not None and profile.key_frames == config.evaluation.num_frames):
        return _FRAME_S[tier] * clip.frame_pixels * config.evaluation.num_frames / 1e6
    return _READ_S[tier] * clip.pixels / 1e6


def job_cpu_s(
    config: configuration.Config, dataset: str, job: evaluation.Job, group: str, queries: int, clip_s: float
) -> float:
    """The time of a job of `evaluate`; `clip_s` is what reading one of its clips takes."""
    scenarios = len(evaluation.jobs(config, dataset).get(job, ()))
    names = evaluation.methods(config, group)
    per_query = clip_s if job[0] == "v2t" else 0.0
    if computes_on_cpu(config):
        per_query += sum(_method_s(config, job[0], name) for name in names) * len(config.evaluation.seeds)
    return _start_s(config) + scenarios * queries * per_query


def gallery_cpu_s(config: configuration.Config, clips: int, clip_s: float) -> float:
    """The time of encoding a dataset's clean clips."""
    encoding = _PLAIN_S["v2t"] * _size(config, "v2t") if computes_on_cpu(config) else 0.0
    return _start_s(config) + clips * (clip_s + encoding)


def _start_s(config: configuration.Config) -> float:
    return _START_S if config.evaluation.pretrained is None else _START_S + _WEIGHTS_S


def _method_s(config: configuration.Config, direction: str, name: str) -> float:
    if methods.method(name).adapts:
        steps = config.evaluation.steps / 3 * (2 if name in _TWICE else 1)
        return _SMALL_S + _LEARNING_S[direction] * steps * _size(config, direction)
    return _SMALL_S + _PLAIN_S[direction] * _size(config, direction)


def _size(config: configuration.Config, direction: str) -> float:
    """The work of a query, relative to that of ViT-B/32 with 12 frames."""
    frames = config.evaluation.num_frames / 12 if direction == "v2t" else 1.0
    return evaluation_sizes.relative_cost(config, direction) * frames
