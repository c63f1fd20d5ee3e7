"""`perturb verify`: compares every manifest of a tree with its neighbours, the declarations and the files.

With `fast`, only hashes and membership are compared. Otherwise every clip and caption is made again and compared cell
by cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from perturbations.base import wings
from perturbations.base.errors import ManifestError, OutputError, UnknownPerturbationError
from perturbations.base.tools import tool_versions
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
from perturbations.verify import clips, derived, tree
from perturbations.verify.clips import Checked, Task
from perturbations.verify.corpus import Corpus
from perturbations.verify.findings import Finding, name_of
from perturbations.verify.tree import Manifest, Tree

_SLICE = 16


@dataclass(frozen=True)
class Options:
    """How to verify.

    Attributes:
        jobs: number of processes.
        stall_limit_s: seconds without progress after which a clip fails.
        fast: whether to compare hashes and membership only.
        repair: whether to repair what is wrong.
    """

    jobs: int = 1
    stall_limit_s: float = 120.0
    fast: bool = False
    repair: bool = False


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
        trusting: whether rows keep measured cells that were not measured again.
        is_manifest: False for a folder.
    """

    path: Path
    rows: int
    incomplete: int = 0
    findings: list[Finding] = field(default_factory=list)
    remarks: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mended: int = 0
    trusting: bool = False
    is_manifest: bool = True


def verify(paths: Sequence[Path], options: Options) -> Iterator[Summary]:
    """Verify manifests in the order of their dependencies, then the files that belong to none.

    Raises `ManifestError` where there is no manifest.
    """
    looked_at = tree.read(paths)
    order = {SOURCES.name: 0, "captions": 1, "analyses": 2, VIDEOS.name: 3, "texts": 3}
    for manifest in sorted(looked_at.chosen, key=lambda manifest: order.get(manifest.kind.name, 4)):
        summary = Summary(manifest.path, len(manifest.rows))
        try:
            _verify(looked_at, manifest, options, summary)
        except (LookupError, TypeError, ValueError, UnknownPerturbationError) as error:
            # The expected rows cannot be computed where the rows of other manifests contradict each other.
            problem = f"its rows and its neighbours' do not fit together: {type(error).__name__}: {error}"
            summary.findings.append(Finding(manifest.path, "", problem))
        except OutputError as error:  # what was found is told, and the other manifests are verified
            summary.findings.append(Finding(manifest.path, "", f"it cannot be repaired: {error}"))
        summary.findings = list(dict.fromkeys(summary.findings))
        yield summary
    damaged: dict[Path, list[Finding]] = defaultdict(list)
    strangers: dict[Path, list[Finding]] = defaultdict(list)
    for finding in dict.fromkeys([*looked_at.findings, *tree.strangers(looked_at)]):
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


def _verify(looked_at: Tree, manifest: Manifest[object], options: Options, summary: Summary) -> None:
    summary.incomplete = sum(getattr(row, "status", COMPLETE) != COMPLETE for row in manifest.rows)
    corrected: Sequence[object] | None = None
    if (videos := manifest.of(VIDEOS)) is not None:
        corrected = _verify_videos(looked_at, videos, options, summary)
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
    summary.findings += _as_written(manifest)
    try:
        summary.notes += skipped.sentences(skipped.of_manifest(manifest.about))
    except ManifestError as error:
        summary.findings.append(Finding(manifest.path, "", str(error)))
    if options.repair and summary.findings and corrected is not None:
        if summary.trusting and not _as_before(manifest, corrected):
            summary.findings.append(Finding(manifest.path, "", _UNTRACED))
            return
        _write_again(looked_at, manifest, corrected)
        looked_at.forget(manifest.path)
        summary.mended += 1


_UNTRACED = (
    "it is not repaired: a cell was changed that only measuring again tells; run `perturb verify --repair` without "
    "--fast, or delete the manifest and run snakemake"
)


def _as_before(manifest: Manifest[object], rows: Sequence[object]) -> bool:
    """Whether rows have no unknown change: the manifest's cells are as they were written, or will be.

    To write a changed cell with a new hash would hide the change for ever.
    """
    name = "content_sha256"
    recorded = manifest.about.get(name)
    tables = (files.table_of(manifest.kind, manifest.rows), files.table_of(manifest.kind, rows))
    return any(files.describe(manifest.kind, table)[name] == recorded for table in tables)


def _as_written(manifest: Manifest[object]) -> list[Finding]:
    """A finding where a manifest's counts and hashes differ from its rows."""
    names = files.changed_parts(manifest.path, manifest.kind, manifest.rows)
    problem = f"it was changed after it was written: {', '.join(names)} differ"
    return [Finding(manifest.path, "", problem)] if names else []


