"""The jobs of rules that process a shard of clips: sources, analyses, videos.

A job works through its clips in order, quarantines the clips that fail, and keeps finished clips when it is killed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from perturbations.base import limits as limits_of_files
from perturbations.base import storage, supervise
from perturbations.base.progress import Tick, counted, log_kept
from perturbations.base.records import canonical
from perturbations.corpus.plan import clip_lists
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.plan.recipe import VideoRecipe
from perturbations.corpus.render.clean_clips import cuts_in, source_of
from perturbations.corpus.store import clip_rows, journal, stored_clip
from perturbations.corpus.store.journal import Measured, ShardJournal
from perturbations.manifest import files, manifest_paths
from perturbations.manifest.rows import (
    ANALYSES,
    COMPLETE,
    QUARANTINED,
    SOURCES,
    VIDEOS,
    AnalysisRow,
    CompleteSource,
    QuarantineStage,
    SourceRow,
    VideoRow,
)
from perturbations.media import encoding
from perturbations.media import sound as sounds
from perturbations.models.guides import guide_registry as guides
from perturbations.models.guides.guide_registry import Analysed, Known, parse_analysis

_log = logging.getLogger("perturbations")

STALL_LIMIT_S = 120.0
"""Seconds without progress after which a clip is given up, where the job's rule says nothing."""
NO_LIMITS: Mapping[str, int] = {}
"""No limit of config.yaml is set: each one has its default."""


def sources(
    *,
    dataset: str,
    version: int,
    drawn: bool,
    listed: Path,
    part: Path,
    timeout_s: float = STALL_LIMIT_S,
    limits: Mapping[str, int] = NO_LIMITS,
) -> None:
    """Decode and describe the clips of a shard; first draw those of a synthetic dataset (`drawn`).

    `version` changes when decoding does.
    """
    from perturbations.demo.train_encoder import draw

    limits_of_files.use(limits)

    def work(clip: ListedClip, tick: Tick) -> CompleteSource:
        if drawn:
            draw(clip.item_id, Path(clip.path))
        return clip_rows.source_row(dataset, clip, tick)

    clips = clip_lists.read(listed, ListedClip)
    rows: list[SourceRow] = []
    count = counted(len(clips), "clips")
    outcomes = supervise.run(work, clips, stall_limit_s=timeout_s, name=lambda clip: repr(clip.item_id))
    for clip, row, error in outcomes:
        count()
        if row is None:
            _log.warning("quarantined %r: %s", clip.item_id, error)
        rows.append(row or clip_rows.quarantined_source(dataset, clip, str(error)))
    files.write_part(part, SOURCES, rows)


def videos(
    *,
    recipe: Mapping[str, Any],
    sources: Path,
    output: list[Path],
    timeout_s: float = STALL_LIMIT_S,
    limits: Mapping[str, int] = NO_LIMITS,
    analysis: Path | None = None,
    donors: Path | None = None,
    whole: list[Path] | None = None,
    sound: bool = False,
    tar: bool = False,
) -> None:
    """Perturb the clips of a shard by one recipe; clips that are in the journal beside the part are kept.

    `output` is the part of the manifest; where clips are stored, their marker in the folder of clips comes before it.
    `analysis` and `donors` hold what a guide needs of the clips, `whole` the videos that clips are cut from. Videos
    have the sources' `sound`. With `tar`, the files are moved into the shard's tar at the end.
    """
    limits_of_files.use(limits)
    wanted = VideoRecipe(**recipe)
    if encoder := wanted.entry.encoder(wanted.params):
        encoding.check_ffmpeg(encoder)
    *markers, part = output
    folder = (markers[0] if markers else part).parent
    of_donors = [] if donors is None else files.read_part(donors, ANALYSES)
    known = Known(_by_item(analysis), [row for row in of_donors if row.status == COMPLETE])
    cut_of = None
    if wanted.whole_videos:
        cut_of = cuts_in([row for path in whole or () for row in files.read_part(path, SOURCES)])
    rows: list[VideoRow] = []
    expected: list[VideoRow] = []
    targets: dict[str, Path] = {}
    suffix = stored_clip.extension(wanted) or ""
    for source in _complete(sources):
        target = stored_clip.target_of(wanted, folder, source.item_id)
        row = clip_rows.expected_video(wanted, source, target.as_posix() if target else None, known, cut_of)
        targets |= {journal.member_name(source.item_id, suffix): target} if target else {}
        if row.error is None:
            expected.append(row)
        else:
            _log.warning("quarantined %r: %s", row.item_id, row.error)
            rows.append(row)
    # Clips of one video follow each other, because they share its decoded or encoded frames.
    expected.sort(key=lambda row: (row.source_path, row.start_s or 0.0, row.item_id))

    def work(row: VideoRow, tick: Tick) -> Measured:
        analysed = _kept_file(known.rows.get(row.item_id))
        source = replace(source_of(row, wanted), kept=analysed, scratch=Path(scratch) if row.cut else None)
        measured = stored_clip.make_clip(wanted, source, Path(row.path or ""), tick, with_sound=sound)
        # In the worker, not where results arrive: by then the next clip may have started, and a kill would lose both.
        finished.add(row.recipe_id, measured)
        return measured

    with storage.one_job(manifest_paths.journal_of(part)), storage.scratch_directory() as scratch:
        storage.remove_leftovers(targets.values())
        finished = ShardJournal(manifest_paths.journal_of(part), {row.recipe_id for row in expected})
        finished.forget(lambda measured: sounds.is_other(measured.get("audio"), with_sound=sound))
        held = folder / manifest_paths.name("clip_tar", shard=part.stem)
        if targets:
            journal.unpack(held, targets)
            kept = {Path(row.path or "") for row in expected if row.recipe_id in finished}
            lacking = {name: path for name, path in targets.items() if path in kept and not path.exists()}
            for other in folder.glob(manifest_paths.name("clip_tar", shard="*")) if lacking else ():
                journal.copy_members(other, lacking)  # of a shard that held them before
        rows += _complete_or_quarantined(expected, finished, work, "video", timeout_s)
        storage.remove_leftovers(targets.values())  # of workers that were killed
        if tar:
            rows = journal.pack(held, rows, targets, suffix)
    files.write_part(part, VIDEOS, rows)
    for marker in markers:
        storage.write_text(marker, journal.marker_of((row.path, row.bytes) for row in rows))


