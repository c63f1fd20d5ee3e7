"""Donors: clips of a corpus that give frames to another clip: the most similar clip (MLVP) or any (MVTamperBench)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from perturbations.base import storage
from perturbations.base.arrays import SAMPLED, uniform_indices
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, ticking, ticking_on
from perturbations.base.records import Record, canonical, digest
from perturbations.base.settings import Strict
from perturbations.manifest.rows import COMPLETE, AnalysisRow
from perturbations.media.clean_clip import CleanClip
from perturbations.media.clip import MediaClip
from perturbations.models import clip_model
from perturbations.models.analysis import descriptor, neighbours
from perturbations.models.guides.guide_registry import (
    Analysed,
    Analysis,
    AnalysisRecipe,
    Facts,
    GuideRecipe,
    GuideSettings,
    Known,
    Parameters,
    analysis,
)
from perturbations.models.guides.main_object import parse_result

# --- configuration ---------------------------------------------------------------------------------------------------


class OfflineEmbedding(Strict):
    """A fixed descriptor of colours and their places: no download."""

    backend: Literal["offline"] = "offline"


class PretrainedEmbedding(Strict):
    """CLIP."""

    backend: Literal["pretrained"]
    clip: str = Field("openai/clip-vit-base-patch32", description="a CLIP model: its name or its folder")
    clip_revision: str | None = Field(None, description="its commit")


# --- the analyses ----------------------------------------------------------------------------------------------------


def _embed_frames(
    recipe: AnalysisRecipe, clip: CleanClip, file: Path | None, before: AnalysisRow | None, tick: Tick
) -> Analysed:
    """The clip's vector, from 12 uniformly sampled frames, by the fixed descriptor or by CLIP.

    An embedding has the length 1. Features are the mean of the frames' features, and their lengths count: MLVP's code
    compares a caption's features with this mean.
    """
    places = uniform_indices(SAMPLED, clip.num_frames)
    seen = {frame.position: frame.image for frame in ticking(clip.frames({*places}), tick)}
    frames = [seen[place] for place in places]
    identity: Mapping[str, object] = {"backend": "offline", "descriptor": "colours and their places"}
    with ticking_on(tick):
        if recipe.is_offline:
            vector = descriptor.describe(frames)
        else:
            model = _clip_model(canonical(recipe.model))
            identity = {"backend": "pretrained", **model.identity}
            vector = (model.mean_features if recipe.analysis == "features" else model.embed_video)(frames)
    backend = canonical({"embedding": {**identity, "query": "video"}})
    return {"vector": tuple(vector.tolist()), "backend": backend}


def _embed_caption(
    recipe: AnalysisRecipe, clip: CleanClip, file: Path | None, before: AnalysisRow | None, tick: Tick
) -> Analysed:
    """The features of the caption that the search for the clip's main object generated; their length counts.

    It is for donors of the variant `released` of event insertion.
    """
    assert before is not None
    if before.status != COMPLETE:
        raise MediaError(f"its main object was not found, so it has no caption: {before.error}")
    with ticking_on(tick):
        model = _clip_model(canonical(recipe.model))
        vector = model.text_features(parse_result(before.result or "").caption or "")
    about = {"embedding": {"backend": "pretrained", **model.identity, "query": "caption"}}
    return {"vector": tuple(vector.tolist()), "backend": canonical({**json.loads(before.backend or "{}"), **about})}


# A job loads its model once.
@lru_cache(maxsize=1)
def _clip_model(settings: str) -> clip_model.ClipModel:
    model = json.loads(settings)
    return clip_model.load(
        model["clip"], revision=model.get("clip_revision"), device=model["device"], dtype=model["dtype"]
    )


# --- facts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Donor(Record):
    """The clip that a segment is taken from."""

    dataset: str
    item_id: str
    start_s: float | None = None
    end_s: float | None = None
    frame_count: Annotated[int, Field(ge=1)]
    fps: Annotated[float, Field(gt=0)]
    sha256: str


@dataclass(frozen=True, kw_only=True)
class DonorFacts(Facts):
    """The donor of a clip, and their similarity; None where the donor was drawn at random.

    The similarity is the cosine or the dot product of the two clips' vectors, as the guide's recipe says.
    """

    donor: _Donor
    similarity: float | None = None
    files: dict[Literal["donor"], str]

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the donor."""
        return {"donor_id": self.donor.item_id, "donor_similarity": self.similarity}

    def other_clip(self) -> MediaClip:
        """The clip that a segment is taken from. Raises `MediaError` when its file is missing or changed."""
        donor, path = self.donor, Path(self.files["donor"])
        if not path.is_file() or storage.sha256(path) != donor.sha256:
            raise MediaError(f"the donor {donor.item_id!r} is missing or changed: {path}")
        return MediaClip(path, donor.start_s, donor.end_s)


