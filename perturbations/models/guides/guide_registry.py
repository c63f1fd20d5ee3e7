"""The types of guides and of the analyses that they need, and the look-up of guides and analyses by name.

A guided kernel must know more about a clip than its frames: which pixels move, where the main object is, which style to
paint in. The manifest's row holds everything that the frames depend on as *facts*, in JSON: the row alone is enough to
make its frames again. The *guide* converts facts to the kernel's argument. An *analysis* examines a clip once, for all
severities, and the facts come from its row. The same functions serve files and arrays in memory.

The modules of this room import torch, and modules that need torch, only inside functions. A module is loaded when one
of its guides is asked for: a job needs only one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from perturbations.base.errors import ConfigError, ManifestError, MediaError, RegistryError
from perturbations.base.progress import Tick, no_tick
from perturbations.base.records import Record, canonical, parse_record
from perturbations.manifest.rows import COMPLETE, AnalysisRow
from perturbations.media.clean_clip import CleanClip
from perturbations.media.clip import MediaClip

if TYPE_CHECKING:
    from perturbations.base.settings import Strict

Parameters = Mapping[str, object]
"""The parameters of a kernel."""

OFFLINE_MB = 1000
"""The memory of a job that loads no model."""


@dataclass(frozen=True, kw_only=True)
class GuideSettings:
    """The configuration for guides and analyses.

    Attributes:
        backends: the section `backends` of `config.yaml`: which models play the roles.
        variant: of the suite, "released" or "paper".
        sampled: how many sampled frames per clip are stored; None where whole clips are stored.
        donors: the dataset of the clips that are inserted.
    """

    backends: Strict
    variant: str = "released"
    sampled: int | None = None
    donors: str = ""

    def role_settings(self, role: str) -> dict[str, Any]:
        """The settings of a role as JSON, without keys that are not set."""
        settings: dict[str, Any] = getattr(self.backends, role).model_dump(mode="json", exclude_none=True)
        return settings

    def backend(self, role: str) -> str:
        """The backend of a role: "offline" or "pretrained"."""
        return str(self.role_settings(role)["backend"])

    def model(self, role: str) -> dict[str, str]:
        """The `model` of an analysis by a role's model."""
        on = {name: getattr(self.backends, name) for name in ("device", "dtype")}
        return {**self.role_settings(role), **(on if self.backend(role) == "pretrained" else {})}


# --- analyses --------------------------------------------------------------------------------------------------------


Analysed = dict[str, Any]
"""The result of an analysis for a clip: columns of its row.

`backend` and, where it has one, `result` or `vector`, or its file's `bytes` and `sha256`.
"""


@dataclass(frozen=True, kw_only=True)
class AnalysisRecipe(Record):
    """Everything that determines an analysis's result, except the clip; an analysis serves all severities of a clip.

    Attributes:
        analysis: its name, also the name of its manifest and in its jobs.
        version: the version that the analysis declares.
        model: the settings of its model: `backend` and, where that is "pretrained", the weights, `device` and `dtype`;
            None where it has no model.
        num_frames: how many sampled frames it analyses; None: all frames of the clip.
        captions: the analysis whose captions it embeds.
    """

    analysis: str
    version: int
    model: dict[str, str] | None = None
    num_frames: int | None = None
    captions: AnalysisRecipe | None = None

    def __post_init__(self) -> None:
        if self.analysis not in ANALYSES:
            raise ValueError(f"no analysis {self.analysis[:60]!r}; known: {', '.join(ANALYSES)}")

    def run(
        self, clip: CleanClip, file: Path | None = None, before: AnalysisRow | None = None, tick: Tick = no_tick
    ) -> Analysed:
        """The result for a clip. Models are loaded once, at the first clip.

        `file` is for a result that is too large for a row, `before` the clip's row of the analysis that this analysis
        builds on; `tick` is called as a sign of life during long work. Raises `MediaError`.
        """
        return analysis(self.analysis).run(self, clip, file, before, tick)

    @property
    def is_offline(self) -> bool:
        """Whether it needs no weights."""
        return (self.model or {}).get("backend") != "pretrained"


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """An analysis of clips.

    Attributes:
        name: the name of its manifest and in its jobs.
        version: a higher one when its results change.
        run: the function behind `AnalysisRecipe.run`; its first argument is the recipe.
        role: the role whose model it uses, a key of `backends` in `config.yaml`.
        extension: the ending of the file that it keeps beside its row; None where the row holds the whole result.
        after: the name of the analysis whose rows it builds on.
        memory_mb: the memory of a job with pretrained models.
        more: other fields of its recipe.
    """

    name: str
    version: int = 1
    run: Callable[[AnalysisRecipe, CleanClip, Path | None, AnalysisRow | None, Tick], Analysed]
    role: str | None = None
    extension: str | None = None
    after: str | None = None
    memory_mb: int = OFFLINE_MB
    more: Callable[[GuideSettings], Mapping[str, Any]] = lambda settings: {}

    def recipe(self, settings: GuideSettings) -> AnalysisRecipe:
        """The recipe that the configuration asks for."""
        model = None if self.role is None else settings.model(self.role)
        return AnalysisRecipe(analysis=self.name, version=self.version, model=model, **self.more(settings))


@dataclass(frozen=True, eq=False)
class Known:
    """The results of analyses for the clips of a shard.

    Attributes:
        rows: item -> row of the recipe's analysis.
        donors: the rows of the donor corpus, sorted by item; empty where no clip is inserted.
    """

    rows: Mapping[str, AnalysisRow] = field(default_factory=dict)
    donors: Sequence[AnalysisRow] = ()

    def row(self, item_id: str) -> AnalysisRow:
        """The row of a clip's analysis. Raises `MediaError` when it is missing or failed."""
        row = self.rows.get(item_id)
        if row is None:
            raise MediaError("its analysis is missing: run the workflow, which makes it")
        if row.status != COMPLETE:
            raise MediaError(f"its analysis failed: {row.error}")
        return row


