"""A recipe: everything that determines a corpus video but the clip itself. Standard library only.

The canonical JSON of a recipe is what Snakemake compares to decide whether a job must run again.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from perturbations import config as configuration
from perturbations import registry
from perturbations.storage import PROFILES

Recipe = dict[str, Any]

RECIPE_ID_LENGTH = 32


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """32 hex digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:RECIPE_ID_LENGTH]


def make(
    perturbation: registry.Perturbation,
    severity: int,
    *,
    variant: str,
    seed: int,
    storage: Recipe,
    replaced: dict[str, Any] | None = None,
) -> Recipe:
    """The recipe of one perturbation at one severity.

    `replaced` holds parameters that take the place of the published ones. A whole number given for a published
    float counts as that float, so that `1` and `1.0` are one recipe.
    Raises `UnknownPerturbationError` for a severity or variant that does not exist.
    """
    parameters = perturbation.parameters(severity, variant)
    for name, value in (replaced or {}).items():
        parameters[name] = float(value) if isinstance(parameters[name], float) else value
    return {
        "suite": perturbation.suite,
        "perturbation": perturbation.name,
        "severity": severity,
        "variant": variant,
        "params": parameters,
        "draw": perturbation.draw,
        "kernel": perturbation.kernel,
        "version": perturbation.version,
        "seed": seed,
        "storage": storage,
    }


def from_config(config: configuration.Config, suite: str, name: str, severity: int) -> Recipe:
    """The recipe that `config.yaml` asks for."""
    wanted = config.suites[suite]
    return make(
        registry.get(f"{suite}/{name}"),
        severity,
        variant=wanted.variant,
        seed=config.seed,
        storage=storage_settings(config.storage.model_dump()),
        replaced=wanted.parameters.get(name, {}).get(severity),
    )


def storage_settings(storage: dict[str, Any]) -> Recipe:
    """A storage tier with the encoder settings behind its profile, so that changing those changes the recipe."""
    if storage["tier"] != "video":
        return storage
    profile = PROFILES[storage["profile"]]
    return {**storage, "codec": profile.codec, "pix_fmt": profile.pix_fmt, "options": dict(profile.options)}


def recipe_id(recipe: Recipe, dataset: str, source: dict[str, Any]) -> str:
    """The identity of one corpus video: the recipe, whose clip it is, and the bytes and span of the source."""
    clip = {name: source[name] for name in ("item_id", "start_s", "end_s")}
    return digest({"recipe": recipe, "dataset": dataset, "source_sha256": source["source_sha256"], **clip})


def scenarios(config: configuration.Config, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite that the configuration asks for, in the suite's order."""
    wanted = config.suites.get(suite)
    if wanted is None:
        return []
    names = [entry.name for entry in registry.perturbations(suite, "video")]
    chosen = names if wanted.perturbations == "all" else [name for name in names if name in wanted.perturbations]
    return [(name, severity) for name in chosen for severity in sorted(wanted.severities)]


def config_digest(config: configuration.Config, dataset: str) -> str:
    """A hash of what the configuration says about results of one dataset: not of shards, limits or other datasets."""
    said = config.model_dump(mode="json", include={"seed", "suites", "storage"})
    return digest({**said, "dataset": dataset, "adapter": config.datasets[dataset].adapter})
