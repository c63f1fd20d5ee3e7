"""`perturb verify`: compares every manifest of a tree with its neighbours, the declarations and the files.

With `fast`, only hashes and membership are compared. Otherwise every clip and caption is made again and compared cell
by cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from perturbations.base import storage, sums
from perturbations.base.errors import ManifestError, OutputError, UnknownPerturbationError
from perturbations.manifest import files, skipped
from perturbations.manifest.kinds import COMPLETE, FILES
from perturbations.verify import derived, repair, tree
from perturbations.verify.findings import Finding
from perturbations.verify.manifest_check import ManifestCheck
from perturbations.verify.manifest_check import Options as Options
from perturbations.verify.manifest_check import Summary as Summary
from perturbations.verify.tree import Manifest, Tree


def verify(paths: Sequence[Path], options: Options) -> Iterator[Summary]:
    """Verify manifests in the order of their dependencies, then the files that belong to none.

    Raises `ManifestError` where there is no manifest.
    """
    looked_at = tree.read(paths)
    looked_at.version = options.version
    sound: dict[Path, bool] = {}
    for manifest in sorted(looked_at.chosen, key=lambda manifest: _depth(manifest.name)):
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


@cache
def _depth(name: str) -> int:
    """How many manifests lie one above the other where a manifest is made: a parent is verified before its children."""
    parents = (parent.rpartition("/")[2] for parent in FILES[name].made_from)
    return max((1 + _depth(parent) for parent in parents), default=0)


def _unsound_parent(looked_at: Tree, manifest: Manifest[object], sound: dict[Path, bool]) -> Path | None:
    """A manifest that the rows of another follow from, and that has a finding; None where all are sound."""
    for path in manifest.parents():
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
    task = ManifestCheck(looked_at, manifest, options, summary, rewrite)
    try:
        _verify(task)
    except (LookupError, TypeError, ValueError, UnknownPerturbationError) as error:
        # The expected rows cannot be computed where the rows of other manifests contradict each other.
        problem = f"its rows and its neighbours' do not fit together: {type(error).__name__}: {error}"
        summary.findings.append(Finding(manifest.path, "", problem))
    except OutputError as error:  # what was found is reported, and the other manifests are verified
        summary.findings.append(Finding(manifest.path, "", f"it cannot be repaired: {error}"))
    summary.findings = list(dict.fromkeys(summary.findings))
    return summary, task.corrected


def _verify(task: ManifestCheck[object]) -> None:
    manifest, summary = task.manifest, task.summary
    summary.incomplete = sum(getattr(row, "status", COMPLETE) != COMPLETE for row in manifest.rows)
    check = manifest.declared.check
    summary.findings += (derived.load(check) if check else derived.check_rows)(task)
    summary.findings += _as_written(task.tree, manifest)
    summary.notes += _unrecorded(manifest)
    try:
        summary.notes += skipped.sentences(skipped.of_manifest(manifest.about))
    except ManifestError as error:
        summary.findings.append(Finding(manifest.path, "", str(error)))


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
