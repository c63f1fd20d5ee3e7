"""The targets `calibrate_<dataset>`. No NumPy: Snakemake imports this."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from perturbations.config import sections as configuration
from perturbations.manifest import layout
from perturbations.plan.extension import CaptionShards, Plans, Target, TargetWork


def menu(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """A target per dataset."""
    for dataset in config.datasets:
        text = f"severities of even distortion, solved on clips of `{dataset}`"
        yield Target(f"calibrate_{dataset}", text, partial(table, dataset, plans))


def table(dataset: str, plans: Plans) -> TargetWork:
    """A dataset's calibration table, with its report."""
    plans(dataset)
    return TargetWork([layout.at(f"calibration_{kind}", dataset=dataset) for kind in ("table", "page")])
