"""What the rules of evaluations refer to: a job's inputs, settings and resources, as functions of its wildcards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from snakemake.exceptions import WorkflowError

from perturbations.base.records import canonical
from perturbations.config.sections import Config
from perturbations.corpus.plan.corpus_rules import CorpusRules, Wildcards, user_mistakes
from perturbations.evaluation.plan import composed_runs, evaluation_files, model_files, planned_runs
from perturbations.evaluation.result_rows import COMPOSED, KINDS, Run, as_settings
from perturbations.manifest import manifest_paths


def loaded_model(config: Config, files_sha256: str | None) -> dict[str, Any]:
    """How a job loads the model of a configuration (`encoder_loading.load`), and the hash of the model's files."""
    wanted = config.evaluation
    model: dict[str, Any] = {
        "pretrained": wanted.model or manifest_paths.at("demo_encoder"),
        "pooling": wanted.pooling,
        "revision": wanted.revision,
        "num_frames": wanted.num_frames,
        "checkpoint": None if wanted.checkpoint is None else str(wanted.checkpoint),
        "files": files_sha256,
    }
    return {name: value for name, value in model.items() if value is not None}


class EvaluationRules:
    """The functions of the rules of evaluations.

    Attributes:
        models: the configuration of each model alone, by its key.
    """

    def __init__(self, corpora: CorpusRules, requested: Callable[[], list[str]]) -> None:
        self.config = corpora.config
        self.models = planned_runs.models(corpora.config)
        self._corpora = corpora
        self._files_sha256 = cache(user_mistakes()(lambda model: model_files.sha256(self.models[model])))
        # Snakemake asks many times per job, and every job's runs are planned together.
        self._jobs = cache(
            user_mistakes()(lambda model, dataset, kind: evaluation_files.jobs(self.models[model], dataset, kind))
        )
        self._reported = cache(lambda: evaluation_files.reported(self.config, requested()))

    def _model(self, wildcards: Wildcards) -> Config:
        return self.models[wildcards.model]

    def _runs(self, wildcards: Wildcards) -> list[Run]:
        kind = str(wildcards.job).rpartition("/")[2]
        known = self._jobs(wildcards.model, wildcards.dataset, kind) if kind in KINDS else {}
        if wildcards.job not in known:
            raise WorkflowError(f"config.yaml asks for no evaluation {wildcards.job} of {wildcards.dataset}")
        return known[wildcards.job]

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
        return evaluation_files.model_inputs(self._model(wildcards))

    def model_settings(self, wildcards: Wildcards) -> str:
        """Settings of `check_model` and `gallery`."""
        return canonical({"model": loaded_model(self._model(wildcards), self._files_sha256(wildcards.model))})

    def mb(self, wildcards: Wildcards) -> int:
        """Memory of jobs that load a model: for adapting ViT-B/32, for features, for similarities and their copies."""
        plan = self._corpora.plan(wildcards.dataset)
        numbers = 6 * plan.listed * plan.captions + 2_000 * plan.listed * self._model(wildcards).evaluation.num_frames
        return int(6_000 + 4 * numbers // 10**6)

    def gallery_captions(self, wildcards: Wildcards) -> str | list[str]:
        """The captions that are encoded, unless clips are."""
        return f"manifests/{wildcards.dataset}/captions.parquet" if wildcards.modality == "captions" else []

    @user_mistakes()
    def job_inputs(self, wildcards: Wildcards) -> Mapping[str, str | list[str]]:
        """The inputs of `evaluate` by name: the model, what is perturbed, what is encoded, and banks."""
        of_corpora = self._corpora.plan, self._corpora.caption_shards
        return evaluation_files.job_inputs(self._model(wildcards), self._runs(wildcards), *of_corpora)

    def job_settings(self, wildcards: Wildcards) -> str:
        """Settings of `evaluate`."""
        config, runs = self._model(wildcards), self._runs(wildcards)
        settings: dict[str, Any] = {
            "runs": as_settings(runs),
            "model": loaded_model(config, self._files_sha256(wildcards.model)),
        }
        if runs[0].direction == COMPOSED:
            return canonical({**settings, "ways": composed_runs.ways(config)})
        settings["banks"] = planned_runs.banks_of(config, runs)
        settings["rejected"] = self._corpora.plan(wildcards.dataset).rejected_captions
        top_k = config.evaluation.top_k
        return canonical(settings if top_k is None else {**settings, "top_k": top_k})

    def result_parts(self, wildcards: Wildcards) -> list[str]:
        """The parts of an evaluation's results."""
        jobs = self._jobs(wildcards.model, wildcards.dataset, wildcards.kind)
        return evaluation_files.result_parts(self._model(wildcards), wildcards.dataset, jobs)

    def result_settings(self, wildcards: Wildcards) -> str:
        """Settings of `results`."""
        is_composed = wildcards.kind == COMPOSED
        settings = {"skipped": [] if is_composed else evaluation_files.skipped(self.config, wildcards.dataset)}
        protocol = self.config.evaluation.protocol
        return canonical(settings if protocol is None else {**settings, "protocol": protocol})

    def reported_results(self, wildcards: Wildcards) -> list[str]:
        """The results on the page."""
        return self._reported()

    def reported_ranks(self, wildcards: Wildcards) -> list[str]:
        """The ranks from which the page computes its intervals."""
        return evaluation_files.report_ranks(self.config, self._reported())

    def datasets(self, wildcards: Wildcards) -> str:
        """The datasets, in the order of the page."""
        return canonical({"datasets": [*self.config.datasets]})
