"""A perturbed clip, planned: what is decided before a frame of it is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from perturbations.base import rng
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, no_tick
from perturbations.media.clip import Frame, Timing, even
from perturbations.media.footage import CleanClip
from perturbations.plan.recipe import VideoRecipe

Seen = Callable[[Frame, Frame], None]
"""Called with a clean frame and the perturbed one that is made of it."""


@dataclass(frozen=True)
class Realizations:
    """What is random in a clip. Each realization is drawn once, when it is first needed."""

    recipe: VideoRecipe
    source: CleanClip

    @cached_property
    def of_clip(self) -> object:
        """The realization that all frames share; None where nothing is random."""
        return self._drawn(None)

    @cached_property
    def for_shape(self) -> Sequence[object]:
        """All that the clip's shape depends on: the realization of each frame of the video, or the one of them all.

        They are kept: a kernel that has a `shape` draws a few numbers, never an array of a frame's size.
        """
        frames = range(self.source.whole.num_frames)
        return list(map(self._drawn, frames)) if self.recipe.draw == "frame" else [self.of_clip]

    def of_frame(self, index: int) -> object:
        """The realization of a frame of the video, where each has its own."""
        return self._drawn(index) if self.recipe.entry.shape is None else self.for_shape[index]

    def _drawn(self, frame: int | None) -> object:
        recipe, whole = self.recipe, self.source.whole
        if recipe.entry.realization is None:
            return None
        generator = rng.generator(recipe.seed, whole.dataset, whole.item_id, recipe.entry.key, frame)
        return recipe.entry.realization(generator, whole.num_frames, whole.height, whole.width)


@dataclass(frozen=True, kw_only=True)
class PlannedClip(ABC):
    """One perturbed clip, planned. Each kind of kernel is a type, which says how its frames are made.

    Attributes:
        recipe: what is done.
        source: the clean clip.
        drawn: what is random.
        height, width: of every perturbed frame, in pixels.
        num_frames: how many frames are rendered: all of the perturbed clip, or those that the papers' models read.
        full_length: how many frames the perturbed clip has, whatever is stored of it.
        order: the frame at each place: i is frame i of the video that is perturbed, ~i that of the guide's other clip.
            None where every frame is in its own place.
        is_aligned: whether each perturbed frame is shown when its clean frame is.
        keeps_sound: whether the source's sound fits the perturbed clip.
        stores_stream: whether a stored video is the encoder's own stream, written by `write_stream`.
    """

    recipe: VideoRecipe
    source: CleanClip
    drawn: Realizations = field(repr=False)
    height: int
    width: int
    num_frames: int
    full_length: int
    order: Sequence[int] | None = None
    is_aligned: bool = True
    keeps_sound: bool = True
    stores_stream: bool = False

    @property
    def timing(self) -> Timing:
        """The time base and frame rate."""
        return self.source.timing if self.is_aligned else even(self.source.timing)

    @property
    def sees_clean(self) -> bool:
        """Whether each frame is made of the clean one in its place, so that `frames` calls `seen`."""
        return False

    @abstractmethod
    def frames(
        self, *, only: Collection[int] | None = None, tick: Tick = no_tick, seen: Seen | None = None
    ) -> Iterator[Frame]:
        """The perturbed frames; with `only`, those at these positions. Raises `MediaError` where the clip is damaged.

        `seen` is called with each clean frame and the perturbed one, where `sees_clean`.
        """

    def write_stream(self, path: Path, tick: Tick) -> None:
        """Write the stream of an encoder into a file."""
        raise NotImplementedError(f"{self.recipe.key} makes no stream")


def check_length(recipe: VideoRecipe, num_frames: int) -> None:
    """Raise `MediaError` where a perturbed clip has no frame."""
    if not num_frames:
        raise MediaError(f"{recipe.key} at severity {recipe.severity} leaves no frame of this clip")
