"""All guides and analyses, and their look-up. To add one is to add it to a list here."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from perturbations.base.errors import ConfigError, ManifestError, RegistryError
from perturbations.base.records import Record, parse_record
from perturbations.guides.clock import ClockGuide
from perturbations.guides.donor import CaptionEmbedding, DonorFacts, DonorGuide, VideoEmbedding, VideoFeatures
from perturbations.guides.frame_rate import FrameRateGuide
from perturbations.guides.frost import FrostGuide
from perturbations.guides.guide import AnalysisRecipe, GuideRecipe
from perturbations.guides.main_object import MainObjectGuide, ObjectAnalysis
from perturbations.guides.motion import MotionAnalysis, MotionGuide
from perturbations.guides.random_donor import RandomDonorGuide
from perturbations.guides.style import StyleGuide

AnyGuideRecipe = Annotated[
    ClockGuide
    | DonorGuide
    | FrameRateGuide
    | FrostGuide
    | MainObjectGuide
    | MotionGuide
    | RandomDonorGuide
    | StyleGuide,
    Field(discriminator="kind"),
]
"""The type of a recipe's guide, for pydantic."""

GUIDES: dict[str, type[GuideRecipe]] = {
    guide.model_fields["kind"].default: guide for guide in get_args(get_args(AnyGuideRecipe)[0])
}
"""The guides by name."""

ANALYSES: dict[str, type[AnalysisRecipe]] = {
    "embedding": VideoEmbedding,
    "features": VideoFeatures,
    "caption_embedding": CaptionEmbedding,
    "main_object": ObjectAnalysis,
    "motion": MotionAnalysis,
}
"""The analyses by name."""


def get(name: str) -> type[GuideRecipe]:
    """The guide called `name`. Raises `RegistryError` where a perturbation names an unknown guide."""
    if name not in GUIDES:
        raise RegistryError(f"no guide {name!r}; known: {', '.join(GUIDES)}")
    return GUIDES[name]


def takes_frames(name: str | None) -> bool:
    """Whether a perturbation with this guide takes frames of other clips."""
    return name is not None and issubclass(get(name).facts, DonorFacts)


def analysis(name: str) -> type[AnalysisRecipe]:
    """The analysis called `name`."""
    if name not in ANALYSES:
        raise ConfigError(f"no analysis {name!r}; known: {', '.join(ANALYSES)}")
    return ANALYSES[name]


class _Named(Record):
    model_config = Record.model_config | {"extra": "ignore"}

    analysis: str


def parse_analysis(text: str) -> AnalysisRecipe:
    """The recipe of an analysis, from a row or a job. Raises `ManifestError`."""
    try:
        name = _Named.model_validate_json(text).analysis
    except ValueError:
        raise ManifestError(f"not an analysis: {text[:60]!r}") from None
    if name not in ANALYSES:
        raise ManifestError(f"not an analysis that there is: {name[:60]!r}; known: {', '.join(ANALYSES)}")
    return parse_record(ANALYSES[name], text, "an analysis")
