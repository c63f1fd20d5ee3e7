"""The section `evaluation` of `config.yaml`: which retrieval is run, with which models, and how they adapt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_validator,
)

from perturbations.base.errors import cut, short
from perturbations.base.readers import Reader
from perturbations.base.settings import AnySeverity, Device, ModelName, Seed, Strict, Whole, distinct
from perturbations.config.problems import Problem, is_known, not_configured, problem, unknown
from perturbations.evaluation.plan import method_settings
from perturbations.evaluation.plan.method_settings import (
    NEED_BANK,
    TAKE_GALLERY_BANK,
    MethodEntry,
    MethodName,
    NamedMethod,
    with_parameters,
)
from perturbations.evaluation.published import protocols
from perturbations.evaluation.result_rows import PUBLISHED_BATCH
from perturbations.suites import suite_registry
from perturbations.tta.methods import method_registry as methods

if TYPE_CHECKING:
    from perturbations.config.sections import Config
    from perturbations.corpus.plan.targets import CaptionShards, Plans, Target

_Side = Literal["query", "gallery", "both"]
_Mix = Literal["mixed_severity", "mixed_types"]
Pooling = Literal["clip4clip", "xpool"]


def _no_pooling(model: str) -> str:
    if model in get_args(Pooling) and not os.path.isdir(model):
        raise ValueError(f"{model} says how frames are pooled: write `pooling: {model}`; `model` is a name or a folder")
    return model


_Model = Annotated[ModelName, AfterValidator(_no_pooling)]
AdaptationSetting = Literal["qs", "qgs_cross", "qgs_zero_shot"]
Precision = Literal["float32", "tf32", "bfloat16"]


def direction_of_clips(direction: object) -> object:
    """The name of a direction in results: a picture is a clip of one frame."""
    return {"i2t": "v2t", "t2i": "t2v"}.get(direction, direction) if isinstance(direction, str) else direction


_Direction = Annotated[
    Literal["v2t", "t2v"],
    BeforeValidator(direction_of_clips, json_schema_input_type=Literal["v2t", "t2v", "i2t", "t2i"]),
]


_ProtocolName = Annotated[
    str,
    method_settings.registered(protocols.protocol),
    WithJsonSchema({"type": "string", "enum": list(protocols.protocols())}),
]

Severities = Annotated[tuple[AnySeverity, ...], Field(min_length=1)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


def _form_of(value: Any) -> str:
    return _PER_CATEGORY if isinstance(value, dict) else _LIST


_LIST, _PER_CATEGORY = "tuple[severities]", "tuple[categories]"
"""Tags that messages leave out, like pydantic's own tags of tuples."""

_OfCategory = Annotated[
    Severities,
    BeforeValidator(_as_list),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}, "minItems": 1}]}),
]
_AnySeverities = Annotated[
    Annotated[Severities, Tag(_LIST)] | Annotated[dict[str, _OfCategory], Tag(_PER_CATEGORY)],
    Discriminator(_form_of),
]

_OTHERS = (5,)
"""The severities of categories that `severities` does not name."""


