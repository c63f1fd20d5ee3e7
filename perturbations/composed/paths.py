"""What the rules of composed retrieval need: the inputs and options of its jobs. No NumPy: Snakemake imports this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial

from perturbations.base.errors import ConfigError
from perturbations.composed import planning as composed
from perturbations.composed.sources import source_of
from perturbations.config import sections as configuration
from perturbations.datasets import registry as datasets
from perturbations.evaluation import paths as evaluation_paths
from perturbations.evaluation import sizes
from perturbations.manifest import layout
from perturbations.plan import sharding
from perturbations.plan.extension import CaptionShards, Plans, Target, TargetWork
from perturbations.plan.paths import Inputs, clip_inputs, without_braces
from perturbations.plan.targets import together, whole_collections

_SPLIT = ("composed_queries", "composed_qrels", "composed_galleries", "composed_pool")


def annotation_files(config: configuration.Config, dataset: str) -> list[str]:
    """The files that a split is made from. Raises `ConfigError` where the dataset has no split."""
    composed.check(config, dataset)
    source = source_of(config.datasets[dataset].adapter)
    assert source is not None
    named = [(f"datasets.{dataset}.annotations", path) for path in source.files(config.datasets[dataset])]
    writer = config.composed.language_model
    if writer is not None and writer.captions is not None:
        named.append(("composed.language_model.captions", writer.captions))
    return [without_braces(key, path) for key, path in named]


def folder(dataset: str) -> str:
    """The folder of a dataset's manifests of composed retrieval."""
    return layout.folder("composed_queries", dataset=dataset)


def _split_files(dataset: str) -> list[str]:
    """The manifests of a split."""
    return [layout.at(name, dataset=dataset) for name in _SPLIT]


def split_memory_mib(config: configuration.Config) -> int:
    """The memory that making a split takes; a language model of 7 billion weights takes most of it."""
    return 2_000 if config.composed.language_model is None else 40_000


def split_minutes(config: configuration.Config) -> int:
    """The time that making a split may take; a language model answers thousands of prompts."""
    return 60 if config.composed.language_model is None else 1_440


def split_gpus(config: configuration.Config) -> int:
    """The GPUs that making a split takes."""
    return 0 if config.composed.language_model is None else evaluation_paths.gpus(config)


def instructions(dataset: str) -> str:
    """The list of the instructions, for the jobs that perturb them."""
    return layout.at("caption_list", dataset=sharding.composed(dataset), shard=sharding.COMPOSED_SHARD)


def features(dataset: str, suite: str = "clean", level: str = "clean") -> str:
    """The features of the clean clips, or of the query clips under a suite's perturbations of one level."""
    return layout.at("composed_features", dataset=dataset, suite=suite, level=level)


def _shifts(config: configuration.Config, dataset: str, suite: str, level: str) -> list[composed.Shift]:
    """The perturbations of clips that one file of features holds."""
    every = [scenario.clips for scenario in composed.scenarios(config, dataset)]
    chosen = [shift for shift in every if shift is not None and (shift.suite, shift.level) == (suite, level)]
    return list(dict.fromkeys(chosen))


def feature_inputs(config: configuration.Config, dataset: str, suite: str, level: str, plans: Plans) -> Inputs:
    """What the features of query clips under a suite's perturbations of one level are made from."""
    return {
        **evaluation_paths.model_inputs(config),
        "split": _split_files(dataset),
        "parts": clip_inputs(
            config,
            dataset,
            suite,
            [(shift.perturbation, shift.severity) for shift in _shifts(config, dataset, suite, level)],
            plans(dataset).shards,
        ),
    }


def feature_names(config: configuration.Config, dataset: str, suite: str, level: str) -> list[str]:
    """PERTURBATION/SEVERITY of each set of features in a file."""
    return [shift.part for shift in _shifts(config, dataset, suite, level)]


def feature_minutes(config: configuration.Config, dataset: str, suite: str, level: str, plans: Plans) -> int:
    """The time that encoding the query clips under a suite's perturbations of one level requests."""
    return sizes.encoding_minutes(config, plans(dataset), "clips", len(_shifts(config, dataset, suite, level)))


def job_minutes(config: configuration.Config, dataset: str, job: composed.ComposedJob, plans: Plans) -> int:
    """The time that a job of scenarios requests, in which the words of each are encoded."""
    words = len(config.composed.words)
    times = sum(1 if scenario.instructions else words for scenario in composed.members(config, dataset, job))
    return sizes.encoding_minutes(config, plans(dataset), "captions", times)


