"""What an evaluation consists of: scenarios and jobs, from the configuration. No torch: Snakemake imports this."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from perturbations.base.errors import ConfigError
from perturbations.base.records import digest
from perturbations.config import sections as configuration
from perturbations.plan import caption_recipes, recipe
from perturbations.plan.mixes import SHARES
from perturbations.suites import registry
from perturbations.tta.methods import registry as methods_shelf

CLEAN = "clean"
_MIXED = "mixed"

DirectionName = Literal["v2t", "t2v"]
Side = Literal["none", "query", "gallery", "both"]
Modality = Literal["clips", "captions"]


@dataclass(frozen=True)
class Scenario:
    """One retrieval: who asks whom, and what is perturbed.

    Attributes:
        direction: "v2t", queries are videos, or "t2v", queries are captions.
        side: what is perturbed: the queries, the gallery, or "both"; "none" where nothing is.
        suite: whose perturbation; "clean" where nothing is perturbed.
        level: the perturbation's category in its suite (of "both" the video's); "clean" or "mixed" where it has none.
        perturbation: its name; "clean", or "all" where the videos' perturbations differ.
        severity: 0 where nothing is perturbed, None where the videos' severities differ.
        text_perturbation, text_severity: of "both": those of the captions; the others are then the videos'.
        mix: "mixed_severity", "mixed_types", or None.
        share: mixed_types: the part of the videos that is perturbed.
    """

    direction: DirectionName
    side: Side
    suite: str
    level: str
    perturbation: str
    severity: int | None
    text_perturbation: str | None = None
    text_severity: int | None = None
    mix: str | None = None
    share: float | None = None


JobKey = tuple[DirectionName, Side, str, str]
"""Direction, side, suite and level: scenarios that one job runs, so that a model is loaded once for all of them."""


MODALITIES: tuple[Modality, ...] = ("clips", "captions")
"""What is perturbed or clean; the clean ones are encoded once per model."""


def perturbs(modality: Modality, direction: str, side: str) -> bool:
    """Whether scenarios of a direction and a side have perturbed clips, or perturbed captions."""
    asks = (direction == "v2t") == (modality == "clips")
    return side == "both" or side == ("query" if asks else "gallery")


def scenarios(config: configuration.Config, dataset: str) -> list[Scenario]:
    """Every scenario that the configuration asks for: clean ones first, then by side, suite and perturbation.

    Raises `ConfigError` for a suite of which nothing is made at the configured severities.
    """
    planned: list[Scenario] = []
    for direction in config.evaluation.directions:
        planned.append(Scenario(direction, "none", CLEAN, CLEAN, CLEAN, 0))
        for side in config.evaluation.sides:
            for suite in _suites(config):
                planned += _of_suite(config, dataset, suite, direction, side)
    return planned


def _suites(config: configuration.Config) -> tuple[str, ...]:
    wanted = config.evaluation.suites
    return wanted if wanted is not None else tuple(config.suites)


def caption_suites(config: configuration.Config) -> tuple[str, ...]:
    """The suites whose perturbed captions are queries or the gallery."""
    wanted = config.evaluation
    used = any(perturbs("captions", direction, side) for direction in wanted.directions for side in wanted.sides)
    return _suites(config) if used else ()


def jobs(config: configuration.Config, dataset: str) -> dict[JobKey, list[Scenario]]:
    """The scenarios of each job."""
    by_job: dict[JobKey, list[Scenario]] = {}
    for scenario in scenarios(config, dataset):
        job = (scenario.direction, scenario.side, scenario.suite, file_name(scenario.level))
        by_job.setdefault(job, []).append(scenario)
    return by_job


def of_job(config: configuration.Config, dataset: str, job: JobKey) -> list[Scenario]:
    """The scenarios of a job; raises `ConfigError` for one that the configuration does not ask for."""
    members = jobs(config, dataset).get(job)
    if members is None:
        raise ConfigError(f"config.yaml asks for no evaluation {'/'.join(job)} of {dataset}")
    return members


def file_name(level: str) -> str:
    """A category's name as a part of a path."""
    return "".join(letter if letter.isalnum() else "_" for letter in level.lower())


