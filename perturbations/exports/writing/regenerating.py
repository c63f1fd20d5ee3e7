"""A corpus from an export of recipes and the clips: the hashes of the rows prove that its frames are the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from perturbations.base import storage
from perturbations.base.errors import ManifestError, MediaError, short
from perturbations.base.progress import Tick, logged
from perturbations.base.sums import NAME
from perturbations.engine import clip_rows, render_clip, shards, supervise
from perturbations.engine.source import source_of
from perturbations.exports.writing import recipe_tables
from perturbations.manifest import layout, locations
from perturbations.manifest.kinds import CAPTIONS, COMPLETE, FILES, SOURCES, VIDEOS, ClipRow, VideoRow
from perturbations.media import sound
from perturbations.plan.recipe import parse
from perturbations.verify import run
from perturbations.verify.findings import Finding, name_of

_log = logging.getLogger("perturbations")

_SLICE = 64  # clips that one process makes, after which another one may take over


@dataclass(frozen=True)
class Regenerated:
    """What was made of an export.

    Attributes:
        videos: the manifest of videos.
        made, kept: the numbers of clips with the published frames, made now or before.
        failed: the number of the others.
        findings: the problems of these, and of the manifests.
        claimed: the columns that the clips do not prove, by the name of their manifest; none where the root was given.
    """

    videos: Path
    made: int
    kept: int
    failed: int
    findings: tuple[Finding, ...]
    claimed: Mapping[str, tuple[str, ...]]


def regenerate(
    published: Path, held: Path, output: Path, *, jobs: int = 1, stall_limit_s: float = 120.0, root: str = ""
) -> Regenerated:
    """Make a corpus in `output` from an export in the format `recipe`, and the clips in the folder `held`.

    The published hashes stay as they are: a clip whose frames differ from `frames_sha256`, or cannot be made, is a
    finding, and its row is the published one. Files that are there and have their row's hash are kept. The manifests
    are then compared with each other and the declarations, as `perturb verify --fast` does. `root` is the hash of the
    export's list, as its publisher names it.
    Raises `ManifestError` for another folder or root, a table that was lost or changed, and names that lead out of a
    folder, and `OutputError` of the disk.
    """
    export = recipe_tables.published(published, root)
    _log_absent(published, export)
    manifests = {name: locations.confined(output, f"{layout.MANIFESTS}/{name}") for name in export.tables}
    located: dict[str, Sequence[Any]] = {
        name: [recipe_tables.renamed(row, partial(_below, held)) for row in table.rows]
        for name, table in export.tables.items()
    }
    every = located[export.videos] = [_placed(row, export.dataset) for row in located[export.videos]]
    output.mkdir(parents=True, exist_ok=True)
    tasks = [row for row in every if row.status == COMPLETE]
    results: dict[tuple[object, ...], VideoRow] = {}
    made, findings = 0, []
    outcomes = _outcomes(tasks, output, jobs, stall_limit_s)
    for row, (result, is_new, problem) in logged(outcomes, len(tasks), "videos regenerated"):
        made += is_new and not problem
        if problem:
            findings.append(Finding(published, name_of(row, VIDEOS.key), problem))
        elif result is not None:
            results[_key(row)] = result
    for name, table in export.tables.items():
        level = "/".join([".."] * len(Path(layout.MANIFESTS, name).parent.parts))
        table.write(manifests[name], [_with_files(row, results) for row in located[name]], level)
    failed = {finding.subject for finding in findings}
    others = (finding for finding in _verified([*manifests.values()], stall_limit_s) if finding.subject not in failed)
    return Regenerated(
        videos=manifests[export.videos],
        made=made,
        kept=len(results) - made,
        failed=len(findings),
        findings=(*findings, *others),
        claimed={} if root else _claimed(export),
    )


def _claimed(export: recipe_tables.RecipeExport) -> dict[str, tuple[str, ...]]:
    """The columns that are the publisher's word alone, by the name of their manifest."""
    places = {name: layout.place_of(f"{layout.MANIFESTS}/{name}") for name in export.tables}
    files = {name: FILES[place.kind] for name, place in places.items() if place is not None}
    return {name: file.claimed for name, file in files.items() if file.claimed}


def _log_absent(published: Path, export: recipe_tables.RecipeExport) -> None:
    """Say what an export lacks, and what is therefore not proven."""
    if not export.is_listed:
        _log.warning("%s has no %s: whether a table was lost or exchanged is not known", published, NAME)
    for kind in (SOURCES, CAPTIONS):
        if f"{export.dataset}/{layout.name(kind.name)}" not in export.tables:
            _log.warning("%s has no %s: what follows from it is not proven", published, layout.name(kind.name))


def _verified(manifests: Sequence[Path], stall_limit_s: float) -> Iterator[Finding]:
    for summary in run.verify(manifests, run.Options(fast=True, stall_limit_s=stall_limit_s)):
        yield from summary.findings


_Outcome = tuple[VideoRow | None, bool, str | None]
"""The row of a clip, whether its file was made now, and the problem."""


def _outcomes(
    tasks: Sequence[VideoRow], root: Path, jobs: int, stall_limit_s: float
) -> Iterator[tuple[VideoRow, _Outcome]]:
    parts = [tasks[start : start + _SLICE] for start in range(0, len(tasks), _SLICE)]
    make = partial(_made, root=root, stall_limit_s=stall_limit_s)
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
        for part, done in zip(parts, (pool.map if pool else map)(make, parts), strict=True):
            yield from zip(part, done, strict=True)


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


def _made(part: Sequence[VideoRow], *, root: Path, stall_limit_s: float) -> list[_Outcome]:
    work = partial(_make, root=root)
    outcomes = supervise.run(work, part, stall_limit_s=stall_limit_s, name=lambda row: repr(row.item_id))
    return [(*(outcome.result or (None, False)), outcome.error) for outcome in outcomes]


def _make(row: VideoRow, tick: Tick, *, root: Path) -> tuple[VideoRow, bool]:
    target = locations.confined(root, row.path) if row.path else root
    if row.path and target.is_file() and storage.sha256(target) == row.sha256:
        return row, False
    wanted = sound.is_wanted([row.audio or sound.UNWANTED])
    measured = render_clip.produce(parse(row.recipe), source_of(row), target, tick, with_sound=wanted)
    if measured.frames_sha256 != row.frames_sha256:
        raise MediaError("its frames are not the published ones: perturb verify tells what may differ")
    return clip_rows.complete_video(row, measured), True


def _key(row: ClipRow) -> tuple[object, ...]:
    return row.item_id, row.suite, row.perturbation, row.severity


_OF_CLIP = tuple(field.name for field in fields(ClipRow))


def _with_files(row: Any, results: Mapping[tuple[object, ...], VideoRow]) -> Any:
    """A row of videos, of mixes or of pairs, with what is known of the file that was made."""
    made = results.get(_key(row)) if isinstance(row, ClipRow) else None
    return row if made is None else replace(row, **{name: getattr(made, name) for name in _OF_CLIP})