# --- guides ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Facts(Record):
    """Everything that the frames of a clip depend on, except its pixels."""

    @property
    def columns(self) -> dict[str, Any]:
        """The facts that have columns of their own in the clip's row."""
        return {}

    def other_clip(self) -> MediaClip:
        """The other clip that frames are taken from."""
        raise AssertionError("the plan names frames of another clip, and the guide has none")


@dataclass(frozen=True, kw_only=True)
class GuideRecipe(Record):
    """Everything that determines a kernel's guide, except the clip; `files` holds paths, which change no result.

    The default of `kind` is the guide's name in declarations of perturbations. A guide whose facts come from an
    analysis of the clip has the analysis's recipe in the field `analysis`. A guide without an analysis declares a
    `version`, as analyses do.

    Attributes:
        summary: what the kernel learns from it, for pages.
        facts: the type of its facts; empty facts where the kernel needs nothing that a row could hold.
        role: the role whose model it uses.
        keeps_times: whether the kernel gets the clip's times; the perturbed frames are then shown at the same times.
        takes_frames: whether the kernel gets frames of another clip.
        analysed_by: the analysis of the clip that it needs, if its recipe consists of this analysis alone.
        on_the_fly: whether the kernel works without the analysis, because the guide watches the frames.
    """

    summary: ClassVar[str]
    facts: ClassVar[type[Facts]] = Facts
    role: ClassVar[str | None] = None
    keeps_times: ClassVar[bool] = False
    takes_frames: ClassVar[bool] = False
    on_the_fly: ClassVar[bool] = False
    analysed_by: ClassVar[str | None] = None

    kind: str

    @classmethod
    def settle(cls, settings: GuideSettings) -> Self:
        """The recipe that the configuration asks for."""
        values: dict[str, Any] = {"analysis": analysis(cls.analysed_by).recipe(settings)} if cls.analysed_by else {}
        return cls(**values)

    @classmethod
    def problems(cls, settings: GuideSettings) -> list[str]:
        """Combinations that the configuration must not have, one line per mistake."""
        return []

    def find(self, item_id: str, known: Known, *, seed: int, draw: float, parameters: Parameters) -> Facts:
        """The facts of one clip. Raises `MediaError` where they cannot be found.

        `draw` is from 0 to 1, drawn for the clip, the same for all severities.
        """
        return Facts()

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> object:
        """The kernel's argument, from the clip's facts, size and clock, and from the file that its analysis kept."""
        raise NotImplementedError

    def models(self, row: AnalysisRow | None) -> str:
        """The model of each role, JSON for the row's `backend`; `row` is the clip's analysis."""
        return (row and row.backend) or "{}"

    def donors(self) -> tuple[str, str] | None:
        """The dataset from whose clips it takes frames, and the analysis that compares them."""
        return None

    def differences(self, *, own_donors: bool) -> Iterator[str]:
        """How the guide differs from the guides behind published results.

        `own_donors`: whether donors are clips that are also evaluated.
        """
        yield from ()

    @property
    def is_offline(self) -> bool:
        """Whether its kernel needs no weights."""
        return True


# --- by name --------------------------------------------------------------------------------------------------------

GUIDES = {
    "clock": "timing",
    "donor": "donor",
    "frame_rate": "timing",
    "frost": "frost_photographs",
    "main_object": "main_object",
    "motion": "motion",
    "random_donor": "donor",
    "style": "style_pictures",
}
"""For each guide's name, the file whose `GUIDES` contains the guide."""

ANALYSES = {
    "embedding": "donor",
    "features": "donor",
    "caption_embedding": "donor",
    "main_object": "main_object",
    "motion": "motion",
}
"""For each analysis's name, the file whose `ANALYSES` contains the analysis."""


def get(name: str) -> type[GuideRecipe]:
    """The guide called `name`. Raises `RegistryError` where a perturbation names an unknown guide."""
    if name not in GUIDES:
        raise RegistryError(f"no guide {name!r}; known: {', '.join(GUIDES)}")
    declared: Mapping[str, type[GuideRecipe]] = import_module(f"perturbations.models.guides.{GUIDES[name]}").GUIDES
    return declared[name]


def analysis(name: str) -> Analysis:
    """The analysis called `name`. Raises `ConfigError` where there is none."""
    if name not in ANALYSES:
        raise ConfigError(f"no analysis {name!r}; known: {', '.join(ANALYSES)}")
    declared: Mapping[str, Analysis] = import_module(f"perturbations.models.guides.{ANALYSES[name]}").ANALYSES
    return declared[name]


def takes_frames(name: str | None) -> bool:
    """Whether a perturbation with this guide takes frames of other clips."""
    return name is not None and get(name).takes_frames


def parse_guide(value: Mapping[str, object]) -> GuideRecipe:
    """A guide's recipe, from the JSON of a recipe, in its own type. Raises `ManifestError`."""
    if (kind := str(value.get("kind"))) not in GUIDES:
        raise ManifestError(f"no guide {kind[:60]!r}; known: {', '.join(GUIDES)}")
    return parse_record(get(kind), canonical(value), f"a recipe of the guide {kind!r}")


def parse_analysis(text: str) -> AnalysisRecipe:
    """The recipe of an analysis, from a row or a job. Raises `ManifestError`."""
    return parse_record(AnalysisRecipe, text, "an analysis")
