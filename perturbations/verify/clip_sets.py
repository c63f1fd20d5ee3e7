"""Checks the manifests of clips, the clean and the perturbed ones, with every file that they name.

What decodes or renders runs in processes of its own, several at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from perturbations.base.progress import Tick, no_tick
from perturbations.engine import supervise
from perturbations.manifest import machine, sets
from perturbations.manifest.kinds import SourceRow, VideoRow
from perturbations.verify import clip_checks
from perturbations.verify.clip_checks import Checked, ClipCheck
from perturbations.verify.corpus_set import VerifiedCorpus
from perturbations.verify.derived import doubled
from perturbations.verify.findings import Finding, name_of
from perturbations.verify.manifest_check import ManifestCheck, Options


def check_sources(task: ManifestCheck[SourceRow]) -> Iterator[Finding]:
    """The clean clips: every row, and its video."""
    manifest = task.manifest
    yield from doubled(manifest)
    listed = sets.of_sources(manifest.rows).columns()
    if manifest.about.get("set") != listed:
        problem = f"its metadata says {manifest.about.get('set')}, but its rows give {listed}"
        yield Finding(manifest.path, "", problem)
    unrecorded = manifest.unrecorded
    corrected = []
    for row, checked in _checked(
        partial(_check_source, root=manifest.root, unrecorded=unrecorded), manifest.rows, task.options
    ):
        for problem in checked.problems:
            yield Finding(manifest.path, name_of(row, manifest.kind.key), problem)
        task.summary.guessed |= checked.guessed
        corrected.append(checked.corrected if isinstance(checked.corrected, SourceRow) else row)
    distinct = {row.item_id: row for row in corrected}
    # A listed item whose row is lost cannot be restored here: only planning can list it again.
    whole = manifest.part("set").get("listed") == len(distinct)
    task.corrected = list(distinct.values()) if whole else None


def check_videos(task: ManifestCheck[VideoRow]) -> Iterator[Finding]:
    """A corpus: the set of its rows, every row, and its file."""
    manifest, options, summary = task.manifest, task.options, task.summary
    corpus = VerifiedCorpus(task.tree, manifest)
    corpus.check_set()
    clips = corpus.tasks(fast=options.fast, repair=options.repair, rewrite=task.rewrite)
    corrected = []
    for clip, checked in _checked(_check_video, clips, options):
        subject = name_of(clip.expected, manifest.kind.key)
        summary.findings += [Finding(manifest.path, subject, problem) for problem in checked.problems]
        if checked.remark:
            summary.remarks[checked.remark] = summary.remarks.get(checked.remark, 0) + 1
        summary.mended += checked.mended
        row = checked.corrected or clip.row
        if row is not None:
            corrected.append(row)
    yield from corpus.findings
    note = machine.note(str(manifest.about.get("cpu_features", "")))
    if note and summary.findings:
        summary.remarks[note] = len(clips)
    is_whole = len(corrected) == len(clips) and corpus.sources is not None
    task.corrected = corrected if is_whole else None


def _check_source(row: SourceRow, tick: Tick, hashes: bool, *, root: Path, unrecorded: Sequence[str]) -> Checked:
    return clip_checks.check_source(row, root, hashes, tick, unrecorded)


def _check_video(task: ClipCheck, tick: Tick, hashes: bool) -> Checked:
    return clip_checks.check_video(replace(task, fast=True, repair=False) if hashes else task, tick)


_Item = TypeVar("_Item", ClipCheck, SourceRow)
_Check = Callable[[_Item, Tick, bool], Checked]
"""Checks an item; only its hashes where the last argument is true."""


def _checked(check: _Check[_Item], items: Sequence[_Item], options: Options) -> Iterator[tuple[_Item, Checked]]:
    """Each item with the result of its check. Only what decodes or renders runs in processes of its own."""
    checked: list[Checked | None] = [None] * len(items)
    if options.fast:
        checked = list(_in_slices(partial(_hashes, check), items, options.jobs, 512))
    rest = [
        place
        for place, done in enumerate(checked)
        if done is None or (options.repair and done.damaged and not isinstance(items[place], SourceRow))
    ]
    supervised = partial(_supervised, check, options.stall_limit_s)
    for place, done in zip(
        rest, _in_slices(supervised, [items[place] for place in rest], options.jobs, 16), strict=True
    ):
        checked[place] = done
    yield from zip(items, (done for done in checked if done is not None), strict=True)


def _in_slices(
    work: Callable[[Sequence[_Item]], list[Checked]], items: Sequence[_Item], jobs: int, size: int
) -> Iterator[Checked]:
    slices = [items[start : start + size] for start in range(0, len(items), size)]
    if jobs == 1 or len(slices) < 2:
        for part in slices:
            yield from work(part)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for results in pool.map(work, slices):
            yield from results


def _readable(check: _Check[_Item], hashes: bool, item: _Item, tick: Tick) -> Checked:
    """Check an item; a file that may not be read is a finding, and the others are checked."""
    try:
        return check(item, tick, hashes)
    except PermissionError as error:
        return Checked((f"a file cannot be read: {error.filename or error}: permission denied",), None)


def _hashes(check: _Check[_Item], items: Sequence[_Item]) -> list[Checked]:
    return [_readable(check, True, item, no_tick) for item in items]


def _named(item: ClipCheck | SourceRow) -> str:
    return repr((item.expected if isinstance(item, ClipCheck) else item).item_id)


def _supervised(check: _Check[_Item], stall_limit_s: float, items: Sequence[_Item]) -> list[Checked]:
    work = partial(_readable, check, False)
    outcomes = supervise.run(work, items, stall_limit_s=stall_limit_s, name=_named)
    return [outcome.result or Checked((outcome.error or "",), None) for outcome in outcomes]