def inputs(config: configuration.Config, dataset: str, job: composed.ComposedJob) -> Inputs:
    """The inputs of a job: the model, the split, features of clips, perturbed instructions. Raises `ConfigError`."""
    scenarios = composed.members(config, dataset, job)
    named: Inputs = {
        **evaluation_paths.model_inputs(config),
        "split": _split_files(dataset),
        "clips": features(dataset),
        "queries": [],
        "texts": [],
    }
    if job != composed.CLEAN:
        named["queries"] = features(dataset, *job)
    suites = [scenario.instructions.suite for scenario in scenarios if scenario.instructions is not None]
    if suites:
        own = sharding.composed(dataset)
        named["texts"] = [
            layout.at("text_marker", dataset=own, suite=suite, shard=sharding.COMPOSED_SHARD)
            for suite in dict.fromkeys(suites)
        ]
    return named


def result_parts(config: configuration.Config, dataset: str) -> list[str]:
    """What the jobs write, one file each."""
    return [
        layout.at("composed_part", dataset=dataset, corpus=corpus, level=level)
        for corpus, level in composed.jobs(config, dataset)
    ]


def targets(config: configuration.Config, dataset: str) -> list[str]:
    """The files of `composed_<dataset>`."""
    perturbed = [
        layout.at(name, dataset=sharding.composed(dataset), suite=suite)
        for suite in composed.text_suites(config, dataset)
        for name in ("texts", "text_statistics")
    ]
    return [*_split_files(dataset), *perturbed, *results(dataset)]


def results(dataset: str) -> list[str]:
    """The manifests of the results of composed retrieval, and of their ranks."""
    return [layout.at(name, dataset=dataset) for name in ("composed_results", "composed_ranks")]


def reported(config: configuration.Config, requested: Collection[str] = ()) -> list[str]:
    """The datasets whose results are on the page: those that exist, and those made in the same run (`requested`)."""
    return [
        dataset
        for dataset in config.datasets
        if f"composed_{dataset}" in requested or all(config.at(path).exists() for path in results(dataset))
    ]


# --- targets ----------------------------------------------------------------------------------------------------------


def menu(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """A target per dataset that gives splits, and one per adapter that names its own."""
    names = {source.target: name for name in datasets.adapters() if (source := source_of(name))}
    for target, adapter in names.items():
        if target:
            text = f"composed retrieval on every dataset of the adapter `{adapter}`"
            yield Target(target, text, partial(composed_of_adapter, config, adapter, plans))
    for dataset in composed.can(config):
        text = f"retrieval by a clip and an instruction, on the dataset `{dataset}`"
        yield Target(f"composed_{dataset}", text, partial(_composed_results, config, dataset, plans))


def _composed_results(config: configuration.Config, dataset: str, plans: Plans) -> TargetWork:
    """A split for composed retrieval and its results. Raises `ConfigError` where the dataset has none."""
    composed.check(config, dataset)
    plans(dataset)
    counts = Counter(scenario.perturbed for scenario in composed.scenarios(config, dataset))
    size = ", ".join(f"{count} x {what}" for what, count in counts.items())
    shifts = [scenario.clips for scenario in composed.scenarios(config, dataset) if scenario.clips is not None]
    own = sharding.composed(dataset)
    return TargetWork(
        targets(config, dataset),
        (f"composed retrieval on {dataset}, perturbed: {size}",),
        clips=tuple(
            (collection, shift.suite, shift.perturbation, shift.severity)
            for shift in shifts
            for collection in (dataset, *whole_collections(config, shift.suite, dataset))
        ),
        captions=tuple((own, suite) for suite in composed.text_suites(config, dataset)),
        rules=("composed_split", "composed_queries"),
    )


def composed_of_adapter(config: configuration.Config, adapter: str, plans: Plans) -> TargetWork:
    """Composed retrieval on every dataset of an adapter. Raises `ConfigError` where there is none."""
    names = [name for name, dataset in config.datasets.items() if dataset.adapter == adapter]
    if not names:
        raise ConfigError(f"config.yaml has no dataset of the adapter '{adapter}'")
    return together([_composed_results(config, name, plans) for name in names])
