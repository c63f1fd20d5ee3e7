"""One clip through one analysis: motion, main object, or embedding."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from perturbations.analysis import descriptor, motion, saliency, tracking
from perturbations.engine.journal import Analysed
from perturbations.errors import MediaError
from perturbations.manifest.kinds import COMPLETE, AnalysisRow
from perturbations.media import decoding
from perturbations.media.clip import Image, uniform_indices
from perturbations.models import captioner, nouns, owlv2, yolo_world
from perturbations.models.clip import Clip
from perturbations.models.clip import load as load_clip
from perturbations.plan.facts import DetectedObject, MainObjects, parse_main_objects
from perturbations.plan.recipe import AnalysisRecipe, ModelSettings, canonical
from perturbations.progress import Tick, ticking, ticking_on
from perturbations.system import storage

if TYPE_CHECKING:
    from perturbations.engine.rendering import Source

Analyse = Callable[[Sequence["Source"], Sequence[Path | None], Tick], Sequence[Analysed | MediaError]]

SAMPLED_FRAMES = 12
"""Frames that stand for a clip where an analysis looks at pictures (MLVP, Alg. 3)."""


_CAPTIONED_FRAMES = 16


def extension(recipe: AnalysisRecipe) -> str | None:
    """The extension of the file that an analysis keeps beside its row; None where the row holds it all."""
    return ".parquet" if recipe.analysis == "motion" else None


def clips_at_once(recipe: AnalysisRecipe) -> int:
    """How many clips go through an analysis together: models work on batches."""
    return (recipe.model.batch_clips if recipe.model else None) or 1


def analyser(recipe: AnalysisRecipe, captions: Mapping[str, AnalysisRow]) -> Analyse:
    """The function (clips, files, tick) -> columns of an analysis, or why a clip has none.

    Models are loaded at the first clips, once. `captions` are main-object rows by item ("caption_embedding").
    """
    if recipe.analysis == "motion":
        return lambda clips, files, tick: [_motion(recipe, *one, tick) for one in zip(clips, files, strict=True)]
    if recipe.analysis == "caption_embedding":
        return lambda clips, files, tick: _caption_embeddings(recipe, clips, captions, tick)
    look = {"main_object": main_objects, "embedding": embeddings}[recipe.analysis]

    def analyse(clips: Sequence[Source], files: Sequence[Path | None], tick: Tick) -> Sequence[Analysed | MediaError]:
        needed = _NEEDED[recipe.analysis, _model(recipe).backend]
        seen: list[Footage | MediaError] = []
        for clip in clips:
            try:
                seen.append(_footage(clip, needed, recipe, tick))
            except MediaError as error:
                seen.append(error)
        with ticking_on(tick):
            found = iter(look(recipe, [one for one in seen if isinstance(one, Footage)]))
        return [one if isinstance(one, MediaError) else next(found) for one in seen]

    return analyse


# --- what analyses look at -------------------------------------------------------------------------------------------


class Footage(NamedTuple):
    """The frames of a clip that an analysis looks at, by position, and what is known of the clip."""

    frames: Mapping[int, Image]
    num_frames: int
    height: int
    width: int
    fps: float


def footage(recipe: AnalysisRecipe, frames: Sequence[Image], fps: float) -> Footage:
    """What an analysis needs of a clip in memory."""
    height, width = frames[0].shape[:2]
    needed = _NEEDED[recipe.analysis, _model(recipe).backend](len(frames), fps)
    kept = _kept(recipe)
    return Footage({position: kept(frames[position]) for position in needed}, len(frames), height, width, fps)


def _footage(source: Source, needed: Callable[[int, float], set[int]], recipe: AnalysisRecipe, tick: Tick) -> Footage:
    positions = needed(source.num_frames, source.fps)
    kept = _kept(recipe)
    frames = ticking(decoding.decode(source.clip, only=positions), tick)
    seen = {frame.position: kept(frame.image) for frame in frames}
    return Footage(seen, source.num_frames, source.height, source.width, source.fps)


def _kept(recipe: AnalysisRecipe) -> Callable[[Image], Image]:
    """What is kept of a frame: the offline detector looks at small pictures, and at many."""
    offline_objects = recipe.analysis == "main_object" and _model(recipe).backend == "offline"
    return saliency.shrunk if offline_objects else lambda image: image


def _sampled(num_frames: int, fps: float) -> set[int]:
    return set(uniform_indices(SAMPLED_FRAMES, num_frames))


def _around_sampled(num_frames: int, fps: float) -> set[int]:
    return saliency.neighbourhood(_sampled(num_frames, fps), num_frames)


def _each_second(num_frames: int, fps: float) -> list[int]:
    """The captioner's frames: one a second, at most 16."""
    seconds = max(1, round(num_frames / fps))
    return uniform_indices(min(_CAPTIONED_FRAMES, seconds, num_frames), num_frames)


