"""A perturbed clip, planned: what is decided before a frame of it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from perturbations.base import rng
from perturbations.base.progress import Tick
from perturbations.corpus.plan.recipe import VideoRecipe
from perturbations.media.clean_clip import CleanClip
from perturbations.media.clip import Frame, Timing, even

Seen = Callable[[Frame], None]
"""Called with a clean frame of the clip."""


@dataclass(frozen=True, kw_only=True)
class PlannedClip:
    """One perturbed clip, planned.

    Attributes:
        recipe: what is done.
        source: the clean clip.
        frames: gives the perturbed frames, with `only` those at these positions; calls `tick` for each frame, and
            `seen` with the clip's clean frames that are decoded on the way, perhaps not all. Raises `MediaError` where
            the clip is damaged.
        height, width: of every perturbed frame, in pixels.
        num_frames: how many frames are rendered: all of the perturbed clip, or those that the papers' models read.
        full_length: how many frames the perturbed clip has, whatever is stored of it.
        order: the frame at each place: i is frame i of the video that is perturbed, ~i that of the guide's other clip.
            None where every frame is in its own place.
        is_aligned: whether each perturbed frame is shown when its clean frame is.
        keeps_sound: whether the source's sound still fits the perturbed clip.
        write_stream: writes the stream of the encoder that perturbs into a file, with `tick` and `seen` as `frames`;
            None without one.
        stores_stream: whether a stored video is that stream.
    """

    recipe: VideoRecipe
    source: CleanClip
    frames: Callable[..., Iterator[Frame]]
    height: int
    width: int
    num_frames: int
    full_length: int
    order: Sequence[int] | None = None
    is_aligned: bool = True
    keeps_sound: bool = True
    write_stream: Callable[[Path, Tick, Seen | None], None] | None = None
    stores_stream: bool = False

    @property
    def timing(self) -> Timing:
        """The time base and frame rate."""
        return self.source.timing if self.is_aligned else even(self.source.timing)


def realizations(recipe: VideoRecipe, source: CleanClip) -> Callable[[int | None], object]:
    """A function that draws what is random in a frame of the video, or (given None) in the whole clip."""
    entry, whole = recipe.entry, source.whole

    def draw(frame: int | None) -> object:
        if entry.realization is None:
            return None
        generator = rng.generator(recipe.seed, whole.dataset, whole.item_id, entry.key, frame)
        return entry.realization(generator, whole.num_frames, whole.height, whole.width)

    kept = cache(draw)
    # Draws per frame are kept only where the kernel has a `shape`: it draws a few numbers, no array of a frame's size.
    return lambda frame: draw(frame) if frame is not None and entry.shape is None else kept(frame)
