"""What a guide is, and how guides are found.

A guided kernel must know more of a clip than its frames: which pixels move, where the main object is, which style to
paint in. What the frames depend on stands in the manifest's row as *facts*, JSON: a row alone is enough to make its
frames again. The *guide* is what the kernel takes: facts made into arrays and functions. An *analysis* looks at a clip
once, for all severities, and the facts come from its row. The same functions serve files and arrays in memory.

The files of this shelf import NumPy and models in functions only: Snakemake imports them at every start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, Union, runtime_checkable

from pydantic import Field

from perturbations import shelf
from perturbations.errors import ConfigError, ManifestError, MediaError, ShelfError
from perturbations.manifest.kinds import COMPLETE, AnalysisRow
from perturbations.progress import Tick, no_tick
from perturbations.system.records import Record, parse_record
from perturbations.system.settings import Strict

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from perturbations.arrays import Image
    from perturbations.media.clip import Clip
    from perturbations.media.footage import CleanClip

# --- the configuration -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Role:
    """A model's role: a key of `backends` in `config.yaml`.

    Attributes:
        name: the key.
        summary: what the model is for.
        players: the settings of those who may play it; the first is the default, `backend` tells them apart.
    """

    name: str
    summary: str
    players: tuple[type[Strict], ...]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the configuration says to guides and analyses.

    Attributes:
        roles: the settings of each role's player.
        device: where pretrained models run.
        dtype: the precision they run in.
        batch_clips: clips that go through a model together.
        variant: of the suite, "released" or "paper".
        sampled: how many sampled frames of a clip are stored; None where whole clips are.
        donors: the dataset that clips to insert are taken from.
    """

    roles: Mapping[str, Strict]
    device: str = "cpu"
    dtype: str = "float32"
    batch_clips: int = 1
    variant: str = "released"
    sampled: int | None = None
    donors: str = ""

    def backend(self, role: str) -> str:
        """ "offline" or "pretrained": who plays a role."""
        return str(getattr(self.roles[role], "backend", "offline"))


# --- analyses --------------------------------------------------------------------------------------------------------


class AnalysisRecipe(Record):
    """What determines the result of an analysis but the clip. `version` is raised when its results change."""

    analysis: str
    version: int

    @property
    def clips_at_once(self) -> int:
        """How many clips go through the analysis together: models work on batches."""
        return 1

    @property
    def is_offline(self) -> bool:
        """Whether it needs no weights."""
        return True


class Analysed(Record):
    """What an analysis found about a clip, and the size and hash of the file that it keeps, if any."""

    backend: str
    result: str | None = None
    vector: tuple[float, ...] | None = None
    bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Work:
    """What an analysis is given beside the clips.

    Attributes:
        files: of each clip, the file to keep what is too large for a row; None where the analysis keeps none.
        before: rows by item of the analysis that this one builds on.
        tick: a sign of life, for long work.
    """

    files: Sequence[Path | None]
    before: Mapping[str, AnalysisRow] = field(default_factory=dict)
    tick: Tick = no_tick


Results = Sequence[Analysed | MediaError]


OFFLINE_MB = 1000
"""The memory of a job that loads no model."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """A look at clips, once, for all severities.

    Attributes:
        name: of its manifest, and of its jobs.
        recipe: the type of its recipe.
        settle: the function (wanted) -> recipe.
        run: the function (recipe, clips, work) -> what was found of each clip, or why it has nothing. Models are loaded
            at the first clips, once.
        extension: of the file that it keeps beside its row; None where the row holds it all.
        after: the name of the analysis whose rows it builds on.
        memory_mb: what a job with pretrained models needs.
    """

    name: str
    recipe: type[AnalysisRecipe]
    settle: Callable[[Wanted], AnalysisRecipe]
    run: Callable[[AnalysisRecipe, Sequence[CleanClip], Work], Results]
    extension: str | None = None
    after: str | None = None
    memory_mb: int = OFFLINE_MB


# --- guides ----------------------------------------------------------------------------------------------------------


class GuideRecipe(Record):
    """What determines a kernel's guide but the clip; what stands under `files` says only where to look."""

    kind: str

    def needed_analysis(self) -> AnalysisRecipe | None:
        """The analysis of the clip that its facts come from."""
        return None

    def donors(self) -> tuple[str, str] | None:
        """The dataset whose clips it takes frames of, and the analysis by which they are compared."""
        return None

    def chooses_files(self) -> bool:
        """Whether facts depend on which files a folder of the user holds."""
        return False


class Facts(Record):
    """What the frames of one clip depend on beside its pixels."""

    def other_item(self) -> str | None:
        """The item of the other clip whose frames it takes."""
        return None

    def other_similarity(self) -> float | None:
        """How similar that clip is."""
        return None


