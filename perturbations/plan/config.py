"""`config.yaml` as typed objects: the one place that says what the file may contain.

`workflow/schemas/config.schema.json` is generated from these classes by `perturb schema` and checked in the tests.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import AfterValidator, Field, ValidationError, WithJsonSchema, create_model, field_validator
from pydantic.config import JsonDict

from perturbations.bounds import SEEDS
from perturbations.datasets import registry as datasets
from perturbations.datasets.registry import Dataset
from perturbations.errors import ConfigError, cut, short
from perturbations.guides import registry as guides
from perturbations.suites import registry
from perturbations.system import limits
from perturbations.system.settings import MOST_ITEMS, Reader, Strict, Whole
from perturbations.tta.methods import registry as methods

if TYPE_CHECKING:
    AnyDataset = Dataset
else:
    AnyDataset = datasets.settings_of_any()

Severity = Annotated[int, Field(ge=1, le=5)]
AnySeverity = Annotated[int, Field(ge=1, le=7)]
Variant = Literal["released", "paper"]


Device = Annotated[str, Field(pattern=r"^(cpu|mps|cuda(:[0-9]{1,3})?)$")]
Seed = Annotated[int, Field(strict=True, ge=SEEDS.low, le=SEEDS.high)]
RESERVED = ("whole", "logs", "benchmarks", "demo_encoder")
"""No names of datasets: folders of that name below `work` hold something else."""


class VideoStorage(Strict):
    """Full-length files."""

    tier: Literal["video"]
    profile: Literal["lossless", "high", "compatible"] = Field(
        "high", description="lossless: exact; high: >= 40 dB; compatible: 4:2:0, plays everywhere, lossy"
    )


class FramesStorage(Strict):
    """Uniformly sampled frames, as the evaluation protocols use them."""

    tier: Literal["frames"]
    num_frames: Whole = Field(12, ge=1, le=4096, description="how many uniformly sampled frames to keep, lossless")


class RecipeStorage(Strict):
    """No pixels: clips are rendered on demand."""

    tier: Literal["recipe"]


Storage = Annotated[VideoStorage | FramesStorage | RecipeStorage, Field(discriminator="tier")]


class CaptionBackend(Strict):
    """Who perturbs captions."""

    backend: Literal["offline", "pretrained"] = Field(
        "offline", description="offline: rules, WordNet, a small sentence model; pretrained: what the papers used"
    )


class _Backends(Strict):
    device: Device = Field("cpu", description="where pretrained models run: cpu, cuda, cuda:1, mps")
    dtype: Literal["float32", "bfloat16", "float16"] = Field("float32", description="the precision they run in")
    batch_clips: Whole = Field(
        1,
        ge=1,
        le=1024,
        description="clips that go through a model together: more is faster on a GPU, but the last bits of a result, "
        "and with them a near tie, may then depend on which clips share a batch",
    )
    captions: CaptionBackend = Field(
        default_factory=CaptionBackend, description="plays the roles of text perturbations"
    )

    def roles(self) -> dict[str, Strict]:
        """The settings of each role that a guide brings."""
        return {role.name: getattr(self, role.name) for role in guides.roles()}

    def wanted(self, *, variant: str = "released", sampled: int | None = None, donors: str = "") -> guides.Wanted:
        """What guides and analyses are made by; see there."""
        return guides.Wanted(
            roles=self.roles(),
            device=self.device,
            dtype=self.dtype,
            batch_clips=self.batch_clips,
            variant=variant,
            sampled=sampled,
            donors=donors,
        )


def _role_fields() -> dict[str, tuple[object, object]]:
    """The keys that guides bring: whose settings they are, as pydantic takes fields."""
    fields: dict[str, tuple[object, object]] = {}
    for role in guides.roles():
        several = len(role.players) > 1
        players = Annotated[Union[role.players], Field(discriminator="backend")] if several else role.players[0]  # noqa: UP007
        fields[role.name] = (players, Field(default_factory=role.players[0], description=role.summary))
    return fields


if TYPE_CHECKING:
    Backends = _Backends
else:
    Backends = create_model(
        "Backends",
        __base__=_Backends,
        __doc__="Who plays a model's role. What `offline` backends make does not compare with published numbers.",
        **_role_fields(),
    )


class Captions(Strict):
    """What to make of a suite's captions."""

    perturbations: Literal["all"] | tuple[str, ...] = Field("all", description="all, or a list of names")
    severities: Literal["all"] | tuple[AnySeverity, ...] = Field(
        "all", description="all that each perturbation has, or a list, of which it takes those that it has"
    )
    parameters: dict[str, dict[AnySeverity, dict[str, Any]]] = Field(
        default_factory=dict,
        description="values that replace the published ones: perturbation -> severity -> parameter -> value",
    )

    @field_validator("perturbations", "severities")
    @classmethod
    def _no_repetition(cls, value: Any) -> Any:
        return _distinct(value)