def _sampled_and_each_second(num_frames: int, fps: float) -> set[int]:
    return _sampled(num_frames, fps) | set(_each_second(num_frames, fps))


_NEEDED: dict[tuple[str, str], Callable[[int, float], set[int]]] = {
    ("main_object", "offline"): _around_sampled,
    ("main_object", "pretrained"): _sampled_and_each_second,
    ("embedding", "offline"): _sampled,
    ("embedding", "pretrained"): _sampled,
}


# --- main object -----------------------------------------------------------------------------------------------------


def main_objects(recipe: AnalysisRecipe, clips: Sequence[Footage]) -> list[Analysed]:
    """Caption, keywords, objects, tracks and ranks of each clip (MLVP, Alg. 3)."""
    if not clips:
        return []
    positions = [uniform_indices(SAMPLED_FRAMES, clip.num_frames) for clip in clips]
    captions: list[str | None] = [None] * len(clips)
    keywords: list[list[str]] = [[] for _ in clips]
    if _model(recipe).backend == "offline":
        identity: dict[str, object] = {"backend": "offline", "detector": "motion and saliency"}
        detected = [
            saliency.detect(clip.frames, of_clip, (clip.height, clip.width))
            for clip, of_clip in zip(clips, positions, strict=True)
        ]
    else:
        models = _object_models(_model(recipe).text)
        identity = {"backend": "pretrained", **models.identity}
        seen = [[clip.frames[one] for one in _each_second(clip.num_frames, clip.fps)] for clip in clips]
        said = models.captioner.describe(seen)
        captions, keywords = list(said), models.nouns.keywords(said)
        # All frames of all clips in one row, each with its own clip's words.
        pictures = [clip.frames[one] for clip, of_clip in zip(clips, positions, strict=True) for one in of_clip]
        words_of = [words for words, of_clip in zip(keywords, positions, strict=True) for _ in of_clip]
        found = iter(models.detector.detect(pictures, words_of))
        detected = [[next(found) for _ in of_clip] for of_clip in positions]
    results = []
    for clip, of_clip, frames, caption, words in zip(clips, positions, detected, captions, keywords, strict=True):
        ranks = tracking.rank(frames, clip.height, clip.width)
        objects = tuple(tuple(map(_detected, ranked)) for ranked in ranks)
        result = MainObjects(
            caption=caption,
            keywords=tuple(words),
            positions=tuple(of_clip),
            objects=objects,
            boxes=tuple(ranked[0].box if ranked else None for ranked in objects),
            tracks=tuple(ranked[0].track if ranked else None for ranked in objects),
        )
        results.append(Analysed(result=result.text, backend=canonical({"main_object": identity})))
    return results


def _detected(ranked: tracking.Object) -> DetectedObject:
    return DetectedObject.model_validate({**ranked, "box": tuple(ranked["box"])})


# --- embedding -------------------------------------------------------------------------------------------------------


def embeddings(recipe: AnalysisRecipe, clips: Sequence[Footage]) -> list[Analysed]:
    """A vector of length 1 for each clip, from 12 uniformly sampled frames."""
    if not clips:
        return []
    sampled = [
        [clip.frames[position] for position in uniform_indices(SAMPLED_FRAMES, clip.num_frames)] for clip in clips
    ]
    if _model(recipe).backend == "offline":
        identity: dict[str, object] = {"backend": "offline", "descriptor": "colour, gradients and motion"}
        vectors = [descriptor.describe(frames) for frames in sampled]
    else:
        model = _clip_model(_model(recipe).text)
        identity = {"backend": "pretrained", **model.identity}
        vectors = list(model.embed_videos(sampled))
    backend = canonical({"embedding": {**identity, "query": "video"}})
    return [Analysed(vector=tuple(vector.tolist()), backend=backend) for vector in vectors]