class EvaluatedModel(Strict):
    """One of several models; keys that are left out are as in the section around it."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64, description="its name in tables and in paths"
    )
    model: _Model | None = Field(
        None, description="a model of transformers: its name or its folder; the default is the demo's small encoder"
    )
    revision: str | None = Field(None, description="its commit")
    checkpoint: Path | None = Field(None, description="fine-tuned weights; xpool needs them")
    pooling: Pooling = Field("clip4clip", description="how frames are pooled")
    setting: AdaptationSetting | None = Field(None, description="what it was trained on, as `evaluation.setting`")
    device: Device | None = Field(None, description="cpu, cuda, cuda:1, mps")
    precision: Precision | None = Field(None, description="of the query encoder's matrix products")
    num_frames: Annotated[Whole, Field(ge=1, le=4096)] | None = Field(None, description="frames per clip")
    methods: Annotated[tuple[NamedMethod, ...], Field(min_length=1)] | None = Field(
        None, description="its methods, as `evaluation.methods`"
    )


class Evaluation(Strict):
    """The models, the queries and the adaptation methods."""

    protocol: _ProtocolName | None = Field(
        None,
        description="a published protocol (`perturb list protocols`), which sets keys of this section and of `suites`; "
        "keys beside it replace its own",
    )
    models: tuple[EvaluatedModel, ...] = Field(
        (), description="several models; without it the one of `model`, `checkpoint` and `pooling`"
    )
    model: _Model | None = Field(
        None,
        description="a model of transformers (`perturb list backbones`): its name or its folder; the default is the "
        "demo's small encoder",
    )
    revision: str | None = Field(None, description="its commit")
    checkpoint: Path | None = Field(None, description="fine-tuned weights as X-Pool publishes them; xpool needs them")
    pooling: Pooling = Field("clip4clip", description="how frames are pooled")
    setting: AdaptationSetting = Field(
        "qs",
        description="qs: the model knows the dataset; qgs_cross: trained on another one; qgs_zero_shot: on none. "
        "The last two also evaluate clean queries",
    )
    directions: tuple[_Direction, ...] = Field(
        ("v2t", "t2v"),
        min_length=1,
        description="v2t: videos are the queries; t2v: captions are. Of pictures, i2t and t2i are the same",
    )
    sides: tuple[_Side, ...] = Field(
        ("query",),
        min_length=1,
        description="what is perturbed; both: the combinations that a suite declares (msrvtt_p)",
    )
    suites: tuple[str, ...] | None = Field(None, description="the suites; the default is all of `suites`")
    severities: _AnySeverities = Field(
        _OTHERS,
        description="a list, or per category, {character: 7, word: 2}, 5 for others. If a perturbation lacks a "
        "severity, the next lower one is used",
    )
    mixes: tuple[_Mix, ...] = Field((), description="mixed manifests of videos to run too")
    methods: tuple[NamedMethod, ...] = Field(
        methods.defaults(),
        min_length=1,
        description=f"the methods, beside `{methods.baseline().name}`: names, or settings of one, such as "
        '{name: hatvtr, label: "alpha 10", parameters: {alpha: 10}}',
    )
    parameters: dict[MethodName, dict[str, Any]] = Field(
        default_factory=dict,
        description="values that replace the published ones: method -> parameter -> value (`perturb list methods`)",
        json_schema_extra=with_parameters,
    )
    querybank: str | None = Field(
        None,
        description=f"{', '.join(NEED_BANK)}: the dataset whose captions (t2v) or videos (v2t) are its bank",
    )
    gallerybank: str | None = Field(
        None,
        description=f"{', '.join(TAKE_GALLERY_BANK)}: the dataset whose videos (t2v) or captions (v2t) are their bank "
        "of gallery items; the default is the gallery itself",
    )
    seeds: tuple[Seed, ...] = Field(
        (42,),
        min_length=1,
        description="of the order of queries: 42 is that of their ids, each other seed draws one",
    )
    batch_size: Whole = Field(PUBLISHED_BATCH, ge=1, le=65_536, description="queries at once")
    num_frames: Whole = Field(12, ge=1, le=4096, description="uniformly sampled frames per clip")
    steps: Whole = Field(3, ge=1, le=10_000, description="of the optimizer, per batch")
    device: Device = Field("cpu", description="cpu, cuda, cuda:1, mps")
    reader: Reader = Field("pyav", description="what decodes clips; the frames are the same")
    precision: Precision = Field(
        "float32", description="of the query encoder's matrix products; tf32 on an NVIDIA GPU alone"
    )
    top_k: Whole | None = Field(
        None, ge=1, le=1000, description="how many items that a query retrieved first are kept in ranks.parquet"
    )
    jobs_per_gpu: Whole = Field(1, ge=1, le=100, description="jobs that share one GPU; it never changes a result")

    @field_validator("directions", "sides", "suites", "severities", "mixes", "seeds")
    @classmethod
    def _once(cls, value: Any) -> Any:
        return value if value is None else distinct(value)

    @property
    def gpus(self) -> int:
        """GPUs of a job."""
        return int(self.device.startswith("cuda"))

    @property
    def gpu_share(self) -> int:
        """Percents of a GPU of a job."""
        return self.gpus * 100 // int(self.jobs_per_gpu)

    @property
    def threads(self) -> int:
        """Threads of a job: several on a GPU, to decode clips; 1 on a CPU, where one job runs per core."""
        return 8 if self.gpus else 1

    def severities_of(self, category: str) -> tuple[int, ...]:
        """The severities of a category's perturbations."""
        if isinstance(self.severities, dict):
            return self.severities.get(category, _OTHERS)
        return self.severities

    def method_settings(self) -> tuple[MethodEntry, ...]:
        """The methods with their parameters: first the model without adaptation."""
        return method_settings.settings(self.methods, self.parameters)

    def of_model(self, entry: EvaluatedModel) -> Evaluation:
        """This section with one model of the list as its only one; `models` keeps that entry, for its name."""
        own = {name: value for name, value in entry if value is not None and name in _SHARED}
        weights = {name: getattr(entry, name) for name in ("model", "revision", "checkpoint", "pooling")}
        return self.model_copy(update={**weights, **own, "models": (entry,)})

    def each_model(self) -> list[tuple[str, Evaluation]]:
        """The section with each model alone, after the prefix of its keys: "evaluation." or "evaluation.models.0."."""
        alone = [(f"evaluation.models.{place}.", self.of_model(entry)) for place, entry in enumerate(self.models)]
        return alone or [("evaluation.", self)]


