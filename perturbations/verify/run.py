"""`perturb verify`: compares every manifest of a tree with its neighbours, the declarations and the files.

With `fast`, only hashes and membership are compared. Otherwise every clip and caption is made again and compared cell
by cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from perturbations.base import storage, sums, wings
from perturbations.base.errors import ManifestError, OutputError, UnknownPerturbationError
from perturbations.base.progress import Tick, no_tick
from perturbations.engine import supervise
from perturbations.manifest import files, machine, sets, skipped
from perturbations.manifest.kinds import (
    ANALYSES,
    CAPTIONS,
    COMPLETE,
    QUARANTINE,
    SOURCES,
    TEXTS,
    VIDEOS,
    SourceRow,
    VideoRow,
)
from perturbations.verify import clip_checks, derived, repair, tree
from perturbations.verify.clip_checks import Checked, ClipCheck
from perturbations.verify.corpus_set import VerifiedCorpus
from perturbations.verify.findings import Finding, name_of
from perturbations.verify.tree import Manifest, Tree


@dataclass(frozen=True)
class Options:
    """How to verify.

    Attributes:
        jobs: number of processes.
        stall_limit_s: seconds without progress after which a clip fails.
        fast: whether to compare hashes and membership only.
        repair: whether to repair what is wrong.
        version: of this package, whose words of comparability are compared; empty: none are.
    """

    jobs: int = 1
    stall_limit_s: float = 120.0
    fast: bool = False
    repair: bool = False
    version: str = ""


@dataclass
class Summary:
    """The result of verifying one manifest, or a folder of a corpus that holds files which no row names.

    Attributes:
        path: of the manifest, or of the folder.
        rows: number of rows.
        incomplete: number of quarantined or missing rows.
        findings: the problems.
        remarks: the number of rows that could not be verified completely, by reason; these are no problems of the rows.
        notes: what the manifest leaves out, and why; no problems.
        mended: number of repaired rows or files.
        guessed: whether a source's file or its row was changed, and its expected row is that of the file.
        is_manifest: False for a folder.
    """

    path: Path
    rows: int
    incomplete: int = 0
    findings: list[Finding] = field(default_factory=list)
    remarks: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mended: int = 0
    guessed: bool = False
    is_manifest: bool = True


def verify(paths: Sequence[Path], options: Options) -> Iterator[Summary]:
    """Verify manifests in the order of their dependencies, then the files that belong to none.

    Raises `ManifestError` where there is no manifest.
    """
    looked_at = tree.read(paths)
    looked_at.version = options.version
    sound: dict[Path, bool] = {}
    for manifest in sorted(looked_at.chosen, key=lambda manifest: _ORDER.get(manifest.kind.name, 4)):
        unsound = cache(partial(_unsound_parent, looked_at, manifest, sound))
        rewrite = options.repair and unsound() is None
        summary, corrected = _verified(looked_at, manifest, options, rewrite=rewrite)
        sound[manifest.path] = not summary.findings
        if options.repair and summary.findings:
            _repair(looked_at, manifest, corrected, summary, unsound)
            again = looked_at.at(manifest.path)
            after = replace(options, fast=True, repair=False)
            sound[manifest.path] = again is not None and not _verified(looked_at, again, after)[0].findings
        yield summary
    damaged: dict[Path, list[Finding]] = defaultdict(list)
    strangers: dict[Path, list[Finding]] = defaultdict(list)
    for finding in dict.fromkeys([*looked_at.findings, *tree.listed(looked_at), *tree.strangers(looked_at)]):
        is_stranger = finding.problem in (tree.LEFTOVER, tree.UNNAMED)
        by_place = strangers if is_stranger else damaged
        by_place[finding.place.parent if is_stranger else finding.place].append(finding)
    for place, findings in damaged.items():
        yield Summary(place, 0, findings=findings)
    for folder, findings in strangers.items():
        leftovers = {finding.place for finding in findings if finding.problem == tree.LEFTOVER}
        if options.repair:
            for path in leftovers:
                path.unlink()
        yield Summary(folder, 0, findings=findings, mended=len(leftovers) * options.repair, is_manifest=False)


def _checks_of_wings() -> dict[str, Callable[[Tree, Manifest[Any]], Iterator[Finding]]]:
    """The checks of the wings' manifests, by their kind."""
    return {kind: check for checks in wings.offered("checks") for kind, check in checks.items()}


