"""Checks the manifests of clips, the clean and the perturbed ones, with every file that they name.

What decodes or renders runs in processes of its own, several at once.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from perturbations.base import storage, tars
from perturbations.base.progress import Tick, no_tick
from perturbations.engine import supervise
from perturbations.manifest import files, machine, sets
from perturbations.manifest.kinds import SourceRow, VideoRow
from perturbations.media import sound
from perturbations.verify import clip_checks, clip_repair, repair
from perturbations.verify.clip_checks import Checked, ClipCheck
from perturbations.verify.clip_repair import ClipRepair
from perturbations.verify.corpus_set import VerifiedCorpus
from perturbations.verify.derived import doubled
from perturbations.verify.findings import Finding, name_of
from perturbations.verify.manifest_check import ManifestCheck, Options


def check_sources(task: ManifestCheck[SourceRow]) -> Iterator[Finding]:
    """The clean clips: every row, and its video."""
    manifest = task.manifest
    yield from doubled(manifest)
    listed = sets.of_sources(manifest.rows).columns()
    if manifest.about.get(sets.SET) != listed:
        problem = f"its metadata says {manifest.about.get(sets.SET)}, but its rows give {listed}"
        yield Finding(manifest.path, "", problem)
    unrecorded = manifest.unrecorded
    corrected = []
    for row, checked in _checked(
        partial(_check_source, root=manifest.root, unrecorded=unrecorded), manifest.rows, task.options
    ):
        for problem in checked.problems:
            yield Finding(manifest.path, name_of(row, manifest.kind.key), problem)
        corrected.append(checked.corrected if isinstance(checked.corrected, SourceRow) else row)
    distinct = {row.item_id: row for row in corrected}
    # A listed item whose row is lost cannot be restored here: only planning can list it again.
    whole = manifest.part(sets.SET).get("listed") == len(distinct)
    task.corrected = list(distinct.values()) if whole else None


def check_videos(task: ManifestCheck[VideoRow]) -> Iterator[Finding]:
    """A corpus: the set of its rows, every row, and its file."""
    manifest, options, summary = task.manifest, task.options, task.summary
    corpus = VerifiedCorpus(task.tree, manifest)
    corpus.check_set()
    expected = 0
    lost = []

    def corrected() -> Iterator[VideoRow]:
        nonlocal expected
        for clips in corpus.tasks(fast=options.fast, remake=task.remake):
            expected += len(clips)
            for clip, checked in _checked(_check_video, clips, options):
                subject = name_of(clip.expected, manifest.kind.key)
                if checked.may_be_put_back and clip.row is not None:
                    lost.append((clip.row, Finding(manifest.path, subject, checked.damage)))
                else:
                    summary.findings += [Finding(manifest.path, subject, problem) for problem in checked.problems]
                if checked.remark:
                    summary.remarks[checked.remark] += 1
                row = checked.corrected or clip.row
                if isinstance(row, VideoRow) and task.remake:
                    yield row

    rows = files.in_order(manifest.kind, corrected())
    _put_back(task, lost)
    yield from corpus.findings
    note = machine.note(str(manifest.about.get("cpu_features", "")))
    if note and summary.findings:
        summary.remarks[note] = expected
    is_whole = len(rows) == expected and corpus.sources is not None
    task.corrected = rows if is_whole else None


def _check_source(row: SourceRow, tick: Tick, hashes: bool, *, root: Path, unrecorded: Sequence[str]) -> Checked:
    return clip_checks.check_source(row, root, hashes, tick, unrecorded)


def _check_video(task: ClipCheck, tick: Tick, hashes: bool) -> Checked:
    return clip_checks.check_video(replace(task, fast=True, remake=False) if hashes else task, tick)


_FEW = 2
"""Clips that may be damaged also where they are most of a corpus."""


def _put_back(task: ManifestCheck[VideoRow], lost: Sequence[tuple[VideoRow, Finding]]) -> None:
    """Put clips back, where that is to be done and the judge permits it; what is left is a finding."""
    summary, manifest = task.summary, task.manifest
    permitted = repair.permission(task.tree, manifest) if task.options.repair and not task.remake else None
    others = sum(os.path.lexists(manifest.root / tars.file_of(row.path or "")) for row, _ in lost)
    if permitted is not None and others > max(_FEW, sum(row.path is not None for row in manifest.rows) / 2):
        permitted = repair.Permission(f"{others} files are others than its rows say, so it may be of other clips")
    if permitted is None or permitted.refusal or not lost:
        summary.findings += [finding for _, finding in lost]
        if permitted is not None and lost:
            summary.findings.append(Finding(manifest.path, "", f"no clip is put back: {permitted.refusal}"))
        return
    with_sound = sound.is_wanted(row.audio for row in manifest.rows)
    with storage.scratch_directory() as folder:
        repairs = [
            ClipRepair(
                row, manifest.root, permitted.replaces, with_sound, task.options.dry_run, _member(row, folder, number)
            )
            for number, (row, _) in enumerate(lost)
        ]
        work = partial(_supervised_repairs, task.options.stall_limit_s)
        reasons = [*_in_slices(work, repairs, task.options.jobs, 16)]
        if not task.options.dry_run:
            reasons = _with_tars(manifest.rows, repairs, reasons)
    for (_, finding), reason in zip(lost, reasons, strict=True):
        if reason:
            summary.findings.append(replace(finding, problem=f"{finding.problem}; it is not put back: {reason}"))
        else:
            summary.repaired.append(finding)


def _member(row: VideoRow, folder: str, number: int) -> Path | None:
    """The place in a scratch folder where a member of a tar is made; None for a clip in a file of its own."""
    member = tars.named(row.path or "")
    return None if member is None else Path(folder, f"{number}.{member[2].partition('.')[2]}")


def _with_tars(rows: Sequence[VideoRow], repairs: Sequence[ClipRepair], reasons: Sequence[str]) -> list[str]:
    """The reasons of repairs, once what was made of tars is put back into them; `rows` are those of the manifest."""
    members: dict[str, dict[str, Path]] = defaultdict(dict)
    for clip, reason in zip(repairs, reasons, strict=True):
        if clip.row.path is not None and clip.member is not None and not reason:
            members[tars.file_of(clip.row.path)][clip.row.path] = clip.member
    held: dict[str, list[VideoRow]] = defaultdict(list)
    for row in rows if members else ():
        held[tars.file_of(row.path or "")].append(row)
    root = repairs[0].root
    failed = {tar: clip_repair.patch_tar(root, tar, clips, held[tar]) for tar, clips in members.items()}
    files = (tars.file_of(clip.row.path or "") for clip in repairs)
    return [reason or failed.get(file, "") for file, reason in zip(files, reasons, strict=True)]


def _supervised_repairs(stall_limit_s: float, items: Sequence[ClipRepair]) -> list[str]:
    outcomes = supervise.run(
        clip_repair.put_back, items, stall_limit_s=stall_limit_s, name=lambda item: repr(item.row.item_id)
    )
    return [outcome.error or outcome.result or "" for outcome in outcomes]


_Item = TypeVar("_Item", ClipCheck, SourceRow)
_In = TypeVar("_In")
_Out = TypeVar("_Out")
_Check = Callable[[_Item, Tick, bool], Checked]
"""Checks an item; only its hashes where the last argument is true."""


def _checked(check: _Check[_Item], items: Sequence[_Item], options: Options) -> Iterator[tuple[_Item, Checked]]:
    """Each item with the result of its check. Only what decodes or renders runs in processes of its own."""
    checked: list[Checked | None] = [None] * len(items)
    if options.fast:
        checked = [*_in_slices(partial(_hashes, check), items, options.jobs, 512)]
    rest = [place for place, done in enumerate(checked) if done is None or _needs_remaking(items[place], done)]
    supervised = partial(_supervised, check, options.stall_limit_s)
    for place, done in zip(
        rest, _in_slices(supervised, [items[place] for place in rest], options.jobs, 16), strict=True
    ):
        checked[place] = done
    yield from zip(items, (done for done in checked if done is not None), strict=True)


def _needs_remaking(item: ClipCheck | SourceRow, checked: Checked) -> bool:
    return isinstance(item, ClipCheck) and item.remake and bool(checked.damage or item.row is None)


def _in_slices(
    work: Callable[[Sequence[_In]], list[_Out]], items: Sequence[_In], jobs: int, size: int
) -> Iterator[_Out]:
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