def _facts_of(row: AnalysisRow, similarity: float | None = None) -> DonorFacts:
    """The facts of a clip whose donor is the clip in `row`."""
    names = ("dataset", "item_id", "start_s", "end_s", "frame_count", "fps")
    donor = _Donor(**{name: getattr(row, name) for name in names}, sha256=row.source_sha256)
    return DonorFacts(donor=donor, similarity=similarity, files={"donor": row.source_path})


def _is_the_same(row: AnalysisRow, query: AnalysisRow) -> bool:
    """Whether two rows describe the same clip, the same file, or equal frames."""
    return (
        (row.dataset, row.item_id) == (query.dataset, query.item_id)
        or row.source_sha256 == query.source_sha256
        or row.source_frames_sha256 == query.source_frames_sha256
    )


# --- guide -----------------------------------------------------------------------------------------------------------

_CorpusName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]*$")]  # a part of a path


@dataclass(frozen=True, kw_only=True)
class DonorGuide(GuideRecipe):
    """The kernel takes frames of the nearest clip of a corpus.

    Attributes:
        corpus: the dataset that is searched.
        analysis: of the query.
        similarity: "product": the dot product of features whose lengths count; None: the cosine.
        resize: "bilinear": donors' frames are interpolated only, as by MLVP's code; None: averaged where they are made
            smaller.
    """

    summary: ClassVar = "another clip, the most similar one: `backends.embedding`, `offline` or `pretrained`"
    facts: ClassVar = DonorFacts
    role: ClassVar = "embedding"
    takes_frames: ClassVar = True

    kind: Literal["donor"] = "donor"
    corpus: _CorpusName
    analysis: AnalysisRecipe
    similarity: Literal["product"] | None = None
    resize: Literal["bilinear"] | None = None

    @classmethod
    def settle(cls, settings: GuideSettings) -> DonorGuide:
        """The recipe for the nearest clip.

        The variant `released` compares the generated caption's features with the frames', lengths included; `paper`,
        and the offline backend, whose vectors are all of length 1, compare frames by the cosine.
        """
        by_caption = _is_by_caption(settings)
        return cls(
            corpus=settings.donors,
            analysis=ANALYSES["caption_embedding" if by_caption else "embedding"].recipe(settings),
            similarity="product" if by_caption else None,
            resize="bilinear" if settings.variant == "released" else None,
        )

    @classmethod
    def problems(cls, settings: GuideSettings) -> list[str]:
        """The variant `released` embeds a captioner's sentence, which the offline search for objects does not have."""
        if not _is_by_caption(settings) or settings.backend("main_object") == "pretrained":
            return []
        return [
            "backends.main_object.backend: event_insertion as released embeds the captioner's sentence, and `offline` "
            "has none: make it pretrained like backends.embedding, or choose the variant paper"
        ]

    def find(self, item_id: str, known: Known, *, seed: int, draw: float, parameters: Parameters) -> DonorFacts:
        """The nearest clip of the corpus, without the clip itself and clips of the same file or the same frames."""
        query, number = known.row(item_id), parameters["donors"]
        assert isinstance(number, int)
        donors, vectors = _corpus(known, seed, number)
        same = np.array([_is_the_same(row, query) for row in donors], bool)
        search = neighbours.largest_product if self.similarity == "product" else neighbours.nearest
        nearest = search(query.vector or (), vectors, same) if len(donors) else None
        if nearest is None:
            raise MediaError(f"no other clip in the corpus `{self.corpus}` to insert a segment of")
        position, similarity = nearest
        return _facts_of(donors[position], round(similarity, 6))

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> tuple[int, float]:
        """The number of the donor's frames, and how many donor frames pass in the time of one frame of the clip."""
        assert isinstance(facts, DonorFacts)
        return facts.donor.frame_count, facts.donor.fps / clip.fps

    def donors(self) -> tuple[str, str]:
        """Donors are compared by the vectors of their frames."""
        return self.corpus, "features" if self.similarity == "product" else "embedding"

    def differences(self, *, own_donors: bool) -> Iterator[str]:
        """The authors' donors are clips of the training split (App. A.1)."""
        if own_donors:
            yield "donors are clips of the evaluated dataset, and the authors' are of the training split"