def _caption_embeddings(
    recipe: AnalysisRecipe, clips: Sequence[Source], captions: Mapping[str, AnalysisRow], tick: Tick
) -> list[Analysed | MediaError]:
    """The vector of each clip's generated sentence, to look donors up by (the released event insertion)."""
    rows = [captions[clip.item_id] for clip in clips]
    whole = [row for row in rows if row.status == COMPLETE]
    with ticking_on(tick):
        model = _clip_model(_model(recipe).text)
        sentences = [parse_main_objects(row.result or "").caption or "" for row in whole]
        vectors = iter(model.embed_texts(sentences) if whole else ())
    about = {"embedding": {"backend": "pretrained", **model.identity, "query": "caption"}}
    return [
        Analysed(vector=tuple(next(vectors).tolist()), backend=canonical({**json.loads(row.backend or "{}"), **about}))
        if row.status == COMPLETE
        else MediaError(f"its main object was not found, so it has no caption: {row.error}")
        for row in rows
    ]


def _model(recipe: AnalysisRecipe) -> ModelSettings:
    assert recipe.model is not None
    return recipe.model


# --- models ----------------------------------------------------------------------------------------------------------


class _ObjectModels(NamedTuple):
    captioner: captioner.Captioner
    nouns: nouns.Nouns
    detector: owlv2.Detector | yolo_world.Detector
    identity: Mapping[str, object]


# A job loads its models once.
@lru_cache(maxsize=1)
def _object_models(settings: str) -> _ObjectModels:
    model = ModelSettings.model_validate_json(settings)
    where: dict[str, Any] = {"device": model.device or "cpu", "dtype": model.dtype or "float32"}
    words = captioner.load(model.captioner or "", revision=model.captioner_revision, **where)
    finds_nouns = nouns.load(model.nouns or "")
    detector: owlv2.Detector | yolo_world.Detector
    detector = owlv2.load(model.owlv2 or "", revision=model.owlv2_revision, **where)
    roles = {"captioner": words.identity, "nouns": finds_nouns.identity, "detector": detector.identity}
    if model.detector == "yolo_world":
        # OWLv2's vision tower still describes what the boxes show.
        roles["crops"] = detector.identity
        detector = yolo_world.load(
            model.yolo_world or "",
            revision=model.yolo_world_revision or "",
            embed=detector.embed,
            device=where["device"],
            dtype="float32",
        )
        roles["detector"] = detector.identity
    return _ObjectModels(words, finds_nouns, detector, roles)


@lru_cache(maxsize=1)
def _clip_model(settings: str) -> Clip:
    model = ModelSettings.model_validate_json(settings)
    return load_clip(
        model.clip or "", revision=model.clip_revision, device=model.device or "cpu", dtype=model.dtype or "float32"
    )


# --- motion ----------------------------------------------------------------------------------------------------------


def _motion(recipe: AnalysisRecipe, source: Source, target: Path | None, tick: Tick) -> Analysed:
    assert target is not None
    sampled = recipe.num_frames
    only = set(uniform_indices(sampled, source.num_frames)) if sampled else None
    about = {"recipe": recipe.text, "source_sha256": source.sha256}
    with storage.atomic_path(target) as temporary:
        motion.write(temporary, _motions(source, only, tick), about)
        return Analysed(backend="{}", bytes=temporary.stat().st_size, sha256=storage.sha256(temporary))


def _motions(source: Source, only: Collection[int] | None, tick: Tick) -> Iterator[tuple[int, motion.FrameMotion]]:
    follower = motion.Follower()
    for frame in ticking(decoding.decode(source.clip, only=motion.needed(only)), tick):
        follower.show(frame.image, frame.position)
        if only is None or frame.position in only:
            yield frame.position, follower(frame.position)
