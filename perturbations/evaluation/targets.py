"""The targets `evaluate_<dataset>` and `tta_<dataset>`. No NumPy: Snakemake imports this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from perturbations.base.errors import ConfigError
from perturbations.config import sections as configuration
from perturbations.evaluation import paths as evaluation_paths
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation.protocols import registry as protocols
from perturbations.plan.extension import CaptionShards, Plans, Target, TargetWork
from perturbations.plan.targets import skipped_lines


def menu(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """Two targets per dataset: without and with adaptation."""
    for dataset in config.datasets:
        text = f"retrieval with perturbed queries, on the dataset `{dataset}`"
        yield Target(f"evaluate_{dataset}", text, partial(results, config, dataset, "evaluation", plans))
        text = "retrieval with perturbed queries, without and with test-time adaptation"
        request = partial(results, config, dataset, "adaptation", plans)
        yield Target(f"tta_{dataset}", f"{text}, on the dataset `{dataset}`", request)


def results(config: configuration.Config, dataset: str, kind: str, plans: Plans) -> TargetWork:
    """The results of every model on a dataset, without (`evaluation`) or with (`adaptation`) adapting.

    Raises `ConfigError` where a dataset other than the demo's lacks what the configured protocol needs.
    """
    plans(dataset)
    models = evaluation.models(config)
    protocol = config.evaluation.protocol
    if protocol is not None and config.datasets[dataset].adapter != "demo":
        lacking = [
            line
            for own in models.values()
            for line in protocols.lacking(protocol, own.evaluation.model_dump(mode="json"))
        ]
        if lacking:
            raise ConfigError(
                "\n".join(dict.fromkeys(config.places.before("evaluation.protocol", line) for line in lacking))
            )
    scenarios = Counter(scenario.side for scenario in evaluation.scenarios(config, dataset))
    methods = len(evaluation.methods(config, evaluation_paths.group_of(kind)))
    runs = scenarios.total() * methods * len(config.evaluation.seeds) * len(models)
    sides = ", ".join(f"{count} {'clean' if side == 'none' else side}" for side, count in scenarios.items())
    several = f" x {len(models)} models" if len(models) > 1 else ""
    sizes = [
        f"{kind} on {dataset}: {scenarios.total()} scenarios ({sides}) x {methods} methods{several} = {runs:,} runs"
    ]
    sizes += [line for suite in evaluation.caption_suites(config) for line in skipped_lines(config, suite, dataset)]
    made = [evaluation_paths.Reported(dataset, kind, key) for key in models]
    return TargetWork([path for own in made for path in (own.results, own.ranks)], tuple(sizes))
