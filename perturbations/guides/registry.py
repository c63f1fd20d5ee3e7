"""The type of a guide, and the look-up of guides.

A guided kernel must know more about a clip than its frames: which pixels move, where the main object is, which style to
paint in. The manifest's row holds everything that the frames depend on as *facts*, in JSON: the row alone is enough to
make its frames again. The *guide* is the kernel's argument: facts converted to arrays and functions. An *analysis*
examines a clip once, for all severities, and the facts come from its row. The same functions serve files and arrays in
memory.

The files of this shelf import NumPy and models in functions only: Snakemake imports them at every start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, Union, runtime_checkable

from pydantic import Field, PlainValidator, SerializeAsAny, TypeAdapter, ValidationInfo

from perturbations.base import shelf
from perturbations.base.errors import ConfigError, ManifestError, MediaError, ShelfError
from perturbations.base.records import Record, parse_record
from perturbations.guides.analyses import Analysis, AnalysisRecipe, GuideSettings, Role
from perturbations.manifest.kinds import COMPLETE, AnalysisRow

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from perturbations.base.arrays import Image
    from perturbations.media.clip import MediaClip

_Thing = TypeVar("_Thing")

# --- guides ----------------------------------------------------------------------------------------------------------


class GuideRecipe(Record):
    """All that determines a kernel's guide beside the clip; `files` only holds places, which change no result.

    A guide without an analysis declares `version` as an analysis does.
    """

    kind: str

    def needed_analysis(self) -> AnalysisRecipe | None:
        """The analysis of the clip that its facts come from: its field `analysis`, where it has one."""
        analysis: AnalysisRecipe | None = getattr(self, "analysis", None)
        return analysis

    def donors(self) -> tuple[str, str] | None:
        """The dataset from whose clips it takes frames, and the analysis that compares them."""
        return None

    def differences(self, dataset: str) -> Iterator[str]:
        """What it takes that the authors of published results did not, for the clips of a dataset."""
        yield from ()

    def is_offline(self) -> bool:
        """Whether its kernel needs no weights."""
        return True

    def antialiases(self) -> bool:
        """Whether those frames are averaged where they are made smaller."""
        return True

    def chooses_files(self) -> bool:
        """Whether facts depend on the files in a folder of the user."""
        return False


class Facts(Record):
    """All that the frames of one clip depend on beside its pixels."""

    def other_item(self) -> str | None:
        """The item of the other clip whose frames are used."""
        return None

    def other_similarity(self) -> float | None:
        """How similar that clip is."""
        return None


@dataclass(frozen=True)
class Known:
    """The results of analyses for the clips of a shard.

    Attributes:
        rows: item -> row of the recipe's analysis.
        donors: the rows of the donor corpus, sorted by item; empty where no clip is inserted.
        kept: (seed, number) -> the chosen donors and their vectors, computed once.
    """

    rows: Mapping[str, AnalysisRow] = field(default_factory=dict)
    donors: Sequence[AnalysisRow] = ()
    kept: dict[tuple[int, int], tuple[list[AnalysisRow], npt.NDArray[np.float64]]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FactsRequest:
    """A request for the facts of one clip.

    Attributes:
        guide: the guide's recipe.
        key: `suite/perturbation`, a part of the random generator's key.
        seed, dataset, item_id: the rest of that key; not the severity, so that all severities share the draw.
        parameters: of the kernel.
        known: the results of analyses.
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

    def choice(self, things: Sequence[_Thing]) -> _Thing:
        """One of several things, drawn for the clip, the same for all severities."""
        from perturbations.base import rng

        draw = float(rng.generator(self.seed, self.dataset, self.item_id, self.key).random())
        return things[int(draw * len(things))]


@runtime_checkable
class Watching(Protocol):
    """A guide that must see the clip's frames, in order, each before the kernel gets it."""

    def needed(self, positions: Collection[int] | None) -> set[int] | None:
        """The frames that it must see for the kernel to change those at `positions`; None means all."""
        ...

    def show(self, image: Image, position: int) -> None:
        """See the frame at `position`, RGB uint8."""
        ...


