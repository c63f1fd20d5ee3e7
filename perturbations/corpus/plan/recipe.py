"""A recipe: everything that determines a corpus video, a caption or an analysis, except the clip itself.

A recipe names a perturbation, and only the registry knows its function. Snakemake compares the canonical JSON of
recipes to decide whether a job must run again, and every manifest row keeps it. Rows may come from strangers: `parse`
checks every recipe against the declarations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from perturbations.base.errors import ConfigError, ManifestError, UnknownPerturbationError
from perturbations.base.records import Record, canonical, digest, parse_record
from perturbations.corpus.plan.tiers import Storage, is_known, sampled, storage_of, stored_video
from perturbations.manifest.rows import ClipRow, CompleteSource, TextRow
from perturbations.models.guides import guide_registry as guides
from perturbations.models.guides.guide_registry import AnalysisRecipe, GuideRecipe, GuideSettings
from perturbations.suites import suite_registry

_Parameter = bool | int | float | str | list[str] | list[int]
"""Lists are for captions: tags of words, positions in a sentence."""

RecipeParameters = Mapping[str, _Parameter]


# --- recipes ----------------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from perturbations.config import sections as configuration
    from perturbations.models.guides.backend_settings import Backends


@dataclass(frozen=True, kw_only=True)
class _PerturbationRecipe(Record):
    """What videos and captions have alike.

    Attributes:
        suite, perturbation, version: the declaration; only the registry knows its kernel.
        severity, variant: as requested; the variant is one of the suite's.
        params: the kernel's parameters.
        seed: of all generators.
        code: the SHA-256 of the file that declares a suite from outside; None of this package's.
    """

    suite: str
    perturbation: str
    severity: int
    variant: str
    params: dict[str, _Parameter]
    version: int
    seed: int = field(metadata={"ge": 0, "lt": 2**63})
    code: str | None = None

    @property
    def key(self) -> str:
        """`suite/perturbation`."""
        return f"{self.suite}/{self.perturbation}"


@dataclass(frozen=True, kw_only=True)
class VideoRecipe(_PerturbationRecipe):
    """What determines a perturbed video, except the clip itself.

    Attributes:
        draw: one realization per "clip" or per "frame"; "none" where nothing is random.
        storage: what is stored.
        whole_videos: whether clips are cut from perturbed videos.
        guide: the recipe of the guide, which the kernel receives, as in JSON; None where it needs none.
    """

    draw: suite_registry.Draw
    storage: dict[str, Any]
    whole_videos: bool | None = None
    guide: dict[str, Any] | None = None

    @cached_property
    def entry(self) -> suite_registry.Perturbation:
        """The declaration, as the recipe's variant makes it."""
        return suite_registry.get(self.key, self.variant)

    @cached_property
    def guide_recipe(self) -> GuideRecipe | None:
        """The guide's recipe in its own type. Raises `ManifestError` where it is none."""
        return guides.parse_guide(self.guide) if self.guide is not None else None

    @property
    def analysis(self) -> AnalysisRecipe | None:
        """The analysis that a guided recipe needs of its clip."""
        needed: AnalysisRecipe | None = getattr(self.guide_recipe, "analysis", None)
        return needed

    @property
    def donors(self) -> tuple[str, str] | None:
        """The dataset that clips are taken from, and the analysis by which they are compared."""
        return self.guide_recipe.donors() if self.guide_recipe else None

    @property
    def antialiases_donors(self) -> bool:
        """Whether another clip's frames are averaged where they are made smaller."""
        return (self.guide or {}).get("resize") is None


@dataclass(frozen=True, kw_only=True)
class TextRecipe(_PerturbationRecipe):
    """What determines a perturbed caption, except the caption itself; `players` names the model of each role."""

    gated: bool
    backend: Literal["offline", "pretrained"]
    language: str
    players: dict[str, str]


# --- from text -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def parse(text: str) -> VideoRecipe:
    """A recipe by which a clip can be made, from the JSON of a row or of a job. Raises `ManifestError`."""
    return _of_this_version(recorded(text))


@lru_cache(maxsize=1024)
def recorded(text: str) -> VideoRecipe:
    """A recipe of any version of its kernel, from its JSON, checked against the declarations.

    Raises `ManifestError` for anything that no declaration allows: a name, severity, draw or parameter that does not
    exist, a number out of its bounds, storage settings that are not a profile's.
    """
    recipe = parse_record(VideoRecipe, text, "a recipe")
    entry = _declared(recipe, "video")
    by_choice = suite_registry.suite(recipe.suite).draws_by_choice and entry.realization is not None
    allowed = ("clip", "frame") if by_choice else (entry.draw,)
    if recipe.draw not in allowed:
        raise ManifestError(f"a recipe of {entry.key} draws per '{recipe.draw}'; allowed: {', '.join(allowed)}")
    if (recipe.guide_recipe.kind if recipe.guide_recipe else None) != entry.guide:
        raise ManifestError(f"a recipe of {entry.key} must have the guide '{entry.guide}'")
    if not is_known(recipe.storage):
        raise ManifestError(f"a recipe of {entry.key} has other settings of storage than any tier or profile")
    return recipe