def _is_by_caption(settings: GuideSettings) -> bool:
    return settings.variant == "released" and settings.backend("embedding") == "pretrained"


@lru_cache(maxsize=1)  # once per shard
def _corpus(known: Known, seed: int, number: int) -> tuple[list[AnalysisRow], npt.NDArray[np.float64]]:
    """`number` donors and their vectors, chosen by a hash.

    A donor that is added to or removed from the corpus changes at most one of the other donors.
    """
    by_item = {row.item_id: row for row in known.donors}
    dataset = known.donors[0].dataset if known.donors else ""
    chosen = neighbours.subset(by_item, number, lambda item_id: digest([seed, dataset, item_id]))
    rows = [by_item[item_id] for item_id in chosen]
    return rows, np.array([row.vector for row in rows], np.float64)


@dataclass(frozen=True, kw_only=True)
class RandomDonorGuide(GuideRecipe):
    """The kernel takes frames of any other clip of a corpus, as in MVTamperBench; its analysis lists them."""

    summary: ClassVar = "another clip, drawn"
    facts: ClassVar = DonorFacts
    role: ClassVar = "embedding"
    takes_frames: ClassVar = True

    kind: Literal["random_donor"] = "random_donor"
    corpus: _CorpusName
    analysis: AnalysisRecipe

    @classmethod
    def settle(cls, settings: GuideSettings) -> RandomDonorGuide:
        """The recipe for a clip of the dataset of donors."""
        return cls(corpus=settings.donors, analysis=ANALYSES["embedding"].recipe(settings))

    def donors(self) -> tuple[str, str]:
        """Donors are drawn from the clips with an analysis."""
        return self.corpus, "embedding"

    def find(self, item_id: str, known: Known, *, seed: int, draw: float, parameters: Parameters) -> DonorFacts:
        """A clip of the corpus that is drawn for the clip, from clips that are long enough, or from all if none is.

        Never the clip itself, nor a clip of the same file or with equal frames.
        """
        query = known.row(item_id)
        seconds = parameters.get("seconds", 0)
        assert isinstance(seconds, float | int)
        others = [row for row in known.donors if not _is_the_same(row, query)]
        if not others:
            raise MediaError("no other clip in the donors' corpus to take frames of")
        long_enough = [row for row in others if row.frame_count >= query.fps * seconds] or others
        return _facts_of(long_enough[int(draw * len(long_enough))])

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> tuple[int, float]:
        """The number of the donor's frames, and the clip's frames per second."""
        assert isinstance(facts, DonorFacts)
        return facts.donor.frame_count, clip.fps

    def models(self, row: AnalysisRow | None) -> str:
        """No model: the list of clips does not depend on how clips are compared."""
        return "{}"


GUIDES = {"donor": DonorGuide, "random_donor": RandomDonorGuide}
ANALYSES = {
    "embedding": Analysis(name="embedding", version=3, run=_embed_frames, role="embedding", memory_mb=4000),
    "features": Analysis(name="features", version=2, run=_embed_frames, role="embedding", memory_mb=4000),
    "caption_embedding": Analysis(
        name="caption_embedding",
        version=2,
        run=_embed_caption,
        role="embedding",
        after="main_object",
        memory_mb=4000,
        more=lambda settings: {"captions": analysis("main_object").recipe(settings)},
    ),
}
