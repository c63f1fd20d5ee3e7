"""Clean clips: from a manifest's row, ready to be decoded, with the facts that guided recipes need."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from perturbations.base import limits, rng, storage
from perturbations.base.errors import ManifestError, MediaError
from perturbations.base.records import parse_record
from perturbations.corpus.plan.recipe import VideoRecipe, parse
from perturbations.manifest.rows import COMPLETE, AnalysisRow, CompleteSource, SourceRow, VideoRow
from perturbations.media.clean_clip import CleanClip, Cut, times_of
from perturbations.media.clip import SAME_TIME_S, MediaClip, Timing, plain_rate
from perturbations.models.guides.guide_registry import AnalysisRecipe, Facts, Known


def source_of(row: CompleteSource | VideoRow, recipe: VideoRecipe | None = None) -> CleanClip:
    """The clip behind a complete row of a `sources` manifest, or behind a row of a `videos` manifest.

    `recipe` is the row's, where it was read before. Raises `MediaError` when the file is no longer the one that the row
    describes, and `ManifestError` when the row lacks facts that its recipe needs.
    """
    from perturbations.media import probing  # not at the top: users who perturb only arrays need no PyAV

    facts, cut, has_source_size = None, None, True
    if isinstance(row, VideoRow):
        path, sha256, num_frames = Path(row.source_path), row.source_sha256, row.source_frame_count
        recipe = recipe or parse(row.recipe)
        facts, has_source_size = _parse_facts(recipe, row.guide), recipe.entry.shape is None
        cut = None if row.cut is None else parse_record(Cut, row.cut, "a clip's place in its video")
    else:
        path, sha256, num_frames = Path(row.path), row.sha256, row.frame_count
    if probing.sha256(path) != sha256:
        raise MediaError(f"{path} is not the file that the manifest describes: its content changed")
    info = probing.probe(path)
    # A row may come from a stranger.
    if has_source_size and (info.width, info.height) != (row.width, row.height):
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
        hashed_frames=row.frames_sha256 or None if isinstance(row, CompleteSource) else None,
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


def cuts_in(videos: Sequence[SourceRow]) -> Callable[[CompleteSource], Cut]:
    """A function that gives a clip's place in its whole video; `videos` are rows of a `sources` manifest.

    The function raises `MediaError` when the video cannot be used, or lacks the clip's frames.
    """
    rows = {row.item_id: row for row in videos}
    opened = cache(source_of)

    def cut(source: CompleteSource) -> Cut:
        row = rows.get(source.source_video_id or "")
        if row is None:
            raise MediaError("its whole video is not listed: run the workflow, which lists it")
        if not isinstance(row, CompleteSource):
            raise MediaError(f"its whole video cannot be used: {row.error}")
        return cut_of(source, opened(row))

    return cut


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


# --- guided recipes --------------------------------------------------------------------------------------------------


def facts_of(recipe: VideoRecipe, clip: CleanClip | CompleteSource, known: Known) -> Facts | None:
    """The facts of one clip; None where the recipe is not guided.

    Raises `MediaError` when the clip's analysis failed, or nothing suitable is known of it.
    """
    if recipe.guide_recipe is None:
        return None
    # Without the severity, so that all severities share the draw.
    draw = float(rng.generator(recipe.seed, clip.dataset, clip.item_id, recipe.key).random())
    return recipe.guide_recipe.find(clip.item_id, known, seed=recipe.seed, draw=draw, parameters=recipe.params)


def facts_now(
    recipe: VideoRecipe,
    clip: CleanClip,
    others: Sequence[CleanClip] = (),
    analysed: Callable[[AnalysisRecipe, CleanClip], AnalysisRow] | None = None,
) -> Facts | None:
    """The facts of a clip that is analysed now; `others` are the clips that frames may be taken from.

    `analysed` replaces `analysed_now`, to keep rows that several recipes share. Raises `MediaError` when nothing
    suitable is found.
    """
    if recipe.guide_recipe is None:
        return None
    if recipe.guide_recipe.on_the_fly:
        return Facts()
    if recipe.analysis is None:
        return facts_of(recipe, clip, Known())
    row_of = analysed or analysed_now
    row = row_of(recipe.analysis, clip)
    donors = [row_of(recipe.analysis, other) for other in others] if recipe.donors else []
    return facts_of(recipe, clip, Known({row.item_id: row}, donors))


def source_with_facts(recipe: VideoRecipe, row: CompleteSource, donors: Sequence[CompleteSource] = ()) -> CleanClip:
    """A clip that is ready to be rendered, analysed now.

    Raises `MediaError` when the analysis finds nothing suitable.
    """
    source = source_of(row)
    return replace(source, facts=facts_now(recipe, source, [source_of(donor) for donor in donors]))


def analysed_now(recipe: AnalysisRecipe, clip: CleanClip) -> AnalysisRow:
    """The row of a clip that is analysed now, in memory. Raises `MediaError`."""
    result = recipe.run(clip)
    return AnalysisRow(
        dataset=clip.dataset,
        item_id=clip.item_id,
        analysis=recipe.analysis,
        recipe=recipe.text,
        recipe_id="",
        backend=result["backend"],
        result=result.get("result"),
        vector=result.get("vector"),
        width=clip.width,
        height=clip.height,
        fps=clip.fps,
        frame_count=clip.num_frames,
        source_path=clip.place,
        source_sha256=clip.sha256,
        source_frames_sha256=clip.frames_sha256,
        start_s=clip.clip.start_s,
        end_s=clip.clip.end_s,
        status=COMPLETE,
    )


def _parse_facts(recipe: VideoRecipe, text: str | None) -> Facts | None:
    """The facts of a row, as its recipe's guide needs them. Raises `ManifestError`."""
    if recipe.guide_recipe is None:
        if text is not None:
            raise ManifestError(f"{recipe.key} has no guide, but the row's column 'guide' has {text[:60]!r}")
        return None
    if text is None:
        raise ManifestError(
            f"the row does not say what {recipe.key} must know of the clip: its column 'guide' is empty"
        )
    return parse_record(recipe.guide_recipe.facts, text, f"the facts of the guide '{recipe.guide_recipe.kind}'")
