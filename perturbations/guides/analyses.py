"""Analyses of clips, and the settings of the models that they and guides use.

An *analysis* examines a clip once, for all severities. This module imports NumPy and models for types only: Snakemake
imports it at every start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, no_tick
from perturbations.base.records import Record
from perturbations.manifest.kinds import AnalysisRow

if TYPE_CHECKING:
    from perturbations.base.settings import Strict
    from perturbations.media.footage import CleanClip


@dataclass(frozen=True, kw_only=True)
class Role:
    """A model's role: a key of `backends` in `config.yaml`.

    Attributes:
        name: the key.
        summary: the purpose of the model.
        backends: the settings of each possible backend; the first is the default, `backend` tells them apart.
    """

    name: str
    summary: str
    backends: tuple[type[Strict], ...]


@dataclass(frozen=True, kw_only=True)
class GuideSettings:
    """The configuration for guides and analyses.

    Attributes:
        roles: the settings of each role's model.
        device: the device of pretrained models.
        dtype: the precision of pretrained models.
        batch_clips: clips per batch of a model.
        variant: of the suite, "released" or "paper".
        sampled: how many sampled frames per clip are stored; None where whole clips are stored.
        donors: the dataset of the clips that are inserted.
    """

    roles: Mapping[str, Strict]
    device: str = "cpu"
    dtype: str = "float32"
    batch_clips: int = 1
    variant: str = "released"
    sampled: int | None = None
    donors: str = ""

    def backend(self, role: str) -> str:
        """The backend of a role: "offline" or "pretrained"."""
        return str(getattr(self.roles[role], "backend", "offline"))

    def model(self, role: str) -> dict[str, object]:
        """The fields of a role's `ModelsOfRole`."""
        settings = self.roles[role].model_dump(mode="json", exclude_none=True)
        on = {"device": self.device, "dtype": self.dtype, "batch_clips": self.batch_clips}
        return settings | (on if self.backend(role) == "pretrained" else {})


class AnalysisRecipe(Record):
    """All that determines the result of an analysis beside the clip.

    The default of `version` is the present one: an analysis declares a higher one when its results change.
    """

    analysis: str
    version: int = 1

    @property
    def clips_at_once(self) -> int:
        """The number of clips per batch."""
        return 1

    @property
    def is_offline(self) -> bool:
        """Whether it needs no weights."""
        return True


class ModelsOfRole(Record):
    """A backend and its weights. Settings that a backend does not have are None."""

    backend: Literal["offline", "pretrained"]
    device: str | None = None
    dtype: str | None = None
    batch_clips: int | None = None


class ModelAnalysis(AnalysisRecipe):
    """An analysis by pretrained models or by what stands in for them."""

    model: ModelsOfRole

    @property
    def clips_at_once(self) -> int:
        """The batch size of the configuration."""
        return self.model.batch_clips or 1

    @property
    def is_offline(self) -> bool:
        """Whether it needs no weights."""
        return self.model.backend == "offline"


class Analysed(Record):
    """The result of an analysis for a clip, and the size and hash of its file, if it keeps one."""

    backend: str
    result: str | None = None
    vector: tuple[float, ...] | None = None
    bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Work:
    """The input of an analysis beside the clips.

    Attributes:
        files: per clip, the file for results that are too large for a row; None where the analysis keeps no file.
        before: item -> row of the analysis that this one builds on.
        tick: called as a sign of life during long work.
    """

    files: Sequence[Path | None]
    before: Mapping[str, AnalysisRow] = field(default_factory=dict)
    tick: Tick = no_tick


Results = Sequence[Analysed | MediaError]


OFFLINE_MB = 1000
"""The memory of a job that loads no model."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """An analysis of clips, done once per clip for all severities.

    Attributes:
        name: the name of its manifest and of its jobs.
        recipe: the type of its recipe.
        settle: the function (settings) -> recipe.
        run: the function (recipe, clips, work) -> the result of each clip, or its error. Models are loaded once, at the
            first clips.
        extension: of the file that it keeps beside its row; None where the row holds the whole result.
        after: the name of the analysis whose rows it builds on.
        memory_mb: the memory of a job with pretrained models.
        seconds: CPU seconds per million pixels of its clips, offline.
    """

    name: str
    recipe: type[AnalysisRecipe]
    settle: Callable[[GuideSettings], AnalysisRecipe]
    run: Callable[[AnalysisRecipe, Sequence[CleanClip], Work], Results]
    extension: str | None = None
    after: str | None = None
    memory_mb: int = OFFLINE_MB
    seconds: float = 0.01
