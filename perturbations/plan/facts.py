"""What is known of one clip beside its frames, as JSON in manifests' rows. No NumPy.

An analysis has a *result*. What a perturbed clip's frames depend on are *facts*: with them a row alone is enough to
make the frames again. Both may come from a stranger's manifest, and are checked when they are read.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from perturbations.errors import ManifestError
from perturbations.plan.recipe import Record, VideoRecipe, parse_record

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in pixels."""

Position = Annotated[int, Field(ge=0, lt=2**31)]


class DetectedObject(Record):
    """An object in one analysed frame, ranked: see `perturbations.analysis.tracking`."""

    label: str
    box: Box
    confidence: float
    track: int
    persistence: float
    area: float
    score: float


class MainObjects(Record):
    """What a main-object analysis found: in each analysed frame, by position, the objects and the main one of them."""

    caption: str | None = None
    keywords: tuple[str, ...]
    positions: tuple[Position, ...] = Field(min_length=1)
    objects: tuple[tuple[DetectedObject, ...], ...]
    boxes: tuple[Box | None, ...]
    tracks: tuple[int | None, ...]


class MotionFacts(Record):
    """Nothing: motion is too large for a row, and computed again where its file is missing."""


class MainObjectFacts(Record):
    """The main object's box and track in each analysed frame, by position; None where there is none."""

    positions: tuple[Position, ...] = Field(min_length=1)
    boxes: tuple[Box | None, ...]
    tracks: tuple[int | None, ...]

    @model_validator(mode="after")
    def _as_many(self) -> MainObjectFacts:
        if not len(self.positions) == len(self.boxes) == len(self.tracks):
            raise ValueError("there must be as many boxes and tracks as positions")
        return self


class StyleFactFiles(Record):
    """Where a clip's style image lies, None where the package draws it, and the networks."""

    image: str | None = None
    encoder: str | None = None
    decoder: str | None = None


class StyleFacts(Record):
    """The style that a clip is painted in: a name, or the SHA-256 of an image."""

    style: str
    files: StyleFactFiles


class FrostFactFiles(Record):
    """Where a clip's photograph of frost lies."""

    image: str | None = None


class FrostFacts(Record):
    """The SHA-256 of a clip's photograph of frost; None where the kernel draws the ice."""

    frost: str | None = None
    files: FrostFactFiles


class Donor(Record):
    """The clip that a segment is taken from."""

    dataset: str
    item_id: str
    start_s: float | None = None
    end_s: float | None = None
    frame_count: Annotated[int, Field(ge=1)]
    fps: Annotated[float, Field(gt=0)]
    sha256: str


class DonorFiles(Record):
    """Where the donor lies."""

    donor: str


class DonorFacts(Record):
    """The donor of a clip, and how similar it is."""

    donor: Donor
    similarity: float
    files: DonorFiles


Facts = MotionFacts | MainObjectFacts | StyleFacts | FrostFacts | DonorFacts

_TYPES: dict[str, type[Facts]] = {
    "motion": MotionFacts,
    "main_object": MainObjectFacts,
    "style": StyleFacts,
    "frost": FrostFacts,
    "donor": DonorFacts,
}


class Cut(Record):
    """A clip's place in a video that is perturbed whole: whose draws it has, and which frames it is.

    Attributes:
        video_id: the video's id.
        first: the position of the clip's first frame.
        num_frames: of the video.
    """

    video_id: str
    first: Position
    num_frames: Annotated[int, Field(ge=1, lt=2**31)]


def parse_facts(recipe: VideoRecipe, text: str | None) -> Facts | None:
    """The facts of a row, as its recipe's guide needs them. Raises `ManifestError`."""
    if recipe.guide is None:
        if text is not None:
            raise ManifestError(f"{recipe.key} is told nothing of a clip, but the row has {text[:60]!r}")
        return None
    if text is None:
        raise ManifestError(
            f"the row does not say what {recipe.key} must know of the clip: its column 'guide' is empty"
        )
    return parse_record(_TYPES[recipe.guide.kind], text, f"the facts of the guide '{recipe.guide.kind}'")


def parse_cut(text: str | None) -> Cut | None:
    """A clip's place in its video, from a row. Raises `ManifestError`."""
    return None if text is None else parse_record(Cut, text, "a clip's place in its video")


def parse_main_objects(text: str) -> MainObjects:
    """The result of a main-object analysis, from a row. Raises `ManifestError`."""
    return parse_record(MainObjects, text, "the result of a main-object analysis")
