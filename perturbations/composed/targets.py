"""The targets `composed_<dataset>`, and `egocvr`. No NumPy: Snakemake imports this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from perturbations.base.errors import ConfigError
from perturbations.composed import paths as composed_paths
from perturbations.composed import planning as composed
from perturbations.composed.sources import source_of
from perturbations.config import sections as configuration
from perturbations.datasets import registry as datasets
from perturbations.plan.extension import CaptionShards, Plans, Target, TargetWork
from perturbations.plan.targets import together


def menu(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """A target per dataset that gives splits, and one per adapter that names its own."""
    names = {source.target: name for name in datasets.adapters() if (source := source_of(name))}
    for target, adapter in names.items():
        if target:
            text = f"composed retrieval on every dataset of the adapter `{adapter}`"
            yield Target(target, text, partial(composed_of_adapter, config, adapter, plans))
    for dataset in composed.can(config):
        text = f"retrieval by a clip and an instruction, on the dataset `{dataset}`"
        yield Target(f"composed_{dataset}", text, partial(_composed_results, config, dataset, plans))


def _composed_results(config: configuration.Config, dataset: str, plans: Plans) -> TargetWork:
    """A split for composed retrieval and its results. Raises `ConfigError` where the dataset has none."""
    composed.check(config, dataset)
    plans(dataset)
    counts = Counter(scenario.perturbed for scenario in composed.scenarios(config, dataset))
    size = ", ".join(f"{count} x {what}" for what, count in counts.items())
    return TargetWork(composed_paths.targets(config, dataset), (f"composed retrieval on {dataset}, perturbed: {size}",))


def composed_of_adapter(config: configuration.Config, adapter: str, plans: Plans) -> TargetWork:
    """Composed retrieval on every dataset of an adapter. Raises `ConfigError` where there is none."""
    names = [name for name, dataset in config.datasets.items() if dataset.adapter == adapter]
    if not names:
        raise ConfigError(f"config.yaml has no dataset of the adapter '{adapter}'")
    return together([_composed_results(config, name, plans) for name in names])
