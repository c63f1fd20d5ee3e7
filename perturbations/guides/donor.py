"""Donors: the most similar clip of a corpus, whose segment is inserted into a clip (MLVP, event insertion)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perturbations.base import storage
from perturbations.base.errors import MediaError
from perturbations.base.progress import ticking_on
from perturbations.base.records import Record, canonical, digest
from perturbations.base.settings import Strict
from perturbations.guides.analyses import (
    Analysed,
    Analysis,
    AnalysisRecipe,
    GuideSettings,
    ModelAnalysis,
    ModelsOfRole,
    Results,
    Role,
    Work,
)
from perturbations.guides.main_object import ObjectAnalysis, parse_result
from perturbations.guides.main_object import settle_analysis as settle_objects
from perturbations.guides.registry import ClipShape, Facts, FactsRequest, Guide, GuideRecipe, Known
from perturbations.manifest.kinds import COMPLETE, AnalysisRow

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from perturbations.media.clip import MediaClip
    from perturbations.media.footage import CleanClip
    from perturbations.models import clip_model as clip_model

# --- configuration and recipe ----------------------------------------------------------------------------------------


class OfflineEmbedding(Strict):
    """A fixed descriptor of colours and their places: no download."""

    backend: Literal["offline"] = "offline"


class PretrainedEmbedding(Strict):
    """CLIP."""

    backend: Literal["pretrained"]
    clip: str = Field("openai/clip-vit-base-patch32", description="a CLIP model: its name or its folder")
    clip_revision: str | None = Field(None, description="its commit")


class _EmbeddingModel(ModelsOfRole):
    """The backend that embeds: the fixed descriptor, or CLIP."""

    clip: str | None = None
    clip_revision: str | None = None


class _Embedding(ModelAnalysis):
    model: _EmbeddingModel


class VideoEmbedding(_Embedding):
    """A clip's vector, from its frames."""

    analysis: Literal["embedding"] = "embedding"
    version: int = 3


class _VideoFeatures(_Embedding):
    """The mean of a clip's frames' features, whose lengths count."""

    analysis: Literal["features"] = "features"
    version: int = 2


class _CaptionEmbedding(_Embedding):
    """The features of the caption that the search for a clip's main object generated; their length counts."""

    analysis: Literal["caption_embedding"] = "caption_embedding"
    version: int = 2
    captions: ObjectAnalysis


CorpusName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]*$")]  # a part of a path


class _DonorGuide(GuideRecipe):
    """The kernel takes frames of the nearest clip of a corpus.

    Attributes:
        corpus: the dataset that is searched.
        analysis: of the query.
        similarity: "product": the dot product of features whose lengths count; None: the cosine.
        resize: "bilinear": donors' frames are interpolated only; None: averaged where they are made smaller.
    """

    kind: Literal["donor"] = "donor"
    corpus: CorpusName
    analysis: VideoEmbedding | _CaptionEmbedding
    similarity: Literal["product"] | None = None
    resize: Literal["bilinear"] | None = None

    def donors(self) -> tuple[str, str]:
        """Donors are compared by the vectors of their frames."""
        return self.corpus, "features" if self.similarity == "product" else "embedding"

    def differences(self, dataset: str) -> Iterator[str]:
        """The authors' donors are clips of the training split (App. A.1)."""
        if self.corpus in ("", dataset):
            yield "donors are clips of the evaluated dataset, and the authors' are of the training split"

    def antialiases(self) -> bool:
        """Not where MLVP's code is followed."""
        return self.resize is None


def settle_embedding(settings: GuideSettings) -> VideoEmbedding:
    """The recipe for embedding clips."""
    return VideoEmbedding(model=_model(settings))


def _settle_features(settings: GuideSettings) -> _VideoFeatures:
    """The recipe for the features of clips, which captions are compared with."""
    return _VideoFeatures(model=_model(settings))


def _settle_caption_embedding(settings: GuideSettings) -> _CaptionEmbedding:
    """The recipe for embedding the captions of the search for main objects."""
    return _CaptionEmbedding(model=_model(settings), captions=settle_objects(settings))


def _model(settings: GuideSettings) -> _EmbeddingModel:
    return _EmbeddingModel.model_validate(settings.model("embedding"))