_ORDER = {SOURCES.name: 0, "composed_queries": 0, "captions": 1, "analyses": 2, VIDEOS.name: 3, "texts": 3}


def _unsound_parent(looked_at: Tree, manifest: Manifest[object], sound: dict[Path, bool]) -> Path | None:
    """A manifest that the rows of another follow from, and that has a finding; None where all are sound."""
    for path in repair.parents(manifest):
        if path not in sound:  # it is not among those to verify
            parent = looked_at.at(path)
            findings = [] if parent is None else _verified(looked_at, parent, Options(fast=True))[0].findings
            sound[path] = parent is not None and not findings
        if not sound[path]:
            return path
    return None


def _verified(
    looked_at: Tree, manifest: Manifest[object], options: Options, *, rewrite: bool = False
) -> tuple[Summary, Sequence[object] | None]:
    """The findings of a manifest, and its expected rows, as far as they are known."""
    summary = Summary(manifest.path, len(manifest.rows))
    corrected = None
    try:
        corrected = _verify(looked_at, manifest, options, summary, rewrite=rewrite)
    except (LookupError, TypeError, ValueError, UnknownPerturbationError) as error:
        # The expected rows cannot be computed where the rows of other manifests contradict each other.
        problem = f"its rows and its neighbours' do not fit together: {type(error).__name__}: {error}"
        summary.findings.append(Finding(manifest.path, "", problem))
    except OutputError as error:  # what was found is reported, and the other manifests are verified
        summary.findings.append(Finding(manifest.path, "", f"it cannot be repaired: {error}"))
    summary.findings = list(dict.fromkeys(summary.findings))
    return summary, corrected


def _verify(
    looked_at: Tree, manifest: Manifest[object], options: Options, summary: Summary, *, rewrite: bool
) -> Sequence[object] | None:
    summary.incomplete = sum(getattr(row, "status", COMPLETE) != COMPLETE for row in manifest.rows)
    corrected: Sequence[object] | None = None
    if (videos := manifest.of(VIDEOS)) is not None:
        corrected = _verify_videos(looked_at, videos, options, summary, rewrite=rewrite)
    elif (sources := manifest.of(SOURCES)) is not None:
        corrected = _verify_sources(sources, options, summary)
    elif (listed := manifest.of(CAPTIONS)) is not None:
        summary.findings += derived.check_captions(looked_at, listed)
    elif (texts := manifest.of(TEXTS)) is not None:
        summary.findings += derived.check_texts(looked_at, texts, fast=options.fast, remarks=summary.remarks)
    elif (analyses := manifest.of(ANALYSES)) is not None:
        summary.findings += derived.check_analyses(looked_at, analyses, fast=options.fast)
    elif (rejected := manifest.of(QUARANTINE)) is not None and manifest.path.stem == "captions_quarantine":
        summary.findings += derived.check_rejected(rejected)
    elif (check := _checks_of_wings().get(manifest.kind.name)) is not None:
        summary.findings += check(looked_at, manifest)
    else:
        corrected = derived.expected_rows(looked_at, manifest)
        if corrected is not None:
            summary.findings += derived.check_derived(manifest, corrected)
    summary.findings += _as_written(looked_at, manifest)
    summary.notes += _unrecorded(manifest)
    try:
        summary.notes += skipped.sentences(skipped.of_manifest(manifest.about))
    except ManifestError as error:
        summary.findings.append(Finding(manifest.path, "", str(error)))
    return corrected


