"""What the rules of one run share: where their jobs work, and what wings add. No NumPy: Snakemake imports this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perturbations.config import sections as configuration
from perturbations.plan import clip_markers, paths, recipe, sharding
from perturbations.plan.extension import Plans


@dataclass(frozen=True)
class SharedFolder:
    """Jobs that share the folder of the run: they find clips where they lie. `store` has those that do not.

    Attributes:
        plans: says whether this process plans the run with all of its rules, and is no job of it.
    """

    plans: Callable[[], bool] = lambda: False

    def pack(self, path: str) -> dict[str, str]:
        """A further output, by name, of a job that makes clips: `path`, their pack, where a store needs it."""
        return {}

    def marker(self, config: configuration.Config, path: str) -> dict[str, str]:
        """A further output, by name, of a job that makes perturbed clips: `path`, by which Snakemake sees them."""
        return {} if config.storage.tier == "recipe" else {"marker": path}

    def markers(self, config: configuration.Config, collection: str, suite: str, shards: Sequence[str]) -> list[str]:
        """Further inputs of a job that merges the parts of a corpus: the markers of its clips."""
        return [] if config.storage.tier == "recipe" else paths.clip_markers(config, collection, suite, shards)

    def visible_clips(
        self, config: configuration.Config, collection: str, suite: str, shards: Sequence[str]
    ) -> list[str]:
        """Further inputs of a target: a corpus' clips as Snakemake sees them, so that lost ones are regenerated."""
        return self.markers(config, collection, suite, shards)

    def refuse(self, what: str) -> list[str]:
        """Raise `ConfigError` where this cannot be made; elsewhere no further input."""
        return []

    def original_packs(self, config: configuration.Config, collection: str, shards: Iterable[str]) -> list[str]:
        """Further inputs of a job that reads the user's clips."""
        return []

    def analysis_packs(self, config: configuration.Config, collection: str, analysis: str, shard: str) -> list[str]:
        """Further inputs of an analysis."""
        return []

    def text_packs(self, dataset: str, suite: str, shards: Iterable[str]) -> list[str]:
        """Further inputs of a job that merges perturbed captions."""
        return []

    def shown_packs(self, config: configuration.Config, collection: str, suite: str | None, plans: Plans) -> list[str]:
        """Further inputs of pictures and pages."""
        return []

    def video_inputs(
        self, config: configuration.Config, wanted: recipe.VideoRecipe, collection: str, shard: str, plans: Plans
    ) -> paths.Inputs:
        """The inputs of a job that makes videos."""
        return paths.video_inputs(wanted, collection, shard, plans)

    def plan(self, config: configuration.Config, collection: str) -> sharding.DatasetPlan:
        """The plan of a collection. Raises `ConfigError` and `AnnotationError`."""
        plan = paths.plan(config, collection)
        if self.plans():
            clip_markers.refresh(config, collection, plan.shards)
        return plan

    def caption_shards(self, config: configuration.Config, dataset: str) -> tuple[str, ...]:
        """The shards of a dataset's captions. Raises `ConfigError` and `AnnotationError`."""
        shards = paths.caption_shards(config, dataset)
        if self.plans():
            clip_markers.refresh_texts(config, dataset)
        return shards


@dataclass
class WorkflowRun:
    """One run of the workflow, or of one module of it.

    Attributes:
        config: the configuration.
        folder: of work/, manifests/ and corpora/, from where Snakemake was started; `Path()` where it is that folder.
        say: prints a line of planning, each once.
        jobs: where jobs find their files.
        before: functions of wings, called before the first job; each may raise a `PerturbationError`.
        further_results: functions of wings that give further files for the page of results, of "results" or "ranks".
        names: the name that each target has in the user's Snakefile -> its own. In `use rule * as other_*` they differ.
    """

    config: configuration.Config
    folder: Path
    say: Callable[[str], None]
    jobs: SharedFolder
    before: list[Callable[[], None]] = field(default_factory=list)
    further_results: list[Callable[[str], list[str]]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def targets(self, requested: Iterable[str]) -> list[str]:
        """The own names of the targets that the command line names."""
        return [self.names.get(name, name) for name in requested]
