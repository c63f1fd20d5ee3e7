"""What an evaluation of composed retrieval consists of, from the configuration. No NumPy: Snakemake imports this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from perturbations.base.errors import ConfigError
from perturbations.base.records import Record, canonical
from perturbations.composed.sources import source_of
from perturbations.config import sections as configuration
from perturbations.evaluation import planning as evaluation
from perturbations.plan import caption_recipes, recipe
from perturbations.suites import registry

_What = Literal["nothing", "clips", "instructions", "both"]

ComposedJob = tuple[str, str]
"""The suite of the query clips' perturbations, and their level: scenarios that one job runs."""

CLEAN: ComposedJob = (evaluation.CLEAN, evaluation.CLEAN)
"""The job of all scenarios whose query clips are clean."""


class Shift(Record):
    """A perturbation of one half of the queries."""

    suite: str
    perturbation: str
    severity: int
    variant: str

    @property
    def level(self) -> str:
        """The perturbation's category in its suite, as a part of a path."""
        return evaluation.file_name(registry.get(f"{self.suite}/{self.perturbation}").category)

    @property
    def part(self) -> str:
        """The last folders of its files."""
        return f"{self.perturbation}/{self.severity}"


class ComposedScenario(Record):
    """What is perturbed: the queries' clips, their instructions, both, or nothing. The gallery is clean."""

    clips: Shift | None = None
    instructions: Shift | None = None

    @property
    def perturbed(self) -> _What:
        """In a word."""
        if self.clips is not None:
            return "clips" if self.instructions is None else "both"
        return "nothing" if self.instructions is None else "instructions"

    @property
    def job(self) -> ComposedJob:
        """The job that runs it."""
        return CLEAN if self.clips is None else (self.clips.suite, self.clips.level)


def check(config: configuration.Config, dataset: str) -> None:
    """Raise `ConfigError` where a dataset has no split for composed retrieval."""
    settings = config.datasets[dataset]
    source = source_of(settings.adapter)
    reason: str | None = (
        f"the adapter '{settings.adapter}' has whole videos, and a split needs several clips of each video"
    )
    if source is not None:
        reason = source.refusal(settings)
    if reason:
        key = f"datasets.{dataset}"
        raise ConfigError(config.places.before(key, f"{key}: no composed retrieval: {reason}"))


def can(config: configuration.Config) -> list[str]:
    """The datasets whose adapters give splits, with the right settings."""
    return [name for name, dataset in config.datasets.items() if source_of(dataset.adapter) is not None]


def scenarios(config: configuration.Config, dataset: str) -> list[ComposedScenario]:
    """Every scenario that the configuration asks for: nothing perturbed, clips, instructions, both."""
    wanted = config.composed
    own = config.evaluation.suites if config.evaluation.suites is not None else tuple(config.suites)
    clips = [
        shift
        for suite in (own if wanted.suites is None else wanted.suites)
        for shift in _shifts(config, suite, recipe.scenarios(config, suite))
    ]
    texts = [
        shift
        for suite in (own if wanted.text_suites is None else wanted.text_suites)
        for shift in _shifts(config, suite, caption_recipes.scenarios(config, dataset, suite))
    ]
    added = [
        shift
        for key in wanted.both
        for suite in (key.partition("/")[0],)
        for shift in _shifts(config, suite, caption_recipes.scenarios(config, dataset, suite))
        if f"{suite}/{shift.perturbation}" == key
    ]
    return [
        ComposedScenario(),
        *(ComposedScenario(clips=shift) for shift in clips),
        *(ComposedScenario(instructions=shift) for shift in texts),
        *(ComposedScenario(clips=shift, instructions=text) for shift in clips for text in added),
    ]


def _shifts(config: configuration.Config, suite: str, available: Sequence[tuple[str, int]]) -> Iterator[Shift]:
    for name, severity in evaluation.nearest(available, config.composed.severities):
        yield Shift(suite=suite, perturbation=name, severity=severity, variant=config.suites[suite].variant)