def analyses(
    *,
    recipe: Mapping[str, Any],
    sources: Path,
    part: Path,
    timeout_s: float = STALL_LIMIT_S,
    limits: Mapping[str, int] = NO_LIMITS,
    before: Path | None = None,
) -> None:
    """Analyse the clips of a shard; clips that are in the journal beside the part are kept.

    `before` is the part of the analysis that this one builds on. A folder beside the part takes the files of analyses
    whose results are too large for a row.
    """
    limits_of_files.use(limits)
    wanted = parse_analysis(canonical(recipe))
    clips = {source.item_id: source for source in _complete(sources)}
    builds_on = _by_item(before)
    suffix, folder = guides.analysis(wanted.analysis).extension, part.parent / "files"
    targets = {item_id: folder / (storage.file_stem(item_id) + suffix) for item_id in clips} if suffix else {}
    expected = [
        clip_rows.expected_analysis(wanted, source, targets[item_id].as_posix() if targets else None)
        for item_id, source in clips.items()
    ]

    def work(row: AnalysisRow, tick: Tick) -> Analysed:
        result = wanted.run(source_of(clips[row.item_id]), _file_of(row), builds_on.get(row.item_id), tick)
        finished.add(row.recipe_id, result)
        return result

    with storage.one_job(manifest_paths.journal_of(part)):
        storage.remove_leftovers(targets.values())
        finished = ShardJournal(manifest_paths.journal_of(part), {row.recipe_id for row in expected})
        rows = list(_complete_or_quarantined(expected, finished, work, "analysis", timeout_s))
        storage.remove_leftovers(targets.values())
    files.write_part(part, ANALYSES, rows)


def _complete(sources: Path) -> list[CompleteSource]:
    """The clips of a part that can be used."""
    return [row for row in files.read_part(sources, SOURCES) if isinstance(row, CompleteSource)]


def _by_item(path: Path | None) -> dict[str, AnalysisRow]:
    return {} if path is None else {row.item_id: row for row in files.read_part(path, ANALYSES)}


_Item = TypeVar("_Item", VideoRow, AnalysisRow)


def _file_of(row: VideoRow | AnalysisRow) -> Path | None:
    return Path(row.path) if row.path else None


def _kept_file(row: AnalysisRow | None) -> Path | None:
    """The file that an analysis keeps besides its row; None, so that it is computed again, where the file changed."""
    path = _file_of(row) if row else None
    return path if row and path and path.is_file() and storage.sha256(path) == row.sha256 else None


def _complete_or_quarantined(
    expected: Sequence[_Item],
    finished: ShardJournal,
    work: Callable[[_Item, Tick], Measured],
    stage: QuarantineStage,
    timeout_s: float,
) -> Iterator[_Item]:
    """The row of each item, finished ones first: complete, or quarantined with the reason. A child does the work."""
    measured = [finished.find(row.recipe_id, _file_of(row)) for row in expected]
    kept = [clip_rows.complete(row, result) for row, result in zip(expected, measured, strict=True) if result]
    log_kept(len(kept), len(expected))
    yield from kept
    todo = [row for row, result in zip(expected, measured, strict=True) if not result]
    count = counted(len(todo), "clips")
    outcomes = supervise.run(work, todo, stall_limit_s=timeout_s, name=lambda row: repr(row.item_id))
    for row, result, error in outcomes:
        count()
        if result:
            yield clip_rows.complete(row, result)
        else:
            _log.warning("quarantined %r: %s", row.item_id, error)
            yield replace(row, path=None, status=QUARANTINED, stage=stage, error=error)
