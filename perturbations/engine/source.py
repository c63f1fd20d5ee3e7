"""Clean clips: from a manifest's row, ready to be decoded, and the places of clips in their videos."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field

from perturbations.base import limits, storage
from perturbations.base.errors import MediaError
from perturbations.base.records import Record, parse_record
from perturbations.engine import guided
from perturbations.guides.guide import Facts
from perturbations.manifest.kinds import CompleteSource, SourceRow, VideoRow
from perturbations.media import decoding, probing
from perturbations.media.clip import SAME_TIME_S, Frame, MediaClip, Timing, plain_rate
from perturbations.media.footage import Span, times_of
from perturbations.plan.recipe import parse


class Cut(Record):
    """A clip's place in a video that is perturbed as a whole.

    Attributes:
        video_id: the video's id, which is a part of the key of what is drawn.
        first: the position of the clip's first frame in the video.
        num_frames: number of frames of the video.
    """

    video_id: str
    first: Annotated[int, Field(ge=0, lt=2**31)]
    num_frames: Annotated[int, Field(ge=1, lt=2**31)]


def parse_cut(text: str | None) -> Cut | None:
    """A clip's place in its video, from a row. Raises `ManifestError`."""
    return None if text is None else parse_record(Cut, text, "a clip's place in its video")


@dataclass(frozen=True)
class Source:
    """A clean clip whose frames are all known to decode, with its identity and the facts for guided kernels.

    Attributes:
        dataset, item_id: a part of the key of what is drawn.
        sample_aspect: the width of a pixel over its height, which no perturbation changes.
        facts: what the perturbed frames depend on besides the pixels.
        kept: the file of the clip's analysis, where there is one.
        cut: the clip's place in a video that is perturbed as a whole.
        scratch: a folder for files that the clips of one video share.
        hashed_frames: the hash of the clean frames, where it is known.
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
    facts: Facts | None = None
    kept: Path | None = None
    cut: Cut | None = None
    scratch: Path | None = None
    hashed_frames: str | None = None

    @cached_property
    def whole(self) -> Source:
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

    @property
    def frames_sha256(self) -> str:
        """The hash of its frames; where it is unknown, a text that is unique per file and span."""
        return self.hashed_frames or f"{self.sha256} {self.clip.start_s} {self.clip.end_s}"

    @property
    def place(self) -> str:
        """Its file."""
        return str(self.clip.path)

    @property
    def span(self) -> Span:
        """Where it starts and ends in its file, in seconds."""
        return self.clip.start_s, self.clip.end_s

    def frames(self, only: Collection[int] | None = None) -> Iterator[Frame]:
        """Its frames in order, RGB uint8; with `only`, those at these positions. Raises `MediaError`."""
        return decoding.decode(self.clip, only=only)


def source_of(row: CompleteSource | VideoRow) -> Source:
    """The clip behind a complete row of a `sources` manifest, or behind a row of a `videos` manifest.

    Raises `MediaError` when the file is no longer the one that the row describes, and `ManifestError` when the row
    lacks facts that its recipe needs.
    """
    if isinstance(row, VideoRow):
        path, sha256, num_frames = Path(row.source_path), row.source_sha256, row.source_frame_count
        recipe = parse(row.recipe)
        facts, cut = guided.parse_facts(recipe, row.guide), parse_cut(row.cut)
        frames_sha256, same_size = None, recipe.entry.shape is None
    else:
        path, sha256, num_frames = Path(row.path), row.sha256, row.frame_count
        facts, cut, frames_sha256, same_size = None, None, row.frames_sha256 or None, True
    if probing.sha256(path) != sha256:
        raise MediaError(f"{path} is not the file that the manifest describes: its content changed")
    info = probing.probe(path)
    # A row may come from a stranger.
    if same_size and (info.width, info.height) != (row.width, row.height):
        raise MediaError(f"{path} has {info.width}x{info.height} pixels, the row says {row.width}x{row.height}")
    most = max(num_frames, cut.num_frames if cut else 0)
    limits.check_frames(most)
    if info.declared_frames is not None and most > 2 * info.declared_frames + 100:  # a container's count is not exact
        raise MediaError(f"{path} has {info.declared_frames} frames, the row says {most}")
    return Source(
        dataset=row.dataset,
        item_id=row.item_id,
        clip=MediaClip(path, row.start_s, row.end_s),
        sha256=sha256,
        num_frames=num_frames,
        width=info.width,
        height=info.height,
        timing=Timing(info.time_base, plain_rate(info.frame_rate)),
        sample_aspect=info.sample_aspect,
        facts=facts,
        cut=cut,
        hashed_frames=frames_sha256,
    )


def cut_of(source: CompleteSource, video: Source) -> Cut:
    """A clip's place in its video.

    Raises `MediaError` when the clip's frames are not found there.
    """
    times = times_of(video)
    if len(times) != video.num_frames:
        raise MediaError(f"{len(times)} frames have a time where {video.num_frames} decode")
    start = 0 if source.start_s is None else bisect_left(times, source.start_s - SAME_TIME_S)
    end = len(times) if source.end_s is None else bisect_left(times, source.end_s - SAME_TIME_S)
    if end - start != source.frame_count:
        raise MediaError(f"the video has {end - start} frames in the clip's span, the clip has {source.frame_count}")
    return Cut(video_id=video.item_id, first=start, num_frames=video.num_frames)


class Cuts:
    """The places of clips in their videos; `videos` are rows of a `sources` manifest."""

    def __init__(self, videos: Sequence[SourceRow]) -> None:
        self._rows = {row.item_id: row for row in videos}
        self._sources: dict[str, Source] = {}

    def of(self, source: CompleteSource) -> Cut:
        """A clip's place. Raises `MediaError` when the video cannot be used, or lacks the clip's frames."""
        video_id = source.source_video_id or ""
        row = self._rows.get(video_id)
        if row is None:
            raise MediaError("its whole video is not listed: run the workflow, which lists it")
        if not isinstance(row, CompleteSource):
            raise MediaError(f"its whole video cannot be used: {row.error}")
        if video_id not in self._sources:
            self._sources[video_id] = source_of(row)
        return cut_of(source, self._sources[video_id])


def even(clock: Timing) -> Timing:
    """A timing of the same frame rate, with one tick per frame."""
    return Timing(1 / clock.frame_rate, clock.frame_rate)


@contextmanager
def scratch_file(source: Source, name: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """A file that `make` writes. It is kept for the next clips of the video if the source has a scratch folder."""
    if source.scratch is None:
        with storage.scratch_directory() as folder:
            path = Path(folder) / f"{name}.mp4"
            make(path)
            yield path
        return
    path = source.scratch / f"{name}.mp4"
    if not path.exists():
        for stale in source.scratch.iterdir():
            stale.unlink()
        with storage.atomic_path(path) as temporary:
            make(temporary)
    yield path
