"""The memory that the jobs of an evaluation ask a cluster for. No torch: Snakemake imports this.

The figures were measured with ViT-B/32 and the demo's encoder (docs/measurements/adaptation.md). They are requests, not
limits of the program: a job that is killed for lack of memory asks for twice as much at its next attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from perturbations.base import jsontext
from perturbations.config import sections as configuration
from perturbations.evaluation import planning as evaluation
from perturbations.plan.sharding import DatasetPlan
from perturbations.tta.methods import registry as methods

_MIB = 2**20


class _Tower(NamedTuple):
    """The tower whose LayerNorms adapt: tokens per image or text, width, layers."""

    tokens: int
    width: int
    layers: int


_VIT_B32 = {"v2t": _Tower(50, 768, 12), "t2v": _Tower(77, 512, 12)}
_DEMO = {"v2t": _Tower(17, 96, 3), "t2v": _Tower(32, 96, 2)}

_PER_LAYER = {"v2t": 20, "t2v": 25}
"""Numbers that a step keeps per token, in units of the width: measured 16 and 23, with SAR's two passes too."""

_PAIRS_MIB = 800
"""X-Pool's vectors of pairs of a text and a video, at most (`tta.gallery.PAIRS`)."""

_FEATURE = 512
"""Numbers per frame or text of the gallery."""


def job_memory_mb(
    config: configuration.Config, dataset: str, job: evaluation.JobKey, group: str, plan: DatasetPlan, attempt: int = 1
) -> int:
    """The memory of a job of `evaluate` in MB, from its direction, methods, scenarios, queries and gallery."""
    direction, wanted = job[0], config.evaluation
    scenarios = len(evaluation.jobs(config, dataset).get(job, ()))
    names = evaluation.methods(config, group)
    queries, gallery = (plan.listed, plan.captions) if direction == "v2t" else (plan.captions, plan.listed)
    similarities = 6 * 4 * queries * gallery  # with their copies in the metrics
    of_gallery = 4 * 4 * gallery * _FEATURE * (wanted.num_frames if direction == "t2v" else 1)
    kept = 4 * queries * _FEATURE * (wanted.num_frames if direction == "v2t" else 1)
    rows = _MIB * scenarios * len(names) * len(wanted.seeds) * (1 + queries // 1000)
    total = _process_mib(config) + (similarities + of_gallery + kept + rows) // _MIB
    total += _PAIRS_MIB if wanted.model == "xpool" else 0
    if _on_cpu(config) and any(methods.method(name).adapts for name in names):
        tower = _tower(config, direction)
        per_query = tower.tokens * (wanted.num_frames if direction == "v2t" else 1)
        total += 4 * _PER_LAYER[direction] * wanted.batch_size * per_query * tower.width * tower.layers // _MIB
    return _mb(total, attempt)


def gallery_memory_mb(config: configuration.Config, plan: DatasetPlan, attempt: int = 1) -> int:
    """The memory of the job that encodes a dataset's clean clips, in MB."""
    features = 3 * 4 * plan.listed * config.evaluation.num_frames * _FEATURE
    return _mb(_process_mib(config) + 500 + features // _MIB, attempt)


def model_memory_mb(config: configuration.Config, attempt: int = 1) -> int:
    """The memory of the job that checks a model, in MB."""
    return _mb(_process_mib(config), attempt)


def _mb(mib: int, attempt: int) -> int:
    """What an attempt asks for, in MB: twice as much as the one before."""
    return -(-mib * _MIB // 10**6) * (1 << (attempt - 1))


def _on_cpu(config: configuration.Config) -> bool:
    return not config.evaluation.device.startswith("cuda")


def _process_mib(config: configuration.Config) -> int:
    """A process with its libraries and the model, while it is loaded."""
    on_gpu = 0 if _on_cpu(config) else 2500  # CUDA's libraries; not measured
    return on_gpu + (1000 if config.evaluation.pretrained is None else 2500)


def _tower(config: configuration.Config, direction: str) -> _Tower:
    """The tower of a direction's queries, as the model's folder describes it; ViT-B/32's for a model elsewhere."""
    pretrained = config.evaluation.pretrained
    if pretrained is None:
        return _DEMO[direction]
    try:
        described = jsontext.mapping((Path(pretrained).expanduser() / "config.json").read_bytes())
    except (OSError, ValueError):
        return _VIT_B32[direction]
    name = "vision_config" if direction == "v2t" else "text_config"
    part = described.get(name)
    return _described(part if isinstance(part, dict) else {}, _VIT_B32[direction])


def _described(part: Mapping[str, object], known: _Tower) -> _Tower:
    def whole(name: str) -> int:
        value = part.get(name)
        return value if isinstance(value, int) and 0 < value <= 100_000 else 0

    side, patch = whole("image_size"), whole("patch_size")
    tokens = (side // patch) ** 2 + 1 if side and patch else whole("max_position_embeddings")
    return _Tower(
        tokens or known.tokens, whole("hidden_size") or known.width, whole("num_hidden_layers") or known.layers
    )
