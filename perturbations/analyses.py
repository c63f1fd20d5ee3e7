"""One clip through one analysis: motion, main object, or embedding."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from perturbations import media, storage
from perturbations.analysis import descriptor, motion, saliency, tracking
from perturbations.errors import MediaError
from perturbations.media import Image
from perturbations.models import captioner, nouns, owlv2, yolo_world
from perturbations.models.clip import Clip
from perturbations.models.clip import load as load_clip
from perturbations.progress import Tick, ticking, ticking_on
from perturbations.recipe import Recipe, canonical, recipe_id

if TYPE_CHECKING:
    from perturbations.rendering import Source

Row = dict[str, Any]
Analyse = Callable[[Sequence["Source"], Sequence[Path | None], Tick], Sequence[Row | MediaError]]

SAMPLED_FRAMES = 12
"""Frames that stand for a clip where an analysis looks at pictures (MLVP, Alg. 3)."""


_CAPTIONED_FRAMES = 16


def row_of(recipe: Recipe, source: Row, relative_path: str | None) -> Row:
    """The columns of an analysis row that are known before it is made."""
    columns = {name: source[name] for name in ("dataset", "item_id", "start_s", "end_s", "width", "height", "fps")}
    about = {f"source_{name}": source[name] for name in ("path", "sha256", "frames_sha256")}
    return {
        **columns,
        **about,
        "frame_count": source["frame_count"],
        "analysis": recipe["analysis"],
        "recipe": canonical(recipe),
        "recipe_id": recipe_id(recipe, source["dataset"], {**columns, **about}),
        "path": relative_path,
    }


def extension(recipe: Recipe) -> str | None:
    """The extension of the file that an analysis keeps beside its row; None where the row holds it all."""
    return ".parquet" if recipe["analysis"] == "motion" else None


def clips_at_once(recipe: Recipe) -> int:
    """How many clips go through an analysis together: models work on batches."""
    batch: int = recipe.get("model", {}).get("batch_clips", 1)
    return batch


def analyser(recipe: Recipe, captions: Mapping[str, Row]) -> Analyse:
    """The function (clips, files, tick) -> columns of an analysis, or why a clip has none.

    Models are loaded at the first clips, once. `captions` are main-object rows by item ("caption_embedding").
    """
    if recipe["analysis"] == "motion":
        return lambda clips, files, tick: [_motion(recipe, *one, tick) for one in zip(clips, files, strict=True)]
    if recipe["analysis"] == "caption_embedding":
        return lambda clips, files, tick: _caption_embeddings(recipe, clips, captions, tick)
    look = {"main_object": main_objects, "embedding": embeddings}[recipe["analysis"]]

    def analyse(clips: Sequence[Source], files: Sequence[Path | None], tick: Tick) -> Sequence[Row | MediaError]:
        needed = _NEEDED[recipe["analysis"], recipe["model"]["backend"]]
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


def footage(recipe: Recipe, frames: Sequence[Image], fps: float) -> Footage:
    """What an analysis needs of a clip in memory."""
    height, width = frames[0].shape[:2]
    needed = _NEEDED[recipe["analysis"], recipe["model"]["backend"]](len(frames), fps)
    kept = _kept(recipe)
    return Footage({position: kept(frames[position]) for position in needed}, len(frames), height, width, fps)


def _footage(source: Source, needed: Callable[[int, float], set[int]], recipe: Recipe, tick: Tick) -> Footage:
    positions = needed(source.num_frames, source.fps)
    kept = _kept(recipe)
    frames = ticking(media.decode(source.clip, only=positions), tick)
    seen = {frame.position: kept(frame.image) for frame in frames}
    return Footage(seen, source.num_frames, source.height, source.width, source.fps)


def _kept(recipe: Recipe) -> Callable[[Image], Image]:
    """What is kept of a frame: the offline detector looks at small pictures, and at many."""
    offline_objects = recipe["analysis"] == "main_object" and recipe["model"]["backend"] == "offline"
    return saliency.shrunk if offline_objects else lambda image: image


def _sampled(num_frames: int, fps: float) -> set[int]:
    return set(media.uniform_indices(SAMPLED_FRAMES, num_frames))


def _around_sampled(num_frames: int, fps: float) -> set[int]:
    return saliency.neighbourhood(_sampled(num_frames, fps), num_frames)


def _each_second(num_frames: int, fps: float) -> list[int]:
    """The captioner's frames: one a second, at most 16."""
    seconds = max(1, round(num_frames / fps))
    return media.uniform_indices(min(_CAPTIONED_FRAMES, seconds, num_frames), num_frames)


def _sampled_and_each_second(num_frames: int, fps: float) -> set[int]:
    return _sampled(num_frames, fps) | set(_each_second(num_frames, fps))


_NEEDED: dict[tuple[str, str], Callable[[int, float], set[int]]] = {
    ("main_object", "offline"): _around_sampled,
    ("main_object", "pretrained"): _sampled_and_each_second,
    ("embedding", "offline"): _sampled,
    ("embedding", "pretrained"): _sampled,
}


# --- main object -----------------------------------------------------------------------------------------------------