@lru_cache(maxsize=1024)
def parse_text(text: str) -> TextRecipe:
    """A recipe by which a caption can be made, from its JSON. Raises `ManifestError`."""
    return _of_this_version(recorded_text(text))


@lru_cache(maxsize=1024)
def recorded_text(text: str) -> TextRecipe:
    """A caption recipe of any version, from its JSON, checked against the declarations. Raises `ManifestError`."""
    recipe = parse_record(TextRecipe, text, "a recipe")
    _declared(recipe, "text")
    return recipe


def _declared(recipe: VideoRecipe | TextRecipe, kind: suite_registry.Medium) -> suite_registry.Perturbation:
    """The declaration that a recipe's perturbation, severity, variant and parameters are of."""
    try:
        entry = suite_registry.get(recipe.key, recipe.variant)
        entry.parameters(recipe.severity)
    except UnknownPerturbationError as error:
        raise ManifestError(f"a recipe asks for something that does not exist: {error}") from None
    if entry.kind != kind:
        raise ManifestError(f"a recipe of {kind}s asks for {entry.key}, which is of the kind {entry.kind}")
    if problems := suite_registry.parameter_problems(entry, recipe.params):
        raise ManifestError(f"a recipe of {entry.key} has wrong parameters: {'; '.join(problems)}")
    return entry


_RecipeT = TypeVar("_RecipeT", VideoRecipe, TextRecipe)


def _of_this_version(recipe: _RecipeT) -> _RecipeT:
    now, other = suite_registry.get(recipe.key, recipe.variant).version, ""
    if recipe.version != now:
        other = f"made by {recipe.key} version {recipe.version}, this is {now}"
    elif recipe.code != suite_registry.code(recipe.suite):
        other = f"made by another file that declares {recipe.suite}"
    if other:
        raise ManifestError(f"{other}: make it again, or open it with the package that made it")
    return recipe


# --- from declarations and the configuration -------------------------------------------------------------------------


def entry_of(medium: suite_registry.Medium, key: str, variant: str | None = None) -> suite_registry.Perturbation:
    """The declaration of a perturbation of videos or of captions, as a variant makes it.

    `key` may be a name without its suite. Raises `UnknownPerturbationError` when it names none, one of several suites,
    or one of the other medium.
    """
    if "/" not in key:
        keys = [entry.key for entry in suite_registry.perturbations(kind=medium) if entry.name == key]
        if len(keys) > 1:
            raise UnknownPerturbationError(f"{key} is a perturbation of several suites: {', '.join(keys)}")
        key = keys[0] if keys else key
    entry = suite_registry.get(key, variant)
    if entry.kind != medium:
        media = "captions, not videos" if medium == "video" else "videos, not captions"
        raise UnknownPerturbationError(f"{key} perturbs {media}; see `perturb list`")
    return entry


def make(
    perturbation: suite_registry.Perturbation,
    severity: int,
    *,
    variant: str | None = None,
    seed: int,
    storage: Storage,
    replaced: RecipeParameters | None = None,
    backends: Backends | None = None,
    donors: str = "",
    draw: suite_registry.Draw | None = None,
    whole_videos: bool = False,
) -> VideoRecipe:
    """The recipe of one perturbation at one severity.

    `perturbation` is taken as it is, or as `variant` makes it. `replaced` holds parameters that replace the published
    ones. An integer for a published float is converted to float, so that `1` and `1.0` give the same recipe. `donors`
    names the dataset that event insertion takes its segments from. `draw` replaces the declaration's, where something
    is random. `whole_videos` says that clips are cut from perturbed videos.
    Raises `UnknownPerturbationError` for a severity or variant that does not exist.
    """
    perturbation = perturbation if variant is None else perturbation.in_variant(variant)
    parameters = perturbation.parameters(severity)
    for name, value in (replaced or {}).items():
        if isinstance(value, int) and isinstance(parameters[name], float):
            value = float(value)
        parameters[name] = value
    tier = storage
    if whole_videos and perturbation.encodes and storage["tier"] == "video":
        # A clip that is cut from an encoder's stream must not be compressed with loss a second time.
        tier = stored_video("lossless")
    guide = None
    if perturbation.guide is not None:
        if backends is None:
            from perturbations.models.guides.backend_settings import Backends

            backends = Backends()
        settings = GuideSettings(
            backends=backends, variant=perturbation.variant, sampled=sampled(storage), donors=donors
        )
        guide = json.loads(guides.get(perturbation.guide).settle(settings).text)
    return VideoRecipe(
        suite=perturbation.suite,
        perturbation=perturbation.name,
        severity=severity,
        variant=perturbation.variant,
        params=parameters,
        draw=perturbation.draw if draw is None or perturbation.realization is None else draw,
        version=perturbation.version,
        code=suite_registry.code(perturbation.suite),
        seed=seed,
        storage={**tier},
        whole_videos=whole_videos or None,
        guide=guide,
    )


