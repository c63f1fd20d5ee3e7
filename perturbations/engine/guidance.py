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

from perturbations import rng
from perturbations.analysis import motion, neighbours, tracking
from perturbations.errors import ConfigError, MediaError
from perturbations.manifest.kinds import COMPLETE, AnalysisRow, CompleteSource
from perturbations.media.clip import Clip
from perturbations.models import adain
from perturbations.plan.facts import (
    Donor,
    DonorFacts,
    DonorFiles,
    Facts,
    FrostFactFiles,
    FrostFacts,
    MainObjectFacts,
    MotionFacts,
    StyleFactFiles,
    StyleFacts,
    parse_main_objects,
)
from perturbations.plan.recipe import AnalysedGuide, DonorGuide, FrostGuide, StyleGuide, VideoRecipe, canonical, digest
from perturbations.system import limits, storage
from perturbations.video import procedural_styles, style

Image = npt.NDArray[np.uint8]

_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}


@dataclass(frozen=True)
class Known:
    """What the analyses found about the clips of a shard.

    Attributes:
        rows: the shard's rows of the recipe's analysis, by item.
        donors: the rows of the donor corpus, sorted by item; empty where no clip is inserted.
    """

    rows: Mapping[str, AnalysisRow] = field(default_factory=dict)
    donors: Sequence[AnalysisRow] = ()
    _corpora: dict[tuple[int, int], tuple[list[AnalysisRow], npt.NDArray[np.float64]]] = field(default_factory=dict)

    def corpus(self, seed: int, number: int) -> tuple[list[AnalysisRow], npt.NDArray[np.float64]]:
        """So many donors and their vectors, chosen by a hash: one that comes or goes changes at most one other."""
        if (seed, number) not in self._corpora:
            by_item = {row.item_id: row for row in self.donors}
            dataset = self.donors[0].dataset if self.donors else ""
            chosen = neighbours.subset(by_item, number, lambda item_id: digest([seed, dataset, item_id]))
            rows = [by_item[item_id] for item_id in chosen]
            self._corpora[seed, number] = rows, np.array([row.vector for row in rows], np.float64)
        return self._corpora[seed, number]


def facts(recipe: VideoRecipe, source: CompleteSource, known: Known) -> Facts:
    """The facts for one clip of a guided recipe.

    Raises `MediaError` when the clip's analysis failed or nothing suitable was found for it.
    """
    if isinstance(recipe.guide, StyleGuide):
        return style_facts(recipe, source.dataset, source.item_id)
    if isinstance(recipe.guide, FrostGuide):
        return frost_facts(recipe, source.dataset, source.item_id)
    row = known.rows.get(source.item_id)
    if row is None:
        raise MediaError("its analysis is missing: run the workflow, which makes it")
    if row.status != COMPLETE:
        raise MediaError(f"its analysis failed: {row.error}")
    if isinstance(recipe.guide, DonorGuide):
        return _donor_facts(recipe, recipe.guide, row, known)
    return MotionFacts() if recipe.follows_motion else main_object_facts(row.result or "")


def backend_of(recipe: VideoRecipe, known: Known, item_id: str) -> str:
    """Who played which role, for the row's column `backend`: JSON."""
    guide = recipe.guide
    if guide is None or recipe.follows_motion:
        return "{}"
    if isinstance(guide, FrostGuide):
        return canonical({"frost": {"backend": "offline" if guide.files.images is None else "photographs"}})
    if isinstance(guide, StyleGuide):
        return canonical({"style": guide.model_dump(mode="json", exclude_none=True, exclude={"kind", "files"})})
    row = known.rows.get(item_id)
    return row.backend if row and row.backend else "{}"


def offline_roles(backend: str | None) -> list[str]:
    """The roles that an offline stand-in played, from a row's column `backend`."""
    return [role for role, player in json.loads(backend or "{}").items() if player["backend"] == "offline"]


# --- main object -----------------------------------------------------------------------------------------------------


def main_object_facts(result: str) -> MainObjectFacts:
    """The part of a main-object analysis that the frames depend on: a box and a track in each analysed frame."""
    objects = parse_main_objects(result)
    return MainObjectFacts(positions=objects.positions, boxes=objects.boxes, tracks=objects.tracks)


# --- style -----------------------------------------------------------------------------------------------------------


def style_facts(recipe: VideoRecipe, dataset: str, item_id: str) -> StyleFacts:
    """Which style a clip is painted in: drawn once per clip, the same for all severities."""
    assert isinstance(recipe.guide, StyleGuide)
    draw = _choice(recipe, dataset, item_id)
    where = recipe.guide.files
    if where.images is None:
        names = procedural_styles.names()
        name, image = names[int(draw * len(names))], None
    else:
        paths = images("style", Path(where.images))
        path = paths[int(draw * len(paths))]
        name, image = storage.sha256(path), str(path)
    return StyleFacts(style=name, files=StyleFactFiles(image=image, encoder=where.encoder, decoder=where.decoder))


def _choice(recipe: VideoRecipe, dataset: str, item_id: str) -> float:
    """A clip's number in [0, 1), the same for all severities."""
    return float(rng.generator(recipe.seed, dataset, item_id, recipe.key).random())


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
    limits.check_image(data, f"the {role} image {path}")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    if image is None:
        raise MediaError(f"the {role} image {path} cannot be read")
    return np.asarray(image, np.uint8)


# --- frost -----------------------------------------------------------------------------------------------------------


