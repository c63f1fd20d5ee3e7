"""The section `evaluation` of `config.yaml`: the model, the queries and the adaptation methods."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator

from perturbations.base.errors import ConfigError, cut, short
from perturbations.base.readers import Reader
from perturbations.base.settings import AnySeverity, ModelName, Strict, Whole, distinct
from perturbations.config import sections as configuration
from perturbations.config.problems import Problem, not_among, not_configured, problem
from perturbations.config.sections import Device, Seed
from perturbations.tta.methods import registry as methods


def _known_method(name: str) -> str:
    try:
        return methods.method(name).name
    except ConfigError as error:
        raise ValueError(str(error)) from None


MethodName = Annotated[
    str, AfterValidator(_known_method), WithJsonSchema({"type": "string", "enum": list(methods.methods())})
]
_NEED_BANK = [name for name, method in methods.methods().items() if method.needs_bank]
Mix = Literal["mixed_severity", "mixed_types"]


class Evaluation(Strict):
    """The model, the queries and the adaptation methods."""

    model: Literal["clip4clip", "xpool"] = Field("clip4clip", description="how frames are pooled")
    pretrained: ModelName | None = Field(
        None,
        description="a model of transformers (`perturb list backbones`): its name or its folder; the default is the "
        "small encoder that the workflow trains on the demo's own scenes",
    )
    revision: str | None = Field(None, description="its commit")
    checkpoint: Path | None = Field(None, description="fine-tuned weights as X-Pool publishes them; xpool needs them")
    setting: Literal["qs", "qgs_cross", "qgs_zero_shot"] = Field(
        "qs",
        description="qs: the model knows the dataset, queries are perturbed; qgs_cross: it was trained on another "
        "dataset; qgs_zero_shot: on none. The last two also evaluate clean queries; without suites, only those",
    )
    continual: bool = Field(
        False,
        description="true: a method keeps what it learned from one scenario of a job to the next, in their order; "
        "false: it starts again in each",
    )
    directions: tuple[Literal["v2t", "t2v"], ...] = Field(
        ("v2t", "t2v"), min_length=1, description="v2t: videos are the queries; t2v: captions are"
    )
    suites: tuple[str, ...] | None = Field(
        None, description="the suites of perturbed queries; the default is all of `suites`"
    )
    severities: tuple[AnySeverity, ...] = Field(
        (5,), min_length=1, description="if a perturbation lacks a severity, the next lower one is used"
    )
    mixes: tuple[Mix, ...] = Field((), description="mixed manifests to evaluate too, v2t")
    methods: tuple[MethodName, ...] = Field(
        methods.defaults(),
        min_length=1,
        description=f"the methods, beside `{methods.baseline().name}`, which is always run",
    )
    bank: str | None = Field(
        None, description=f"{', '.join(_NEED_BANK)}: the dataset whose captions (t2v) or videos (v2t) are its bank"
    )
    seeds: tuple[Seed, ...] = Field((42,), min_length=1, description="of the methods")
    batch_size: Whole = Field(16, ge=1, le=65_536, description="queries at once")
    num_frames: Whole = Field(12, ge=1, le=4096, description="uniformly sampled frames per clip")
    steps: Whole = Field(3, ge=1, le=10_000, description="of the optimizer, per batch")
    device: Device = Field("cpu", description="cpu, cuda, cuda:1, mps")
    reader: Reader = Field("pyav", description="what decodes clips: pyav, decord; the frames are the same")
    precision: Literal["float32", "tf32", "bfloat16"] = Field(
        "float32", description="of the query encoder's matrix products; tf32 on an NVIDIA GPU alone"
    )
    jobs_per_gpu: Whole = Field(1, ge=1, le=100, description="jobs that share one GPU; it never changes a result")

    @field_validator("directions", "suites", "severities", "mixes", "methods", "seeds")
    @classmethod
    def _once(cls, value: Any) -> Any:
        return value if value is None else distinct(value)


def problems_of(config: configuration.Config) -> list[Problem]:
    """What an evaluation asks for that is not configured, or not there."""
    wanted = config.evaluation
    problems = not_configured("evaluation", {"suites": wanted.suites}, config.suites)
    if wanted.bank is None:
        problems += [
            problem("evaluation.bank", f"the method `{name}` needs a bank: a dataset of training queries")
            for name in wanted.methods
            if methods.method(name).needs_bank
        ]
    if wanted.bank is not None and wanted.bank not in config.datasets:
        problems.append(problem("evaluation.bank", not_among(wanted.bank, "datasets", config.datasets)))
    if wanted.precision == "tf32" and not wanted.device.startswith("cuda"):
        text = f"tf32 needs an NVIDIA GPU, and `device` is {short(wanted.device)}"
        problems.append(problem("evaluation.precision", text))
    if wanted.model == "xpool" and wanted.checkpoint is None:
        text = "`xpool` needs the weights of its pooling: a published X-Pool checkpoint"
        problems.append(problem("evaluation.checkpoint", text))
    if wanted.pretrained is None and (wanted.checkpoint is not None or wanted.revision is not None):
        problems.append(problem("evaluation.pretrained", "weights are given, but not the model they are for"))
    if wanted.checkpoint is not None and not os.path.isfile(wanted.checkpoint):
        problems.append(problem("evaluation.checkpoint", f"no such file: {cut(str(wanted.checkpoint))}"))
    return problems
