"""Clean clips for analyses and guides, from files or in memory, and the frames that an analysis needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, ticking
from perturbations.media import decoding
from perturbations.media.clip import Frame, MediaClip

Span = tuple[float | None, float | None]
"""Start and end in seconds; None is the start or end of the file."""


class CleanClip(Protocol):
    """A clip before it is perturbed: part of a file, or an array.

    `sha256` is the hash of its file or array, `frames_sha256` of its decoded frames. `fps` is in frames per second.
    `place` is the path of its file, empty for an array; `span` is its part of the file.
    """

    @property
    def dataset(self) -> str: ...  # noqa: D102
    @property
    def item_id(self) -> str: ...  # noqa: D102
    @property
    def sha256(self) -> str: ...  # noqa: D102
    @property
    def frames_sha256(self) -> str: ...  # noqa: D102
    @property
    def num_frames(self) -> int: ...  # noqa: D102
    @property
    def height(self) -> int: ...  # noqa: D102
    @property
    def width(self) -> int: ...  # noqa: D102
    @property
    def fps(self) -> float: ...  # noqa: D102

    @property
    def place(self) -> str: ...  # noqa: D102
    @property
    def span(self) -> Span: ...  # noqa: D102

    def frames(self, only: Collection[int] | None = None) -> Iterator[Frame]:
        """The frames in order, RGB uint8; `only` those at these positions. Raises `MediaError`."""
        ...


def times_of(clip: CleanClip) -> list[float]:
    """The time of each frame of a clip, in seconds from the beginning of its file; an array's are evenly spaced.

    Raises `MediaError`.
    """
    if not clip.place:
        return [position / clip.fps for position in range(clip.num_frames)]
    return _cached_times(MediaClip(Path(clip.place), *clip.span), clip.num_frames, clip.sha256)


@lru_cache(maxsize=4)
def _cached_times(clip: MediaClip, num_frames: int, sha256: str) -> list[float]:
    return decoding.frame_times(clip, num_frames)


class Footage(NamedTuple):
    """The frames of a clip that an analysis needs, by position, and the size and clock of the clip."""

    frames: Mapping[int, Image]
    num_frames: int
    height: int
    width: int
    fps: float


def of_each(
    clips: Sequence[CleanClip],
    positions: Callable[[int, float], Collection[int]],
    tick: Tick,
    kept: Callable[[Image], Image] = lambda image: image,
) -> list[Footage | MediaError]:
    """The footage of each clip, or its error; `positions` takes a clip's number of frames and its fps.

    `kept` converts each frame before it is kept.
    """
    footages: list[Footage | MediaError] = []
    for clip in clips:
        try:
            wanted = set(positions(clip.num_frames, clip.fps))
            frames = {frame.position: kept(frame.image) for frame in ticking(clip.frames(wanted), tick)}
            footages.append(Footage(frames, clip.num_frames, clip.height, clip.width, clip.fps))
        except MediaError as error:
            footages.append(error)
    return footages
