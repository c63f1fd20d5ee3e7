"""A corpus from an export of recipes and the clips: the hashes of the rows prove that its frames are the same."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from perturbations.base import storage
from perturbations.base.errors import ManifestError, MediaError, short
from perturbations.base.progress import Tick, logged
from perturbations.engine import clip_rows, render_clip, shards, supervise
from perturbations.engine.source import source_of
from perturbations.exports import recipe_tables
from perturbations.manifest import files, layout, locations
from perturbations.manifest.kinds import CAPTIONS, COMPLETE, SOURCES, VIDEOS, ClipRow, RowKind, VideoRow
from perturbations.manifest.rows import stored
from perturbations.media import sound
from perturbations.plan.recipe import parse
from perturbations.verify import checking
from perturbations.verify.checking import Finding, name_of, values

_log = logging.getLogger("perturbations")

_SLICE = 64  # clips that one process makes, after which another one may take over


@dataclass(frozen=True)
class Regenerated:
    """What was made of an export.

    Attributes:
        videos: the manifest of videos.
        regenerated, kept: the numbers of clips with the published frames, made now or before.
        failed: the number of the others.
        findings: the problems of these, and of the manifests.
    """

    videos: Path
    regenerated: int
    kept: int
    failed: int
    findings: tuple[Finding, ...]


def regenerate(
    published: Path, held: Path, output: Path, *, jobs: int = 1, stall_limit_s: float = 120.0, root: str = ""
) -> Regenerated:
    """Make a corpus in `output` from an export in the format `recipe`, and the clips in the folder `held`.

    The published hashes stay as they are: a clip whose frames differ from `frames_sha256`, or cannot be made, is a
    finding, and its row is the published one. Files that are there and have their row's hash are kept. The manifests
    are then checked as `perturb verify` does. `root` is the hash of the export's list, as its publisher names it.
    Raises `ManifestError` for another folder or root, a table that was lost or changed, and names that lead out of a
    folder, and `OutputError` of the disk.
    """
    export = recipe_tables.published(published, root)
    _log_absent(published, export)
    manifests = {name: locations.confined(output, f"{layout.MANIFESTS}/{name}") for name in export.tables}
    located: dict[str, Sequence[Any]] = {
        name: stored(table.rows).mapped(partial(recipe_tables.renamed, named=partial(_below, held)))
        for name, table in export.tables.items()
    }
    every = stored(located[export.videos]).mapped(partial(_placed, dataset=export.dataset))
    located[export.videos] = every
    # Every row is read before the first file is written: a name that leads out of a folder stops all.
    complete = np.flatnonzero([row.status == COMPLETE for row in every])
    for rows in (rows for name, rows in located.items() if name != export.videos):
        deque(rows, maxlen=0)
    output.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    findings: list[Finding] = []

    def results() -> Iterator[VideoRow]:
        outcomes = _outcomes(every.taken(complete), output, jobs, stall_limit_s)
        for row, (result, is_new, problem) in logged(outcomes, len(complete), "videos regenerated"):
            if problem:
                findings.append(Finding(published, name_of(row, VIDEOS.key), problem))
            elif result is not None:
                counts["regenerated" if is_new else "kept"] += 1
                yield result

    measured = _by_clip(VIDEOS, results())
    for name, table in export.tables.items():
        level = "/".join([".."] * len(Path(layout.MANIFESTS, name).parent.parts))
        table.write(manifests[name], _with_files(table.kind, located[name], measured), level)
    failed = {finding.subject for finding in findings}
    others = (finding for finding in _verified([*manifests.values()], stall_limit_s) if finding.subject not in failed)
    return Regenerated(
        videos=manifests[export.videos],
        regenerated=counts["regenerated"],
        kept=counts["kept"],
        failed=len(findings),
        findings=(*findings, *others),
    )


def _log_absent(published: Path, export: recipe_tables.RecipeExport) -> None:
    """Say what an export lacks, and what is therefore not proven."""
    for kind in (SOURCES, CAPTIONS):
        if f"{export.dataset}/{layout.name(kind.name)}" not in export.tables:
            _log.warning("%s has no %s: what follows from it is not proven", published, layout.name(kind.name))


def _verified(manifests: Sequence[Path], stall_limit_s: float) -> Iterator[Finding]:
    for path in manifests:
        yield from checking.check_manifest(path, stall_limit_s=stall_limit_s).findings


_Outcome = tuple[VideoRow | None, bool, str | None]
"""The row of a clip, whether its file was made now, and the problem."""


def _outcomes(
    tasks: Iterable[VideoRow], root: Path, jobs: int, stall_limit_s: float
) -> Iterator[tuple[VideoRow, _Outcome]]:
    rows = iter(tasks)
    parts = iter(lambda: [*islice(rows, _SLICE)], [])
    make = partial(_part_outcomes, root=root, stall_limit_s=stall_limit_s)
    if jobs == 1:
        for part in parts:
            yield from zip(part, make(part), strict=True)
        return
    with ProcessPoolExecutor(jobs) as pool:
        started = ((part, pool.submit(make, part)) for part in parts)
        running = deque(islice(started, 2 * jobs))
        while running:
            part, done = running.popleft()
            running.extend(islice(started, 1))
            yield from zip(part, done.result(), strict=True)


def _below(held: Path, name: str) -> str:
    plain = PurePosixPath(name)
    if plain.is_absolute() or ".." in plain.parts or "\0" in name:
        raise ManifestError(f"the clip's name {short(name)} leads out of {held}")
    return str(held.resolve() / plain)


def _placed(row: VideoRow, dataset: str) -> VideoRow:
    """A row with the path that the workflow would give its file, whatever the published one is."""
    try:
        recipe = parse(row.recipe)
    except ManifestError as error:
        raise ManifestError(f"{layout.name(VIDEOS.name)}: {name_of(row, VIDEOS.key)}: {error}") from None
    if row.status != COMPLETE or row.path is None:
        return replace(row, path=None)
    place = layout.at(
        "clips", dataset=dataset, suite=recipe.suite, perturbation=recipe.perturbation, severity=recipe.severity
    )
    target = shards.target_of(recipe, Path(place), row.item_id)
    return replace(row, path=target.as_posix() if target else None)


def _part_outcomes(part: Sequence[VideoRow], *, root: Path, stall_limit_s: float) -> list[_Outcome]:
    work = partial(_make, root=root)
    outcomes = supervise.run(work, part, stall_limit_s=stall_limit_s, name=lambda row: repr(row.item_id))
    return [(*(outcome.result or (None, False)), outcome.error) for outcome in outcomes]


def _make(row: VideoRow, tick: Tick, *, root: Path) -> tuple[VideoRow, bool]:
    target = locations.confined(root, row.path) if row.path else root
    if row.path and target.is_file() and storage.sha256(target) == row.sha256:
        return row, False
    wanted = row.audio not in (None, sound.UNWANTED)
    measured = render_clip.produce(parse(row.recipe), source_of(row), target, tick, with_sound=wanted)
    if measured.frames_sha256 != row.frames_sha256:
        raise MediaError("its frames are not the published ones: perturb verify tells what may differ")
    return clip_rows.complete_video(row, measured), True


_CLIP_KEY = ("item_id", "suite", "perturbation", "severity")


def _by_clip(kind: RowKind[Any], rows: Iterable[Any]) -> Sequence[Any]:
    """Rows of clips in the order of `_CLIP_KEY`."""
    return files.in_order(replace(kind, key=_CLIP_KEY), rows)


def _key(row: ClipRow) -> tuple[tuple[bool, object], ...]:
    return tuple((value is not None, value) for value in values(row, _CLIP_KEY))


_OF_CLIP = tuple(field.name for field in fields(ClipRow))


def _with_files(kind: RowKind[Any], rows: Iterable[Any], results: Iterable[VideoRow]) -> Iterable[Any]:
    """Rows of videos, of mixes or of pairs, with what is known of the files that were made; other rows as they are."""
    return _joined(_by_clip(kind, rows), results) if issubclass(kind.row, ClipRow) else rows


def _joined(rows: Iterable[Any], results: Iterable[VideoRow]) -> Iterator[Any]:
    """Rows with the columns of the results of their clips; both are in the order of `_CLIP_KEY`."""
    following = ((_key(result), result) for result in results)
    key, result = next(following, (None, None))
    for row in rows:
        wanted = _key(row)
        while key is not None and key < wanted:
            key, result = next(following, (None, None))
        yield replace(row, **{name: getattr(result, name) for name in _OF_CLIP}) if key == wanted else row
