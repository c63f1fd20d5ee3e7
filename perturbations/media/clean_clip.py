"""Clean clips for analyses and guides, from files or in memory, and the frames that an analysis needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.records import Record
from perturbations.media.clip import Frame, MediaClip, Timing


@dataclass(frozen=True, kw_only=True)
class Cut(Record):
    """A clip's place in a video that is perturbed as a whole.

    Attributes:
        video_id: the video's id, a part of the key of its random numbers.
        first: the position of the clip's first frame in the video.
        num_frames: number of frames of the video.
    """

    video_id: str
    first: int = field(metadata={"ge": 0, "lt": 2**31})
    num_frames: int = field(metadata={"ge": 1, "lt": 2**31})


@dataclass(frozen=True)
class CleanClip:
    """A clip before it is perturbed: part of a file whose frames are all known to decode, or an array.

    Attributes:
        dataset, item_id: a part of the key of its random numbers.
        sample_aspect: the width of a pixel over its height, which no perturbation changes.
        facts: what the perturbed frames depend on besides the pixels.
        kept: the file of the clip's analysis, where there is one.
        cut: the clip's place in a video that is perturbed as a whole.
        scratch: a folder for files that the clips of one video share.
        hashed_frames: the hash of the clean frames, where it is known.
        images: the frames of an array, T x H x W x 3, RGB uint8; such a clip has no file.
    """

    dataset: str
    item_id: str
    clip: MediaClip
    sha256: str
    num_frames: int
    width: int
    height: int
    timing: Timing
    sample_aspect: Fraction = Fraction(1)
    facts: object = None
    kept: Path | None = None
    cut: Cut | None = None
    scratch: Path | None = None
    hashed_frames: str | None = None
    images: Image | None = field(default=None, compare=False, repr=False)

    @cached_property
    def whole(self) -> CleanClip:
        """The video that is perturbed: the clip itself, or the video that it is cut from."""
        if self.cut is None:
            return self
        clip = MediaClip(self.clip.path)
        return replace(self, item_id=self.cut.video_id, clip=clip, num_frames=self.cut.num_frames, cut=None)

    @property
    def first(self) -> int:
        """The position of the clip's first frame in the video that is perturbed."""
        return 0 if self.cut is None else self.cut.first

    @property
    def size(self) -> tuple[int, int]:
        """(width, height), in the order that codecs use."""
        return self.width, self.height

    @property
    def fps(self) -> float:
        """Frames per second."""
        return float(self.timing.frame_rate)

    @cached_property
    def frames_sha256(self) -> str:
        """The hash of its frames; where it is unknown, a text that is unique per file and span."""
        if self.images is not None:
            return storage.sha256_of(repr(self.images.shape).encode() + self.images.tobytes())
        return self.hashed_frames or f"{self.sha256} {self.clip.start_s} {self.clip.end_s}"

    @property
    def place(self) -> str:
        """The path of its file; empty for an array."""
        return str(self.clip.path) if self.images is None else ""

    def frames(self, only: Collection[int] | None = None) -> Iterator[Frame]:
        """Its frames in order, RGB uint8; with `only`, just the frames at these positions. Raises `MediaError`."""
        if self.images is not None:
            images, positions = self.images, range(self.num_frames) if only is None else sorted(only)
            return (Frame(images[position], position, position) for position in positions)
        from perturbations.media import decoding  # not at the top: users who perturb only arrays need no PyAV

        return decoding.decode(self.clip, only=only)


def times_of(clip: CleanClip) -> list[float]:
    """The time of each frame of a clip, in seconds from the beginning of its file; an array's are evenly spaced.

    Raises `MediaError`.
    """
    if not clip.place:
        return [position / clip.fps for position in range(clip.num_frames)]
    return _cached_times(clip.clip, clip.num_frames, clip.sha256)


@lru_cache(maxsize=4)
def _cached_times(clip: MediaClip, num_frames: int, sha256: str) -> list[float]:
    from perturbations.media import decoding

    return decoding.frame_times(clip, num_frames)
