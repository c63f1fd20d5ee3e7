"""What an evaluation consists of: scenarios and jobs, from the configuration. No torch: Snakemake imports this."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from perturbations.base.errors import ConfigError
from perturbations.base.records import digest
from perturbations.config import sections as configuration
from perturbations.plan import captions, recipe
from perturbations.plan.mixes import SHARES
from perturbations.suites import registry
from perturbations.tta.methods import registry as methods_shelf

CLEAN = "clean"
MIXED = "mixed"

Direction = Literal["v2t", "t2v"]


@dataclass(frozen=True)
class Scenario:
    """Which queries are asked.

    Attributes:
        direction: "v2t", queries are videos, or "t2v", queries are captions.
        suite: whose perturbation; "clean" for queries as they are.
        level: the perturbation's category in its suite; "clean" or "mixed" where it has none.
        perturbation: its name; "clean", or "all" where the videos' perturbations differ.
        severity: 0 for clean queries, None where the videos' severities differ.
        mix: "mixed_severity", "mixed_types", or None.
        share: mixed_types: the part of the videos that is perturbed.
    """

    direction: Direction
    suite: str
    level: str
    perturbation: str
    severity: int | None
    mix: str | None = None
    share: float | None = None


Job = tuple[Direction, str, str]
"""Direction, suite and level: scenarios that one job runs, so that a model is loaded once for all of them."""


def scenarios(config: configuration.Config, dataset: str) -> list[Scenario]:
    """Every scenario that the configuration asks for: clean queries first, then each suite's perturbations in order."""
    planned: list[Scenario] = []
    for direction in config.evaluation.directions:
        planned.append(Scenario(direction, CLEAN, CLEAN, CLEAN, 0))
        for suite in _suites(config):
            planned += _of_videos(config, suite) if direction == "v2t" else _of_captions(config, dataset, suite)
    return planned


def _suites(config: configuration.Config) -> tuple[str, ...]:
    wanted = config.evaluation.suites
    return wanted if wanted is not None else tuple(config.suites)


def caption_suites(config: configuration.Config) -> tuple[str, ...]:
    """The suites whose perturbed captions are asked."""
    return _suites(config) if "t2v" in config.evaluation.directions else ()


def jobs(config: configuration.Config, dataset: str) -> dict[Job, list[Scenario]]:
    """The scenarios of each job."""
    by_job: dict[Job, list[Scenario]] = {}
    for scenario in scenarios(config, dataset):
        by_job.setdefault((scenario.direction, scenario.suite, file_name(scenario.level)), []).append(scenario)
    return by_job


def file_name(level: str) -> str:
    """A category's name as a part of a path."""
    return "".join(letter if letter.isalnum() else "_" for letter in level.lower())


def _of_videos(config: configuration.Config, suite: str) -> Iterator[Scenario]:
    available = recipe.scenarios(config, suite)
    yield from _at_severities("v2t", config, suite, available)
    if "mixed_severity" in config.evaluation.mixes:
        for name in dict.fromkeys(name for name, _ in available):
            yield Scenario("v2t", suite, MIXED, name, None, "mixed_severity")
    if "mixed_types" in config.evaluation.mixes:
        for share in SHARES:
            yield Scenario("v2t", suite, MIXED, "all", None, "mixed_types", share)


def _of_captions(config: configuration.Config, dataset: str, suite: str) -> Iterator[Scenario]:
    yield from _at_severities("t2v", config, suite, captions.scenarios(config, dataset, suite))


def _at_severities(
    direction: Direction, config: configuration.Config, suite: str, available: Sequence[tuple[str, int]]
) -> Iterator[Scenario]:
    for name, severity in nearest(available, config.evaluation.severities):
        yield Scenario(direction, suite, registry.get(f"{suite}/{name}").level, name, severity)


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


class ScenarioSettings(TypedDict):
    """A `Scenario` and its dataset, as they are written in a job's settings and rows."""

    dataset: str
    direction: Direction
    suite: str
    level: str
    perturbation: str
    severity: int | None
    mix: str | None
    share: float | None


class Settings(ModelSettings):
    """Everything that a job's results depend on, besides its inputs. The device is not included."""

    model_key: str
    setting: str
    seeds: Sequence[int]
    batch_size: int
    steps: int
    precision: str
    scenarios: Sequence[ScenarioSettings]
    methods: Sequence[str]


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
    return config.evaluation.setting + (CONTINUAL if config.evaluation.continual else "")


_READABLE = 64
"""The most letters of a key before its hash: the names of a folder and a file can be very long."""


def model_key(config: configuration.Config) -> str:
    """The name of a configured model in paths, rows and tables: "clip4clip-clip-vit-base-patch32-qs-1a2b3c4d".

    The readable part names the pooling, the pretrained model, the checkpoint and the setting; the hash tells apart what
    the readable part does not: the whole path of the checkpoint, the revision, and the number of frames.
    """
    wanted = config.evaluation
    pretrained = Path(wanted.pretrained).name if wanted.pretrained else "demo_encoder"
    checkpoint = [f"{wanted.checkpoint.parent.name}-{wanted.checkpoint.stem}"] if wanted.checkpoint else []
    readable = "-".join([wanted.model, pretrained, *checkpoint])
    slug = re.sub(r"[^a-z0-9_]+", "-", readable.lower()).strip("-")[:_READABLE].strip("-")
    of_checkpoint = str(wanted.checkpoint) if wanted.checkpoint else None
    identity = {**model_settings(config), "checkpoint": of_checkpoint, "setting": setting(config)}
    return f"{slug}-{setting(config)}-{digest(identity)[:8]}"


def settings(config: configuration.Config, dataset: str, job: Job, group: str, files: str | None = None) -> Settings:
    """The settings of a job; `files` is the hash of the model's files.

    Raises `ConfigError` for a job that the configuration does not ask for.
    """
    members = jobs(config, dataset).get(job)
    if members is None:
        raise ConfigError(f"config.yaml asks for no evaluation {'/'.join(job)} of {dataset}")
    wanted = config.evaluation
    return {
        **model_settings(config, files),
        "model_key": model_key(config),
        "setting": setting(config),
        "seeds": wanted.seeds,
        "batch_size": wanted.batch_size,
        "steps": wanted.steps,
        "precision": wanted.precision,
        "scenarios": [_scenario_settings(dataset, scenario) for scenario in members],
        "methods": methods(config, group),
    }


def _scenario_settings(dataset: str, scenario: Scenario) -> ScenarioSettings:
    return {
        "dataset": dataset,
        "direction": scenario.direction,
        "suite": scenario.suite,
        "level": scenario.level,
        "perturbation": scenario.perturbation,
        "severity": scenario.severity,
        "mix": scenario.mix,
        "share": scenario.share,
    }