_SHARED = ("setting", "device", "precision", "num_frames", "methods")
"""Keys that a model takes from the section where it does not set them."""


# --- what planning asks of evaluations --------------------------------------------------------------------------------


def targets(config: Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """The targets of evaluations (`corpus.plan.targets`)."""
    from perturbations.evaluation.plan import evaluation_files  # which needs the configuration's type

    return evaluation_files.menu(config, plans, caption_shards)


def instructions(config: Config, dataset: str, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite's instructions that are composed queries."""
    from perturbations.evaluation.plan import composed_runs  # which needs the configuration's type

    return composed_runs.instructions(config, dataset, suite)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def problems_of(config: Config) -> list[Problem]:
    """What an evaluation asks for, and is not configured or does not exist."""
    wanted = config.evaluation
    problems = not_configured("evaluation", {"suites": wanted.suites}, config.suites)
    entries = [entry for _, own in wanted.each_model() for entry in own.methods]
    named = dict.fromkeys(entry if isinstance(entry, str) else entry.name for entry in entries)
    problems += [
        problem("evaluation.querybank", f"the method `{name}` needs a bank: a dataset of training queries")
        for name in named
        if wanted.querybank is None and name in NEED_BANK
    ]
    problems += [
        problem(f"evaluation.{key}", unknown(name, config.datasets, "no configured dataset is called"))
        for key, name in (("querybank", wanted.querybank), ("gallerybank", wanted.gallerybank))
        if name is not None and name not in config.datasets
    ]
    problems += [
        (("evaluation", "parameters", name, parameter), text)
        for name, values in wanted.parameters.items()
        for parameter, text in methods.parameter_mistakes(name, values).items()
    ]
    suites = [name for name in (config.suites if wanted.suites is None else wanted.suites) if is_known(name, config)]
    if "both" in wanted.sides and not any(suite_registry.suite(name).combined for name in suites):
        declaring = ", ".join(name for name, suite in suite_registry.suites().items() if suite.combined)
        problems.append(problem("evaluation.sides", f"`both` needs a suite that declares combinations: {declaring}"))
    if isinstance(wanted.severities, dict):
        known = {entry.category for name in suites for entry in suite_registry.suite(name).perturbations}
        problems += [
            problem("evaluation.severities", unknown(name, sorted(known), "unknown category"))
            for name in wanted.severities
            if name not in known
        ]
    names = [re.sub(r"[^a-z0-9_]+", "-", entry.name.lower()) for entry in wanted.models]
    if len(set(names)) < len(names):
        problems.append(problem("evaluation.models", "two models have the same name in lower case"))
    if wanted.models and (wanted.model or wanted.checkpoint or wanted.revision):
        text = "`model`, `checkpoint` and `revision` are of a single model: give them to members of the list"
        problems.append(problem("evaluation.models", text))
    lists: dict[tuple[str, ...], Evaluation] = {
        ("evaluation", *(("models", str(place)) if entry.methods else ()), "methods"): wanted.of_model(entry)
        for place, entry in enumerate(wanted.models)
    }
    for place, own in (lists or {("evaluation", "methods"): wanted}).items():
        problems += method_settings.problems(place, own.methods, own.parameters, own.directions)
    for key, own in wanted.each_model():
        problems += _of_model(key, own)
    return problems


def _of_model(key: str, wanted: Evaluation) -> Iterator[Problem]:
    """Settings of a model that do not fit each other; `key` is the prefix of its keys."""
    if wanted.precision == "tf32" and not wanted.device.startswith("cuda"):
        yield problem(f"{key}precision", f"tf32 needs an NVIDIA GPU, and `device` is {short(wanted.device)}")
    if wanted.pooling == "xpool" and wanted.checkpoint is None:
        text = "`xpool` needs the weights of its pooling: a published X-Pool checkpoint"
        yield problem(f"{key}checkpoint", text)
    if wanted.model is None and (wanted.checkpoint is not None or wanted.revision is not None):
        yield problem(f"{key}model", "weights are given, but not the model they are for")
    if wanted.checkpoint is not None and not os.path.isfile(wanted.checkpoint):
        yield problem(f"{key}checkpoint", f"no such file: {cut(str(wanted.checkpoint))}")