def _of_suite(
    config: configuration.Config, dataset: str, suite: str, direction: DirectionName, side: Side
) -> Iterator[Scenario]:
    if side == "both":
        yield from _combined(config, dataset, suite, direction)
        return
    videos = perturbs("clips", direction, side)
    available = recipe.scenarios(config, suite) if videos else caption_recipes.scenarios(config, dataset, suite)
    chosen = [
        pair
        for name in dict.fromkeys(name for name, _ in available)
        for pair in nearest(
            [own for own in available if own[0] == name], config.evaluation.severities_of(_level(suite, name))
        )
    ]
    if available and not chosen:
        lowest = min(severity for _, severity in available)
        text = (
            f"evaluation.severities: nothing of {suite} is made there or below: its lowest severity is {lowest} "
            f"(suites.{suite})"
        )
        raise ConfigError(config.places.before("evaluation.severities", text))
    for name, severity in chosen:
        yield Scenario(direction, side, suite, _level(suite, name), name, severity)
    if videos and "mixed_severity" in config.evaluation.mixes:
        for name in dict.fromkeys(name for name, _ in available):
            yield Scenario(direction, side, suite, _MIXED, name, None, mix="mixed_severity")
    if videos and "mixed_types" in config.evaluation.mixes:
        for share in SHARES:
            yield Scenario(direction, side, suite, _MIXED, "all", None, mix="mixed_types", share=share)


def _combined(config: configuration.Config, dataset: str, suite: str, direction: DirectionName) -> Iterator[Scenario]:
    """The combinations that a suite declares, as far as its videos and captions are made."""
    combined = registry.suite(suite).combined
    if combined is None:
        return
    videos = [name for name, severity in recipe.scenarios(config, suite) if severity == combined.severity]
    texts = dict(caption_recipes.scenarios(config, dataset, suite))
    for name in combined.video:
        for text in combined.text:
            if name in videos and text in texts:
                place = _level(suite, name), name, combined.severity
                yield Scenario(direction, "both", suite, *place, text, texts[text])


def _level(suite: str, name: str) -> str:
    return registry.get(f"{suite}/{name}").level


