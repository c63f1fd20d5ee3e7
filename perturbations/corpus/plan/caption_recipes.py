"""Which perturbed captions a configuration asks for, and their recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from perturbations.base.errors import ConfigError
from perturbations.base.records import digest
from perturbations.corpus.plan.recipe import RecipeParameters, TextRecipe
from perturbations.manifest.rows import CaptionRow
from perturbations.manifest.skipped import Skipped
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry
from perturbations.text import languages

if TYPE_CHECKING:
    from perturbations.config import sections as configuration

_GENDER = "Bias"
"""The category of perturbations that need captions about men or women."""


_Scenarios = list[tuple[str, int]]
"""(Perturbation, severity) pairs."""


def requested(config: configuration.Config, dataset: str, suite: str) -> _Scenarios:
    """The pairs that the configuration asks for, in the suite's order, also those that this machine cannot make.

    Datasets whose captions say nothing of gender get no gender perturbations, as in YouCook2-P.
    """
    wanted = config.suites[suite].captions if suite in config.suites else None
    if wanted is None:
        return []
    pairs = []
    for entry in suite_registry.perturbations(suite, "text"):
        if wanted.perturbations != "all" and entry.name not in wanted.perturbations:
            continue
        if entry.category == _GENDER and not config.datasets[dataset].has_gender:
            continue
        severities = entry.severities if wanted.severities == "all" else sorted(wanted.severities)
        pairs += [(entry.name, severity) for severity in severities if severity in entry.severities]
    return pairs


def skipped(config: configuration.Config, dataset: str, suite: str) -> list[Skipped]:
    """The perturbations that `all` asks for, and that cannot be made of this dataset or on this machine.

    Raises `ConfigError`, with every reason, where the configuration names such perturbations one by one.
    """
    severities: dict[str, list[int]] = {}
    for name, severity in requested(config, dataset, suite):
        severities.setdefault(name, []).append(severity)
    language, backend = config.datasets[dataset].language, config.backends.captions.backend
    entries: list[Skipped] = [
        {"perturbation": name, "severities": severities[name], "reason": reason}
        for name in severities
        if (reason := _missing(suite_registry.get(f"{suite}/{name}"), language, backend))
    ]
    if entries and config.suites[suite].captions.perturbations != "all":
        lines = "".join(f"\n  {entry['perturbation']}: {entry['reason']}" for entry in entries)
        key = f"suites.{suite}.captions.perturbations"
        text = (
            f"{key} names perturbations that cannot be made of the captions of `{dataset}`:{lines}\n"
            "Remove these names, or remove the reason; with `all`, such perturbations are skipped"
        )
        raise ConfigError(config.places.before(key, text))
    return entries


def _missing(entry: suite_registry.Perturbation, language: str, backend: str) -> str | None:
    """Why a perturbation cannot be made; None where nothing is known to be missing."""
    if reason := languages.problem_of(entry.languages, language):
        return reason
    return next((reason for role in entry.used_roles if (reason := models.missing(role, backend))), None)


def scenarios(config: configuration.Config, dataset: str, suite: str) -> _Scenarios:
    """The pairs that are made: those that are requested and not skipped. Raises `ConfigError` as `skipped` does."""
    left_out = {entry["perturbation"] for entry in skipped(config, dataset, suite)}
    return [pair for pair in requested(config, dataset, suite) if pair[0] not in left_out]


def from_config(config: configuration.Config, dataset: str, suite: str, name: str, severity: int) -> TextRecipe:
    """The recipe that `config.yaml` asks for."""
    wanted = config.suites[suite]
    return make(
        suite_registry.get(f"{suite}/{name}", wanted.variant),
        severity,
        seed=config.seed,
        backend=config.backends.captions.backend,
        language=config.datasets[dataset].language,
        replaced=wanted.captions.parameters.get(name, {}).get(severity),
    )


def make(
    entry: suite_registry.Perturbation,
    severity: int,
    *,
    seed: int = 0,
    backend: Literal["offline", "pretrained"] = "offline",
    language: str = "en",
    replaced: RecipeParameters | None = None,
) -> TextRecipe:
    """Everything that determines a perturbed caption, except the caption itself.

    `entry` is the perturbation as its variant makes it. `replaced` holds parameters that replace the published ones.
    Raises `UnknownPerturbationError` for a severity that does not exist, and `BackendError` for such a backend.
    """
    return TextRecipe(
        suite=entry.suite,
        perturbation=entry.name,
        severity=severity,
        variant=entry.variant,
        params={**entry.parameters(severity), **(replaced or {})},
        version=entry.version,
        code=suite_registry.code(entry.suite),
        gated=entry.gated,
        backend=backend,
        language=language,
        players={role: models.model_of(role, backend).name for role in entry.used_roles},
        seed=seed,
    )


def text_id(recipe: TextRecipe, dataset: str, caption: CaptionRow) -> str:
    """The identity of a perturbed caption."""
    return digest([recipe.text, dataset, caption.caption_id, caption.text])
