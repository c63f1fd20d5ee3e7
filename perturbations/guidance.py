"""What a guided kernel is told of a clip beside its frames.

Two forms. The facts, JSON, stand in the manifest row: with them the row alone is enough to make the frames again. The
guide is what the kernel takes: facts made into arrays and functions, models loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from perturbations import rng, storage
from perturbations.analysis import motion, neighbours, tracking
from perturbations.errors import ConfigError, MediaError
from perturbations.media import Clip
from perturbations.models import adain
from perturbations.recipe import Recipe, canonical, digest
from perturbations.video import procedural_styles, style

Row = dict[str, Any]
Image = npt.NDArray[np.uint8]

_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}


@dataclass(frozen=True)
class Known:
    """What the analyses found about the clips of a shard.

    Attributes:
        rows: the shard's rows of the recipe's analysis, by item.
        donors: the rows of the donor corpus, sorted by item; empty where no clip is inserted.
    """

    rows: Mapping[str, Row] = field(default_factory=dict)
    donors: Sequence[Row] = ()
    _corpora: dict[tuple[int, int], tuple[list[Row], npt.NDArray[np.float64]]] = field(default_factory=dict)

    def corpus(self, seed: int, number: int) -> tuple[list[Row], npt.NDArray[np.float64]]:
        """So many donors and their vectors, chosen by a hash: one that comes or goes changes at most one other."""
        if (seed, number) not in self._corpora:
            by_item = {row["item_id"]: row for row in self.donors}
            dataset = self.donors[0]["dataset"] if self.donors else ""
            chosen = neighbours.subset(by_item, number, lambda item_id: digest([seed, dataset, item_id]))
            rows = [by_item[item_id] for item_id in chosen]
            self._corpora[seed, number] = rows, np.array([row["vector"] for row in rows], np.float64)
        return self._corpora[seed, number]


def facts(recipe: Recipe, source: Row, known: Known) -> Row:
    """The facts for one clip; `source` is its row of the sources manifest.

    Raises `MediaError` when the clip's analysis failed or nothing suitable was found for it.
    """
    kind = recipe["guide"]["kind"]
    if kind == "style":
        return style_facts(recipe, source["dataset"], source["item_id"])
    if kind == "frost":
        return frost_facts(recipe, source["dataset"], source["item_id"])
    row = known.rows.get(source["item_id"])
    if row is None:
        raise MediaError("its analysis is missing: run the workflow, which makes it")
    if row["status"] != "complete":
        raise MediaError(f"its analysis failed: {row['error']}")
    if kind == "motion":
        return {}
    if kind == "main_object":
        return main_object_facts(json.loads(row["result"]))
    return _donor_facts(recipe, row, known)


def backend_of(recipe: Recipe, known: Known, item_id: str) -> Row:
    """Who played which role, for the row's column `backend`."""
    if "guide" not in recipe or recipe["guide"]["kind"] == "motion":
        return {}
    kind = recipe["guide"]["kind"]
    if kind == "frost":
        return {"frost": {"backend": "offline" if recipe["guide"]["files"]["images"] is None else "photographs"}}
    if kind == "style":
        settings = recipe["guide"]
        names = ("backend", "version", "encoder_sha256", "decoder_sha256", "device", "dtype")
        return {"style": {name: settings[name] for name in names if name in settings}}
    row = known.rows.get(item_id)
    found: Row = json.loads(row["backend"]) if row and row["backend"] else {}
    return found


def offline_roles(backend: str | None) -> list[str]:
    """The roles that an offline stand-in played, from a row's column `backend`."""
    return [role for role, said in json.loads(backend or "{}").items() if said["backend"] == "offline"]


# --- main object -----------------------------------------------------------------------------------------------------


def main_object_facts(found: Row) -> Row:
    """The part of a main-object analysis that the frames depend on: a box and a track in each analysed frame."""
    return {name: found[name] for name in ("positions", "boxes", "tracks")}


# --- style -----------------------------------------------------------------------------------------------------------


def style_facts(recipe: Recipe, dataset: str, item_id: str) -> Row:
    """Which style a clip is painted in: drawn once a clip, the same for all severities."""
    draw = _choice(recipe, dataset, item_id)
    settings = recipe["guide"]["files"]
    weights = {name: settings[name] for name in ("encoder", "decoder") if name in settings}
    folder = settings["images"]
    if folder is None:
        names = procedural_styles.names()
        return {"style": names[int(draw * len(names))], "files": {"image": None, **weights}}
    paths = images("style", Path(folder))
    path = paths[int(draw * len(paths))]
    return {"style": storage.sha256(path), "files": {"image": str(path), **weights}}


def _choice(recipe: Recipe, dataset: str, item_id: str) -> float:
    """A clip's number in [0, 1), the same for all severities."""
    return float(
        rng.generator(recipe["seed"], dataset, item_id, f"{recipe['suite']}/{recipe['perturbation']}").random()
    )


