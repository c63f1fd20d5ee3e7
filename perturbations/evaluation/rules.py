"""What the rules of evaluations refer to: a job's inputs, settings and resources, as functions of its wildcards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from perturbations.base.records import canonical
from perturbations.config.sections import Config
from perturbations.evaluation import model_files, paths, planning, sizes
from perturbations.plan.rules import CorpusRules, Wildcards, user_mistakes


def loaded_model(config: Config, files_sha256: str | None) -> dict[str, Any]:
    """The settings of a job that loads the model of a configuration."""
    wanted = config.evaluation
    checkpoint = {} if wanted.checkpoint is None else {"checkpoint": str(wanted.checkpoint)}
    pretrained = wanted.pretrained or paths.encoder(config)
    return {"settings": planning.model_settings(config, files_sha256), "pretrained": pretrained, **checkpoint}


def where(config: Config) -> dict[str, object]:
    """On which device, and with which reader, a job runs: never its result."""
    return {"device": config.evaluation.device, "reader": config.evaluation.reader}


class EvaluationRules:
    """The functions of the rules of evaluations.

    Attributes:
        models: the configuration of each model alone, by its key.
        further: gives further files for the page of results, of "results" or "ranks".
    """

    def __init__(self, corpora: CorpusRules, requested: Callable[[], list[str]]) -> None:
        self.config = corpora.config
        self.models = planning.models(corpora.config)
        self.further: list[Callable[[str], list[str]]] = []
        self._corpora = corpora
        self._files_sha256 = cache(user_mistakes()(lambda model: model_files.sha256(self.models[model])))
        self._reported = cache(lambda: paths.reported(self.config, requested(), others=bool(self._further("results"))))

    def _further(self, kind: str) -> list[str]:
        return [path for files in self.further for path in files(kind)]

    def _model(self, wildcards: Wildcards) -> Config:
        return self.models[wildcards.model]

    def _job(self, wildcards: Wildcards) -> tuple[Config, str, planning.JobKey, str]:
        key = (wildcards.direction, wildcards.side, wildcards.corpus, wildcards.level)
        return self._model(wildcards), wildcards.dataset, key, wildcards.group

    def run(self, wildcards: Wildcards, input: object) -> str:
        """Where and with what a job runs: Snakemake does not compare it, as functions of inputs are not."""
        return canonical(where(self._model(wildcards)))

    def threads(self, wildcards: Wildcards) -> int:
        """Threads of a job."""
        return paths.readers(self._model(wildcards))

    def gpus(self, wildcards: Wildcards) -> int:
        """GPUs of a job."""
        return paths.gpus(self._model(wildcards))

    def gpu_share(self, wildcards: Wildcards) -> int:
        """Percents of a GPU of a job."""
        return paths.gpu_share(self._model(wildcards))

    @user_mistakes()
    def model_files(self, wildcards: Wildcards) -> Mapping[str, str | list[str]]:
        """The files that a model is loaded from, by name."""
        return paths.model_inputs(self._model(wildcards))

    def model_settings(self, wildcards: Wildcards) -> str:
        """Settings of `check_model` and `gallery`."""
        return canonical(loaded_model(self._model(wildcards), self._files_sha256(wildcards.model)))

    def model_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `check_model`."""
        return sizes.model_memory_mb(self._model(wildcards)) << (attempt - 1)

    def gallery_captions(self, wildcards: Wildcards) -> str | list[str]:
        """The captions that are encoded, unless clips are."""
        return paths.encoded_inputs(wildcards.dataset, wildcards.modality).get("captions", [])

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
        """The inputs of `evaluate` by name: what is perturbed, what is encoded, and banks."""
        return paths.inputs(*self._job(wildcards), self._corpora.plan, self._corpora.caption_shards)

    def job_settings(self, wildcards: Wildcards) -> str:
        """Settings of `evaluate`."""
        files = self._files_sha256(wildcards.model)
        of_model = loaded_model(self._model(wildcards), files)
        rejected = self._corpora.plan(wildcards.dataset).rejected_captions
        own = planning.settings(*self._job(wildcards), files)
        return canonical({**of_model, "settings": own, "rejected": rejected})

    def job_run(self, wildcards: Wildcards, input: Any) -> str:
        """Where and with what `evaluate` runs, and where its inputs lie."""
        places = paths.asking_places(self.config, wildcards.dataset, wildcards.corpus, dict(input.items()))
        return canonical({**where(self._model(wildcards)), "places": places})

    def job_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of `evaluate`."""
        plan = self._corpora.plan(wildcards.dataset)
        return sizes.job_memory_mb(*self._job(wildcards), plan) << (attempt - 1)

    def job_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time of `evaluate`."""
        plan = self._corpora.plan(wildcards.dataset)
        return sizes.job_minutes(*self._job(wildcards), plan) << (attempt - 1)

    def result_parts(self, wildcards: Wildcards) -> list[str]:
        """The parts of an evaluation's results."""
        return paths.result_parts(self._model(wildcards), wildcards.dataset, wildcards.kind)

    def result_settings(self, wildcards: Wildcards) -> str:
        """Settings of `results`."""
        skipped = json.loads(paths.skipped(self.config, wildcards.dataset))
        return canonical({"skipped": skipped, **paths.protocol_settings(self.config)})

    def reported_results(self, wildcards: Wildcards) -> list[str]:
        """The results on the page."""
        return [*[entry.results for entry in self._reported()], *self._further("results")]

    def reported_ranks(self, wildcards: Wildcards) -> list[str]:
        """The ranks that the page takes its intervals from."""
        return [*paths.report_ranks(self.config, self._reported()), *self._further("ranks")]

    def datasets(self, wildcards: Wildcards) -> list[str]:
        """The datasets, in the order of the page."""
        return [*self.config.datasets]