def _write_again(looked_at: Tree, manifest: Manifest[object], rows: Sequence[object]) -> None:
    """Write a manifest with its expected rows; a row that is not known stays a finding."""
    about = {name: value for name, value in manifest.about.items() if name not in ("statuses", "rows")}
    if manifest.kind.name == SOURCES.name:
        about["set"] = sets.of_sources([row for row in rows if isinstance(row, SourceRow)]).columns()
    sources = looked_at.neighbour(manifest.path.parent.parent / "sources.parquet", SOURCES)
    if manifest.kind.name == VIDEOS.name and sources is not None:
        videos = [row for row in rows if isinstance(row, VideoRow)]
        scenarios = len({(row.perturbation, row.severity) for row in videos})
        about["set"] = sets.of_corpus(sources.rows, videos, scenarios).columns()
    files.write(manifest.path, manifest.kind, rows, about)


def _verify_sources(manifest: Manifest[SourceRow], options: Options, summary: Summary) -> list[SourceRow] | None:
    summary.findings += derived.doubled(manifest)
    listed = sets.of_sources(manifest.rows).columns()
    if manifest.about.get("set") != listed:
        problem = f"its metadata says {manifest.about.get('set')}, but its rows give {listed}"
        summary.findings.append(Finding(manifest.path, "", problem))
    check = partial(_check_source, root=manifest.root, fast=options.fast)
    corrected = []
    for row, checked in _checked(check, manifest.rows, options):
        for problem in checked.problems:
            summary.findings.append(Finding(manifest.path, name_of(row, manifest.kind.key), problem))
        summary.trusting |= options.fast or checked.corrected is None
        corrected.append(checked.corrected if isinstance(checked.corrected, SourceRow) else row)
    distinct = {row.item_id: row for row in corrected}
    # A listed item whose row is lost cannot be restored here: only planning can list it again.
    whole = manifest.part("set").get("listed") == len(distinct)
    return list(distinct.values()) if whole else None


def _verify_videos(
    looked_at: Tree, manifest: Manifest[VideoRow], options: Options, summary: Summary
) -> Sequence[object] | None:
    corpus = Corpus(looked_at, manifest)
    corpus.check_set()
    tools = tool_versions()
    same_tools = all(manifest.part("tools").get(name) == version for name, version in tools.items())
    tasks = corpus.tasks(fast=options.fast, repair=options.repair, same_tools=same_tools)
    corrected = []
    for task, checked in _checked(clips.check_video, tasks, options):
        subject = name_of(task.expected, manifest.kind.key)
        summary.findings += [Finding(manifest.path, subject, problem) for problem in checked.problems]
        if checked.remark:
            summary.remarks[checked.remark] = summary.remarks.get(checked.remark, 0) + 1
        summary.mended += checked.mended
        summary.trusting |= not checked.mended and (options.fast or bool(checked.remark) or checked.corrected is None)
        row = checked.corrected or task.row
        if row is not None:
            corrected.append(row)
    summary.findings += corpus.findings
    note = machine.note(str(manifest.about.get("cpu_features", "")))
    if note and summary.findings:
        summary.remarks[note] = len(tasks)
    return corrected if len(corrected) == len(tasks) and corpus.sources is not None else None


def _check_source(row: SourceRow, tick: supervise.Tick, *, root: Path, fast: bool) -> Checked:
    return clips.check_source(row, root, fast, tick)


Item = TypeVar("Item", Task, SourceRow)
Check = Callable[[Item, supervise.Tick], Checked]


def _checked(check: Check[Item], items: Sequence[Item], options: Options) -> Iterator[tuple[Item, Checked]]:
    slices = [items[start : start + _SLICE] for start in range(0, len(items), _SLICE)]
    if options.jobs == 1:
        for part in slices:
            yield from zip(part, _check_slice(check, part, options.stall_limit_s), strict=True)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        checked = pool.map(partial(_check_slice, check, stall_limit_s=options.stall_limit_s), slices)
        for part, results in zip(slices, checked, strict=True):
            yield from zip(part, results, strict=True)


def _named(item: Task | SourceRow) -> str:
    return repr((item.expected if isinstance(item, Task) else item).item_id)


def _readable(check: Check[Item], item: Item, tick: supervise.Tick) -> Checked:
    """Check an item; a file that may not be read is a finding, and the others are checked."""
    try:
        return check(item, tick)
    except PermissionError as error:
        return Checked((f"a file cannot be read: {error.filename or error}: permission denied",), None)


def _check_slice(check: Check[Item], items: Sequence[Item], stall_limit_s: float) -> list[Checked]:
    outcomes = supervise.run(partial(_readable, check), items, stall_limit_s=stall_limit_s, name=_named)
    return [outcome.result or Checked((outcome.error or "",), None) for outcome in outcomes]
