"""The main object of a clip: a box in every frame (MLVP, Alg. 3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from perturbations.base.arrays import SAMPLED, Image, uniform_indices
from perturbations.base.progress import Tick, ticking, ticking_on
from perturbations.base.records import canonical, parse_record
from perturbations.base.settings import ModelName, Strict
from perturbations.manifest.rows import AnalysisRow
from perturbations.media.clean_clip import CleanClip
from perturbations.models import captioner, nouns, owlv2, yolo_world
from perturbations.models.analysis import saliency, tracking
from perturbations.models.guides.guide_registry import (
    Analysed,
    Analysis,
    AnalysisRecipe,
    Facts,
    GuideRecipe,
    Known,
    Parameters,
)

_Detector = owlv2.OpenVocabularyDetector | yolo_world.WorldDetector

_CAPTIONED_FRAMES = 16

# --- configuration ---------------------------------------------------------------------------------------------------


class OfflineMainObject(Strict):
    """The object that moves as a whole, otherwise a central region: no download, no words."""

    backend: Literal["offline"] = "offline"


class PretrainedMainObject(Strict):
    """A captioner, a noun extractor and an open-vocabulary detector, as in the paper."""

    backend: Literal["pretrained"]
    captioner: ModelName = Field(
        "Qwen/Qwen2.5-VL-7B-Instruct", description="a Qwen2.5-VL model: its name or its folder"
    )
    captioner_revision: str | None = Field(None, description="its commit")
    nouns: ModelName = Field("en_core_web_sm", description="a spaCy pipeline: its name or its folder")
    detector: Literal["owlv2", "yolo_world"] = Field("owlv2", description="which model looks for the nouns")
    owlv2: ModelName = Field(
        "google/owlv2-base-patch16-ensemble",
        description="an OWLv2 model: its name or its folder; with yolo_world it still describes the boxes' contents",
    )
    owlv2_revision: str | None = Field(None, description="its commit")
    yolo_world: Path | None = Field(None, description="yolo_world: its weights, a .pt file")
    yolo_world_revision: str | None = Field(None, description="yolo_world: `sha256:...` of that file")

    @model_validator(mode="after")
    def _has_weights(self) -> PretrainedMainObject:
        if self.detector == "yolo_world" and (self.yolo_world is None or self.yolo_world_revision is None):
            raise ValueError("the detector yolo_world needs `yolo_world`, its weights, and `yolo_world_revision`")
        return self


# --- result and facts ------------------------------------------------------------------------------------------------

_Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in pixels."""

_Source = Literal["motion", "centre", "detector"]
"""The evidence for a box: an object that moves as a whole, no such object (a central region), or a detector."""

_Position = Annotated[int, Field(ge=0, lt=2**31)]


@dataclass(frozen=True, kw_only=True)
class _MainObjectFacts(Facts):
    """The main object's box, its track and its evidence, per analysed frame; None in a frame without an object."""

    positions: Annotated[tuple[_Position, ...], Field(min_length=1)]
    boxes: tuple[_Box | None, ...]
    tracks: tuple[int | None, ...]
    sources: tuple[_Source | None, ...]

    def __post_init__(self) -> None:
        if not len(self.positions) == len(self.boxes) == len(self.tracks) == len(self.sources):
            raise ValueError("there must be as many boxes, tracks and sources as positions")


@dataclass(frozen=True, kw_only=True)
class MainObjects(_MainObjectFacts):
    """The result of the analysis: also the caption, its nouns, and the ranked objects of each analysed frame."""

    caption: str | None = None
    keywords: tuple[str, ...]
    objects: tuple[tuple[tracking.Object, ...], ...]


def parse_result(text: str) -> MainObjects:
    """The result of an analysis, from a row. Raises `ManifestError`."""
    return parse_record(MainObjects, text, "the result of a main-object analysis")


# --- recipes ---------------------------------------------------------------------------------------------------------


def _analyse(
    recipe: AnalysisRecipe, clip: CleanClip, file: Path | None, before: AnalysisRow | None, tick: Tick
) -> Analysed:
    """Caption, keywords, objects, tracks and ranks (MLVP, Alg. 3)."""
    if recipe.is_offline:
        return _offline(clip, tick)
    wanted = {*_sampled(clip), *_each_second(clip)}
    frames = {frame.position: frame.image for frame in ticking(clip.frames(wanted), tick)}
    with ticking_on(tick):
        return _pretrained(canonical(recipe.model), clip, frames)


