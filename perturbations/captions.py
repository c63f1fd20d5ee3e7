"""Perturbed captions as a corpus: which there are to make, a shard through one perturbation, what became of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from perturbations import config as configuration
from perturbations import registry
from perturbations.listed import ListedCaption
from perturbations.manifest.kinds import TextRow, TextStatisticsRow
from perturbations.recipe import Parameters, TextRecipe, canonical, digest

GENDER = "Bias"
"""The category of perturbations that need captions about men or women."""


def scenarios(config: configuration.Config, dataset: str, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs that the configuration asks for, in the suite's order.

    Datasets whose captions say nothing of gender get no gender perturbations, as in YouCook2-P.
    """
    wanted = config.suites[suite].captions if suite in config.suites else None
    if wanted is None:
        return []
    found = []
    for entry in registry.perturbations(suite, "text"):
        if wanted.perturbations != "all" and entry.name not in wanted.perturbations:
            continue
        if entry.level == GENDER and not config.datasets[dataset].has_gender:
            continue
        severities = entry.severities if wanted.severities == "all" else sorted(wanted.severities)
        found += [(entry.name, severity) for severity in severities if severity in entry.severities]
    return found


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
    """Everything that determines a perturbed caption but the caption itself.

    `replaced` holds parameters that take the place of the published ones. Raises `UnknownPerturbationError` for a
    severity or variant that does not exist.
    """
    from perturbations.models import text_roles

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
            "players": {role: text_roles.ROLES[role][backend].name for role in roles},
            "seed": seed,
        }
    )


def run(recipe: TextRecipe, dataset: str, captions: Sequence[ListedCaption]) -> Iterator[TextRow]:
    """Yield the row of every caption.

    Raises `BackendError` when something that the backend needs is missing.
    """
    from perturbations.text.pipeline import perturb_captions

    entry = registry.get(recipe.key)
    results = perturb_captions(
        captions,
        recipe.key,
        recipe.severity,
        seed=recipe.seed,
        dataset=dataset,
        variant=recipe.variant,
        backend=recipe.backend,
        parameters=recipe.params,
    )
    for caption, result in zip(captions, results, strict=True):
        yield TextRow(
            dataset=dataset,
            caption_id=caption.caption_id,
            item_id=caption.item_id,
            suite=recipe.suite,
            perturbation=recipe.perturbation,
            severity=recipe.severity,
            level=entry.level,
            variant=recipe.variant,
            params=canonical(recipe.params),
            backend=result.backend,
            seed=recipe.seed,
            source_text=caption.text,
            text=result.text,
            changed=result.changed,
            similarity=result.similarity,
            attempts=result.attempts,
            accepted=result.accepted,
            recipe=recipe.text,
            recipe_id=text_id(recipe, dataset, caption),
        )


def text_id(recipe: TextRecipe, dataset: str, caption: ListedCaption) -> str:
    """The identity of a perturbed caption."""
    return digest([recipe.text, dataset, caption.caption_id, caption.text])


def statistics(rows: Iterable[TextRow]) -> Iterator[TextStatisticsRow]:
    """One row per perturbation and severity: how many captions changed, what the gate did, how far they went.

    BLEU-4 and METEOR compare the perturbed captions with the originals, as Schiappa et al. do in Tab. 6.
    """
    from perturbations.text import distance

    groups: dict[tuple[str, int], list[TextRow]] = defaultdict(list)
    for row in rows:
        groups[row.perturbation, row.severity].append(row)
    for (name, severity), members in groups.items():
        first = members[0]
        pairs = [(row.source_text, row.text) for row in members]
        similarities = [row.similarity for row in members if row.similarity is not None]
        yield TextStatisticsRow(
            dataset=first.dataset,
            suite=first.suite,
            perturbation=name,
            severity=severity,
            level=first.level,
            variant=first.variant,
            backend=first.backend,
            captions=len(members),
            changed=sum(row.changed for row in members),
            accepted=sum(row.accepted for row in members),
            similarity_mean=_mean(similarities),
            similarity_min=min(similarities, default=None),
            attempts_mean=_mean([row.attempts for row in members]),
            attempts_max=max(row.attempts for row in members),
            bleu4=distance.bleu4(pairs),
            meteor=distance.meteor(pairs),
        )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