def _settle(settings: GuideSettings) -> _DonorGuide:
    """The recipe for the nearest clip.

    The variant `released` compares the generated caption's features with the frames', lengths included; `paper`, and
    the offline backend, whose vectors are all of length 1, compare frames by the cosine.
    """
    by_caption = settings.variant == "released" and settings.backend("embedding") == "pretrained"
    return _DonorGuide(
        corpus=settings.donors,
        analysis=_settle_caption_embedding(settings) if by_caption else settle_embedding(settings),
        similarity="product" if by_caption else None,
        resize="bilinear" if settings.variant == "released" else None,
    )


def _problems(settings: GuideSettings) -> list[str]:
    """The variant `released` embeds a captioner's sentence, which the offline search for objects does not have."""
    by_caption = settings.variant == "released" and settings.backend("embedding") == "pretrained"
    if not by_caption or settings.backend("main_object") == "pretrained":
        return []
    return [
        "backends.main_object.backend: event_insertion as released embeds the captioner's sentence, and `offline` "
        "has none: make it pretrained like backends.embedding, or choose the variant paper"
    ]


# --- facts -----------------------------------------------------------------------------------------------------------


class _Donor(Record):
    """The clip that a segment is taken from."""

    dataset: str
    item_id: str
    start_s: float | None = None
    end_s: float | None = None
    frame_count: Annotated[int, Field(ge=1)]
    fps: Annotated[float, Field(gt=0)]
    sha256: str


class _DonorFiles(Record):
    """The donor's file."""

    donor: str


class DonorFacts(Facts):
    """The donor of a clip, and how similar it is; None where it was drawn."""

    donor: _Donor
    similarity: float | None = None
    files: _DonorFiles

    def other_item(self) -> str:
        """The donor's item."""
        return self.donor.item_id

    def other_similarity(self) -> float | None:
        """The cosine of the two clips' vectors, or their dot product: the guide's recipe says which."""
        return self.similarity


def _find(request: FactsRequest) -> DonorFacts:
    """The nearest clip of the corpus, without the clip itself and clips of the same file or the same frames."""
    import numpy as np

    from perturbations.analysis import neighbours

    query = request.analysed_row()
    assert isinstance(request.guide, _DonorGuide)
    number = request.parameters["donors"]
    assert isinstance(number, int)
    donors, vectors = _corpus(request.known, request.seed, number)
    same = np.array([is_the_same(row, query) for row in donors], bool)
    search = neighbours.largest_product if request.guide.similarity == "product" else neighbours.nearest
    nearest = search(query.vector or (), vectors, same) if len(donors) else None
    if nearest is None:
        raise MediaError(f"no other clip in the corpus `{request.guide.corpus}` to insert a segment of")
    return facts_of(donors[nearest.position], round(nearest.similarity, 6))


def facts_of(row: AnalysisRow, similarity: float | None = None) -> DonorFacts:
    """The facts of a clip whose donor is the one of a row."""
    donor = _Donor(
        dataset=row.dataset,
        item_id=row.item_id,
        start_s=row.start_s,
        end_s=row.end_s,
        frame_count=row.frame_count,
        fps=row.fps,
        sha256=row.source_sha256,
    )
    return DonorFacts(donor=donor, similarity=similarity, files=_DonorFiles(donor=row.source_path))


def _corpus(known: Known, seed: int, number: int) -> tuple[list[AnalysisRow], npt.NDArray[np.float64]]:
    """`number` donors and their vectors, chosen by a hash.

    A donor added to or removed from the corpus changes at most one of the others.
    """
    import numpy as np

    from perturbations.analysis import neighbours

    if (seed, number) not in known.kept:
        by_item = {row.item_id: row for row in known.donors}
        dataset = known.donors[0].dataset if known.donors else ""
        chosen = neighbours.subset(by_item, number, lambda item_id: digest([seed, dataset, item_id]))
        rows = [by_item[item_id] for item_id in chosen]
        known.kept[seed, number] = rows, np.array([row.vector for row in rows], np.float64)
    return known.kept[seed, number]


def is_the_same(row: AnalysisRow, query: AnalysisRow) -> bool:
    """Whether two rows are of one clip, of one file, or of equal frames."""
    return (
        (row.dataset, row.item_id) == (query.dataset, query.item_id)
        or row.source_sha256 == query.source_sha256
        or row.source_frames_sha256 == query.source_frames_sha256
    )


def clip_of(facts: Facts) -> MediaClip:
    """The clip that a segment is taken from. Raises `MediaError` when its file is missing or changed."""
    from perturbations.media.clip import MediaClip

    assert isinstance(facts, DonorFacts)
    donor, path = facts.donor, Path(facts.files.donor)
    if not path.is_file() or storage.sha256(path) != donor.sha256:
        raise MediaError(f"the donor {donor.item_id!r} is missing or changed: {path}")
    return MediaClip(path, donor.start_s, donor.end_s)


