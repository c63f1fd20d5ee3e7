"""`perturb verify`: compares every manifest of a tree with its neighbours, the declarations and the files.

With `fast`, only hashes and membership are compared. Otherwise every clip and caption is made again and compared cell
by cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from perturbations.base import sums
from perturbations.base.errors import ManifestError, OutputError, UnknownPerturbationError, short
from perturbations.manifest import changes, files, layout, skipped
from perturbations.manifest.kinds import COMPLETE, FILES
from perturbations.verify import derived, record, remedies, repair, strangers, tree, undoing
from perturbations.verify.findings import Finding
from perturbations.verify.manifest_check import ManifestCheck
from perturbations.verify.manifest_check import Options as Options
from perturbations.verify.manifest_check import Summary as Summary
from perturbations.verify.tree import Manifest, Tree


def verify(paths: Sequence[Path], options: Options) -> Iterator[Summary]:
    """Verify manifests in the order of their dependencies, then the files that belong to none.

    A repair mends parents before their children, in this one pass; what it mended is in `repaired`, what is left in
    `findings`. Raises `ManifestError` where there is no manifest.
    """
    looked_at = tree.read(paths)
    looked_at.version = options.version
    writes = options.repair and not options.dry_run
    roots = {manifest.root for manifest in looked_at.chosen} if writes else set()
    for root in roots:
        undoing.begin(root)
    for manifest in sorted(looked_at.chosen, key=lambda manifest: _depth(manifest.name)):
        yield _of_manifest(looked_at, manifest, options)
    for path in looked_at.former:
        rows = files.stored_rows(path)
        yield Summary(path, rows, notes=["an earlier version made it, and no job reads it: its cells are as written"])
    yield from _of_files(looked_at, options)
    for root in roots:
        undoing.end(root)


def _of_files(looked_at: Tree, options: Options) -> Iterator[Summary]:
    """What is wrong with files that are no manifests: one summary per file, and one per folder of strangers."""
    damaged: dict[Path, list[Finding]] = defaultdict(list)
    unnamed: dict[Path, Summary] = {}
    of_root = record.of_root(looked_at, options.root) if options.root else []
    every = [*of_root, *looked_at.findings, *record.of_manifests(looked_at), *strangers.of_corpora(looked_at)]
    for finding in dict.fromkeys(every):
        place, is_leftover = finding.place, finding.problem == strangers.LEFTOVER
        if not is_leftover and finding.problem != strangers.UNNAMED:
            damaged[place].append(finding)
            continue
        summary = unnamed.setdefault(place.parent, Summary(place.parent, 0, is_manifest=False))
        if is_leftover and options.repair:
            if not options.dry_run:
                undoing.put(_root_of(place), place, None, None)
            summary.repaired.append(finding)
        else:
            summary.findings.append(finding)
    yield from (Summary(place, 0, findings=findings) for place, findings in damaged.items())
    yield from unnamed.values()


def _root_of(path: Path) -> Path:
    """The root of the tree that a file below `manifests` or `corpora` lies in."""
    trees = [inside for top in layout.TOP if (inside := layout.in_tree(path, top)) is not None]
    return max((root for root, _ in trees), key=lambda root: len(root.parts))


@cache
def _depth(name: str) -> int:
    """How many manifests lie one above the other where a manifest is made: a parent is verified before its children."""
    parents = (parent.rpartition("/")[2] for parent in FILES[name].made_from)
    return max((1 + _depth(parent) for parent in parents), default=0)


def _of_manifest(looked_at: Tree, manifest: Manifest[object], options: Options) -> Summary:
    """The result of one manifest; in a repair, of what is left once it and its clips are put back."""
    check = ManifestCheck(looked_at, manifest, options, remake=options.repair and not manifest.is_whole)
    summary = _verified(check)
    if not check.remake:
        return summary
    try:
        mended, reason = repair.restored(looked_at, manifest, check.corrected, dry_run=options.dry_run)
    except OutputError as error:  # the other manifests are verified
        mended, reason = None, f"it cannot be repaired: {error}"
    if mended is None:
        summary.findings += [Finding(manifest.path, "", reason)] if reason else []
        return summary
    looked_at.replace(mended)
    after = _verified(ManifestCheck(looked_at, mended, replace(options, fast=True), is_restored=True))
    left = {(finding.subject, finding.problem.partition(";")[0]) for finding in after.findings}
    put_back = [each for each in summary.findings if (each.subject, each.problem.partition(";")[0]) not in left]
    return replace(after, repaired=[*summary.repaired, *dict.fromkeys([*put_back, *after.repaired])])


def _verified(task: ManifestCheck[object]) -> Summary:
    """The findings of a manifest; its expected rows, as far as they are known, are in the task."""
    manifest, summary = task.manifest, task.summary
    try:
        _verify(task)
    except (LookupError, TypeError, ValueError, UnknownPerturbationError) as error:
        # The expected rows cannot be computed where the rows of other manifests contradict each other.
        problem = f"its rows and its neighbours' do not fit together: {type(error).__name__}: {error}"
        summary.findings.append(Finding(manifest.path, "", problem))
    except (ManifestError, OutputError) as error:  # what was found is reported, and the other manifests are verified
        summary.findings.append(Finding(manifest.path, "", f"it cannot be verified: {error}"))
    summary.findings = list(dict.fromkeys(summary.findings))
    return summary


def _verify(task: ManifestCheck[object]) -> None:
    manifest, summary = task.manifest, task.summary
    summary.incomplete = sum(getattr(row, "status", COMPLETE) != COMPLETE for row in manifest.rows)
    check = manifest.declared.check
    summary.findings += (derived.load(check) if check else derived.check_rows)(task)
    summary.findings += [] if task.is_restored else _as_written(task.tree, manifest)
    summary.notes += _unrecorded(manifest)
    try:
        summary.notes += skipped.sentences(skipped.of_manifest(manifest.about))
    except ManifestError as error:
        summary.findings.append(Finding(manifest.path, "", str(error)))


def _as_written(looked_at: Tree, manifest: Manifest[object]) -> Iterator[Finding]:
    """Findings where a manifest's metadata, counts and hashes differ from its rows, or its file from the list."""
    names = changes.changed_parts(manifest.path, manifest.kind, manifest.rows, is_listed=manifest.is_recorded)
    if names:
        yield Finding(manifest.path, "", f"it was changed after it was written: {', '.join(names)} differ")
    if manifest.misplaced:
        yield Finding(manifest.path, "", manifest.misplaced)
    expected = repair.metadata(looked_at, manifest, manifest.rows)
    datasets = sorted({str(row.dataset) for row in manifest.rows if hasattr(row, "dataset")})
    if len(datasets) > 1:
        yield Finding(manifest.path, "", f"its rows are of several datasets: {', '.join(map(short, datasets[:5]))}")
    for name in ("dataset", "comparability"):
        recorded, wanted = manifest.about.get(name), expected.get(name)
        if recorded != wanted:
            problem = f"its metadata says {name} {recorded!r:.200}, and its rows give {wanted!r:.200}"
            yield Finding(manifest.path, "", problem)
    listing = sums.list_of(manifest.path) or sums.NAME
    if manifest.listed is None and not manifest.precedes_lists:
        yield Finding(manifest.path, "", f"{listing} does not list it: {remedies.way(manifest.path)}")
    elif manifest.listed is not None and not manifest.is_recorded:
        yield Finding(manifest.path, "", f"it is not the file that {listing} lists: {remedies.way(manifest.path)}")


def _unrecorded(manifest: Manifest[object]) -> list[str]:
    """What the version that made a manifest did not record, in words."""
    parts = [f"the column '{name}'" for name in manifest.unrecorded]
    parts += [] if files.METADATA_HASH in manifest.about else ["a hash of its metadata"]
    parts += [] if files.LISTED in manifest.about else ["its file and pages in a list"]
    version = manifest.about.get("package_version", "of an unknown version")
    return [f"perturbations {version}, which made it, did not record {', '.join(parts)}"] if parts else []
