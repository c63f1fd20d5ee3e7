"""Processes the items of one shard in order: yields rows, quarantines failures, keeps finished items after a kill."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from perturbations.base import storage, supervise
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, counted, log_kept, no_tick, ticking
from perturbations.engine import clean_clips, clip_rows, render_clip
from perturbations.engine.clean_clips import cuts_in, source_of
from perturbations.engine.journal import Journal, Measured, member_name, pack, unpack
from perturbations.guides.registry import Analysed, AnalysisRecipe, Known
from perturbations.manifest import layout
from perturbations.manifest.kinds import COMPLETE, AnalysisRow, CompleteSource, QuarantineStage, SourceRow, VideoRow
from perturbations.media import decoding, encoding, probing, sound
from perturbations.media.clip import Frame, MediaClip
from perturbations.media.footage import CleanClip
from perturbations.plan.recipe import VideoRecipe

if TYPE_CHECKING:
    from perturbations.plan.listed import ListedClip

_log = logging.getLogger("perturbations")


def source_row(dataset: str, listed: ListedClip, tick: Tick = no_tick) -> CompleteSource:
    """Decode all frames of a listed clip and describe it. Raises `MediaError` when anything about it is wrong."""
    path = Path(listed.path)
    info = probing.probe(path)
    if listed.bytes is not None and path.stat().st_size != listed.bytes:
        raise MediaError("the file changed while the run was starting; run again")
    digest = hashlib.sha256()
    count = 0
    last: Frame | None = None
    for last in ticking(decoding.decode(MediaClip(path, listed.start_s, listed.end_s)), tick):
        digest.update(last.image.data)
        count += 1
    assert last is not None
    has_clock = not storage.is_picture(path)
    return CompleteSource(
        dataset=dataset,
        split=listed.split,
        item_id=listed.item_id,
        source_video_id=listed.source_video_id,
        start_s=listed.start_s,
        end_s=listed.end_s,
        path=listed.path,
        bytes=path.stat().st_size,
        sha256=storage.sha256(path),
        frames_sha256=digest.hexdigest(),
        codec=info.codec,
        pix_fmt=info.pix_fmt,
        width=last.image.shape[1],
        height=last.image.shape[0],
        fps=float(info.frame_rate) if has_clock else 0.0,
        frame_count=count,
        duration_s=float(last.pts * info.time_base + 1 / info.frame_rate) if has_clock else 0.0,
        rotation=info.rotation,
        sample_aspect_ratio=str(info.sample_aspect) if info.sample_aspect != 1 else None,
        source_losses=", ".join(info.losses) or None,
        status=COMPLETE,
    )


def run_sources(
    dataset: str,
    listed: Sequence[ListedClip],
    *,
    stall_limit_s: float,
    prepare: Callable[[ListedClip], None] | None = None,
) -> list[SourceRow]:
    """The `sources` row of each listed clip, complete or quarantined.

    `prepare` is called with each listed clip first (the demo draws its videos there).
    """

    def work(clip: ListedClip, tick: Tick) -> CompleteSource:
        if prepare is not None:
            prepare(clip)
        return source_row(dataset, clip, tick)

    rows: list[SourceRow] = []
    count = counted(len(listed), "clips")
    outcomes = supervise.run(work, listed, stall_limit_s=stall_limit_s, name=lambda clip: repr(clip.item_id))
    for clip, row, error in outcomes:
        count()
        if row is None:
            _log.warning("quarantined %r: %s", clip.item_id, error)
        rows.append(row or clip_rows.quarantined_source(dataset, clip, str(error)))
    return rows


def run_videos(
    recipe: VideoRecipe,
    sources: Sequence[CompleteSource],
    *,
    root: Path,
    folder: Path,
    journal: Path,
    stall_limit_s: float,
    known: Known = clip_rows.NOTHING_KNOWN,
    videos: Sequence[SourceRow] = (),
    with_sound: bool = True,
    in_tar: bool = False,
) -> list[VideoRow]:
    """The `videos` row of every complete source; clips that do not exist yet are made.

    The files are written to `folder` and the finished items to `journal`, so that an interrupted shard resumes where
    it stopped. Paths in rows are relative to `root`. `known` holds what guided recipes need of the clips. `videos` are
    the rows of the whole videos, where clips are cut from those. Stored videos have the sources' sound `with_sound`.
    At the end the files are moved into the shard's tar, where they are to lie `in_tar`.
    """
    if encoder := recipe.entry.encoder(recipe.params):
        encoding.check_ffmpeg(encoder)
    rows: list[VideoRow] = []
    expected: list[VideoRow] = []
    targets: dict[str, Path] = {}
    suffix = render_clip.extension(recipe) or ""
    cut_of = {"cut_of": cuts_in(videos)} if recipe.whole_videos else {}
    for source in sources:
        target = target_of(recipe, folder, source.item_id)
        path = target.relative_to(root).as_posix() if target else None
        row = clip_rows.expected_video(recipe, source, path, known, **cut_of)
        targets |= {member_name(source.item_id, suffix): target} if target else {}
        if row.error is None:
            expected.append(row)
        else:
            _log.warning("quarantined %r: %s", row.item_id, row.error)
            rows.append(row)
    # Clips of one video follow each other, because they share its decoded or encoded frames.
    expected.sort(key=lambda row: (row.source_path, row.start_s or 0.0, row.item_id))
    tar = folder / layout.name("clip_tar", shard=layout.shard_of(journal))

    def work(row: VideoRow, tick: Tick) -> Measured:
        analysed = _kept_file(known.rows.get(row.item_id), root)
        source = replace(source_of(row), kept=analysed, scratch=Path(scratch) if row.cut else None)
        measured = render_clip.produce(recipe, source, root / (row.path or ""), tick, with_sound=with_sound)
        # In the worker, not where results arrive: by then the next clip may have started, and a kill would lose both.
        finished.add(row.recipe_id, measured)
        return measured

    with storage.one_job(journal), storage.scratch_directory() as scratch:
        storage.remove_leftovers(targets.values())
        finished = Journal(journal, Measured, {row.recipe_id for row in expected})
        finished.forget(lambda measured: sound.is_other(measured.audio, with_sound=with_sound))
        if targets:
            unpack(tar, targets)
        kept, todo = _divided(expected, finished, root)
        rows += [clip_rows.complete_video(row, measured) for row, measured in kept]
        count = counted(len(todo), "clips")
        outcomes = supervise.run(work, todo, stall_limit_s=stall_limit_s, name=lambda row: repr(row.item_id))
        for row, measured, error in outcomes:
            count()
            complete = clip_rows.complete_video(row, measured) if measured else None
            rows.append(complete or _quarantined(row, "video", str(error)))
        storage.remove_leftovers(targets.values())  # of workers that were killed
        if in_tar:
            rows = pack(tar, rows, targets, suffix)
    return rows


def target_of(recipe: VideoRecipe, folder: Path, item_id: str) -> Path | None:
    """The file that an item of a recipe is stored in; None where nothing is stored."""
    suffix = render_clip.extension(recipe)
    return folder / (storage.file_stem(item_id) + suffix) if suffix else None


def source_with_facts(recipe: VideoRecipe, row: CompleteSource, donors: Sequence[CompleteSource] = ()) -> CleanClip:
    """A clip that is ready to be rendered, analysed now.

    Raises `MediaError` when the analysis finds nothing suitable.
    """
    source = source_of(row)
    return replace(source, facts=clean_clips.facts_now(recipe, source, [source_of(donor) for donor in donors]))


def _kept_file(row: AnalysisRow | None, root: Path) -> Path | None:
    """The file that an analysis keeps besides its row; None, so that it is computed again, where the file changed."""
    if row is None or row.path is None:
        return None
    path = root / row.path
    return path if path.is_file() and storage.sha256(path) == row.sha256 else None


def run_analysis(
    recipe: AnalysisRecipe,
    sources: Sequence[CompleteSource],
    *,
    root: Path,
    folder: Path,
    journal: Path,
    stall_limit_s: float,
    before: Mapping[str, AnalysisRow] | None = None,
) -> list[AnalysisRow]:
    """The `analyses` row of every complete source; clips that have no result yet are analysed.

    `folder` takes the files that an analysis keeps besides its rows. `before` holds the rows, by item, of the analysis
    that this one builds on.
    """
    suffix = recipe.extension
    expected = []
    targets: list[Path] = []
    for source in sources:
        target = folder / (storage.file_stem(source.item_id) + suffix) if suffix else None
        expected.append(
            clip_rows.expected_analysis(recipe, source, target.relative_to(root).as_posix() if target else None)
        )
        targets += [target] if target else []
    by_item = {source.item_id: source for source in sources}

    def work(task: Sequence[AnalysisRow], tick: Tick) -> list[Analysed | str]:
        clips = [source_of(by_item[row.item_id]) for row in task]
        kept = [root / row.path if row.path else None for row in task]
        results = recipe.run(clips, files=kept, before=before or {}, tick=tick)
        for row, result in zip(task, results, strict=True):
            if isinstance(result, Analysed):
                finished.add(row.recipe_id, result)
        return [str(result) if isinstance(result, MediaError) else result for result in results]

    with storage.one_job(journal):
        storage.remove_leftovers(targets)
        finished = Journal(journal, Analysed, {row.recipe_id for row in expected})
        kept, todo = _divided(expected, finished, root)
        rows = [clip_rows.complete_analysis(row, analysed) for row, analysed in kept]
        together = recipe.clips_at_once
        tasks = [todo[start : start + together] for start in range(0, len(todo), together)]
        while tasks:
            count = counted(len(tasks), "clips" if len(tasks[0]) == 1 else "batches of clips")
            alone: list[list[AnalysisRow]] = []
            for task, results, error in supervise.run(work, tasks, stall_limit_s=stall_limit_s, name=_names):
                count()
                if len(task) > 1 and error is not None:
                    _log.warning("%d clips failed together, trying each alone: %s", len(task), error)
                    alone += [[row] for row in task]
                    continue
                for row, result in zip(task, results or [str(error)], strict=True):
                    if isinstance(result, str):
                        rows.append(_quarantined(row, "analysis", result))
                    else:
                        rows.append(clip_rows.complete_analysis(row, result))
            tasks = alone
        storage.remove_leftovers(targets)
    return rows


_Item = TypeVar("_Item", VideoRow, AnalysisRow)
_Finished = TypeVar("_Finished", Measured, Analysed)


def _quarantined(row: _Item, stage: QuarantineStage, error: str) -> _Item:
    _log.warning("quarantined %r: %s", row.item_id, error)
    return clip_rows.quarantined(row, stage, error)


def _names(rows: Sequence[AnalysisRow]) -> str:
    return ", ".join(repr(row.item_id) for row in rows)


def _divided(
    expected: Sequence[_Item], journal: Journal[_Finished], root: Path
) -> tuple[list[tuple[_Item, _Finished]], list[_Item]]:
    """The rows of finished items, each with what was measured of it, and the rows of the others."""
    kept, todo = [], []
    for row in expected:
        done = journal.find(row.recipe_id, root / row.path if row.path else None)
        if done is None:
            todo.append(row)
        else:
            kept.append((row, done))
    log_kept(len(kept), len(expected))
    return kept, todo