def of_instructions(config: configuration.Config, dataset: str, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite's instructions that are queries."""
    shifts = [scenario.instructions for scenario in scenarios(config, dataset)]
    pairs = [(shift.perturbation, shift.severity) for shift in shifts if shift is not None and shift.suite == suite]
    return list(dict.fromkeys(pairs))


def text_suites(config: configuration.Config, dataset: str) -> list[str]:
    """The suites whose perturbed instructions are queries."""
    shifts = [scenario.instructions for scenario in scenarios(config, dataset)]
    return list(dict.fromkeys(shift.suite for shift in shifts if shift is not None))


def jobs(config: configuration.Config, dataset: str) -> dict[ComposedJob, list[ComposedScenario]]:
    """The scenarios of each job."""
    by_job: dict[ComposedJob, list[ComposedScenario]] = {}
    for scenario in scenarios(config, dataset):
        by_job.setdefault(scenario.job, []).append(scenario)
    return by_job


def members(config: configuration.Config, dataset: str, job: ComposedJob) -> list[ComposedScenario]:
    """The scenarios of a job. Raises `ConfigError` for a job that the configuration does not ask for."""
    scenarios = jobs(config, dataset).get(job)
    if scenarios is None:
        raise ConfigError(f"config.yaml asks for no composed retrieval {'/'.join(job)} of {dataset}")
    return scenarios


class SplitSettings(Record):
    """Everything that a split depends on, besides the annotations."""

    version: int
    dataset: str
    adapter: str
    settings: str
    seed: int
    galleries: tuple[str, ...]
    deduplicate: bool
    language_model: str | None = None


def split_settings(config: configuration.Config, dataset: str) -> str:
    """The settings of a dataset's split, as JSON."""
    writer = config.composed.language_model
    unnamed = {"captions"} if writer is not None and writer.captions is None else None
    own = config.datasets[dataset]
    settings = SplitSettings(
        version=1,
        dataset=dataset,
        adapter=own.adapter,
        settings=own.model_dump_json(exclude={"videos", "donors", "max_failed_items"}),
        seed=config.seed,
        galleries=config.composed.galleries,
        deduplicate=config.composed.deduplicate,
        language_model=None if writer is None else writer.model_dump_json(exclude=unnamed),
    )
    return settings.text


class ComposedSettings(Record):
    """Everything that a job's results depend on, besides its inputs. The device is not included."""

    adapter: str
    model: str
    pretrained: str | None = None
    revision: str | None = None
    files: str | None = None
    num_frames: int
    frames: Literal["mean", "middle"]
    galleries: tuple[str, ...]
    deduplicate: bool
    strategies: tuple[Literal["text", "visual", "average", "two_stage"], ...]
    words: tuple[Literal["instruction", "tfcvr", "gt"], ...]
    average: tuple[Literal["released", "unit"], ...]
    shortlist: int
    first_stage: tuple[Literal["text", "visual", "average"], ...]
    scenarios: tuple[ComposedScenario, ...]
    model_key: str
    setting: str
    top_k: int | None = None


_WAYS = {"frames", "galleries", "deduplicate", "strategies", "words", "average", "shortlist", "first_stage"}


def settings(config: configuration.Config, dataset: str, job: ComposedJob, files: str | None = None) -> str:
    """The settings of a job, as JSON; `files` is the hash of the model's files.

    Raises `ConfigError` for a job that the configuration does not ask for.
    """
    return ComposedSettings(
        **evaluation.model_settings(config, files),
        **config.composed.model_dump(include=_WAYS),
        scenarios=tuple(members(config, dataset, job)),
        adapter=config.datasets[dataset].adapter,
        model_key=evaluation.model_key(config),
        setting=config.evaluation.setting,
        top_k=config.evaluation.top_k,
    ).text


def feature_settings(config: configuration.Config, files: str | None = None) -> str:
    """What the features of clips depend on, besides the clips, as JSON; `files` is the hash of the model's files."""
    return canonical({**evaluation.model_settings(config, files), "frames": config.composed.frames})
