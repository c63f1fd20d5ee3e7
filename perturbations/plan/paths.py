"""What the workflow's rules need: inputs of jobs, options of commands, sizes of resources.

Paths are relative to the working directory: `work/` holds the parts of shards, `manifests/` holds the merged
manifests. A collection is a dataset's name, or `sharding.whole` of it. No NumPy: Snakemake imports this module.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from perturbations.base import features
from perturbations.base.errors import ConfigError
from perturbations.config import named_paths
from perturbations.config import sections as configuration
from perturbations.guides import registry as guides
from perturbations.guides.guide import OFFLINE_MB, AnalysisRecipe
from perturbations.manifest import layout
from perturbations.manifest.layout import TOP
from perturbations.manifest.skipped import as_json
from perturbations.plan import caption_recipes, costs, listed, recipe, sharding, tiers
from perturbations.plan.costs import Workload
from perturbations.plan.extension import PlanFeature, Plans
from perturbations.suites import registry

Inputs = dict[str, str | list[str]]
"""The inputs of a job by name."""

WORK = Path(layout.WORK)

COMPOSED_SHARD = "s0"
"""The one shard of a dataset's instructions."""


def plan(config: configuration.Config, collection: str) -> sharding.DatasetPlan:
    """Write the list files of a collection and return its shards. Raises `ConfigError` and `AnnotationError`."""
    named_paths.check_backend_files(config)
    return sharding.make(collection, config, WORK / collection)


def caption_shards(config: configuration.Config, dataset: str) -> tuple[str, ...]:
    """Write the list files of a dataset's captions and return their shards; a job lists composed queries, in one.

    Raises `ConfigError` and `AnnotationError`.
    """
    if sharding.is_composed(dataset):
        return (COMPOSED_SHARD,)
    return sharding.captions(dataset, config, WORK / dataset)


# --- text for Snakemake and for the shell ----------------------------------------------------------------------------


def without_braces(what: str, path: Path) -> str:
    """A path as text. Raises `ConfigError` for braces, which Snakemake would read as wildcards."""
    if set("{}") & set(str(path)):
        raise ConfigError(f"{what}: rename {path}; Snakemake takes the braces for wildcards")
    return str(path)


def check_folders(root: Path) -> None:
    """Raise `ConfigError` where a file is in the way of results: Snakemake would end with a traceback."""
    for name in TOP:
        if (root / name).exists() and not (root / name).is_dir():
            raise ConfigError(f"cannot write {root / name}: it is a file, and no folder")


def shell_prefix(python: Path) -> str:
    """What every shell command begins with, so that it finds `perturb` beside the Python that runs Snakemake."""
    folder = shlex.quote(str(python.parent)).replace("{", "{{").replace("}", "}}")
    return f"export PATH={folder}:$PATH; "


# --- resources -------------------------------------------------------------------------------------------------------

_WEIGHTS_MB = 4000
"""The memory of a job that loads a network of some hundred megabytes."""


def _gpus(config: configuration.Config) -> int:
    return 1 if config.backends.device.startswith("cuda") else 0


# --- clips -----------------------------------------------------------------------------------------------------------


def of_shards(kind: str, collection: str, shards: Iterable[str], **names: str) -> list[str]:
    """The files of one kind of `layout` about a collection, one per shard; `names` are the other fields of its path."""
    return [layout.at(kind, dataset=collection, shard=shard, **names) for shard in shards]


def _of_shards(
    kind: str, collection: str, suite: str, scenarios: Iterable[tuple[str, int | None]], shards: Iterable[str]
) -> list[str]:
    names = list(shards)
    return [
        layout.at(kind, dataset=collection, suite=suite, perturbation=name, severity=severity, shard=shard)
        for name, severity in scenarios
        for shard in names
    ]


def video_parts(config: configuration.Config, collection: str, suite: str, shards: Sequence[str]) -> list[str]:
    """The parts of a corpus: one per perturbation, severity and shard."""
    return _of_shards("video_part", collection, suite, recipe.scenarios(config, suite), shards)