def _distinct(value: Any) -> Any:
    if isinstance(value, tuple) and len(set(value)) != len(value):
        raise ValueError(f"lists a value twice: {short(list(value))}")
    return value


class Suite(Strict):
    """What to make of one suite."""

    variant: Variant = Field("released", description="released: the authors' code; paper: the printed text")
    perturbations: Literal["all"] | tuple[str, ...] = Field("all", description="all, or a list of names")
    severities: tuple[Severity, ...] = Field((1, 2, 3, 4, 5), min_length=1, description="which severities")
    draw: Literal["clip", "frame"] | None = Field(
        None, description="mm_robustness: one realization a clip, the default, or one a frame"
    )
    severity: Literal["published", "calibrated"] = Field(
        "published",
        description="published: the papers' numbers; calibrated: those solved for even distortion on the dataset's own "
        "clips, by `snakemake calibrate_<dataset>`",
    )
    calibration: Path | None = Field(
        None, description="calibrated: the table; the default is manifests/<dataset>/calibration.json"
    )
    parameters: dict[str, dict[Severity, dict[str, Any]]] = Field(
        default_factory=dict,
        description="numbers that replace the published ones: perturbation -> severity -> parameter -> value",
    )
    captions: Captions = Field(default_factory=Captions, description="of the targets text_<suite>_<dataset>")

    @field_validator("perturbations", "severities")
    @classmethod
    def _no_repetition(cls, value: Any) -> Any:
        return _distinct(value)


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
    """Who is asked, and how it adapts."""

    model: Literal["clip4clip", "xpool"] = Field("clip4clip", description="how frames are pooled")
    pretrained: str | None = Field(
        None,
        description="a CLIP or BLIP model of transformers: its name or its folder; the default is the small encoder "
        "that the workflow trains on the demo's own scenes",
    )
    revision: str | None = Field(None, description="its commit")
    checkpoint: Path | None = Field(None, description="fine-tuned weights as X-Pool publishes them; xpool needs them")
    setting: Literal["qs", "qgs_cross", "qgs_zero_shot"] = Field(
        "qs",
        description="qs: the model knows the dataset, queries are perturbed; qgs_cross: it was trained on another "
        "dataset; qgs_zero_shot: on none. In the last two unperturbed queries are asked too, and alone if no suite is",
    )
    directions: tuple[Literal["v2t", "t2v"], ...] = Field(
        ("v2t", "t2v"), min_length=1, description="v2t: videos ask for captions; t2v: captions ask for videos"
    )
    suites: tuple[str, ...] | None = Field(None, description="whose perturbations; the default is all of `suites`")
    severities: tuple[AnySeverity, ...] = Field(
        (5,), min_length=1, description="where a perturbation is not made at one of them: at the highest below it"
    )
    mixes: tuple[Mix, ...] = Field((), description="mixed manifests to ask too, v2t")
    methods: tuple[MethodName, ...] = Field(
        methods.defaults(),
        min_length=1,
        description=f"how it adapts, beside `{methods.baseline().name}`, which is always run",
    )
    bank: str | None = Field(
        None, description=f"{', '.join(_NEED_BANK)}: the dataset whose captions (t2v) or videos (v2t) are its bank"
    )
    seeds: tuple[Seed, ...] = Field((42,), min_length=1, description="of the methods")
    batch_size: Whole = Field(16, ge=1, le=65_536, description="queries at once")
    num_frames: Whole = Field(12, ge=1, le=4096, description="uniformly sampled frames of a clip")
    steps: Whole = Field(3, ge=1, le=10_000, description="of the optimizer, a batch")
    device: Device = Field("cpu", description="cpu, cuda, cuda:1, mps")
    reader: Reader = Field("pyav", description="what decodes clips: pyav, decord; the frames are the same")
    precision: Literal["float32", "bfloat16"] = Field("float32", description="of the query encoder")

    @field_validator("directions", "suites", "severities", "mixes", "methods", "seeds")
    @classmethod
    def _once(cls, value: Any) -> Any:
        return value if value is None else _distinct(value)


