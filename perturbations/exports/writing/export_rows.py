"""A corpus as layouts for other programs need it: its complete clips, with names, captions and clean references."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from perturbations.api.functions import typed_row
from perturbations.base import shown
from perturbations.base.errors import ManifestError
from perturbations.exports.writing import export_layout, output_folder, stored_clips
from perturbations.exports.writing.requests import Request
from perturbations.exports.writing.stored_clips import ListedRow, UsableRow
from perturbations.manifest import files, row_groups
from perturbations.manifest.companions import companion, texts_of
from perturbations.manifest.kinds import (
    CAPTIONS,
    MIXES,
    SOURCES,
    TEXTS,
    VIDEOS,
    CaptionRow,
    ClipRow,
    CompleteSource,
    RowKind,
    SourceRow,
    TextRow,
)
from perturbations.verify.findings import Finding


@dataclass(frozen=True)
class ExportedClip:
    """A complete clip of an exported corpus.

    Attributes:
        listed: its row, as the manifest has it.
        row: the same row as one of videos or sources, with which its frames are opened.
        scenario: the name of its scenario.
        key: the name of its item in files.
        captions: its clean captions, in their order.
    """

    listed: UsableRow
    row: UsableRow
    scenario: str
    key: str
    captions: tuple[str, ...]

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells the clip's video from others: rows of several scenarios may be of one video."""
        if isinstance(self.row, CompleteSource):
            return (export_layout.CLEAN, self.row.item_id)
        return self.row.suite, str(self.row.perturbation), str(self.row.severity), self.row.item_id


@dataclass(frozen=True)
class ExportedCorpus:
    """What an export writes.

    Attributes:
        manifest: the exported manifest.
        dataset: the dataset's name.
        about: the manifest's metadata.
        scenarios: the complete clips of each by its name, clean ones last, sorted by item.
        listed: what one pass over the rows tells of them.
        captions: the dataset's clean captions.
        sources: the dataset's clips.
    """

    manifest: Path
    dataset: str
    about: Mapping[str, Any]
    scenarios: Mapping[str, Sequence[ExportedClip]]
    listed: stored_clips.ClipsByScenario
    captions: tuple[CaptionRow, ...]
    sources: tuple[SourceRow, ...]

    @property
    def clips(self) -> Iterator[ExportedClip]:
        """The clips of all scenarios, which are read from the manifest."""
        return chain.from_iterable(self.scenarios.values())

    @property
    def number(self) -> int:
        """The number of the clips."""
        return sum(map(len, self.scenarios.values()))

    @property
    def quarantined(self) -> tuple[Finding, ...]:
        """The rows without a clip, with the reasons."""
        return stored_clips.incomplete_findings(self.manifest, self.listed.incomplete)


def read(request: Request) -> ExportedCorpus:
    """The corpus of a manifest of videos, mixes or sources; with the clean clips where they are requested.

    Raises `ManifestError` for another kind of manifest, where no clip is complete, for two complete rows of one item
    and scenario, for clips whose frames only are stored, and where clean clips are requested and no manifest of sources
    is beside or above this one.
    """
    exported = of_rows(request, stored_clips.read(request.manifest, (VIDEOS, MIXES, SOURCES)))
    _check_any(exported)
    return exported


def _check_any(exported: ExportedCorpus) -> None:
    if not exported.scenarios:
        raise ManifestError(f"{exported.manifest} has no complete row to export")


def of_rows(request: Request, rows: Sequence[ListedRow]) -> ExportedCorpus:
    """The corpus of a manifest's rows of clips. Errors as of `read`."""
    path = request.manifest
    sources = _sources_of(path, rows, needed=request.clean)
    clean = sources if request.clean and files.kind_of(path) != SOURCES else ()
    exported = _corpus(path, rows, clean, companion(path, CAPTIONS), sources)
    _check_tiers(path, exported.listed.storages)
    return exported


def recipes_of(request: Request) -> ExportedCorpus:
    """The corpus of a manifest of videos in any storage, frames too. Raises `ManifestError` where none is complete."""
    exported = _corpus(request.manifest, stored_clips.read(request.manifest, (VIDEOS,)))
    _check_any(exported)
    return exported


def _sources_of(path: Path, rows: Sequence[ListedRow], *, needed: bool) -> Sequence[SourceRow]:
    if files.kind_of(path) == SOURCES:
        return [row for row in rows if isinstance(row, SourceRow)]
    sources = companion(path, SOURCES)
    if needed and not sources:
        raise ManifestError(f"no sources.parquet beside or above {path}, which would list the clean clips")
    return sources


def _check_tiers(path: Path, storages: Iterable[str]) -> None:
    """Raise `ManifestError` for clips of which only sampled frames are stored: no video can be made of those."""
    stored = {name for name in storages if name.startswith("frames/")}
    if stored:
        raise ManifestError(
            f"{path} stores {', '.join(sorted(stored))}, and this layout is of videos: set `storage` of config.yaml to "
            "video or recipe, or take --format vtr_tta, which is of frames"
        )