def clip_markers(config: configuration.Config, collection: str, suite: str, shards: Sequence[str]) -> list[str]:
    """The markers of a corpus' clips: one per perturbation, severity and shard."""
    return _of_shards("clip_marker", collection, suite, recipe.scenarios(config, suite), shards)


def marker(config: configuration.Config, path: str) -> dict[str, str]:
    """A further output, by name, of a job that makes clips: `path`, by which Snakemake sees the stored clips."""
    return {} if config.storage.tier == "recipe" else {"marker": path}


def markers(config: configuration.Config, collection: str, suite: str, shards: Sequence[str]) -> list[str]:
    """The markers of a corpus' stored clips, so that lost ones are made again."""
    return [] if config.storage.tier == "recipe" else clip_markers(config, collection, suite, shards)


def clip_inputs(
    config: configuration.Config,
    collection: str,
    suite: str,
    scenarios: Iterable[tuple[str, int | None]],
    shards: Sequence[str],
) -> list[str]:
    """The inputs of a job that reads clips of some scenarios: their parts, and their markers where they are stored."""
    kinds = ["video_part"] if config.storage.tier == "recipe" else ["video_part", "clip_marker"]
    wanted = list(scenarios)
    return [path for kind in kinds for path in _of_shards(kind, collection, suite, wanted, shards)]


def video_inputs(wanted: recipe.VideoRecipe, collection: str, shard: str, plans: Plans) -> Inputs:
    """What a recipe needs besides a shard's clips: an analysis, clips to insert, the videos that clips are cut from."""
    inputs: Inputs = {"sources": layout.at("source_part", dataset=collection, shard=shard)}
    if wanted.analysis is not None:
        analysis = wanted.analysis.analysis
        inputs["analysis"] = layout.at("analysis_part", dataset=collection, analysis=analysis, shard=shard)
    if wanted.donors is not None:
        corpus, analysis = wanted.donors
        inputs["donors"] = layout.at("analyses", dataset=corpus, analysis=analysis)
    if wanted.whole_videos:
        inputs["whole"] = list(_whole_parts(plans, collection, shard))
    return inputs


@cache
def _whole_parts(plans: Plans, dataset: str, shard: str) -> tuple[str, ...]:
    """The parts that describe the videos of a shard's clips, so that the job depends on no other videos."""
    collection = sharding.whole(dataset)
    wanted = plans(dataset).videos[shard]
    return tuple(
        of_shards("source_part", collection, (name for name, ids in plans(collection).videos.items() if ids & wanted))
    )


def video_recipes(config: configuration.Config, collection: str, suite: str) -> str:
    """Write the file of a corpus's recipes and return its path. The corpus's parts must follow these recipes."""
    texts = {
        f"{name}/{severity}": recipe.from_config(config, collection, suite, name, severity).text
        for name, severity in recipe.scenarios(config, suite)
    }
    path = layout.at("video_recipes", dataset=collection, suite=suite)
    listed.write_recipes(config.at(path), texts)
    return path


def _is_offline(wanted: recipe.VideoRecipe) -> bool:
    return wanted.guide is None or wanted.guide.is_offline


def video_memory_mb(wanted: recipe.VideoRecipe, clips: Workload) -> int:
    """The memory of a job that makes videos of some clips, in MB: large where weights are loaded, or frames are."""
    return costs.memory_mb(clips, OFFLINE_MB if _is_offline(wanted) else _WEIGHTS_MB)


def video_minutes(wanted: recipe.VideoRecipe, clips: Workload) -> int:
    """The time that a job requests that makes videos of some clips."""
    return costs.minutes(clips, costs.SLOWEST_VIDEOS, models=not _is_offline(wanted))


def video_gpus(config: configuration.Config, wanted: recipe.VideoRecipe) -> int:
    """How many GPUs a job that makes videos takes."""
    return 0 if _is_offline(wanted) else _gpus(config)


# --- analyses --------------------------------------------------------------------------------------------------------