class Limits(Strict):
    """What one file may ask for before its item is refused. Limits change no result and cause no rerun."""

    frame_pixels: int = Field(
        limits.DEFAULT.frame_pixels,
        ge=1,
        description="width x height of a frame, or of an image of a style or of frost",
    )
    frames: int = Field(limits.DEFAULT.frames, ge=1, description="frames of a video file, whole or cut from")
    seconds: int = Field(limits.DEFAULT.seconds, ge=1, description="length of a video file, whole or cut from, in s")
    decode_mib: int = Field(
        limits.DEFAULT.decode_mib,
        ge=1,
        description="memory that decoding a file takes, in MiB, computed before the first frame is decoded",
    )


def _with_suites(schema: JsonDict) -> None:
    """Let the JSON schema list the suites."""
    schema["propertyNames"] = {"enum": list(registry.suites())}


class Config(Strict):
    """The whole of `config.yaml`: what to make. Where it runs is a matter of workflow/profiles."""

    seed: Seed = Field(0, description="the one seed; a different one gives a different realization of everything")
    datasets: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)], AnyDataset] = Field(
        description="name -> dataset; the targets are called after the names, e.g. mlvp_msrvtt", min_length=1
    )
    suites: dict[str, Suite] = Field(
        description="suite -> what to make of it", min_length=1, json_schema_extra=_with_suites
    )
    backends: Backends = Field(default_factory=Backends)
    evaluation: Evaluation = Field(default_factory=Evaluation)
    storage: Storage = Field(default_factory=lambda: VideoStorage(tier="video"))
    shard_size: Whole = Field(100, ge=1, le=100_000, description="at most so many items a job; never changes a result")
    max_quarantine: Whole = Field(
        0, ge=0, le=MOST_ITEMS, description="how many items of a dataset may fail before the run does"
    )
    stall_limit_s: Whole = Field(
        120, ge=1, le=86_400, description="kill an item whose decoder gives no frame for so long"
    )
    limits: Limits = Field(default_factory=Limits, description="what one file may ask for before its item is refused")

    def max_quarantine_of(self, dataset: str) -> int:
        """How many items of `dataset` may fail."""
        own = self.datasets[dataset].max_quarantine
        return self.max_quarantine if own is None else own

    def calibration_of(self, dataset: str, suite: str) -> Path:
        """Where the table lies that a calibrated suite takes its numbers from."""
        return self.suites[suite].calibration or Path("manifests") / dataset / "calibration.json"

    def donors_of(self, dataset: str) -> str:
        """The dataset whose clips are inserted into those of `dataset`."""
        return self.datasets[dataset].donors or dataset


def parse(raw: dict[str, Any]) -> Config:
    """Check a configuration and give it types.

    Raises `ConfigError` with one line per mistake, each naming its key, all mistakes at once.
    """
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        # A list whose items are wrong is also reported as too short.
        problems = [one for one in error.errors(include_url=False) if one["type"] != "too_short" or not one["input"]]
        _raise([*(f"{_key(problem)}: {_explain(problem)}" for problem in problems), *_suite_problems(_readable(raw))])
    _raise(
        [
            *_suite_problems(config.suites),
            *_dataset_problems(config),
            *_backend_problems(config),
            *_evaluation_problems(config),
        ]
    )
    return config


def _readable(raw: object) -> dict[str, Suite]:
    """The suites of a configuration that is not valid elsewhere, so that their mistakes are named at once too."""
    suites = raw.get("suites") if isinstance(raw, dict) else None
    readable = {}
    for name, wanted in suites.items() if isinstance(suites, dict) else ():
        with contextlib.suppress(ValidationError):
            readable[str(name)] = Suite.model_validate(wanted)
    return readable


