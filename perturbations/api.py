"""What other programs use: perturb an array or a caption, open a corpus clip, list what there is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from perturbations.arrays import Image
from perturbations.captions.pipeline import PerturbedText, perturb_captions, text_entry
from perturbations.engine import guided, rendering
from perturbations.engine.source import Source, source_of
from perturbations.engine.temporal import fitted
from perturbations.errors import ManifestError, UnknownPerturbationError
from perturbations.manifest.kinds import (
    COMPLETE,
    SOURCE_STORAGE,
    SOURCES,
    VIDEOS,
    ClipRow,
    CompleteSource,
    Kind,
    SourceRow,
    VideoRow,
    columns_of,
    row_from,
    values_of,
)
from perturbations.media import decoding, decord_reader, encoding, framefile
from perturbations.media.clip import Clip, Frame, Timing
from perturbations.media.footage import Span
from perturbations.plan.listed import ListedCaption
from perturbations.plan.recipe import Unstored, VideoRecipe, make, parse
from perturbations.suites import registry
from perturbations.system import storage
from perturbations.system.settings import READERS, Reader

Frames = Image
"""T x H x W x 3, RGB, uint8."""


def list_perturbations(suite: str | None = None, kind: registry.Kind | None = None) -> list[str]:
    """The names `suite/name` of every perturbation, of one suite, or of one kind ("video" or "text").

    Raises `UnknownPerturbationError` when there is no such suite.
    """
    return [entry.key for entry in registry.perturbations(suite, kind)]


def perturb(
    frames: Frames,
    name: str,
    severity: int,
    *,
    seed: int,
    item_id: str,
    fps: float,
    dataset: str = "",
    variant: str = "released",
    donors: Sequence[Frames] = (),
) -> Frames:
    """Perturb a clip held in memory.

    Args:
        frames: the clip, T x H x W x 3, RGB, uint8. It is not modified.
        name: `suite/name`, e.g. "mlvp/fog".
        severity: 1 to 5; 0 gives a copy of the clip.
        seed: the first part of the realization's key; the same key gives the same frames, as in a corpus.
        item_id: its second part, the clip's name.
        fps: frames per second; only perturbations of time and bitrate depend on it.
        dataset: the third part of the realization's key.
        variant: "released" (the authors' code) or "paper" (the text).
        donors: the clips that event insertion may take a segment from, at the same frames per second.

    Returns:
        The perturbed clip, T x H x W x 3, RGB, uint8.

    Raises:
        UnknownPerturbationError: no such name, severity or variant.
        ValueError: `frames` is not a clip, `fps` is not positive, or there is no donor where one is needed.

    Guided perturbations use the `offline` backends.
    """
    _check_clip(frames, fps)
    entry = registry.get(name)
    if entry.kind != "video":
        raise UnknownPerturbationError(f"{name} perturbs captions, not videos; use perturb_text")
    if severity == 0:
        return frames.copy()
    recipe = make(entry, severity, variant=variant, seed=seed, storage=Unstored())
    frames = np.ascontiguousarray(frames)
    if entry.method == "codec":
        return _through_codec(frames, recipe, dataset, item_id, fps)
    clip = ArrayClip(frames, dataset, item_id, fps)
    others = [ArrayClip(donor, "donors", f"{number:06d}", fps) for number, donor in enumerate(donors)]
    if recipe.donors and all(other.frames_sha256 == clip.frames_sha256 for other in others):
        raise ValueError(f"{recipe.key} takes a segment of another clip: give `donors`")
    facts = guided.facts_now(recipe, clip, others)
    guide = guided.guide_of(recipe, facts, clip)
    if entry.method == "temporal":
        plan = rendering.plan(recipe, dataset, item_id, len(frames), guide)
        size = frames.shape[2], frames.shape[1]
        chosen = facts.other_item() if facts else None
        other = next((donor.images for donor in others if donor.item_id == chosen), frames)
        return np.stack([frames[place] if place >= 0 else fitted(other[~place], size) for place in plan])
    num_frames, height, width, _ = frames.shape
    kernel = rendering.applier(recipe, dataset, item_id, num_frames, height, width, guide)
    return np.stack([image for _, image in rendering.changed(kernel, guide, clip.frames)])


@dataclass(frozen=True)
class ArrayClip:
    """A clip in memory, as guides see it: T x H x W x 3, RGB uint8."""

    images: Frames
    dataset: str
    item_id: str
    fps: float

    @property
    def num_frames(self) -> int:
        """T."""
        return len(self.images)

    @property
    def height(self) -> int:
        """H."""
        return int(self.images.shape[1])

    @property
    def width(self) -> int:
        """W."""
        return int(self.images.shape[2])

    @cached_property
    def frames_sha256(self) -> str:
        """The hash of its size and pixels."""
        return storage.sha256_of(repr(self.images.shape).encode() + np.ascontiguousarray(self.images).tobytes())

    @property
    def sha256(self) -> str:
        """The same: it has no file."""
        return self.frames_sha256

    @property
    def place(self) -> str:
        """It has no file."""
        return ""

    @property
    def span(self) -> Span:
        """All of it."""
        return None, None

    def frames(self, only: Collection[int] | None = None) -> Iterator[Frame]:
        """Its frames in order; `only` those at these positions."""
        for position in range(len(self.images)) if only is None else sorted(only):
            yield Frame(self.images[position], position, position)


def perturb_text(
    text: str,
    name: str,
    severity: int = 1,
    *,
    seed: int,
    item_id: str,
    dataset: str = "",
    variant: str = "released",
    backend: str | None = None,
) -> PerturbedText:
    """Perturb a caption.

    Args:
        text: the caption; any string, empty ones too.
        name: `suite/name`, e.g. "msrvtt_p/gender_swap".
        severity: 1 up to what the perturbation has; 0 gives the caption itself.
        seed: the first part of the generator's key; the same key gives the same text, as in a corpus.
        item_id: its second part, the caption's id.
        dataset: its third part.
        variant: "released" (the authors' code) or "paper" (the text).
        backend: who plays the models' roles: "offline", the default, or "pretrained".

    Returns:
        The perturbed `text`; whether it `changed`; its `similarity` to the original, where a fidelity gate asked for
        it; how many `attempts` that took and whether one was `accepted`; the `backend`.

    Raises:
        UnknownPerturbationError: no such text perturbation, severity or variant.
        BackendError: no such backend, or a library, program or weight file it needs is missing.
    """
    entry = text_entry(name)
    caption = ListedCaption(caption_id=item_id, item_id=item_id, text=text)
    return next(
        perturb_captions([caption], entry.key, severity, seed=seed, dataset=dataset, variant=variant, backend=backend)
    )


def _check_clip(frames: Frames, fps: float) -> None:
    if not isinstance(frames, np.ndarray) or frames.ndim != 4 or frames.shape[3] != 3 or frames.dtype != np.uint8:
        found = f"{frames.dtype} {frames.shape}" if isinstance(frames, np.ndarray) else type(frames).__name__
        raise ValueError(f"frames must be a uint8 array of T x H x W x 3, not {found}")
    if 0 in frames.shape:
        raise ValueError(f"frames must hold at least one frame and one pixel, not {frames.shape}")
    if not fps > 0:
        raise ValueError(f"fps must be positive, not {fps}")


def _through_codec(frames: Frames, recipe: VideoRecipe, dataset: str, item_id: str, fps: float) -> Frames:
    rate = Fraction(fps).limit_denominator(1001)
    timing = Timing(1 / rate, rate)
    with storage.scratch_directory() as folder:
        path = Path(folder) / "clean.mp4"
        pictures = (Frame(frame, index, index) for index, frame in enumerate(frames))
        encoding.encode(pictures, path, storage.PROFILES["lossless"], timing)
        num_frames, height, width = frames.shape[:3]
        source = Source(dataset, item_id, Clip(path), "", num_frames, width, height, timing)
        return np.stack([frame.image for frame in rendering.render(recipe, source)])


def open_clip(row: Any, indices: Sequence[int] | None = None, reader: Reader = "pyav") -> Frames:
    """The frames of one manifest row, T x H x W x 3, RGB, uint8, whatever its storage tier.

    `row` comes from `read_manifest` (a DataFrame row or its dict): a perturbed clip of a `videos` manifest, or a
    clean one of a `sources` manifest. A `recipe` row is rendered now, from the source video it names. `frames` rows
    hold the sampled frames only.

    `indices` picks positions in what the row holds; long clips do not fit in memory whole. The result keeps
    their order.

    `reader` decodes the file of a `video` row or of a clean clip: "pyav", or "decord" for programs that have it (see
    `perturbations.media.decord_reader`). Both give the same frames: those of decord are compared with the row's
    `frames_sha256`, and refused where they are others. It changes nothing for `frames` rows, which nothing decodes,
    and for `recipe` rows, which this package renders from what PyAV decodes.

    Raises `ManifestError` for a quarantined row, or a row without `frames_sha256` for decord; `MediaError` when a file
    is missing or changed, or decord gives other frames; `IndexError` for a position that the row does not hold;
    `BackendError` when decord is not installed; `ValueError` for an unknown reader.
    """
    if reader not in READERS:
        raise ValueError(f"no reader {reader!r}; known: {', '.join(READERS)}")
    clip = typed_row(row)
    if clip.status != COMPLETE:
        raise ManifestError(f"{clip.item_id!r} is not complete but {clip.status}: {clip.error}")
    if isinstance(clip, SourceRow):
        assert isinstance(clip, CompleteSource)
        source = source_of(clip)
        only = _only(indices, source.num_frames)
        return _collect(_decoded(source.clip, only, reader, clip), indices)
    tier = clip.storage.partition("/")[0]
    if tier == "frames":
        stack = framefile.read(_stored_file(clip))
        _only(indices, len(stack))
        return stack if indices is None else stack[list(indices)]
    only = _only(indices, clip.frame_count)
    if tier == "video":
        return _collect(_decoded(Clip(_stored_file(clip)), only, reader, clip), indices)
    if not isinstance(clip, VideoRow):
        raise ManifestError(f"{clip.item_id!r} has no frames: its storage is {clip.storage!r}")
    return _collect(rendering.render(parse(clip.recipe), source_of(clip), only=only), indices)


def _decoded(clip: Clip, only: set[int] | None, reader: Reader, row: ClipRow | SourceRow) -> Iterator[Frame]:
    if reader == "pyav":
        return decoding.decode(clip, only=only)
    if not row.frames_sha256:
        raise ManifestError(f"the row of {row.item_id!r} has no frames_sha256, with which decord's frames are compared")
    return decord_reader.decode(clip, frames_sha256=row.frames_sha256, only=only)


def _stored_file(row: ClipRow) -> Path:
    if row.path is None:
        raise ManifestError(f"the row of {row.item_id!r} names no file")
    return Path(row.path)


def _only(indices: Sequence[int] | None, held: int) -> set[int] | None:
    if indices is None:
        return None
    for index in indices:
        if not 0 <= index < held:
            raise IndexError(f"the row holds {held} frames; there is no frame {index}")
    return set(indices)


def _collect(frames: Iterable[Frame], indices: Sequence[int] | None) -> Frames:
    images = {frame.position: frame.image for frame in frames}
    return np.stack([images[index] for index in (sorted(images) if indices is None else indices)])


def typed_row(row: Any) -> ClipRow | SourceRow:
    """A row of a DataFrame, a dict or a row's own type, as a clip: a perturbed one, or a clean one.

    Raises `ManifestError` where it lacks what rows of its kind have.
    """
    if isinstance(row, SourceRow | VideoRow):
        return row
    if isinstance(row, ClipRow):
        row = values_of(row)
    columns = row if isinstance(row, Mapping) else row._asdict() if hasattr(row, "_asdict") else row.to_dict()
    plain = {str(name): None if _is_missing(value) else _plain(value) for name, value in columns.items()}
    is_stored = str(plain.get("storage", "")).startswith(("video/", "frames/"))
    kind: Kind[Any] = VIDEOS if is_stored or "recipe" in plain else SOURCES
    if plain.get("storage") == SOURCE_STORAGE:
        # A clean clip among perturbed ones.
        plain |= {"split": "", "rotation": 0}
        kind = SOURCES
    elif is_stored:
        # A stored clip's frames are in its file: columns that somebody made an index of, or left out, are not needed.
        plain = {column.name: column.type() for column in columns_of(kind.row) if not column.optional} | plain
    typed: ClipRow | SourceRow = row_from(kind, plain)
    return typed


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