@dataclass(frozen=True, kw_only=True)
class ClipShape:
    """The input of a guide beside facts: the size and clock of the clip, and the file of its analysis.

    `times` gives the time of each frame, in seconds.
    """

    num_frames: int
    height: int
    width: int
    fps: float
    times: Callable[[], Sequence[float]]
    kept: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Guide:
    """A kind of guide.

    Attributes:
        name: its name in declarations of perturbations, and in recipes (`kind`).
        summary: what the kernel learns from it, for pages.
        recipe: the type of its recipe.
        facts: the type of its facts; empty ones where the kernel needs nothing that a row could hold.
        settle: the function (settings) -> recipe.
        find: the function (request) -> the facts of one clip. Raises `MediaError` where they cannot be found.
        make: the function (recipe, facts, shape) -> the kernel's argument. A result that has the methods of `Watching`
            is shown the frames as they come.
        models: the function (recipe, row of the analysis) -> the model of each role, JSON for the row's `backend`;
            without it, those of the analysis.
        analyses: the analyses that it adds.
        roles: the keys of `backends` that it adds.
        problems: the function (settings) -> combinations that the configuration must not have, one line per mistake.
        other: the function (facts) -> the other clip whose frames are used; None where there is no such clip.
        keeps_times: whether the kernel is given the clip's times, at which the perturbed frames are shown too.
        on_the_fly: whether the kernel works without the analysis, because the guide watches the frames.
        pictured: the analysis whose results people look at: a corpus includes its manifest.
    """

    name: str
    summary: str
    recipe: type[GuideRecipe]
    settle: Callable[[GuideSettings], GuideRecipe]
    make: Callable[[GuideRecipe, Facts, ClipShape], object]
    facts: type[Facts] = Facts
    find: Callable[[FactsRequest], Facts] = lambda request: Facts()
    models: Callable[[GuideRecipe, AnalysisRow | None], str] = lambda recipe, row: (row and row.backend) or "{}"
    analyses: tuple[Analysis, ...] = ()
    roles: tuple[Role, ...] = ()
    problems: Callable[[GuideSettings], list[str]] = lambda settings: []
    other: Callable[[Facts], MediaClip] | None = None
    keeps_times: bool = False
    on_the_fly: bool = False
    pictured: str | None = None


# --- look-up ---------------------------------------------------------------------------------------------------------


@cache
def guides() -> dict[str, Guide]:
    """The guides of this shelf by name."""
    return shelf.named("guide", shelf.things("perturbations.guides", "GUIDE", Guide, ("analyses",)))


def get(name: str) -> Guide:
    """The guide called `name`. Raises `ShelfError` where a perturbation names an unknown guide."""
    if name not in guides():
        raise ShelfError(f"no guide {name!r}; known: {', '.join(guides())}")
    return guides()[name]


def takes_frames(name: str | None) -> bool:
    """Whether a perturbation with this guide takes frames of other clips."""
    return name is not None and get(name).other is not None


@cache
def analyses() -> dict[str, Analysis]:
    """The analyses of all guides by name."""
    return {analysis.name: analysis for guide in guides().values() for analysis in guide.analyses}


def analysis(name: str) -> Analysis:
    """The analysis called `name`."""
    if name not in analyses():
        raise ConfigError(f"no analysis {name!r}; known: {', '.join(analyses())}")
    return analyses()[name]


def roles() -> list[Role]:
    """The models' roles of all guides."""
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


def version_difference(name: str, version: int, now: int) -> str:
    """Which version of a thing made a result, in words; "" where the package has the same version."""
    return "" if version == now else f"made by {name} version {version}, this is {now}"


@cache
def _recipes() -> TypeAdapter[GuideRecipe]:
    """Reads the recipes of all guides; `kind` tells their types apart."""
    kinds = tuple(guide.recipe for guide in guides().values())
    of_a_kind: Any = Annotated[Union[kinds], Field(discriminator="kind")]  # noqa: UP007
    return TypeAdapter(of_a_kind)


def _of_its_kind(value: object, info: ValidationInfo) -> GuideRecipe:
    if info.mode == "json":
        return _recipes().validate_json(json.dumps(value))
    return _recipes().validate_python(value)


AnyGuideRecipe = Annotated[SerializeAsAny[GuideRecipe], PlainValidator(_of_its_kind)]
"""The type of a recipe's guide, for pydantic. The shelf is loaded for the first guide: most jobs have none."""