@lru_cache(maxsize=2)
def images(role: str, folder: Path) -> tuple[Path, ...]:
    """The images in a folder and below it, sorted by their path. Raises `ConfigError` when there is none."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES and path.is_file())
    if not found:
        raise ConfigError(f"backends.{role}.images: no image in {folder}; known: {', '.join(sorted(_SUFFIXES))}")
    return tuple(found)


def _style_image(name: str, path: str | None) -> Image:
    return procedural_styles.image(name) if path is None else _user_image("style", name, path)


def _user_image(role: str, sha256: str, path: str) -> Image:
    data = Path(path).read_bytes() if Path(path).is_file() else b""
    if storage.sha256_of(data) != sha256:
        raise MediaError(f"the {role} image {path} is not the one that the row describes: missing or changed")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    if image is None:
        raise MediaError(f"the {role} image {path} cannot be read")
    return np.asarray(image, np.uint8)


# --- frost -----------------------------------------------------------------------------------------------------------


def frost_facts(recipe: Recipe, dataset: str, item_id: str) -> Row:
    """Which photograph of frost a clip gets, drawn once a clip; none where the kernel draws the ice itself."""
    folder = recipe["guide"]["files"]["images"]
    if folder is None:
        return {"frost": None, "files": {"image": None}}
    paths = images("frost", Path(folder))
    path = paths[int(_choice(recipe, dataset, item_id) * len(paths))]
    return {"frost": storage.sha256(path), "files": {"image": str(path)}}


@lru_cache(maxsize=4)
def photograph(sha256: str | None, path: str | None) -> Image | None:
    """A photograph of frost, RGB uint8. Raises `MediaError` when it is missing or changed."""
    return None if sha256 is None or path is None else _user_image("frost", sha256, path)


# --- donor -----------------------------------------------------------------------------------------------------------


def _donor_facts(recipe: Recipe, query: Row, known: Known) -> Row:
    """The nearest clip of the corpus that is not the clip itself, nor the same file or the same frames again."""
    donors, vectors = known.corpus(recipe["seed"], recipe["params"]["donors"])
    same = np.array([_is_the_same(row, query) for row in donors], bool)
    found = neighbours.nearest(query["vector"], vectors, same) if len(donors) else None
    if found is None:
        raise MediaError(f"no other clip in the corpus `{recipe['guide']['corpus']}` to insert a segment of")
    row, similarity = donors[found.position], found.similarity
    names = ("dataset", "item_id", "start_s", "end_s", "frame_count", "fps")
    donor = {**{name: row[name] for name in names}, "sha256": row["source_sha256"]}
    return {"donor": donor, "similarity": round(similarity, 6), "files": {"donor": row["source_path"]}}


def _is_the_same(row: Row, query: Row) -> bool:
    return (
        (row["dataset"], row["item_id"]) == (query["dataset"], query["item_id"])
        or row["source_sha256"] == query["source_sha256"]
        or row["source_frames_sha256"] == query["source_frames_sha256"]
    )


def donor_clip(facts: Row) -> Clip:
    """The clip that a segment is taken from. Raises `MediaError` when its file is missing or changed."""
    donor, path = facts["donor"], Path(facts["files"]["donor"])
    if not path.is_file() or storage.sha256(path) != donor["sha256"]:
        raise MediaError(f"the donor {donor['item_id']!r} is missing or changed: {path}")
    return Clip(path, donor["start_s"], donor["end_s"])


# --- guides ----------------------------------------------------------------------------------------------------------


def guide_of(recipe: Recipe, source: Any) -> Any:
    """What the kernel takes, from the facts in `source.facts`; `source` is a `rendering.Source`."""
    kind = recipe["guide"]["kind"]
    if kind == "motion":
        if source.motion is not None:
            return motion.reader(source.motion, source.height, source.width)
        return motion.Follower()
    if kind == "main_object":
        return boxes(source.facts, source.num_frames)
    if kind == "donor":
        donor = source.facts["donor"]
        return donor["frame_count"], donor["fps"] / source.fps
    if kind == "frost":
        return photograph(source.facts["frost"], source.facts["files"]["image"])
    return stylizer(recipe["guide"], source.facts)


def boxes(facts: Row, num_frames: int) -> npt.NDArray[np.float64]:
    """The main object's box in every frame, num_frames x 4, NaN where there is none."""
    return tracking.interpolate(facts["positions"], facts["boxes"], facts["tracks"], num_frames)


def stylizer(settings: Recipe, facts: Row) -> Callable[..., Any]:
    """The function (frame, alpha) -> frame that paints in a clip's style; `settings` are the recipe's.

    Raises `MediaError` for a style image that is missing or changed, `ConfigError` for weights that are not there.
    """
    image = facts["files"]["image"]
    if settings["backend"] == "offline":
        return _offline_painter(facts["style"], image)
    return _pretrained_painter(facts["style"], image, canonical(settings), canonical(facts["files"]))


# The severities of a clip, and clips of one style, share a painter.
@lru_cache(maxsize=4)
def _offline_painter(name: str, image: str | None) -> Callable[..., Any]:
    return style.filter_bank(_style_image(name, image))


@lru_cache(maxsize=4)
def _pretrained_painter(name: str, image: str | None, settings: str, files: str) -> Callable[..., Any]:
    where = json.loads(files)
    networks = _networks(settings, where["encoder"], where["decoder"])
    statistics = networks.style(_style_image(name, image))

    def paint(frame: Image, alpha: float) -> Image:
        return np.asarray(networks.stylize(frame[None], statistics, alpha)[0], np.uint8)

    paint.together = lambda frames, alpha: networks.stylize(frames, statistics, alpha)  # type: ignore[attr-defined]
    paint.batch_size = networks.batch_size  # type: ignore[attr-defined]
    return paint


@lru_cache(maxsize=1)
def _networks(settings: str, encoder: str, decoder: str) -> adain.Adain:
    said = json.loads(settings)
    return adain.load(
        Path(encoder),
        Path(decoder),
        encoder_sha256=said["encoder_sha256"],
        decoder_sha256=said["decoder_sha256"],
        device=said["device"],
        dtype=said["dtype"],
    )
