"""A corpus as layouts for other programs need it: its complete clips, with names, captions and clean references."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from perturbations.api.functions import typed_row
from perturbations.base.errors import ManifestError
from perturbations.exports.writing import export_layout, output_folder, stored_clips
from perturbations.exports.writing.requests import Request
from perturbations.exports.writing.stored_clips import ListedRow, UsableRow
from perturbations.manifest import files
from perturbations.manifest.companions import companion, texts_of
from perturbations.manifest.kinds import (
    CAPTIONS,
    COMPLETE,
    MIXES,
    SOURCES,
    TEXTS,
    VIDEOS,
    CaptionRow,
    ClipRow,
    CompleteSource,
    MixRow,
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
        clips: the complete clips, scenario by scenario, clean ones last, sorted by item.
        incomplete: the rows without a clip.
        captions: the dataset's clean captions.
        sources: the dataset's clips.
    """

    manifest: Path
    dataset: str
    about: Mapping[str, Any]
    clips: tuple[ExportedClip, ...]
    incomplete: tuple[ListedRow, ...]
    captions: tuple[CaptionRow, ...]
    sources: tuple[SourceRow, ...]

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The names of the scenarios, in the order of the clips."""
        return tuple(dict.fromkeys(clip.scenario for clip in self.clips))

    @property
    def quarantined(self) -> tuple[Finding, ...]:
        """The rows without a clip, with the reasons."""
        return stored_clips.incomplete_findings(self.manifest, self.incomplete)

    def of(self, scenario: str) -> list[ExportedClip]:
        """The clips of a scenario."""
        return [clip for clip in self.clips if clip.scenario == scenario]


def read(request: Request) -> ExportedCorpus:
    """The corpus of a manifest of videos, mixes or sources; with the clean clips where they are requested.

    Raises `ManifestError` for another kind of manifest, where no clip is complete, for two complete rows of one item
    and scenario, for clips whose frames only are stored, and where clean clips are requested and no manifest of sources
    is beside or above this one.
    """
    exported = of_rows(request, stored_clips.read(request.manifest, (VIDEOS, MIXES, SOURCES)))
    if not exported.clips:
        raise ManifestError(f"{request.manifest} has no complete row to export")
    return exported


def of_rows(request: Request, rows: Sequence[ListedRow]) -> ExportedCorpus:
    """The corpus of a manifest's rows of clips. Errors as of `read`."""
    path = request.manifest
    about = files.read_metadata(path)
    sources = _sources_of(path, rows, needed=request.clean)
    listed: list[ListedRow] = list(rows)
    if request.clean and files.kind_of(path) != SOURCES:
        listed += sources
    captions = companion(path, CAPTIONS)
    complete = stored_clips.complete(listed)
    _check_tiers(path, complete)
    dataset = next((row.dataset for row in listed), str(about.get("dataset") or path.parent.name))
    incomplete = tuple(row for row in listed if row.status != COMPLETE)
    return ExportedCorpus(
        path, dataset, about, _clips(path, complete, captions), incomplete, tuple(captions), tuple(sources)
    )


def recipes_of(request: Request, rows: Sequence[ListedRow]) -> ExportedCorpus:
    """The same of clips in any storage, frames too. Raises `ManifestError` where none is complete."""
    path = request.manifest
    complete = stored_clips.complete(rows)
    if not complete:
        raise ManifestError(f"{path} has no complete row to export")
    incomplete = tuple(row for row in rows if row.status != COMPLETE)
    members = _clips(path, complete, ())
    return ExportedCorpus(path, complete[0].dataset, files.read_metadata(path), members, incomplete, (), ())


def _sources_of(path: Path, rows: Sequence[ListedRow], *, needed: bool) -> Sequence[SourceRow]:
    if files.kind_of(path) == SOURCES:
        return [row for row in rows if isinstance(row, SourceRow)]
    sources = companion(path, SOURCES)
    if needed and not sources:
        raise ManifestError(f"no sources.parquet beside or above {path}, which would list the clean clips")
    return sources


def _check_tiers(path: Path, rows: Iterable[UsableRow]) -> None:
    """Raise `ManifestError` for clips of which only sampled frames are stored: no video can be made of those."""
    stored = {row.storage for row in rows if isinstance(row, ClipRow) and row.storage.startswith("frames/")}
    if stored:
        raise ManifestError(
            f"{path} stores {', '.join(sorted(stored))}, and this layout is of videos: set `storage` of config.yaml to "
            "video or recipe, or take --format vtr_tta, which is of frames"
        )


