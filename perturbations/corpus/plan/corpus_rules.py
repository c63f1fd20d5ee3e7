"""What the rules of corpora refer to: a job's inputs, settings and resources, as functions of its wildcards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from perturbations.base import shown
from perturbations.base.errors import PerturbationError
from perturbations.base.records import canonical
from perturbations.config.sections import Config
from perturbations.corpus.plan import caption_recipes, folders, recipe, resources, sharding, targets, tiers
from perturbations.corpus.plan.sharding import DatasetPlan, dataset_of
from perturbations.corpus.plan.targets import TargetWork, WorkRequest
from perturbations.datasets import adapter_registry as datasets
from perturbations.manifest import manifest_paths
from perturbations.models.guides import guide_registry as guides
from perturbations.models.guides.guide_registry import OFFLINE_MB, AnalysisRecipe

Wildcards = Any
"""The wildcards of a job, as attributes."""

_WEIGHTS_MB = 4000
"""The memory of a job that loads a network of some hundred megabytes."""


@contextmanager
def user_mistakes() -> Iterator[None]:
    """Stop Snakemake with one message where the user made a mistake. Also a decorator.

    Snakemake would add lines of this package to an exception, and the user would look for the mistake there.
    """
    try:
        yield
    except PerturbationError as error:
        raise SystemExit(shown.lines(str(error))) from None
    except OSError as error:
        raise SystemExit(shown.lines(f"{error.filename}: {error.strerror}")) from None


def megabytes(value: int | Callable[[Wildcards], int]) -> Callable[..., int]:
    """The `mem_mb` of a rule: `value` at the first attempt, twice as much after each attempt that was killed."""
    return partial(_doubled, "mem_mb", value)


def minutes(value: int | Callable[[Wildcards], int]) -> Callable[..., int]:
    """The `runtime` of a rule: `value` at the first attempt, twice as much after each attempt that was killed."""
    return partial(_doubled, "runtime", value)


def _doubled(
    resource: str, value: int | Callable[[Wildcards], int], wildcards: Wildcards, attempt: int, rulename: str
) -> int:
    first = value(wildcards) if callable(value) else value
    return max(first, min(first << (attempt - 1), resources.LIMITS.get((rulename, resource), first << (attempt - 1))))


def _each(path: str, wildcards: Wildcards, shards: Iterable[str]) -> list[str]:
    return [path.format(shard=shard, **dict(wildcards.items())) for shard in shards]


class CorpusRules:
    """The functions of the rules of clips and captions.

    Attributes:
        config: the configuration.
        caption_shards: the shards of a collection's captions.
        requested: what Snakemake has asked for so far: the work of targets, and corpora whose manifests are made.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        # Snakemake asks once per job, and many jobs share the answers.
        self._plans: dict[str, DatasetPlan] = {}
        self.caption_shards: Callable[[str], tuple[str, ...]] = cache(
            user_mistakes()(partial(sharding.plan_captions, config))
        )
        self.requested: list[TargetWork] = []
        self._recipe = cache(user_mistakes()(partial(recipe.from_config, config)))
        self._video_settings = cache(
            lambda text: canonical({"recipe": json.loads(text), **config.storage.job_settings})
        )
        self._run = canonical({"timeout_s": config.timeout_s, "limits": config.limits.model_dump()})
        self._text_recipes = cache(user_mistakes()(partial(folders.texts_of_recipes, config)))

    def plan(self, collection: str) -> DatasetPlan:
        """The plan of a collection."""
        if collection not in self._plans:
            with user_mistakes():
                self._plans[collection] = sharding.plan_clips(self.config, collection)
        return self._plans[collection]

    # --- targets ---

    def menu(self) -> dict[str, tuple[str, WorkRequest]]:
        """The line and the work of every target, by its name; the first is the default."""
        menu = targets.menu(self.config, self.plan, self.caption_shards)
        return {name: (text, request) for name, text, request in menu}

    def files_of(self, request: WorkRequest, say: Callable[[str], None]) -> Callable[[Wildcards], list[str]]:
        """An input function: the files of a target's work. It calls `say` with lines about the work's size."""

        @user_mistakes()
        def files(wildcards: Wildcards) -> list[str]:
            work = request()
            self.requested.append(work)
            for line in work.sizes:
                say(line)
            # Snakemake makes missing inputs of the target itself again, but not missing inputs of these inputs.
            return [*work.files, *(path for corpus in work.corpora for path in self._clip_markers(*corpus))]

        return files

    # --- what many rules take ---

    def run(self, wildcards: Wildcards, input: object) -> str:
        """When a clip is given up: never a result, so Snakemake does not compare it, as functions of inputs are not."""
        return self._run

    def work(self, wildcards: Wildcards) -> str:
        """The folder of a collection's lists and parts."""
        return str(self.config.at(f"{manifest_paths.WORK}/{wildcards.dataset}"))

    def dataset(self, wildcards: Wildcards) -> str:
        """Settings: the dataset of a collection."""
        return canonical({"dataset": dataset_of(wildcards.dataset)})

    def origin(self, wildcards: Wildcards) -> str:
        """Settings: the dataset of a collection, how it is read, and what its captions are written in."""
        dataset = dataset_of(wildcards.dataset)
        own = self.config.datasets[dataset]
        return canonical({"dataset": dataset, "adapter": own.adapter, "language": own.language})

    def of_shards(self, path: str) -> Callable[[Wildcards], list[str]]:
        """An input function: a path for each shard of a collection's clips, and of wildcards."""
        return lambda wildcards: _each(path, wildcards, self.plan(wildcards.dataset).shards)

    def of_caption_shards(self, path: str) -> Callable[[Wildcards], list[str]]:
        """An input function: a path for each shard of a collection's captions, and of wildcards."""
        return lambda wildcards: _each(path, wildcards, self.caption_shards(wildcards.dataset))

    def allowed_failures(self, wildcards: Wildcards) -> str:
        """Settings of `check_quarantine` and `check_captions`."""
        return canonical({"allowed": self.config.max_failed_items_of(dataset_of(wildcards.dataset))})

    # --- resources of jobs of clips ---

    def _largest(self, wildcards: Wildcards) -> resources.ClipSize:
        """The plan's largest clip. The process of a single job plans nothing: there, the assumed size."""
        plan = self._plans.get(wildcards.dataset)
        return plan.largest if plan else resources.UNKNOWN

    def _shard_size(self, wildcards: Wildcards) -> int:
        plan = self._plans.get(wildcards.dataset)
        return plan.shard_size if plan else self.config.shard_size or sharding.derived_size(0)

    def _models(self, wildcards: Wildcards) -> int | None:
        """The memory in MB that a job takes for its pretrained models; None where it runs none."""
        if analysis := getattr(wildcards, "analysis", None):
            return None if self._analysis(analysis).is_offline else guides.analysis(analysis).memory_mb
        guide = self._recipe_of(wildcards).guide_recipe if hasattr(wildcards, "perturbation") else None
        return None if guide is None or guide.is_offline else _WEIGHTS_MB

    def clips_mb(self, wildcards: Wildcards) -> int:
        """Memory of `sources`, `analyses` and `videos`."""
        least = self._models(wildcards) or OFFLINE_MB
        return resources.memory_mb(self._largest(wildcards), least)

    def clips_minutes(self, wildcards: Wildcards) -> int:
        """Time of `sources`, `analyses` and `videos`."""
        models = self._models(wildcards) is not None
        return resources.minutes(self._largest(wildcards), self._shard_size(wildcards), models=models)

    def clips_gpus(self, wildcards: Wildcards) -> int:
        """GPUs of `analyses` and `videos`."""
        return int(self.config.backends.device.startswith("cuda") and self._models(wildcards) is not None)

    # --- clean clips ---

    def source_settings(self, wildcards: Wildcards) -> str:
        """Settings of `sources`; `version` changes when decoding does."""
        dataset = dataset_of(wildcards.dataset)
        drawn = datasets.get(self.config.datasets[dataset].adapter).synthetic is not None
        return canonical({"version": 1, "dataset": dataset, "drawn": drawn})

    # --- analyses ---

    def _analysis(self, name: str) -> AnalysisRecipe:
        return recipe.analysis(name, self.config.backends, tiers.storage_of(self.config.storage))

    def analysis_before(self, wildcards: Wildcards) -> str | list[str]:
        """The part of the analysis that this one builds on, if any."""
        before = guides.analysis(wildcards.analysis).after
        if before is None:
            return []
        return manifest_paths.at("analysis_part", dataset=wildcards.dataset, analysis=before, shard=wildcards.shard)

    def analysis_settings(self, wildcards: Wildcards) -> str:
        """Settings of `analyses`."""
        return canonical({"recipe": json.loads(self._analysis(wildcards.analysis).text)})

    def merged_analysis_settings(self, wildcards: Wildcards) -> str:
        """Settings of `analyses_manifest`."""
        recipe_of = json.loads(self._analysis(wildcards.analysis).text)
        return canonical({"dataset": dataset_of(wildcards.dataset), "recipe": recipe_of})

    # --- perturbed clips ---

    def _recipe_of(self, wildcards: Wildcards) -> recipe.VideoRecipe:
        return self._recipe(wildcards.dataset, wildcards.suite, wildcards.perturbation, int(wildcards.severity))

    def video_analysis(self, wildcards: Wildcards) -> str | list[str]:
        """The part of the analysis by which a perturbation is guided, if any."""
        wanted = self._recipe_of(wildcards).analysis
        if wanted is None:
            return []
        return manifest_paths.at(
            "analysis_part", dataset=wildcards.dataset, analysis=wanted.analysis, shard=wildcards.shard
        )

    def donors(self, wildcards: Wildcards) -> str | list[str]:
        """The index of clips that may be inserted, if any are."""
        donors = self._recipe_of(wildcards).donors
        return [] if donors is None else manifest_paths.at("analyses", dataset=donors[0], analysis=donors[1])

    def whole_videos(self, wildcards: Wildcards) -> list[str]:
        """Where whole videos are perturbed: the parts that describe the videos of a shard's clips."""
        if not self._recipe_of(wildcards).whole_videos:
            return []
        collection, wanted = sharding.whole(wildcards.dataset), self.plan(wildcards.dataset).videos[wildcards.shard]
        of_shards = self.plan(collection).videos.items()
        return folders.of_shards("source_part", collection, (shard for shard, ids in of_shards if ids & wanted))

    def video_settings(self, wildcards: Wildcards) -> str:
        """Settings of `videos`: everything that determines its result; Snakemake reruns the job when they change."""
        return self._video_settings(self._recipe_of(wildcards).text)

    def video_parts(self, wildcards: Wildcards) -> list[str]:
        """The parts of a corpus."""
        self.requested.append(TargetWork([], corpora=((wildcards.dataset, wildcards.suite),)))
        return self._of_scenarios("video_part", wildcards.dataset, wildcards.suite)

    def clip_markers(self, wildcards: Wildcards) -> list[str]:
        """The markers of a corpus' clips, where they are stored."""
        return self._clip_markers(wildcards.dataset, wildcards.suite)

    def _clip_markers(self, collection: str, suite: str) -> list[str]:
        return [] if self.config.storage.tier == "recipe" else self._of_scenarios("clip_marker", collection, suite)

    def _of_scenarios(self, kind: str, collection: str, suite: str) -> list[str]:
        scenarios, shards = recipe.scenarios(self.config, suite), self.plan(collection).shards
        return folders.of_scenarios(kind, collection, suite, scenarios, shards)

    @user_mistakes()
    def video_recipes(self, wildcards: Wildcards) -> str:
        """The file of a corpus' recipes, which its parts must follow."""
        scenarios = recipe.scenarios(self.config, wildcards.suite)
        texts = {
            f"{name}/{severity}": self._recipe(wildcards.dataset, wildcards.suite, name, severity).text
            for name, severity in scenarios
        }
        return folders.write_recipes(self.config, "video_recipes", wildcards.dataset, wildcards.suite, texts)

    def corpus_settings(self, wildcards: Wildcards) -> str:
        """Settings of `videos_manifest`.

        Captions are counted, not listed: a corrected caption alone does not make the manifest again.
        """
        dataset, plan = dataset_of(wildcards.dataset), self.plan(wildcards.dataset)
        return canonical(
            {
                "dataset": dataset,
                "adapter": self.config.datasets[dataset].adapter,
                "suite": wildcards.suite,
                "captions": [plan.captions, plan.rejected_captions],
            }
        )

    # --- captions ---

    @user_mistakes()
    def text_recipes(self, wildcards: Wildcards) -> str:
        """The file of the recipes of perturbed captions, which their parts must follow."""
        texts = self._text_recipes(wildcards.dataset, wildcards.suite)
        return folders.write_recipes(self.config, "text_recipes", wildcards.dataset, wildcards.suite, texts)

    def text_recipe_texts(self, wildcards: Wildcards) -> str:
        """The recipes, for Snakemake to compare. The job reads the file: they are too long for a command line."""
        return canonical(self._text_recipes(wildcards.dataset, wildcards.suite))

    def text_mb(self, wildcards: Wildcards) -> int:
        """Memory of `texts`."""
        return 8000 if self.config.backends.captions.backend == "pretrained" else 3000

    def text_minutes(self, wildcards: Wildcards) -> int:
        """Time of `texts`, of at most a thousand captions. Finished parts are kept: the next attempt goes on."""
        return 1440 if self.config.backends.captions.backend == "pretrained" else 120

    @user_mistakes()
    def texts_settings(self, wildcards: Wildcards) -> str:
        """Settings of `texts_manifest`."""
        dataset = dataset_of(wildcards.dataset)
        return canonical(
            {
                "dataset": dataset,
                "adapter": self.config.datasets[dataset].adapter,
                "suite": wildcards.suite,
                "skipped": caption_recipes.skipped(self.config, dataset, wildcards.suite),
            }
        )

    # --- the rest ---

    def encoder_settings(self, wildcards: Wildcards) -> str:
        """Settings of `demo_encoder`; `version` changes when the training does."""
        return canonical({"version": 6, "seed": self.config.seed})