def _as_written(looked_at: Tree, manifest: Manifest[object]) -> Iterator[Finding]:
    """Findings where a manifest's metadata, counts and hashes differ from its rows, or its file from the list."""
    listed, stored = sums.recorded(manifest.path), storage.sha256(manifest.path)
    names = files.changed_parts(manifest.path, manifest.kind, manifest.rows, is_listed=listed == stored)
    if names:
        yield Finding(manifest.path, "", f"it was changed after it was written: {', '.join(names)} differ")
    expected = repair.metadata(looked_at, manifest, manifest.rows)
    for name in ("dataset", "comparability"):
        said, wanted = manifest.about.get(name), expected.get(name)
        if said != wanted:
            problem = f"its metadata says {name} {said!r:.200}, and its rows give {wanted!r:.200}"
            yield Finding(manifest.path, "", problem)
    if listed is None and files.LISTED in manifest.about:
        problem = f"{sums.list_of(manifest.path) or sums.NAME} does not list it: {repair.way(manifest.path)}"
        yield Finding(manifest.path, "", problem)
    elif listed not in (None, stored):
        yield Finding(manifest.path, "", f"it is not the file that {sums.list_of(manifest.path)} lists")


def _unrecorded(manifest: Manifest[object]) -> list[str]:
    """What the version that made a manifest did not record, in words."""
    parts = [f"the column '{name}'" for name in manifest.unrecorded]
    parts += [] if files.METADATA_HASH in manifest.about else ["a hash of its metadata"]
    parts += [] if files.LISTED in manifest.about else ["its file and pages in a list"]
    version = manifest.about.get("package_version", "of an unknown version")
    return [f"perturbations {version}, which made it, did not record {', '.join(parts)}"] if parts else []


def _repair(
    looked_at: Tree,
    manifest: Manifest[object],
    corrected: Sequence[object] | None,
    summary: Summary,
    unsound: Callable[[], Path | None],
) -> None:
    """Write a manifest again where that is safe; otherwise a finding says why not, and what to do."""
    rows = manifest.rows if corrected is None else corrected
    try:
        about = repair.metadata(looked_at, manifest, rows)
        is_derived = corrected is not None and not summary.guessed
        is_written, reason = repair.write(manifest, rows, about, derived=is_derived, unsound=unsound)
    except OutputError as error:
        is_written, reason = False, f"it cannot be repaired: {error}"
    summary.mended += is_written
    if is_written:
        looked_at.forget(manifest.path)
    elif reason:
        summary.findings.append(Finding(manifest.path, "", reason))


def _verify_sources(manifest: Manifest[SourceRow], options: Options, summary: Summary) -> list[SourceRow] | None:
    summary.findings += derived.doubled(manifest)
    listed = sets.of_sources(manifest.rows).columns()
    if manifest.about.get("set") != listed:
        problem = f"its metadata says {manifest.about.get('set')}, but its rows give {listed}"
        summary.findings.append(Finding(manifest.path, "", problem))
    unrecorded = manifest.unrecorded
    corrected = []
    for row, checked in _checked(
        partial(_check_source, root=manifest.root, unrecorded=unrecorded), manifest.rows, options
    ):
        for problem in checked.problems:
            summary.findings.append(Finding(manifest.path, name_of(row, manifest.kind.key), problem))
        summary.guessed |= checked.guessed
        corrected.append(checked.corrected if isinstance(checked.corrected, SourceRow) else row)
    distinct = {row.item_id: row for row in corrected}
    # A listed item whose row is lost cannot be restored here: only planning can list it again.
    whole = manifest.part("set").get("listed") == len(distinct)
    return list(distinct.values()) if whole else None


def _verify_videos(
    looked_at: Tree, manifest: Manifest[VideoRow], options: Options, summary: Summary, *, rewrite: bool
) -> Sequence[object] | None:
    corpus = VerifiedCorpus(looked_at, manifest)
    corpus.check_set()
    tasks = corpus.tasks(fast=options.fast, repair=options.repair, rewrite=rewrite)
    corrected = []
    for task, checked in _checked(_check_video, tasks, options):
        subject = name_of(task.expected, manifest.kind.key)
        summary.findings += [Finding(manifest.path, subject, problem) for problem in checked.problems]
        if checked.remark:
            summary.remarks[checked.remark] = summary.remarks.get(checked.remark, 0) + 1
        summary.mended += checked.mended
        row = checked.corrected or task.row
        if row is not None:
            corrected.append(row)
    summary.findings += corpus.findings
    note = machine.note(str(manifest.about.get("cpu_features", "")))
    if note and summary.findings:
        summary.remarks[note] = len(tasks)
    return corrected if len(corrected) == len(tasks) and corpus.sources is not None else None


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
