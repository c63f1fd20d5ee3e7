"""What the rules of corpora refer to: a job's inputs, settings and resources, as functions of its wildcards."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from perturbations.base import shown
from perturbations.base.errors import PerturbationError
from perturbations.base.records import canonical
from perturbations.config.sections import Config
from perturbations.datasets import registry as datasets
from perturbations.manifest import layout
from perturbations.plan import costs, paths, recipe, sharding, targets
from perturbations.plan.costs import Workload
from perturbations.plan.extension import Target
from perturbations.plan.sharding import DatasetPlan

Wildcards = Any
"""The wildcards of a job, as attributes."""


class RuleFunctions:
    """Functions for rules: the public ones. The user's mistakes, in any of them, stop Snakemake with one message."""

    def __init_subclass__(cls) -> None:
        for name, function in [*vars(cls).items()]:
            if inspect.isfunction(function) and not name.startswith("_"):
                setattr(cls, name, _with_messages(function))


def _with_messages(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except PerturbationError as error:
            from snakemake.exceptions import WorkflowError

            raise WorkflowError(shown.lines(str(error))) from None

    return called


def doubled(value: int) -> Callable[..., int]:
    """A resource that grows with the attempts of a job: what was killed for memory or time needs more."""
    return lambda wildcards, attempt: value << (attempt - 1)


class CorpusRules(RuleFunctions):
    """The functions of the rules of clips and captions.

    Attributes:
        config: the configuration.
        plans: whether this process plans the run, and is no job of it.
    """

    def __init__(self, config: Config, plans: Callable[[], bool]) -> None:
        self.config = config
        self.plans = plans
        # Snakemake asks once per job, and many jobs share the answers.
        self._plan = cache(self._made_plan)
        self._caption_shards = cache(self._made_caption_shards)
        self._recipe = cache(self._made_recipe)
        self._text_recipes = cache(lambda dataset, suite: paths.texts_of_recipes(config, dataset, suite))

    def _made_plan(self, collection: str) -> DatasetPlan:
        return paths.plan(self.config, collection)

    def _made_caption_shards(self, dataset: str) -> tuple[str, ...]:
        return paths.caption_shards(self.config, dataset)

    def _made_recipe(self, collection: str, suite: str, perturbation: str, severity: int) -> recipe.VideoRecipe:
        return recipe.from_config(self.config, collection, suite, perturbation, severity)

    def plan(self, collection: str) -> DatasetPlan:
        """The plan of a collection."""
        return self._plan(collection)

    def caption_shards(self, dataset: str) -> tuple[str, ...]:
        """The shards of a dataset's captions."""
        return self._caption_shards(dataset)

    # --- targets ---

    def menu(self) -> dict[str, Target]:
        """Every target by its name; the first is the default."""
        every = (
            targets.demo(self.config, self._plan),
            *targets.menu(self.config, self._plan, self._caption_shards),
        )
        return {target.name: target for target in every}

    def files_of(self, target: Target, say: Callable[[str], None]) -> Callable[[Wildcards], list[str]]:
        """An input function: the files of a target, whose size it says."""

        def files(wildcards: Wildcards) -> list[str]:
            work = target.request()
            for line in work.sizes:
                say(line)
            clips = [
                path
                for collection, suite in work.corpora
                for path in paths.markers(self.config, collection, suite, self._plan(collection).shards)
            ]
            return [*work.files, *clips]

        return _with_messages(files)

    # --- what many rules take ---

    def run(self, wildcards: Wildcards, input: object) -> str:
        """When a clip is given up: never a result, so Snakemake does not compare it, as functions of inputs are not."""
        return canonical({"timeout_s": self.config.timeout_s, "limits": self.config.limits.model_dump()})

    def work(self, wildcards: Wildcards) -> str:
        """The folder of a collection's lists and parts."""
        return str(self.config.at(f"{layout.WORK}/{wildcards.dataset}"))

    def dataset(self, wildcards: Wildcards) -> str:
        """Settings: the dataset of a collection."""
        return canonical({"dataset": sharding.dataset_of(wildcards.dataset)})

    def shard_lists(self, wildcards: Wildcards) -> list[str]:
        """The lists of a collection's clips."""
        return paths.of_shards("shard_list", wildcards.dataset, self._plan(wildcards.dataset).shards)

    def merge_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """The time of a job that merges the rows of a corpus."""
        listed = self._plan(wildcards.dataset).listed if self.plans() else 0
        return costs.merge_minutes(listed * len(recipe.scenarios(self.config, wildcards.suite))) << (attempt - 1)

    def _size(self, wildcards: Wildcards) -> Workload:
        """Of a job's clips; not in the job itself, which would plan the dataset again."""
        return self._plan(wildcards.dataset).size_of(wildcards.shard) if self.plans() else costs.NOTHING

    def _allowed(self, dataset: str) -> str:
        return canonical({"allowed": self.config.max_failed_items_of(dataset)})

    # --- clean clips ---

    def source_settings(self, wildcards: Wildcards) -> str:
        """Settings of `sources`; `version` changes when decoding does."""
        dataset = sharding.dataset_of(wildcards.dataset)
        drawn = datasets.get(self.config.datasets[dataset].adapter).synthetic is not None
        return canonical({"version": 1, "dataset": dataset, "drawn": drawn})

    def source_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `sources`."""
        return costs.memory_mb(self._size(wildcards), 1000) << (attempt - 1)

    def source_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `sources`."""
        return costs.minutes(self._size(wildcards), costs.SOURCES) << (attempt - 1)

    def source_parts(self, wildcards: Wildcards) -> list[str]:
        """The parts of the manifest of clean clips."""
        return paths.of_shards("source_part", wildcards.dataset, self._plan(wildcards.dataset).shards)

    # --- analyses ---

    def analysis_before(self, wildcards: Wildcards) -> str | list[str]:
        """The part of the analysis that this one builds on, if any."""
        return paths.analysis_captions(wildcards.dataset, wildcards.analysis, wildcards.shard)

    def analysis_settings(self, wildcards: Wildcards) -> str:
        """Settings of `analyses`."""
        return canonical({"recipe": json.loads(paths.analysis_recipe(self.config, wildcards.analysis).text)})

    def analysis_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `analyses`."""
        return paths.analysis_memory_mb(self.config, wildcards.analysis, self._size(wildcards)) << (attempt - 1)

    def analysis_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `analyses`."""
        return paths.analysis_minutes(self.config, wildcards.analysis, self._size(wildcards)) << (attempt - 1)

    def analysis_gpus(self, wildcards: Wildcards) -> int:
        """GPUs of `analyses`."""
        return paths.analysis_gpus(self.config, wildcards.analysis)

    def analysis_parts(self, wildcards: Wildcards) -> list[str]:
        """The parts of an analysis of all clips."""
        shards = self._plan(wildcards.dataset).shards
        return paths.of_shards("analysis_part", wildcards.dataset, shards, analysis=wildcards.analysis)

    def merged_analysis_settings(self, wildcards: Wildcards) -> str:
        """Settings of `analyses_manifest`."""
        recipe_of = json.loads(paths.analysis_recipe(self.config, wildcards.analysis).text)
        return canonical({"dataset": sharding.dataset_of(wildcards.dataset), "recipe": recipe_of})

    # --- perturbed clips ---

    def _recipe_of(self, wildcards: Wildcards) -> recipe.VideoRecipe:
        return self._recipe(wildcards.dataset, wildcards.suite, wildcards.perturbation, int(wildcards.severity))

    def _video_input(self, wildcards: Wildcards, name: str) -> Any:
        wanted = self._recipe_of(wildcards)
        return paths.video_inputs(wanted, wildcards.dataset, wildcards.shard, self._plan).get(name, [])

    def video_analysis(self, wildcards: Wildcards) -> str | list[str]:
        """The part of the analysis by which a perturbation is guided, if any."""
        part: str | list[str] = self._video_input(wildcards, "analysis")
        return part

    def donors(self, wildcards: Wildcards) -> str | list[str]:
        """The index of clips that may be inserted, if any are."""
        index: str | list[str] = self._video_input(wildcards, "donors")
        return index

    def whole_videos(self, wildcards: Wildcards) -> list[str]:
        """The parts that describe the videos of a shard's clips, where whole videos are perturbed."""
        parts: list[str] = self._video_input(wildcards, "whole")
        return parts

    def video_settings(self, wildcards: Wildcards) -> str:
        """Settings of `videos`: everything that determines its result; Snakemake reruns the job when they change."""
        stored = self.config.storage.job_settings
        return canonical({"recipe": json.loads(self._recipe_of(wildcards).text), **stored})

    def video_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `videos`."""
        return paths.video_memory_mb(self._recipe_of(wildcards), self._size(wildcards)) << (attempt - 1)

    def video_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `videos`."""
        return paths.video_minutes(self._recipe_of(wildcards), self._size(wildcards)) << (attempt - 1)

    def video_gpus(self, wildcards: Wildcards) -> int:
        """GPUs of `videos`."""
        return paths.video_gpus(self.config, self._recipe_of(wildcards))

    def video_parts(self, wildcards: Wildcards) -> list[str]:
        """The parts of a corpus."""
        shards = self._plan(wildcards.dataset).shards
        return paths.video_parts(self.config, wildcards.dataset, wildcards.suite, shards)

    def clip_markers(self, wildcards: Wildcards) -> list[str]:
        """The markers of a corpus' clips, where they are stored."""
        shards = self._plan(wildcards.dataset).shards
        return paths.markers(self.config, wildcards.dataset, wildcards.suite, shards)

    def video_recipes(self, wildcards: Wildcards) -> str:
        """The file of a corpus' recipes, which its parts must follow."""
        return paths.video_recipes(self.config, wildcards.dataset, wildcards.suite)

    def corpus_settings(self, wildcards: Wildcards) -> str:
        """Settings of `videos_manifest`.

        Captions by their numbers, not their list: a corrected caption alone does not make the manifest again.
        """
        dataset, plan = sharding.dataset_of(wildcards.dataset), self._plan(wildcards.dataset)
        return canonical(
            {
                "dataset": dataset,
                "adapter": self.config.datasets[dataset].adapter,
                "suite": wildcards.suite,
                "captions": [plan.captions, plan.rejected_captions],
            }
        )

    def allowed_failures(self, wildcards: Wildcards) -> str:
        """Settings of `check_quarantine`."""
        return self._allowed(sharding.dataset_of(wildcards.dataset))

    # --- captions ---

    def caption_lists(self, wildcards: Wildcards) -> list[str]:
        """The lists of a dataset's captions."""
        return paths.of_shards("caption_list", wildcards.dataset, self._caption_shards(wildcards.dataset))

    def allowed_captions(self, wildcards: Wildcards) -> str:
        """Settings of `check_captions`."""
        return self._allowed(wildcards.dataset)

    def text_recipes(self, wildcards: Wildcards) -> str:
        """The file of the recipes of perturbed captions, which their parts must follow."""
        return paths.text_recipes(self.config, wildcards.dataset, wildcards.suite)

    def text_recipe_texts(self, wildcards: Wildcards) -> str:
        """What `text_recipes` holds: Snakemake compares it, and the job reads the file; all are long for a command."""
        return canonical(self._text_recipes(wildcards.dataset, wildcards.suite))

    def text_markers(self, wildcards: Wildcards) -> list[str]:
        """The markers of the parts of perturbed captions."""
        shards = self._caption_shards(wildcards.dataset)
        return paths.of_shards("text_marker", wildcards.dataset, shards, suite=wildcards.suite)

    def text_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `texts`."""
        return paths.text_memory_mb(self.config) << (attempt - 1)

    def text_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `texts`."""
        return paths.text_minutes(self.config) << (attempt - 1)

    def texts_settings(self, wildcards: Wildcards) -> str:
        """Settings of `texts_manifest`."""
        dataset = sharding.dataset_of(wildcards.dataset)
        skipped = paths.text_skipped(self.config, wildcards.dataset, wildcards.suite)
        return canonical(
            {
                "dataset": dataset,
                "adapter": self.config.datasets[dataset].adapter,
                "suite": wildcards.suite,
                "skipped": json.loads(skipped),
            }
        )

    # --- the rest ---

    def encoder_settings(self, wildcards: Wildcards) -> str:
        """Settings of `demo_encoder`; `version` changes when the training does."""
        return canonical({"version": 3, "seed": self.config.seed})
