"""Clean clips: from a manifest's row, ready to be decoded, and the places of clips in their videos."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from perturbations.base import limits, storage
from perturbations.base.errors import MediaError
from perturbations.base.records import parse_record
from perturbations.engine import guided
from perturbations.manifest.kinds import CompleteSource, SourceRow, VideoRow
from perturbations.media import probing
from perturbations.media.clip import SAME_TIME_S, MediaClip, Timing, plain_rate
from perturbations.media.footage import CleanClip, Cut, times_of
from perturbations.plan.recipe import parse


def parse_cut(text: str | None) -> Cut | None:
    """A clip's place in its video, from a row. Raises `ManifestError`."""
    return None if text is None else parse_record(Cut, text, "a clip's place in its video")


def source_of(row: CompleteSource | VideoRow) -> CleanClip:
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
    return CleanClip(
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


def cut_of(source: CompleteSource, video: CleanClip) -> Cut:
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
        self._sources: dict[str, CleanClip] = {}

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


@contextmanager
def scratch_file(source: CleanClip, name: str, make: Callable[[Path], None]) -> Iterator[Path]:
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
