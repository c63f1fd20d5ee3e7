"""What an evaluation consists of: scenarios and jobs, from the configuration. No torch: Snakemake imports this."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from perturbations.base.errors import ConfigError
from perturbations.base.records import digest
from perturbations.config import sections as configuration
from perturbations.evaluation.keys import LISTED, PUBLISHED_SEED, order_of
from perturbations.evaluation.method_settings import AS_IT_IS, MethodSetting
from perturbations.plan import caption_recipes, recipe
from perturbations.plan.mixes import PER_BATCH, SHARES
from perturbations.suites import registry

CLEAN = "clean"
MIXED, ALL = "mixed", "all"
"""The category of mixed scenarios, and the name of their perturbations where these differ."""

DirectionName = Literal["v2t", "t2v"]
Side = Literal["none", "query", "gallery", "both"]
Modality = Literal["clips", "captions"]


@dataclass(frozen=True)
class Scenario:
    """One retrieval: which modality is the query, and what is perturbed.

    Attributes:
        direction: "v2t", queries are videos, or "t2v", queries are captions.
        side: what is perturbed: the queries, the gallery, or "both"; "none" where nothing is.
        suite: whose perturbation; "clean" where nothing is perturbed.
        level: the perturbation's category in its suite (of "both" the video's); "clean" or "mixed" where it has none.
        perturbation: its name; "clean", or "all" where the videos' perturbations differ.
        severity: 0 where nothing is perturbed, None where the videos' severities differ.
        text_perturbation, text_severity: of "both": those of the captions; the others are then the videos'.
        mix: "mixed_severity", "mixed_types", `PER_BATCH` of the variant `released`, or None.
        share: of mixed types: the part of the videos that is perturbed, or of each batch of them.
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

    Raises `ConfigError` for a suite of which nothing is made at the configured severities, and for mixes of no videos.
    """
    planned: list[Scenario] = []
    for direction in config.evaluation.directions:
        planned.append(Scenario(direction, "none", CLEAN, CLEAN, CLEAN, 0))
        for side in config.evaluation.sides:
            for suite in _suites(config):
                planned += _of_suite(config, dataset, suite, direction, side)
    if config.evaluation.mixes and not any(scenario.mix for scenario in planned):
        text = (
            "evaluation.mixes: they are of perturbed videos, and none are evaluated here: name a suite that makes "
            "videos, and a direction and side that perturb them (v2t query, t2v gallery)"
        )
        raise ConfigError(config.places.before("evaluation.mixes", text))
    return planned


def _suites(config: configuration.Config) -> tuple[str, ...]:
    wanted = config.evaluation.suites
    return wanted if wanted is not None else tuple(config.suites)


def caption_suites(config: configuration.Config) -> tuple[str, ...]:
    """The suites whose perturbed captions are queries or the gallery."""
    return _suites_of(config, "captions")


def video_suites(config: configuration.Config) -> tuple[str, ...]:
    """The suites whose perturbed clips are queries or the gallery."""
    return _suites_of(config, "clips")


def _suites_of(config: configuration.Config, modality: Modality) -> tuple[str, ...]:
    wanted = config.evaluation
    used = any(perturbs(modality, direction, side) for direction in wanted.directions for side in wanted.sides)
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
    available = _pairs(config, dataset, suite, videos=videos)
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
    if not (videos and available):  # mixes are of videos
        return
    if "mixed_severity" in config.evaluation.mixes:
        for name in dict.fromkeys(name for name, _ in available):
            yield Scenario(direction, side, suite, MIXED, name, None, mix="mixed_severity")
    asking = (direction, side) == ("v2t", "query")
    types = PER_BATCH if asking and config.suites[suite].variant == "released" else "mixed_types"
    if "mixed_types" in config.evaluation.mixes:
        for share in SHARES:
            yield Scenario(direction, side, suite, MIXED, ALL, None, mix=types, share=share)


def is_drawn(mix: str, seed: int) -> bool:
    """Whether a job draws a mix from the videos itself, and reads no mixed manifest.

    A seed with an order of its own draws from all clips, and a share of each batch follows that order.
    """
    return mix == PER_BATCH or order_of(seed) != LISTED


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
    return registry.get(f"{suite}/{name}").category


def nearest(available: Sequence[tuple[str, int]], wanted: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Each perturbation at each requested severity, or at the highest available severity below it."""
    for name in dict.fromkeys(name for name, _ in available):
        severities = [severity for other, severity in available if other == name]
        chosen = {max((severity for severity in severities if severity <= most), default=0) for most in wanted}
        for severity in sorted(chosen - {0}):
            yield name, severity


