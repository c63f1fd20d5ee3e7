"""What the rules of evaluations refer to: a job's inputs, settings and resources, as functions of its wildcards."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from snakemake.exceptions import WorkflowError

from perturbations.base.records import canonical
from perturbations.config.sections import Config
from perturbations.corpus.rules import CorpusRules, Wildcards, user_mistakes
from perturbations.corpus.sharding import DatasetPlan
from perturbations.evaluation import composed_plan, model_files, paths, planning, sizes
from perturbations.evaluation.rows import COMPOSED, Run, as_settings
from perturbations.manifest import layout


def loaded_model(config: Config, files_sha256: str | None) -> dict[str, Any]:
    """How a job loads the model of a configuration (`backbone.load`), and the hash of the model's files."""
    wanted = config.evaluation
    model: dict[str, Any] = {
        "pretrained": wanted.pretrained or layout.at("demo_encoder"),
        "pooling": wanted.model,
        "revision": wanted.revision,
        "num_frames": wanted.num_frames,
        "checkpoint": None if wanted.checkpoint is None else str(wanted.checkpoint),
        "files": files_sha256,
    }
    return {name: value for name, value in model.items() if value is not None}


def _is_composed(wildcards: Wildcards) -> bool:
    return str(wildcards.job).startswith(f"{COMPOSED}/")


