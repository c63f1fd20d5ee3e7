"""The targets `evaluate_<dataset>` and `tta_<dataset>`. No NumPy: Snakemake imports this."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from perturbations.config import sections as configuration
from perturbations.evaluation import paths as evaluation_paths
from perturbations.evaluation import planning as evaluation
from perturbations.plan.paths import CaptionShards, Plans
from perturbations.plan.targets import Target, Work, skipped_lines


def menu(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """Two targets per dataset: without and with adaptation."""
    for dataset in config.datasets:
        text = f"retrieval with perturbed queries, on the dataset `{dataset}`"
        yield Target(f"evaluate_{dataset}", text, partial(results, config, dataset, "evaluation", plans))
        text = "retrieval with perturbed queries, without and with test-time adaptation"
        request = partial(results, config, dataset, "adaptation", plans)
        yield Target(f"tta_{dataset}", f"{text}, on the dataset `{dataset}`", request)


def results(config: configuration.Config, dataset: str, kind: str, plans: Plans) -> Work:
    """The results of one dataset, without (`evaluation`) or with (`adaptation`) adapting."""
    plans(dataset)
    scenarios = len(evaluation.scenarios(config, dataset))
    methods = sum(len(evaluation.methods(config, group)) for group in evaluation_paths.groups(kind))
    runs = scenarios * methods * len(config.evaluation.seeds)
    sizes = [f"{kind} on {dataset}: {scenarios} scenarios x {methods} methods = {runs:,} runs"]
    sizes += [line for suite in evaluation.caption_suites(config) for line in skipped_lines(config, suite, dataset)]
    folder = evaluation_paths.results_folder(config, dataset, kind)
    return Work([f"{folder}/{name}.parquet" for name in ("results", "ranks")], tuple(sizes))