def _pairs(config: configuration.Config, dataset: str, suite: str, *, videos: bool) -> Sequence[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite's videos, or of its captions, that the configuration makes."""
    return recipe.scenarios(config, suite) if videos else caption_recipes.scenarios(config, dataset, suite)


def other_severities(config: configuration.Config, dataset: str) -> list[str]:
    """A line per suite and severity that `evaluation.severities` names, the suite has and `suites` does not make."""
    wanted = config.evaluation
    retrievals = [(direction, side) for direction in wanted.directions for side in wanted.sides if side != "both"]
    lines: dict[str, None] = {}
    for suite, (direction, side) in itertools.product(_suites(config), retrievals):
        pairs = _pairs(config, dataset, suite, videos=perturbs("clips", direction, side))
        for name in dict.fromkeys(name for name, _ in pairs):
            entry = registry.get(f"{suite}/{name}")
            own = {severity for other, severity in pairs if other == name}
            for severity in sorted(({*wanted.severities_of(entry.category)} & {*entry.severities}) - own):
                instead = max((lower for lower in own if lower < severity), default=None)
                what = "nothing" if instead is None else f"severity {instead}"
                lines[
                    f"evaluation.severities: `suites.{suite}` does not make severity {severity} of {entry.category}: "
                    f"{what} is evaluated in its place"
                ] = None
    return [*lines]


@dataclass
class JobGroup:
    """The methods that run in the same jobs, and their seed: other ones leave these jobs as they are."""

    seed: int
    methods: list[MethodSetting] = field(default_factory=list)

    @property
    def banks(self) -> tuple[str, str]:
        """The datasets whose queries and whose gallery items are banks, or ""."""
        of_queries, of_gallery = zip(*(entry.banks for entry in self.methods), strict=True)
        return max(of_queries), max(of_gallery)


def groups(config: configuration.Config, *, unadapted: bool | None = None) -> dict[str, JobGroup]:
    """The groups of jobs by their names; `unadapted`: of the model as it is alone, or those of all methods."""
    wanted = config.evaluation.method_settings()
    grouped: dict[str, JobGroup] = {}
    for seed in config.evaluation.seeds:
        of_seed = "" if seed == PUBLISHED_SEED else f"-seed{seed}"
        if unadapted is not False:
            alone = [entry for entry in wanted if entry.name == AS_IT_IS]
            grouped[f"{AS_IT_IS}{of_seed}"] = JobGroup(seed, alone)
        for entry in () if unadapted else wanted:
            grouped.setdefault(f"{entry.group}{of_seed}", JobGroup(seed)).methods.append(entry)
    return grouped


def group_of(config: configuration.Config, name: str) -> JobGroup:
    """A group of jobs. Raises `ConfigError` for one that is not configured."""
    known = groups(config)
    if name not in known:
        raise ConfigError(f"config.yaml asks for no methods {name!r}")
    return known[name]


def methods(config: configuration.Config, group: str) -> list[str]:
    """The names of the methods of a group of jobs. Raises `ConfigError` for one that is not configured."""
    return [entry.name for entry in group_of(config, group).methods]


class ModelSettings(TypedDict):
    """What a gallery's features depend on, besides its clips."""

    model: str
    pretrained: str | None
    revision: str | None
    num_frames: int
    files: NotRequired[str]


ScenarioSettings = Mapping[str, Any]
"""A `Scenario` and its dataset by their names, as they are written in a job's settings and rows."""


class _RunSettings(TypedDict):
    """What all runs of a model share, besides the model."""

    setting: str
    batch_size: int
    steps: int
    precision: str
    top_k: NotRequired[int]


class EvaluationSettings(ModelSettings, _RunSettings):
    """Everything that a job's results depend on, besides its inputs. The device is not included."""

    adapter: str
    model_key: str
    seeds: Sequence[int]
    scenarios: Sequence[ScenarioSettings]
    methods: Sequence[Mapping[str, Any]]
    """Name, label and parameters that are not the published ones."""


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


def _run_settings(config: configuration.Config) -> _RunSettings:
    wanted = config.evaluation
    settings: _RunSettings = {
        "setting": config.evaluation.setting,
        "batch_size": wanted.batch_size,
        "steps": wanted.steps,
        "precision": wanted.precision,
    }
    return settings if wanted.top_k is None else {**settings, "top_k": wanted.top_k}


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
    hash tells apart what the readable part does not: the whole path of the checkpoint, the revision, the number of
    frames, the steps, the batch size and the precision. So another of them overwrites no results. The configuration is
    of one model (`models`).
    """
    wanted = config.evaluation
    pretrained = Path(wanted.pretrained).name if wanted.pretrained else "demo_encoder"
    checkpoint = [f"{wanted.checkpoint.parent.name}-{wanted.checkpoint.stem}"] if wanted.checkpoint else []
    readable = wanted.models[0].name if wanted.models else "-".join([wanted.model, pretrained, *checkpoint])
    slug = re.sub(r"[^a-z0-9_]+", "-", readable.lower()).strip("-")[:_READABLE].strip("-")
    of_checkpoint = str(wanted.checkpoint) if wanted.checkpoint else None
    identity = {**model_settings(config), **_run_settings(config), "checkpoint": of_checkpoint}
    return f"{slug}-{config.evaluation.setting}-{digest(identity)[:8]}"


def settings(
    config: configuration.Config, dataset: str, job: JobKey, group: str, files: str | None = None
) -> EvaluationSettings:
    """The settings of a job; `files` is the hash of the model's files.

    Raises `ConfigError` for a job that the configuration does not ask for.
    """
    members = group_of(config, group)
    return {
        **model_settings(config, files),
        "adapter": config.datasets[dataset].adapter,
        "model_key": model_key(config),
        **_run_settings(config),
        "seeds": [members.seed],
        "scenarios": [{"dataset": dataset, **asdict(scenario)} for scenario in of_job(config, dataset, job)],
        "methods": [
            {"name": entry.name, "label": entry.label, "parameters": entry.parameters} for entry in members.methods
        ],
    }
