"""What the rules of composed retrieval refer to: a job's inputs, settings and resources, as functions of its wildcards.

Composed retrieval is made with the first model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache

from perturbations.base.records import canonical
from perturbations.composed import paths, planning
from perturbations.evaluation import model_files, sizes
from perturbations.evaluation import paths as evaluation_paths
from perturbations.evaluation.rules import EvaluationRules, loaded_model, where
from perturbations.plan.rules import CorpusRules, Wildcards, user_mistakes


class ComposedRules:
    """The functions of the rules of composed retrieval."""

    def __init__(self, corpora: CorpusRules, evaluations: EvaluationRules, requested: Callable[[], list[str]]) -> None:
        self.config = next(iter(evaluations.models.values()))
        self._corpora = corpora
        self._files_sha256 = cache(user_mistakes()(lambda: model_files.sha256(self.config)))
        evaluations.further.append(
            cache(
                lambda kind: [
                    f"{paths.folder(dataset)}/{kind}.parquet" for dataset in paths.reported(corpora.config, requested())
                ]
            )
        )

    def run(self, wildcards: Wildcards, input: object) -> str:
        """Where and with what a job runs: Snakemake does not compare it, as functions of inputs are not."""
        return canonical(where(self.config))

    def threads(self, wildcards: Wildcards) -> int:
        """Threads of a job that encodes clips."""
        return evaluation_paths.readers(self.config)

    def gpus(self, wildcards: Wildcards) -> int:
        """GPUs of a job."""
        return evaluation_paths.gpus(self.config)

    def gpu_share(self, wildcards: Wildcards) -> int:
        """Percents of a GPU of a job."""
        return evaluation_paths.gpu_share(self.config)

    @user_mistakes()
    def model_files(self, wildcards: Wildcards) -> Mapping[str, str | list[str]]:
        """The files that the model is loaded from, by name."""
        return evaluation_paths.model_inputs(self.config)

    # --- the split ---

    @user_mistakes()
    def annotation_files(self, wildcards: Wildcards) -> list[str]:
        """The files that a split is made from."""
        return paths.annotation_files(self.config, wildcards.dataset)

    def split_settings(self, wildcards: Wildcards) -> str:
        """Settings of `composed_split`."""
        return canonical({"settings": json.loads(planning.split_settings(self.config, wildcards.dataset))})

    def split_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `composed_split`."""
        return paths.split_memory_mib(self.config) << (attempt - 1)

    def split_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `composed_split`."""
        return paths.split_minutes(self.config) << (attempt - 1)

    def split_gpus(self, wildcards: Wildcards) -> int:
        """GPUs of `composed_split`."""
        return paths.split_gpus(self.config)

    # --- features ---

    def _feature_settings(self) -> dict[str, object]:
        own = json.loads(planning.feature_settings(self.config, self._files_sha256()))
        return {**loaded_model(self.config, None), "settings": own}

    def clip_settings(self, wildcards: Wildcards) -> str:
        """Settings of `composed_clips`."""
        return canonical(self._feature_settings())

    def clip_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `composed_clips`."""
        plan = self._corpora.plan(wildcards.dataset)
        return sizes.encoding_minutes(self.config, plan, "clips") << (attempt - 1)

    @user_mistakes()
    def query_inputs(self, wildcards: Wildcards) -> Mapping[str, str | list[str]]:
        """The inputs of `composed_queries` by name."""
        place = (wildcards.dataset, wildcards.suite, wildcards.level)
        return paths.feature_inputs(self.config, *place, self._corpora.plan)

    def query_settings(self, wildcards: Wildcards) -> str:
        """Settings of `composed_queries`."""
        names = paths.feature_names(self.config, wildcards.dataset, wildcards.suite, wildcards.level)
        return canonical({**self._feature_settings(), "names": names, "suite": wildcards.suite})

    def query_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `composed_queries`."""
        place = (wildcards.dataset, wildcards.suite, wildcards.level)
        return paths.feature_minutes(self.config, *place, self._corpora.plan) << (attempt - 1)

    # --- results ---

    @user_mistakes()
    def job_inputs(self, wildcards: Wildcards) -> Mapping[str, str | list[str]]:
        """The inputs of `composed_evaluate` by name."""
        return paths.inputs(self.config, wildcards.dataset, (wildcards.corpus, wildcards.level))

    def job_settings(self, wildcards: Wildcards) -> str:
        """Settings of `composed_evaluate`."""
        job = (wildcards.corpus, wildcards.level)
        own = json.loads(planning.settings(self.config, wildcards.dataset, job, self._files_sha256()))
        return canonical({**loaded_model(self.config, None), "settings": own})

    def job_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `composed_evaluate`."""
        job = (wildcards.corpus, wildcards.level)
        return paths.job_minutes(self.config, wildcards.dataset, job, self._corpora.plan) << (attempt - 1)

    def result_parts(self, wildcards: Wildcards) -> list[str]:
        """The parts of the results of composed retrieval."""
        return paths.result_parts(self.config, wildcards.dataset)

    def result_settings(self, wildcards: Wildcards) -> str:
        """Settings of `composed_results`."""
        return canonical(evaluation_paths.protocol_settings(self._corpora.config))