def _make(recipe: GuideRecipe, facts: Facts, shape: ClipShape) -> tuple[int, float]:
    """The number of the donor's frames, and how many of them pass per frame of the clip."""
    assert isinstance(facts, DonorFacts)
    return facts.donor.frame_count, facts.donor.fps / shape.fps


# --- the analyses ----------------------------------------------------------------------------------------------------


def _run_embedding(recipe: AnalysisRecipe, clips: Sequence[CleanClip], work: Work) -> Results:
    """A vector per clip, from 12 uniformly sampled frames: of length 1, or the mean of features of any length."""
    from perturbations.analysis import descriptor
    from perturbations.base.arrays import SAMPLED, uniform_indices
    from perturbations.media import footage

    assert isinstance(recipe, VideoEmbedding | _VideoFeatures)
    footages = footage.of_each(clips, lambda num_frames, fps: uniform_indices(SAMPLED, num_frames), work.tick)
    sampled = [
        [seen.frames[place] for place in uniform_indices(SAMPLED, seen.num_frames)]
        for seen in footages
        if not isinstance(seen, MediaError)
    ]
    identity: Mapping[str, object] = {"backend": "offline", "descriptor": "colours and their places"}
    with ticking_on(work.tick):
        if recipe.is_offline:
            vectors = iter([descriptor.describe(frames) for frames in sampled])
        else:
            model = _clip_model(recipe.model.text)
            identity = {"backend": "pretrained", **model.identity}
            embed = model.mean_features if isinstance(recipe, _VideoFeatures) else model.embed_videos
            vectors = iter(embed(sampled) if sampled else ())
    backend = canonical({"embedding": {**identity, "query": "video"}})
    return [
        seen if isinstance(seen, MediaError) else Analysed(vector=tuple(next(vectors).tolist()), backend=backend)
        for seen in footages
    ]


def _run_caption_embedding(recipe: AnalysisRecipe, clips: Sequence[CleanClip], work: Work) -> Results:
    """The features of each clip's generated caption, for the search of donors (the released event insertion)."""
    assert isinstance(recipe, _CaptionEmbedding)
    rows = [work.before[clip.item_id] for clip in clips]
    complete = [row for row in rows if row.status == COMPLETE]
    with ticking_on(work.tick):
        model = _clip_model(recipe.model.text)
        sentences = [parse_result(row.result or "").caption or "" for row in complete]
        vectors = iter(model.text_features(sentences) if complete else ())
    about = {"embedding": {"backend": "pretrained", **model.identity, "query": "caption"}}
    return [
        Analysed(vector=tuple(next(vectors).tolist()), backend=canonical({**json.loads(row.backend or "{}"), **about}))
        if row.status == COMPLETE
        else MediaError(f"its main object was not found, so it has no caption: {row.error}")
        for row in rows
    ]


# A job loads its model once.
@lru_cache(maxsize=1)
def _clip_model(settings: str) -> clip_model.ClipModel:
    from perturbations.models import clip_model

    model = _EmbeddingModel.model_validate_json(settings)
    return clip_model.load(
        model.clip or "", revision=model.clip_revision, device=model.device or "cpu", dtype=model.dtype or "float32"
    )


GUIDE = Guide(
    name="donor",
    summary="another clip, the most similar one: `backends.embedding`, `offline` or `pretrained`",
    recipe=_DonorGuide,
    facts=DonorFacts,
    settle=_settle,
    find=_find,
    make=_make,
    analyses=(
        Analysis(name="embedding", recipe=VideoEmbedding, settle=settle_embedding, run=_run_embedding, memory_mb=4000),
        Analysis(name="features", recipe=_VideoFeatures, settle=_settle_features, run=_run_embedding, memory_mb=4000),
        Analysis(
            name="caption_embedding",
            recipe=_CaptionEmbedding,
            settle=_settle_caption_embedding,
            run=_run_caption_embedding,
            after="main_object",
            memory_mb=4000,
        ),
    ),
    roles=(
        Role(
            name="embedding",
            summary="finds similar clips, for event_insertion",
            backends=(OfflineEmbedding, PretrainedEmbedding),
        ),
    ),
    problems=_problems,
    other=clip_of,
)