_MOST_PROBLEMS = 100


def _raise(problems: Sequence[str], what: str = "config.yaml is not valid") -> None:
    lines = list(dict.fromkeys(problems))
    if len(lines) > _MOST_PROBLEMS:
        lines[_MOST_PROBLEMS:] = [f"and {len(lines) - _MOST_PROBLEMS} more"]
    if lines:
        raise ConfigError(f"{what}:\n" + "\n".join(f"  {line}" for line in lines)) from None


def json_schema() -> str:
    """The JSON schema of `config.yaml`, as text."""
    return json.dumps(Config.model_json_schema(), indent=2, sort_keys=True) + "\n"


def check_paths(name: str, dataset: Dataset) -> None:
    """Raise `ConfigError` naming the key of every path of `dataset` that does not exist."""
    problems = []
    for key in ("annotations", "ids"):
        path = getattr(dataset, key)
        if path is not None and not os.path.isfile(path):
            problems.append(f"datasets.{name}.{key}: no such file: {cut(str(path))}")
    if dataset.videos is not None and not os.path.isdir(dataset.videos):
        problems.append(f"datasets.{name}.videos: no such directory: {cut(str(dataset.videos))}")
    _raise(problems, "config.yaml names what is not there")


def _dataset_problems(config: Config) -> list[str]:
    problems = []
    for name, dataset in config.datasets.items():
        if name in RESERVED:
            problems.append(f"datasets.{name}: the name is taken by a folder of the workflow; choose another")
        adapter = datasets.get(dataset.adapter)
        for key in adapter.needs:
            if getattr(dataset, key) is None:
                problems.append(f"datasets.{name}.{key}: the adapter '{dataset.adapter}' needs it")
        if dataset.ids is not None and "ids" not in adapter.takes:
            having = ", ".join(other.name for other in datasets.adapters().values() if "ids" in other.takes)
            problems.append(f"datasets.{name}.ids: for the adapters {having}, not '{dataset.adapter}'")
    return problems


def _suite_problems(suites: Mapping[str, Suite]) -> list[str]:
    problems = []
    for suite_name, wanted in suites.items():
        if suite_name not in registry.suites():
            problems.append(f"suites.{cut(suite_name)}: unknown suite; known: {', '.join(registry.suites())}")
            continue
        suite = registry.suite(suite_name)
        if wanted.draw is not None and not suite.draws_by_choice:
            choosing = ", ".join(name for name, one in registry.suites().items() if one.draws_by_choice)
            problems.append(f"suites.{suite_name}.draw: the paper says what is drawn; a choice for: {choosing}")
        known = {entry.name: entry for entry in suite.perturbations if entry.kind == "video"}
        if isinstance(wanted.perturbations, tuple):
            for name in wanted.perturbations:
                if name not in known:
                    problems.append(
                        f"suites.{suite_name}.perturbations: unknown {short(name)}; known: {', '.join(known)}"
                    )
        problems += _parameter_problems(suite_name, "parameters", wanted.parameters, known, wanted.variant)
        texts = {entry.name: entry for entry in suite.perturbations if entry.kind == "text"}
        of_captions = wanted.captions
        if isinstance(of_captions.perturbations, tuple):
            for name in of_captions.perturbations:
                if name not in texts:
                    place = f"suites.{suite_name}.captions.perturbations"
                    problems.append(f"{place}: unknown {short(name)}; known: {', '.join(texts) or 'none'}")
        problems += _parameter_problems(
            suite_name, "captions.parameters", of_captions.parameters, texts, wanted.variant
        )
    return problems