def main_objects(recipe: Recipe, clips: Sequence[Footage]) -> list[Row]:
    """Caption, keywords, objects, tracks and ranks of each clip (MLVP, Alg. 3)."""
    if not clips:
        return []
    positions = [media.uniform_indices(SAMPLED_FRAMES, clip.num_frames) for clip in clips]
    captions: list[str | None] = [None] * len(clips)
    keywords: list[list[str]] = [[] for _ in clips]
    if recipe["model"]["backend"] == "offline":
        identity: Row = {"backend": "offline", "detector": "motion and saliency"}
        detected = [
            saliency.detect(clip.frames, of_clip, (clip.height, clip.width))
            for clip, of_clip in zip(clips, positions, strict=True)
        ]
    else:
        models = _object_models(canonical(recipe["model"]))
        identity = {"backend": "pretrained", **models.identity}
        seen = [[clip.frames[one] for one in _each_second(clip.num_frames, clip.fps)] for clip in clips]
        said = models.captioner.describe(seen)
        captions, keywords = list(said), models.nouns.keywords(said)
        # All frames of all clips in one row, each with its own clip's words.
        pictures = [clip.frames[one] for clip, of_clip in zip(clips, positions, strict=True) for one in of_clip]
        words_of = [words for words, of_clip in zip(keywords, positions, strict=True) for _ in of_clip]
        found = iter(models.detector.detect(pictures, words_of))
        detected = [[next(found) for _ in of_clip] for of_clip in positions]
    rows = []
    for clip, of_clip, frames, caption, words in zip(clips, positions, detected, captions, keywords, strict=True):
        objects = tracking.rank(frames, clip.height, clip.width)
        result = {
            "caption": caption,
            "keywords": words,
            "positions": of_clip,
            "objects": objects,
            "boxes": [one[0]["box"] if one else None for one in objects],
            "tracks": [one[0]["track"] if one else None for one in objects],
        }
        rows.append({"result": canonical(result), "backend": canonical({"main_object": identity})})
    return rows


# --- embedding -------------------------------------------------------------------------------------------------------


def embeddings(recipe: Recipe, clips: Sequence[Footage]) -> list[Row]:
    """A vector of length 1 for each clip, from 12 uniformly sampled frames."""
    if not clips:
        return []
    sampled = [
        [clip.frames[position] for position in media.uniform_indices(SAMPLED_FRAMES, clip.num_frames)] for clip in clips
    ]
    if recipe["model"]["backend"] == "offline":
        identity: Row = {"backend": "offline", "descriptor": "colour, gradients and motion"}
        vectors = [descriptor.describe(frames) for frames in sampled]
    else:
        model = _clip_model(canonical(recipe["model"]))
        identity = {"backend": "pretrained", **model.identity}
        vectors = list(model.embed_videos(sampled))
    backend = canonical({"embedding": {**identity, "query": "video"}})
    return [{"vector": vector.tolist(), "backend": backend} for vector in vectors]


def _caption_embeddings(
    recipe: Recipe, clips: Sequence[Source], captions: Mapping[str, Row], tick: Tick
) -> list[Row | MediaError]:
    """The vector of each clip's generated sentence, to look donors up by (the released event insertion)."""
    rows = [captions[clip.item_id] for clip in clips]
    whole = [row for row in rows if row["status"] == "complete"]
    with ticking_on(tick):
        model = _clip_model(canonical(recipe["model"]))
        sentences = [json.loads(row["result"])["caption"] for row in whole]
        vectors = iter(model.embed_texts(sentences) if whole else ())
    about = {"embedding": {"backend": "pretrained", **model.identity, "query": "caption"}}
    return [
        {"vector": next(vectors).tolist(), "backend": canonical({**json.loads(row["backend"]), **about})}
        if row["status"] == "complete"
        else MediaError(f"its main object was not found, so it has no caption: {row['error']}")
        for row in rows
    ]


# --- models ----------------------------------------------------------------------------------------------------------


class _ObjectModels(NamedTuple):
    captioner: captioner.Captioner
    nouns: nouns.Nouns
    detector: owlv2.Detector | yolo_world.Detector
    identity: Row


# A job loads its models once.
@lru_cache(maxsize=1)
def _object_models(settings: str) -> _ObjectModels:
    model: Row = json.loads(settings)
    where = {"device": model["device"], "dtype": model["dtype"]}
    words = captioner.load(model["captioner"], revision=model.get("captioner_revision"), **where)
    finds_nouns = nouns.load(model["nouns"])
    detector: owlv2.Detector | yolo_world.Detector
    detector = owlv2.load(model["owlv2"], revision=model.get("owlv2_revision"), **where)
    roles = {"captioner": words.identity, "nouns": finds_nouns.identity, "detector": detector.identity}
    if model["detector"] == "yolo_world":
        # OWLv2's vision tower still describes what the boxes show.
        roles["crops"] = detector.identity
        detector = yolo_world.load(
            model["yolo_world"],
            revision=model["yolo_world_revision"],
            embed=detector.embed,
            device=model["device"],
            dtype="float32",
        )
        roles["detector"] = detector.identity
    return _ObjectModels(words, finds_nouns, detector, roles)


@lru_cache(maxsize=1)
def _clip_model(settings: str) -> Clip:
    model: Row = json.loads(settings)
    return load_clip(model["clip"], revision=model.get("clip_revision"), device=model["device"], dtype=model["dtype"])


# --- motion ----------------------------------------------------------------------------------------------------------


def _motion(recipe: Recipe, source: Source, target: Path | None, tick: Tick) -> Row:
    assert target is not None
    sampled = recipe["num_frames"]
    only = set(media.uniform_indices(sampled, source.num_frames)) if sampled else None
    about = {"recipe": canonical(recipe), "source_sha256": source.sha256}
    with storage.atomic_path(target) as temporary:
        motion.write(temporary, _motions(source, only, tick), about)
        size = {"bytes": temporary.stat().st_size, "sha256": storage.sha256(temporary)}
    return {**size, "backend": "{}"}


def _motions(source: Source, only: Collection[int] | None, tick: Tick) -> Iterator[tuple[int, motion.FrameMotion]]:
    follower = motion.Follower()
    for frame in ticking(media.decode(source.clip, only=motion.needed(only)), tick):
        follower.show(frame.image, frame.position)
        if only is None or frame.position in only:
            yield frame.position, follower(frame.position)