def _clips(path: Path, rows: Sequence[UsableRow], captions: Sequence[CaptionRow]) -> tuple[ExportedClip, ...]:
    several = len({row.suite for row in rows if isinstance(row, ClipRow)} - {export_layout.CLEAN}) > 1
    names = export_layout.keys(row.item_id for row in rows)
    texts = texts_of(captions)
    members = []
    for row in rows:
        opened = typed_row(row)
        assert isinstance(opened, ClipRow | CompleteSource)
        scenario = export_layout.scenario(row, with_suite=several)
        members.append(ExportedClip(row, opened, scenario, names[row.item_id], texts.get(row.item_id, ())))
    stored_clips.check_twice(path, [(clip.scenario, clip.row.item_id) for clip in members])
    return tuple(sorted(members, key=_place))


def _place(clip: ExportedClip) -> tuple[bool, str, str]:
    return clip.scenario == export_layout.CLEAN, clip.scenario, clip.row.item_id


@dataclass(frozen=True)
class ExportedTexts:
    """A corpus of perturbed captions.

    Attributes:
        manifest, dataset, about: as of a `Corpus`.
        rows: the accepted rows per scenario; with clean captions, those as `clean`.
        rejected: the number of rows that the fidelity gate rejected, which are left out.
        clean: the clips that the captions are of, where they were requested.
        sources: the dataset's clips.
    """

    manifest: Path
    dataset: str
    about: Mapping[str, Any]
    rows: Mapping[str, Sequence[TextRow | CaptionRow]]
    rejected: int
    clean: tuple[ExportedClip, ...]
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
    accepted = [row for row in listed if row.accepted]
    if not accepted:
        raise ManifestError(f"{path} has no complete row to export")
    several = len({row.suite for row in accepted}) > 1
    rows: dict[str, list[TextRow | CaptionRow]] = defaultdict(list)
    for row in accepted:
        rows[export_layout.scenario(row, with_suite=several)].append(row)
    stored_clips.check_twice(path, [(name, row.caption_id) for name, members in rows.items() for row in members])
    if request.clean:
        rows[export_layout.CLEAN] += _required(path, CAPTIONS)
    sources: Sequence[SourceRow] = _required(path, SOURCES) if clean_clips or request.clean else []
    complete = [row for row in sources if isinstance(row, CompleteSource)]
    dataset = next((row.dataset for row in listed), path.parent.name)
    about = files.read_metadata(path)
    members = _clips(path, complete, companion(path, CAPTIONS))
    return ExportedTexts(path, dataset, about, rows, len(listed) - len(accepted), members, tuple(sources))


def _required(path: Path, kind: RowKind[Any]) -> Sequence[Any]:
    rows = companion(path, kind)
    if not rows:
        raise ManifestError(f"no {kind.name}.parquet of the dataset beside or above {path}, or it lists nothing")
    return rows


def title(exported: ExportedCorpus | ExportedTexts) -> str:
    """The dataset's title: its name and the suites."""
    return " ".join(identity(exported)).replace(",", ", ")


def identity(exported: ExportedCorpus | ExportedTexts) -> list[str]:
    """What tells an export from others: the dataset, the kind of manifest or of mix, the suites."""
    rows: Iterable[object] = (
        (clip.row for clip in exported.clips)
        if isinstance(exported, ExportedCorpus)
        else chain(*exported.rows.values())
    )
    suites = {str(suite) for row in rows if (suite := getattr(row, "suite", None))}
    if not suites and exported.about.get("suite"):  # of a suite's manifest, only clean clips are exported
        suites = {str(exported.about["suite"])}
    listed = [clip.listed for clip in exported.clips] if isinstance(exported, ExportedCorpus) else []
    mixes = {row.mix for row in listed if isinstance(row, MixRow)}
    kind = ",".join(sorted(mixes)) or str(exported.about.get("kind", ""))
    return [exported.dataset, kind, ",".join(sorted(suites)) or export_layout.CLEAN]


def claim(output: Path, form: str, exported: ExportedCorpus | ExportedTexts) -> None:
    """Take the folder for this export. Raises `OutputError`."""
    members = exported.clips if isinstance(exported, ExportedCorpus) else exported.clean
    folders = {Path(clip.row.path).parent for clip in members if clip.row.path}
    output_folder.claim(output, form, exported.manifest, identity(exported), folders)