class EvaluationRules:
    """The functions of the rules of evaluations.

    Attributes:
        models: the configuration of each model alone, by its key.
    """

    def __init__(self, corpora: CorpusRules, requested: Callable[[], list[str]]) -> None:
        self.config = corpora.config
        self.models = planning.models(corpora.config)
        self._corpora = corpora
        self._files_sha256 = cache(user_mistakes()(lambda model: model_files.sha256(self.models[model])))
        # Snakemake asks many times per job, and every job's runs are planned together.
        self._jobs = cache(user_mistakes()(self._planned))
        self._reported = cache(lambda: paths.reported(self.config, requested()))

    def _planned(self, model: str, dataset: str, composed: bool) -> dict[str, list[Run]]:
        jobs = composed_plan.jobs if composed else planning.jobs
        return jobs(self.models[model], dataset, self._corpora.plan(dataset).listed)

    def _model(self, wildcards: Wildcards) -> Config:
        return self.models[wildcards.model]

    def _runs(self, wildcards: Wildcards) -> list[Run]:
        known = self._jobs(wildcards.model, wildcards.dataset, _is_composed(wildcards))
        if wildcards.job not in known:
            raise WorkflowError(f"config.yaml asks for no evaluation {wildcards.job} of {wildcards.dataset}")
        return known[wildcards.job]

    def _job(self, wildcards: Wildcards) -> tuple[Config, list[Run], DatasetPlan]:
        return self._model(wildcards), self._runs(wildcards), self._corpora.plan(wildcards.dataset)

    def run(self, wildcards: Wildcards, input: object) -> str:
        """On which device and with which reader a job runs: never its result.

        Snakemake does not compare it, as functions of inputs are not.
        """
        wanted = self._model(wildcards).evaluation
        return canonical({"device": wanted.device, "reader": wanted.reader})

    def resource(self, name: str) -> Callable[[Wildcards], int]:
        """The `threads`, `gpus` or `gpu_share` of a model's jobs."""
        return lambda wildcards: int(getattr(self._model(wildcards).evaluation, name))

    @user_mistakes()
    def model_files(self, wildcards: Wildcards) -> Mapping[str, str | list[str]]:
        """The files that a model is loaded from, by name."""
        return paths.model_inputs(self._model(wildcards))

    def model_settings(self, wildcards: Wildcards) -> str:
        """Settings of `check_model` and `gallery`."""
        return canonical({"model": loaded_model(self._model(wildcards), self._files_sha256(wildcards.model))})

    def model_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `check_model`."""
        return sizes.mb(sizes.model_mib(self._model(wildcards))) << (attempt - 1)

    def gallery_captions(self, wildcards: Wildcards) -> str | list[str]:
        """The captions that are encoded, unless clips are."""
        return f"manifests/{wildcards.dataset}/captions.parquet" if wildcards.modality == "captions" else []

    def gallery_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `gallery`."""
        plan = self._corpora.plan(wildcards.dataset)
        return sizes.gallery_memory_mb(self._model(wildcards), plan) << (attempt - 1)

    def gallery_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `gallery`."""
        plan = self._corpora.plan(wildcards.dataset)
        return sizes.encoding_minutes(self._model(wildcards), plan, wildcards.modality) << (attempt - 1)

    @user_mistakes()
    def job_inputs(self, wildcards: Wildcards) -> Mapping[str, str | list[str]]:
        """The inputs of `evaluate` by name: the model, what is perturbed, what is encoded, and banks."""
        config, runs = self._model(wildcards), self._runs(wildcards)
        if _is_composed(wildcards):
            return paths.model_inputs(config) | composed_plan.inputs(config, runs, self._corpora.plan)
        of_corpora = self._corpora.plan, self._corpora.caption_shards
        return paths.model_inputs(config) | paths.inputs(config, runs, *of_corpora)

    def job_settings(self, wildcards: Wildcards) -> str:
        """Settings of `evaluate`."""
        config, runs = self._model(wildcards), self._runs(wildcards)
        settings: dict[str, Any] = {
            "runs": as_settings(runs),
            "model": loaded_model(config, self._files_sha256(wildcards.model)),
        }
        if _is_composed(wildcards):
            return canonical({**settings, "ways": composed_plan.ways(config)})
        settings["banks"] = planning.banks_of(config, runs)
        settings["rejected"] = self._corpora.plan(wildcards.dataset).rejected_captions
        top_k = config.evaluation.top_k
        return canonical(settings if top_k is None else {**settings, "top_k": top_k})

    def job_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `evaluate`."""
        own = 6000 if _is_composed(wildcards) else sizes.job_memory_mb(*self._job(wildcards))
        return own << (attempt - 1)

    def job_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `evaluate`."""
        minutes = composed_plan.job_minutes if _is_composed(wildcards) else sizes.job_minutes
        return minutes(*self._job(wildcards)) << (attempt - 1)

    def priority(self, wildcards: Wildcards) -> int:
        """The longer a job, the earlier it starts, so that no core idles at the end; checks of models have 100."""
        seconds = 0 if _is_composed(wildcards) else sizes.job_seconds(*self._job(wildcards))
        return round(4 * math.log2(1 + seconds))

    def result_parts(self, wildcards: Wildcards) -> list[str]:
        """The parts of an evaluation's results."""
        config, dataset = self._model(wildcards), wildcards.dataset
        planned = config, dataset, self._corpora.plan(dataset).listed
        jobs = composed_plan.jobs(*planned) if wildcards.kind == COMPOSED else planning.jobs(*planned, wildcards.kind)
        return paths.result_parts(config, dataset, jobs)

    def result_settings(self, wildcards: Wildcards) -> str:
        """Settings of `results`."""
        is_composed = wildcards.kind == COMPOSED
        settings = {"skipped": [] if is_composed else paths.skipped(self.config, wildcards.dataset)}
        protocol = self.config.evaluation.protocol
        return canonical(settings if protocol is None else {**settings, "protocol": protocol})

    def reported_results(self, wildcards: Wildcards) -> list[str]:
        """The results on the page."""
        return self._reported()

    def reported_ranks(self, wildcards: Wildcards) -> list[str]:
        """The ranks that the page takes its intervals from."""
        return paths.report_ranks(self.config, self._reported())

    def datasets(self, wildcards: Wildcards) -> str:
        """The datasets, in the order of the page."""
        return canonical({"datasets": [*self.config.datasets]})