def nearest(available: Sequence[tuple[str, int]], wanted: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Each perturbation at each requested severity, or at the highest available severity below it."""
    for name in dict.fromkeys(name for name, _ in available):
        severities = [severity for other, severity in available if other == name]
        chosen = {max((severity for severity in severities if severity <= most), default=0) for most in wanted}
        for severity in sorted(chosen - {0}):
            yield name, severity


AS_IT_IS, ADAPTED = GROUPS = (methods_shelf.baseline().name, "adapted")
"""The model without adaptation alone, and all methods in one job, which reads each clip once."""


def methods(config: configuration.Config, group: str) -> tuple[str, ...]:
    """The methods of a group of jobs."""
    return tuple(dict.fromkeys((AS_IT_IS, *config.evaluation.methods))) if group == ADAPTED else (AS_IT_IS,)


def needs_bank(config: configuration.Config, group: str) -> bool:
    """Whether a method of a group of jobs needs a bank of training queries."""
    return any(methods_shelf.method(name).needs_bank for name in methods(config, group))


class ModelSettings(TypedDict):
    """What a gallery's features depend on, besides its clips."""

    model: str
    pretrained: str | None
    revision: str | None
    num_frames: int
    files: NotRequired[str]


ScenarioSettings = Mapping[str, Any]
"""A `Scenario` and its dataset by their names, as they are written in a job's settings and rows."""


class EvaluationSettings(ModelSettings):
    """Everything that a job's results depend on, besides its inputs. The device is not included."""

    model_key: str
    setting: str
    seeds: Sequence[int]
    batch_size: int
    steps: int
    precision: str
    scenarios: Sequence[ScenarioSettings]
    methods: Sequence[str]
    parameters: Mapping[str, Mapping[str, bool | int | float | str]]


def model_settings(config: configuration.Config, files: str | None = None) -> ModelSettings:
    """What a gallery's features depend on, besides its clips; `files` is the hash of the model's files."""
    wanted = config.evaluation
    settings: ModelSettings = {
        "model": wanted.model,
        "pretrained": wanted.pretrained,
        "revision": wanted.revision,
        "num_frames": wanted.num_frames,
    }
    return settings if files is None else {**settings, "files": files}


CONTINUAL = "_continual"
"""What the setting of rows and keys ends with where methods are not reset between scenarios."""


def setting(config: configuration.Config) -> str:
    """The setting in keys and rows: "qs", or "qs_continual". Results of different settings are never averaged."""
    return f"{config.evaluation.setting}{CONTINUAL if config.evaluation.continual else ''}"


def models(config: configuration.Config) -> dict[str, configuration.Config]:
    """The configuration of each model alone, by the model's key. Everything about one model is planned from its own."""
    entries = config.evaluation.models
    if not entries:
        return {model_key(config): config}
    alone = [config.model_copy(update={"evaluation": config.evaluation.of_model(entry)}) for entry in entries]
    return {model_key(own): own for own in alone}


_READABLE = 64
"""The most letters of a key before its hash: the names of a folder and a file can be very long."""


def model_key(config: configuration.Config) -> str:
    """The name of a configured model in paths, rows and tables: "clip4clip-clip-vit-base-patch32-qs-1a2b3c4d".

    The readable part is its name, or names the pooling, the pretrained model and the checkpoint; then the setting. The
    hash tells apart what the readable part does not: the whole path of the checkpoint, the revision, and the number of
    frames. The configuration is of one model (`models`).
    """
    wanted = config.evaluation
    pretrained = Path(wanted.pretrained).name if wanted.pretrained else "demo_encoder"
    checkpoint = [f"{wanted.checkpoint.parent.name}-{wanted.checkpoint.stem}"] if wanted.checkpoint else []
    readable = wanted.models[0].name if wanted.models else "-".join([wanted.model, pretrained, *checkpoint])
    slug = re.sub(r"[^a-z0-9_]+", "-", readable.lower()).strip("-")[:_READABLE].strip("-")
    of_checkpoint = str(wanted.checkpoint) if wanted.checkpoint else None
    identity = {**model_settings(config), "checkpoint": of_checkpoint, "setting": setting(config)}
    return f"{slug}-{setting(config)}-{digest(identity)[:8]}"


def settings(
    config: configuration.Config, dataset: str, job: JobKey, group: str, files: str | None = None
) -> EvaluationSettings:
    """The settings of a job; `files` is the hash of the model's files.

    Raises `ConfigError` for a job that the configuration does not ask for.
    """
    wanted = config.evaluation
    return {
        **model_settings(config, files),
        "model_key": model_key(config),
        "setting": setting(config),
        "seeds": wanted.seeds,
        "batch_size": wanted.batch_size,
        "steps": wanted.steps,
        "precision": wanted.precision,
        "scenarios": [{"dataset": dataset, **asdict(scenario)} for scenario in of_job(config, dataset, job)],
        "methods": methods(config, group),
        "parameters": _parameters(config, group),
    }


def _parameters(config: configuration.Config, group: str) -> dict[str, dict[str, bool | int | float | str]]:
    """The parameters of each method that differ from the published ones."""
    wanted = config.evaluation.parameters
    names = [name for name in methods(config, group) if name in wanted]
    changed = {name: methods_shelf.validated(name, wanted[name]) for name in names}
    return {name: values for name, values in changed.items() if values}