@dataclass(frozen=True)
class Known:
    """What the analyses found about the clips of a shard.

    Attributes:
        rows: the shard's rows of the recipe's analysis, by item.
        donors: the rows of the donor corpus, sorted by item; empty where no clip is inserted.
        kept: what is computed once of the donors.
    """

    rows: Mapping[str, AnalysisRow] = field(default_factory=dict)
    donors: Sequence[AnalysisRow] = ()
    kept: dict[tuple[int, int], tuple[list[AnalysisRow], npt.NDArray[np.float64]]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One clip whose facts are asked for.

    Attributes:
        guide: the guide's recipe.
        key: `suite/perturbation`, a part of the key of what is drawn.
        seed, dataset, item_id: the rest of that key; not the severity, so that all severities share what is drawn.
        parameters: of the kernel.
        known: what analyses found.
    """

    guide: GuideRecipe
    key: str
    seed: int
    dataset: str
    item_id: str
    parameters: Mapping[str, object]
    known: Known

    def analysed_row(self) -> AnalysisRow:
        """The row of the clip's analysis. Raises `MediaError` when it is missing or failed."""
        row = self.known.rows.get(self.item_id)
        if row is None:
            raise MediaError("its analysis is missing: run the workflow, which makes it")
        if row.status != COMPLETE:
            raise MediaError(f"its analysis failed: {row.error}")
        return row

    def draw(self) -> float:
        """The clip's number in [0, 1), the same for all severities."""
        from perturbations import rng

        return float(rng.generator(self.seed, self.dataset, self.item_id, self.key).random())


@runtime_checkable
class Watching(Protocol):
    """A guide that must see the clip's frames, in order, each before the kernel gets it."""

    def needed(self, positions: Collection[int] | None) -> set[int] | None:
        """Which frames it must see so that the kernel can have those at `positions`; None means all."""
        ...

    def show(self, image: Image, position: int) -> None:
        """See the frame at `position`, RGB uint8."""
        ...


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a guide is made of, beside facts: the size and clock of the clip, and what its analysis kept in a file."""

    num_frames: int
    height: int
    width: int
    fps: float
    kept: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Guide:
    """A kind of guide.

    Attributes:
        name: in declarations of perturbations, and in recipes (`kind`).
        summary: what the kernel is told, for pages.
        recipe: the type of its recipe.
        facts: the type of its facts.
        settle: the function (wanted) -> recipe.
        find: the function (asked) -> the facts of one clip. Raises `MediaError` where nothing suitable is known of it.
        make: the function (recipe, facts, given) -> what the kernel takes. A result that has the methods of `Watching`
            is shown the frames as they come.
        players: the function (recipe, row of the analysis) -> who played which role, JSON for the row's `backend`.
        analyses: the analyses that it brings.
        roles: the keys of `backends` that it brings.
        problems: the function (wanted) -> what the configuration must not combine, one line per mistake.
        other: the function (facts) -> the other clip that frames are taken of; None where there is no such clip.
        on_the_fly: whether the kernel can do without the analysis, because the guide watches the frames.
        pictured: the analysis whose results people look at: its manifest and a picture of it come with a corpus.
    """

    name: str
    summary: str
    recipe: type[GuideRecipe]
    facts: type[Facts]
    settle: Callable[[Wanted], GuideRecipe]
    find: Callable[[Asked], Facts]
    make: Callable[[GuideRecipe, Facts, Given], object]
    players: Callable[[GuideRecipe, AnalysisRow | None], str]
    analyses: tuple[Analysis, ...] = ()
    roles: tuple[Role, ...] = ()
    problems: Callable[[Wanted], list[str]] = lambda wanted: []
    other: Callable[[Facts], Clip] | None = None
    on_the_fly: bool = False
    pictured: str | None = None


# --- look-up ---------------------------------------------------------------------------------------------------------


@cache
def guides() -> dict[str, Guide]:
    """What the files of this shelf declare, by name."""
    return shelf.named("guide", shelf.things("perturbations.guides", "GUIDE", Guide))


def get(name: str) -> Guide:
    """The guide called `name`. Raises `ShelfError` where a perturbation asks for one that there is not."""
    if name not in guides():
        raise ShelfError(f"no guide {name!r}; known: {', '.join(guides())}")
    return guides()[name]


def takes_frames(name: str | None) -> bool:
    """Whether a perturbation with this guide takes frames of other clips."""
    return name is not None and get(name).other is not None


@cache
def analyses() -> dict[str, Analysis]:
    """Every analysis that a guide brings, by name."""
    return {analysis.name: analysis for guide in guides().values() for analysis in guide.analyses}


def analysis(name: str) -> Analysis:
    """The analysis called `name`."""
    if name not in analyses():
        raise ConfigError(f"no analysis {name!r}; known: {', '.join(analyses())}")
    return analyses()[name]


def roles() -> list[Role]:
    """The model's roles that guides bring."""
    return [role for guide in guides().values() for role in guide.roles]


class _Named(Record):
    model_config = Record.model_config | {"extra": "ignore"}

    analysis: str


def parse_analysis(text: str) -> AnalysisRecipe:
    """The recipe of an analysis, from a row or a job. Raises `ManifestError`."""
    try:
        name = _Named.model_validate_json(text).analysis
    except ValueError:
        raise ManifestError(f"not an analysis: {text[:60]!r}") from None
    if name not in analyses():
        raise ManifestError(f"not an analysis that there is: {name[:60]!r}; known: {', '.join(analyses())}")
    return parse_record(analyses()[name].recipe, text, "an analysis")


def any_recipe() -> object:
    """The type of a recipe's guide, for pydantic: by its `kind`."""
    kinds = tuple(guide.recipe for guide in guides().values())
    return Annotated[Union[kinds], Field(discriminator="kind")]  # noqa: UP007