@dataclass(frozen=True, kw_only=True)
class MainObjectGuide(GuideRecipe):
    """The kernel gets the boxes of the main object."""

    summary: ClassVar = "the clip's main object: `backends.main_object`, `offline` or `pretrained`"
    facts: ClassVar = _MainObjectFacts
    role: ClassVar = "main_object"
    analysed_by: ClassVar = "main_object"

    kind: Literal["main_object"] = "main_object"
    analysis: AnalysisRecipe

    def find(self, item_id: str, known: Known, *, seed: int, draw: float, parameters: Parameters) -> _MainObjectFacts:
        """The part of the analysis that the frames depend on, and the evidence for each box."""
        objects = parse_result(known.row(item_id).result or "")
        return _MainObjectFacts(**{column.name: getattr(objects, column.name) for column in fields(_MainObjectFacts)})

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> npt.NDArray[np.float64]:
        """The main object's box in every frame, num_frames x 4, NaN in a frame without one."""
        assert isinstance(facts, _MainObjectFacts)
        return tracking.interpolate(facts.positions, facts.boxes, facts.tracks, clip.num_frames)


# --- the search ------------------------------------------------------------------------------------------------------


def _offline(clip: CleanClip, tick: Tick) -> Analysed:
    # Many frames, but small ones.
    near = saliency.neighbourhood(set(_sampled(clip)), clip.num_frames)
    frames = {frame.position: saliency.shrunk(frame.image) for frame in ticking(clip.frames(near), tick)}
    alike = np.ones(1, np.float32)  # one object per clip: all boxes are of one track
    with ticking_on(tick):
        seen = [saliency.sighting(frames, position, clip.size[::-1]) for position in _sampled(clip)]
    detected = [[tracking.Detection(frame.box, frame.overlap, "", alike)] for frame in seen]
    identity = {"backend": "offline", "detector": "motion, else a central region"}
    return _result(clip, detected, [frame.source for frame in seen], None, (), identity)


def _pretrained(model: str, clip: CleanClip, frames: Mapping[int, Image]) -> Analysed:
    captioner, nouns, detector, roles = _object_models(model)
    caption = captioner.describe([frames[place] for place in _each_second(clip)])
    words = nouns.keywords(caption)
    detected = detector.detect([frames[place] for place in _sampled(clip)], words)
    identity = {"backend": "pretrained", **roles}
    return _result(clip, detected, ["detector"] * len(detected), caption, words, identity)


def _result(
    clip: CleanClip,
    detected: Sequence[Sequence[tracking.Detection]],
    sources: Sequence[_Source],
    caption: str | None,
    keywords: Sequence[str],
    identity: Mapping[str, object],
) -> Analysed:
    """The result of a clip: detections per sampled frame, their evidence, its caption, and the searched words."""
    objects = tuple(map(tuple, tracking.rank(detected, clip.height, clip.width)))
    result = MainObjects(
        caption=caption,
        keywords=tuple(keywords),
        positions=tuple(_sampled(clip)),
        objects=objects,
        boxes=tuple(ranked[0]["box"] if ranked else None for ranked in objects),
        tracks=tuple(ranked[0]["track"] if ranked else None for ranked in objects),
        sources=tuple(source if ranked else None for source, ranked in zip(sources, objects, strict=True)),
    )
    return {"result": result.text, "backend": canonical({"main_object": identity})}


def _sampled(clip: CleanClip) -> list[int]:
    return uniform_indices(SAMPLED, clip.num_frames)


def _each_second(clip: CleanClip) -> list[int]:
    """The captioner's frames: one per second, at most 16."""
    seconds = max(1, round(clip.num_frames / clip.fps))
    return uniform_indices(min(_CAPTIONED_FRAMES, seconds, clip.num_frames), clip.num_frames)


# A job loads its models once.
@lru_cache(maxsize=1)
def _object_models(settings: str) -> tuple[captioner.Captioner, nouns.Nouns, _Detector, Mapping[str, object]]:
    """The captioner, the extractor of nouns, the detector, and what a row records of each."""
    model = json.loads(settings)
    on = {"device": model["device"], "dtype": model["dtype"]}
    words = captioner.load(model["captioner"], revision=model.get("captioner_revision"), **on)
    finds_nouns = nouns.load(model["nouns"])
    boxes = owlv2.load(model["owlv2"], revision=model.get("owlv2_revision"), **on)
    roles = {"captioner": words.identity, "nouns": finds_nouns.identity, "detector": boxes.identity}
    if model["detector"] != "yolo_world":
        return words, finds_nouns, boxes, roles
    # OWLv2's vision tower still embeds the contents of the boxes.
    world = yolo_world.load(
        model["yolo_world"],
        revision=model["yolo_world_revision"],
        embed=boxes.embed,
        device=model["device"],
        dtype="float32",
    )
    return words, finds_nouns, world, {**roles, "crops": boxes.identity, "detector": world.identity}


GUIDES = {"main_object": MainObjectGuide}
ANALYSES = {"main_object": Analysis(name="main_object", version=4, run=_analyse, role="main_object", memory_mb=24_000)}
