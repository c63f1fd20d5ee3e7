"""Perturbed captions: which of them a configuration asks for, and their recipes."""

from __future__ import annotations

from perturbations.plan import config as configuration
from perturbations.plan.listed import ListedCaption
from perturbations.plan.recipe import Parameters, TextRecipe
from perturbations.suites import registry
from perturbations.system.records import digest

GENDER = "Bias"
"""The category of perturbations that need captions about men or women."""


def scenarios(config: configuration.Config, dataset: str, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs that the configuration asks for, in the suite's order.

    Datasets whose captions say nothing of gender get no gender perturbations, as in YouCook2-P.
    """
    wanted = config.suites[suite].captions if suite in config.suites else None
    if wanted is None:
        return []
    pairs = []
    for entry in registry.perturbations(suite, "text"):
        if wanted.perturbations != "all" and entry.name not in wanted.perturbations:
            continue
        if entry.level == GENDER and not config.datasets[dataset].has_gender:
            continue
        severities = entry.severities if wanted.severities == "all" else sorted(wanted.severities)
        pairs += [(entry.name, severity) for severity in severities if severity in entry.severities]
    return pairs


def from_config(config: configuration.Config, suite: str, name: str, severity: int) -> TextRecipe:
    """The recipe that `config.yaml` asks for."""
    wanted = config.suites[suite]
    return make(
        registry.get(f"{suite}/{name}"),
        severity,
        variant=wanted.variant,
        seed=config.seed,
        backend=config.backends.captions.backend,
        replaced=wanted.captions.parameters.get(name, {}).get(severity),
    )


def make(
    entry: registry.Perturbation,
    severity: int,
    *,
    variant: str = "released",
    seed: int = 0,
    backend: str = "offline",
    replaced: Parameters | None = None,
) -> TextRecipe:
    """Everything that determines a perturbed caption, except the caption itself.

    `replaced` holds parameters that replace the published ones. Raises `UnknownPerturbationError` for a
    severity or variant that does not exist.
    """
    from perturbations.models import registry as models

    roles = [*entry.roles, *(["similarity"] if entry.gated else [])]
    return TextRecipe.model_validate(
        {
            "suite": entry.suite,
            "perturbation": entry.name,
            "severity": severity,
            "variant": variant,
            "params": {**entry.parameters(severity, variant), **(replaced or {})},
            "version": entry.version,
            "gated": entry.gated,
            "backend": backend,
            "players": {role: models.roles()[role][backend].name for role in roles},
            "seed": seed,
        }
    )


def text_id(recipe: TextRecipe, dataset: str, caption: ListedCaption) -> str:
    """The identity of a perturbed caption."""
    return digest([recipe.text, dataset, caption.caption_id, caption.text])