ANALYSES = tuple(guides.ANALYSES)
"""The names of all analyses."""


def analysis_recipe(config: configuration.Config, analysis: str) -> AnalysisRecipe:
    """The recipe of one of `ANALYSES`."""
    return recipe.analysis(analysis, config.backends, tiers.storage_of(config.storage))


def analysis_captions(collection: str, analysis: str, shard: str) -> str | list[str]:
    """The part of the analysis that this analysis builds on; an empty list where it builds on none."""
    before = guides.analysis(analysis).after
    return layout.at("analysis_part", dataset=collection, analysis=before, shard=shard) if before else []


def analysis_memory_mb(config: configuration.Config, analysis: str, clips: Workload) -> int:
    """The memory of an analysis's job in MB: large for pretrained models, small for offline ones and small frames."""
    declared, is_offline = guides.analysis(analysis), analysis_recipe(config, analysis).is_offline
    return costs.memory_mb(clips, OFFLINE_MB if is_offline else declared.memory_mb)


def analysis_minutes(config: configuration.Config, analysis: str, clips: Workload) -> int:
    """The time that an analysis's job requests for some clips."""
    is_offline = analysis_recipe(config, analysis).is_offline
    return costs.minutes(clips, guides.analysis(analysis).seconds, models=not is_offline)


def main_objects(config: configuration.Config, suite: str, dataset: str) -> list[str]:
    """The manifests of a suite's guides that people inspect: the main objects."""
    entries = [registry.get(f"{suite}/{name}") for name, _ in recipe.scenarios(config, suite)]
    shown = any(entry.guide == "main_object" for entry in entries)
    return [layout.at("analyses", dataset=dataset, analysis="main_object")] if shown else []


def analysis_gpus(config: configuration.Config, analysis: str) -> int:
    """How many GPUs an analysis's job takes."""
    return 0 if analysis_recipe(config, analysis).is_offline else _gpus(config)


# --- captions --------------------------------------------------------------------------------------------------------


def texts_of_recipes(config: configuration.Config, dataset: str, suite: str) -> dict[str, str]:
    """The recipes that the jobs of perturbed captions follow, by scenario."""
    return {
        f"{name}/{severity}": caption_recipes.from_config(
            config, sharding.dataset_of(dataset), suite, name, severity
        ).text
        for name, severity in _text_scenarios(config, dataset, suite)
    }


def text_recipes(config: configuration.Config, dataset: str, suite: str) -> str:
    """Write the file of the recipes of perturbed captions and return its path. The parts must follow these recipes."""
    path = layout.at("text_recipes", dataset=dataset, suite=suite)
    listed.write_recipes(config.at(path), texts_of_recipes(config, dataset, suite))
    return path


def text_skipped(config: configuration.Config, collection: str, suite: str) -> str:
    """What a corpus of captions leaves out, as JSON."""
    return as_json(caption_recipes.skipped(config, sharding.dataset_of(collection), suite))


def _text_scenarios(config: configuration.Config, collection: str, suite: str) -> list[tuple[str, int]]:
    """The perturbations of a dataset's captions; of composed queries, those that the evaluation asks."""
    dataset = sharding.dataset_of(collection)
    if sharding.is_composed(collection):
        instructions = features.only(feature.instructions for feature in features.of(PlanFeature))
        return [] if instructions is None else instructions(config, dataset, suite)
    return caption_recipes.scenarios(config, dataset, suite)


def _has_pretrained_captions(config: configuration.Config) -> bool:
    return bool(config.backends.captions.backend == "pretrained")


def text_memory_mb(config: configuration.Config) -> int:
    """The memory of a job that perturbs captions, in MB."""
    return 8000 if _has_pretrained_captions(config) else 3000


def text_minutes(config: configuration.Config) -> int:
    """The time that a job requests that perturbs captions, of which it has at most a thousand.

    Finished parts are kept, so pretrained models, which may take longer, go on at the next attempt.
    """
    return 1440 if _has_pretrained_captions(config) else 120
