"""What the rule of splits refers to: its inputs, settings and resources, as functions of its wildcards."""

from __future__ import annotations

from perturbations.base.records import canonical
from perturbations.composed.sources import check, files_of
from perturbations.config.sections import Config
from perturbations.corpus.plan.corpus_rules import CorpusRules, Wildcards, megabytes, minutes, user_mistakes
from perturbations.corpus.plan.folders import without_braces

_NOT_OF_SPLITS = {"videos", "donors", "max_failed_items"}
"""Settings of a dataset that change no split."""


def annotation_files(config: Config, dataset: str) -> list[str]:
    """The files that a split is made from. Raises `ConfigError` where the dataset has none."""
    check(config, dataset)
    named = [(f"datasets.{dataset}.annotations", path) for path in files_of(config.datasets[dataset])]
    writer = config.composed.language_model
    if writer is not None and writer.captions is not None:
        named.append(("composed.language_model.captions", writer.captions))
    return [without_braces(key, path) for key, path in named]


def split_settings(config: Config, dataset: str) -> str:
    """Everything that a split depends on, besides the annotations."""
    own, wanted = config.datasets[dataset], config.composed
    settings: dict[str, object] = {
        "version": 2,
        "dataset": dataset,
        "adapter": own.adapter,
        "settings": own.model_dump_json(exclude=_NOT_OF_SPLITS),
        "seed": config.seed,
        "galleries": wanted.galleries,
    }
    if wanted.language_model is not None:
        settings["language_model"] = wanted.language_model.model_dump(mode="json", exclude_none=True)
    return canonical(settings)


class SplitRules:
    """The functions of the rule `composed_split`.

    Attributes:
        mb, minutes, gpus: what it takes. A language model of 7 billion weights takes most memory, and answers thousands
            of prompts.
    """

    def __init__(self, corpora: CorpusRules) -> None:
        self.config = corpora.config
        writes = self.config.composed.language_model is not None
        self.mb = megabytes(40_000 if writes else 2_000)
        self.minutes = minutes(1_440 if writes else 60)
        self.gpus = self.config.evaluation.gpus if writes else 0

    @user_mistakes()
    def annotation_files(self, wildcards: Wildcards) -> list[str]:
        """The files that a split is made from."""
        return annotation_files(self.config, wildcards.dataset)

    def settings(self, wildcards: Wildcards) -> str:
        """Settings of `composed_split`."""
        return split_settings(self.config, wildcards.dataset)

    def run(self, wildcards: Wildcards, input: object) -> str:
        """Where a job runs: Snakemake does not compare it, as functions of inputs are not."""
        return canonical({"device": self.config.evaluation.device})