def _evaluation_problems(config: Config) -> list[str]:
    wanted = config.evaluation
    problems = [
        f"evaluation.suites: {short(name)} is not among `suites`: {', '.join(config.suites)}"
        for name in wanted.suites or ()
        if name not in config.suites
    ]
    if wanted.bank is None:
        problems += [
            f"evaluation.bank: the method `{name}` needs a bank: a dataset of training queries"
            for name in wanted.methods
            if methods.method(name).needs_bank
        ]
    if wanted.bank is not None and wanted.bank not in config.datasets:
        problems.append(f"evaluation.bank: {short(wanted.bank)} is not among `datasets`: {', '.join(config.datasets)}")
    if wanted.model == "xpool" and wanted.checkpoint is None:
        problems.append(
            "evaluation.checkpoint: `xpool` needs the weights of its pooling: a published X-Pool checkpoint"
        )
    if wanted.pretrained is None and (wanted.checkpoint is not None or wanted.revision is not None):
        problems.append("evaluation.pretrained: weights are given, but not the model they are for")
    if wanted.checkpoint is not None and not os.path.isfile(wanted.checkpoint):
        problems.append(f"evaluation.checkpoint: no such file: {cut(str(wanted.checkpoint))}")
    return problems


def _parameter_problems(
    suite_name: str,
    key: str,
    replaced: Mapping[str, Mapping[int, Mapping[str, Any]]],
    known: Mapping[str, registry.Perturbation],
    variant: str,
) -> list[str]:
    problems = []
    for name, by_severity in replaced.items():
        if name not in known:
            problems.append(f"suites.{suite_name}.{key}: unknown {short(name)}; known: {', '.join(known)}")
            continue
        for severity, values in by_severity.items():
            if severity not in known[name].severities:
                has = list(known[name].severities)
                problems.append(f"suites.{suite_name}.{key}.{name}: no severity {severity}; it has {has}")
                continue
            place = f"suites.{suite_name}.{key}.{name}.{severity}"
            complete = {**known[name].parameters(severity, variant), **values}
            problems += [f"{place}.{line}" for line in registry.parameter_problems(known[name], complete)]
    return problems


def _backend_problems(config: Config) -> list[str]:
    problems = []
    for name, dataset in config.datasets.items():
        if dataset.donors is not None and dataset.donors not in config.datasets:
            known = ", ".join(config.datasets)
            problems.append(f"datasets.{name}.donors: unknown dataset {short(dataset.donors)}; known: {known}")
    for suite, wanted in config.suites.items():
        if suite not in registry.suites():
            continue
        chosen = wanted.perturbations
        guided = {
            entry.guide: entry
            for entry in registry.perturbations(suite, "video")
            if entry.guide and (chosen == "all" or entry.name in chosen)
        }
        for kind in guided:
            problems += guides.get(kind).problems(config.backends.wanted(variant=wanted.variant))
    return problems


def check_backend_files(backends: Backends) -> None:
    """Raise `ConfigError` naming the key of every file of a backend that does not exist."""
    problems = []
    for role, settings in backends.roles().items():
        for name, path in settings:
            if isinstance(path, Path) and not os.path.exists(path):
                kind = "directory" if name == "images" else "file"
                problems.append(f"backends.{role}.{name}: no such {kind}: {cut(str(path))}")
    _raise(problems, "config.yaml names what is not there")


_ROLES_BY_BACKEND = {role.name for role in guides.roles() if len(role.players) > 1}
_SETTINGS = {adapter.settings.__name__ for adapter in datasets.adapters().values()} | {Dataset.__name__}


def _key(problem: Any) -> str:
    # pydantic puts the discriminator's value and the literal's alternatives into the path; the file has no such keys
    location = list(problem["loc"])
    unknown_tag = problem["type"].startswith("union_tag")
    if location[:1] == ["datasets"] and len(location) > 2 and location[2] in _SETTINGS:
        del location[2]
    if location[:1] == ["storage"]:
        location[1:2] = ["tier"] if unknown_tag else []
    elif location[:1] == ["backends"] and len(location) > 1 and location[1] in _ROLES_BY_BACKEND:
        location[2:3] = ["backend"] if unknown_tag else []
    parts = [
        cut(str(part), 80) for part in location if part != "[key]" and not str(part).startswith(("tuple[", "literal["))
    ]
    return ".".join(parts) or "(top level)"


def _explain(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return "unknown key"
    if problem["type"] in ("missing", "union_tag_not_found"):
        return "is missing"
    if problem["type"] == "union_tag_invalid":
        return f"Input should be {problem['ctx']['expected_tags']}, not {short(problem['ctx']['tag'])}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return f"{cut(problem['msg'])}, not {short(problem['input'])}"