def from_config(config: configuration.Config, collection: str, suite: str, name: str, severity: int) -> VideoRecipe:
    """The recipe that `config.yaml` asks for; `collection` is a dataset's name, or `sharding.whole` of it.

    Raises `ConfigError` when it asks for a perturbation of time of a dataset of pictures.
    """
    wanted = config.suites[suite]
    dataset, _, part = collection.partition("/")
    entry = suite_registry.get(f"{suite}/{name}", wanted.variant)
    pictures = config.datasets[dataset].has_pictures
    if pictures and not entry.applies_to_one_frame:
        raise ConfigError(_needs_videos(config, suite, dataset))
    return make(
        entry,
        severity,
        seed=config.seed,
        storage=storage_of(config.storage, pictures=pictures),
        replaced=wanted.parameters.get(name, {}).get(severity),
        backends=config.backends,
        donors=config.donors_of(dataset),
        draw=wanted.draw,
        whole_videos=not part and cuts_whole_videos(config, dataset, suite),
    )


def _needs_videos(config: configuration.Config, suite: str, dataset: str) -> str:
    every = dict.fromkeys(name for name, _ in scenarios(config, suite))
    left = [name for name in every if suite_registry.get(f"{suite}/{name}").applies_to_one_frame]
    names = [name for name in every if name not in left]
    key = f"suites.{suite}.perturbations"
    instead = f"list only {', '.join(left)}" if left else "take another suite, such as mm_robustness"
    problem = f"{', '.join(names)} need several frames, and {dataset} is a dataset of pictures: {instead}"
    return config.places.before(key, f"{key}: {problem}")


def is_published(row: ClipRow | TextRow) -> bool:
    """Whether a row's parameters are those that the paper, or its code, publishes for the severity."""
    if row.variant not in suite_registry.suite(row.suite).variants:
        return False
    published = suite_registry.get(f"{row.suite}/{row.perturbation}", row.variant).parameters(row.severity)
    return bool(row.params == canonical(published))


def cuts_whole_videos(config: configuration.Config, dataset: str, suite: str) -> bool:
    """Whether a suite perturbs a dataset's whole videos and cuts its clips from those."""
    return suite_registry.suite(suite).whole_videos and config.datasets[dataset].has_spans


def analysis(name: str, backends: Backends, storage: Storage) -> AnalysisRecipe:
    """The recipe of an analysis that the configuration asks for."""
    return guides.analysis(name).recipe(GuideSettings(backends=backends, sampled=sampled(storage)))


# --- identity --------------------------------------------------------------------------------------------------------


def recipe_id(
    recipe: VideoRecipe | AnalysisRecipe, source: CompleteSource, guide: str | None = None, cut: str | None = None
) -> str:
    """The identity of one result: the recipe, the dataset and item, the bytes and span of the source, and the guide.

    `guide` is the JSON of the facts that the kernel received. `cut` is the JSON of the clip's place in a video that
    was perturbed as a whole. The places of files and the similarity of a donor are not part of the identity.
    """
    described = json.loads(recipe.text)
    if "guide" in described:
        described["guide"] = _without_files(described["guide"])
    facts = {"guide": _without_files(json.loads(guide))} if guide else {}
    if cut:
        facts["cut"] = json.loads(cut)
    clip = {name: getattr(source, name) for name in ("dataset", "item_id", "start_s", "end_s")}
    return digest({"recipe": described, "source_sha256": source.sha256, **clip, **facts})


def _without_files(value: Mapping[str, object]) -> dict[str, object]:
    return {name: part for name, part in value.items() if name not in ("files", "similarity")}


def scenarios(config: configuration.Config, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite that the configuration asks for, in the suite's order."""
    wanted = config.suites.get(suite)
    if wanted is None:
        return []
    return [
        (entry.name, severity)
        for entry in suite_registry.perturbations(suite, "video")
        if wanted.perturbations == "all" or entry.name in wanted.perturbations
        for severity in sorted(wanted.severities)
        if severity in entry.severities
    ]