def frost_facts(recipe: VideoRecipe, dataset: str, item_id: str) -> FrostFacts:
    """Which photograph of frost a clip gets, drawn once per clip; none where the kernel draws the ice itself."""
    assert isinstance(recipe.guide, FrostGuide)
    folder = recipe.guide.files.images
    if folder is None:
        return FrostFacts(files=FrostFactFiles())
    paths = images("frost", Path(folder))
    path = paths[int(_choice(recipe, dataset, item_id) * len(paths))]
    return FrostFacts(frost=storage.sha256(path), files=FrostFactFiles(image=str(path)))


@lru_cache(maxsize=4)
def photograph(sha256: str | None, path: str | None) -> Image | None:
    """A photograph of frost, RGB uint8. Raises `MediaError` when it is missing or changed."""
    return None if sha256 is None or path is None else _user_image("frost", sha256, path)


# --- donor -----------------------------------------------------------------------------------------------------------


def _donor_facts(recipe: VideoRecipe, guide: DonorGuide, query: AnalysisRow, known: Known) -> DonorFacts:
    """The nearest clip of the corpus that is not the clip itself, nor the same file or the same frames again."""
    donors, vectors = known.corpus(recipe.seed, _number_of_donors(recipe))
    same = np.array([_is_the_same(row, query) for row in donors], bool)
    found = neighbours.nearest(query.vector or (), vectors, same) if len(donors) else None
    if found is None:
        raise MediaError(f"no other clip in the corpus `{guide.corpus}` to insert a segment of")
    row = donors[found.position]
    donor = Donor(
        dataset=row.dataset,
        item_id=row.item_id,
        start_s=row.start_s,
        end_s=row.end_s,
        frame_count=row.frame_count,
        fps=row.fps,
        sha256=row.source_sha256,
    )
    return DonorFacts(donor=donor, similarity=round(found.similarity, 6), files=DonorFiles(donor=row.source_path))


def _number_of_donors(recipe: VideoRecipe) -> int:
    number = recipe.params["donors"]
    assert isinstance(number, int)
    return number


def _is_the_same(row: AnalysisRow, query: AnalysisRow) -> bool:
    return (
        (row.dataset, row.item_id) == (query.dataset, query.item_id)
        or row.source_sha256 == query.source_sha256
        or row.source_frames_sha256 == query.source_frames_sha256
    )


def donor_clip(facts: Facts | None) -> Clip:
    """The clip that a segment is taken from. Raises `MediaError` when its file is missing or changed."""
    assert isinstance(facts, DonorFacts)
    donor, path = facts.donor, Path(facts.files.donor)
    if not path.is_file() or storage.sha256(path) != donor.sha256:
        raise MediaError(f"the donor {donor.item_id!r} is missing or changed: {path}")
    return Clip(path, donor.start_s, donor.end_s)


# --- guides ----------------------------------------------------------------------------------------------------------


def guide_of(recipe: VideoRecipe, source: Any) -> Any:
    """What the kernel takes, from the facts in `source.facts`; `source` is a `rendering.Source`."""
    facts = source.facts
    if isinstance(recipe.guide, AnalysedGuide) and recipe.follows_motion:
        if source.motion is not None:
            return motion.reader(source.motion, source.height, source.width)
        return motion.Follower()
    if isinstance(facts, MainObjectFacts):
        return boxes(facts, source.num_frames)
    if isinstance(facts, DonorFacts):
        return facts.donor.frame_count, facts.donor.fps / source.fps
    if isinstance(facts, FrostFacts):
        return photograph(facts.frost, facts.files.image)
    assert isinstance(recipe.guide, StyleGuide)
    assert isinstance(facts, StyleFacts)
    return stylizer(recipe.guide, facts)


def boxes(facts: MainObjectFacts, num_frames: int) -> npt.NDArray[np.float64]:
    """The main object's box in every frame, num_frames x 4, NaN where there is none."""
    return tracking.interpolate(facts.positions, facts.boxes, facts.tracks, num_frames)


def stylizer(guide: StyleGuide, facts: StyleFacts) -> Callable[..., Any]:
    """The function (frame, alpha) -> frame that paints in a clip's style.

    Raises `MediaError` for a style image that is missing or changed, `ConfigError` for weights that are not there.
    """
    if guide.backend == "offline":
        return _offline_painter(facts.style, facts.files.image)
    return _pretrained_painter(facts.style, facts.files.image, guide.text, facts.files.text)


# The severities of a clip, and clips of one style, share a painter.
@lru_cache(maxsize=4)
def _offline_painter(name: str, image: str | None) -> Callable[..., Any]:
    return style.filter_bank(_style_image(name, image))


@lru_cache(maxsize=4)
def _pretrained_painter(name: str, image: str | None, guide: str, files: str) -> Callable[..., Any]:
    where = StyleFactFiles.model_validate_json(files)
    networks = _networks(guide, where.encoder or "", where.decoder or "")
    statistics = networks.style(_style_image(name, image))

    def paint(frame: Image, alpha: float) -> Image:
        return np.asarray(networks.stylize(frame[None], statistics, alpha)[0], np.uint8)

    paint.together = lambda frames, alpha: networks.stylize(frames, statistics, alpha)  # type: ignore[attr-defined]
    paint.batch_size = networks.batch_size  # type: ignore[attr-defined]
    return paint


@lru_cache(maxsize=1)
def _networks(guide: str, encoder: str, decoder: str) -> adain.Adain:
    settings = StyleGuide.model_validate_json(guide)
    return adain.load(
        Path(encoder),
        Path(decoder),
        encoder_sha256=settings.encoder_sha256 or "",
        decoder_sha256=settings.decoder_sha256 or "",
        device=settings.device or "cpu",
        dtype=settings.dtype or "float32",
    )