def _corpus(
    path: Path,
    rows: Sequence[ListedRow],
    clean: Sequence[SourceRow] = (),
    captions: Sequence[CaptionRow] = (),
    sources: Sequence[SourceRow] = (),
) -> ExportedCorpus:
    listed = stored_clips.ClipsByScenario()
    for part in (rows, clean):
        listed.add(path, row_groups.stored(part), partial(export_layout.scenario, with_suite=True))
    several = len(listed.suites) > 1
    keys = export_layout.keys(listed.item_ids)
    texts = texts_of(captions)
    scenarios = {}
    for members in listed.scenarios.values():
        name = export_layout.scenario(members[0], with_suite=several)
        scenarios[name] = members.mapped(partial(_exported, scenario=name, keys=keys, texts=texts))
    in_order = sorted(scenarios, key=lambda name: (name == export_layout.CLEAN, name))
    about = files.read_metadata(path)
    dataset = next((row.dataset for row in chain(rows, clean)), str(about.get("dataset") or path.parent.name))
    of_scenarios = {name: scenarios[name] for name in in_order}
    return ExportedCorpus(path, dataset, about, of_scenarios, listed, tuple(captions), tuple(sources))


def _exported(
    row: UsableRow, *, scenario: str, keys: Mapping[str, str], texts: Mapping[str, tuple[str, ...]]
) -> ExportedClip:
    opened = typed_row(row)
    assert isinstance(opened, ClipRow | CompleteSource)
    return ExportedClip(row, opened, scenario, keys[row.item_id], texts.get(row.item_id, ()))


@dataclass(frozen=True)
class ExportedTexts:
    """A corpus of perturbed captions.

    Attributes:
        manifest, dataset, about: as of a `Corpus`.
        suites: those of the accepted rows.
        caption_ids: those of all rows that are exported.
        rows: the accepted rows per scenario; with clean captions, those as `clean`.
        rejected: the number of rows that the fidelity gate rejected, which are left out.
        clean: the clips that the captions are of, where they were requested.
        listed: what one pass over the rows of these tells.
        sources: the dataset's clips.
    """

    manifest: Path
    dataset: str
    about: Mapping[str, Any]
    suites: set[str]
    caption_ids: set[str]
    rows: Mapping[str, Sequence[TextRow | CaptionRow]]
    rejected: int
    clean: tuple[ExportedClip, ...]
    listed: stored_clips.ClipsByScenario
    sources: tuple[SourceRow, ...]


def read_texts(request: Request, *, clean_clips: bool = False) -> ExportedTexts:
    """The accepted rows of a manifest of perturbed captions, with clean captions and clips where they are requested.

    Raises `ManifestError` for another kind of manifest, and without the manifests of clean captions and clips.
    """
    path = request.manifest
    kind = files.kind_of(path)
    if kind != TEXTS:
        raise ManifestError(f"{path} is a manifest of {kind.name}; captions are exported from texts")
    listed = files.read_rows(path, TEXTS)
    ids: dict[str, list[str]] = defaultdict(list)
    known: dict[str, str] = {}  # an id that repeats takes memory once

    def name_of(row: TextRow) -> str | None:
        if not row.accepted:
            return None
        name = export_layout.scenario(row, with_suite=True)
        ids[name].append(known.setdefault(row.caption_id, row.caption_id))
        return name

    accepted = row_groups.by_key(listed, name_of)
    if not accepted:
        raise ManifestError(f"{path} has no complete row to export")
    stored_clips.check_twice(path, ((name, caption_id) for name in sorted(ids) for caption_id in sorted(ids[name])))
    suites = {members[0].suite for members in accepted.values()}
    rows: dict[str, Sequence[TextRow | CaptionRow]] = {
        export_layout.scenario(members[0], with_suite=len(suites) > 1): members for members in accepted.values()
    }
    if request.clean:
        clean_captions = _required(path, CAPTIONS)
        rows[export_layout.CLEAN] = [*rows.get(export_layout.CLEAN, ()), *clean_captions]
        known |= {row.caption_id: row.caption_id for row in clean_captions}
    sources: Sequence[SourceRow] = _required(path, SOURCES) if clean_clips or request.clean else []
    clean = _corpus(path, sources, captions=companion(path, CAPTIONS))
    dataset = next((row.dataset for row in listed), path.parent.name)
    about = files.read_metadata(path)
    rejected = len(listed) - sum(map(len, accepted.values()))
    clips = tuple(clean.clips)
    return ExportedTexts(path, dataset, about, suites, {*known}, rows, rejected, clips, clean.listed, tuple(sources))


def _required(path: Path, kind: RowKind[Any]) -> Sequence[Any]:
    rows = companion(path, kind)
    if not rows:
        raise ManifestError(f"no {kind.name}.parquet of the dataset beside or above {path}, or it lists nothing")
    return rows


def title(exported: ExportedCorpus | ExportedTexts, *, pictures: bool) -> str:
    """The dataset's title: its name and the suites."""
    dataset, kind, suites = identity(exported)
    return f"{dataset} {shown.in_words_of(kind, pictures=pictures)} {suites}".replace(",", ", ")


def identity(exported: ExportedCorpus | ExportedTexts) -> list[str]:
    """What tells an export from others: the dataset, the kind of manifest or of mix, the suites."""
    suites = exported.listed.suites | (set() if isinstance(exported, ExportedCorpus) else exported.suites)
    if not suites and exported.about.get("suite"):  # of a suite's manifest, only clean clips are exported
        suites = {str(exported.about["suite"])}
    kind = ",".join(sorted(exported.listed.mixes)) or str(exported.about.get("kind", ""))
    return [exported.dataset, kind, ",".join(sorted(suites)) or export_layout.CLEAN]


def claim(output: Path, form: str, exported: ExportedCorpus | ExportedTexts) -> None:
    """Take the folder for this export. Raises `OutputError`."""
    output_folder.claim(output, form, exported.manifest, identity(exported), exported.listed.folders)
