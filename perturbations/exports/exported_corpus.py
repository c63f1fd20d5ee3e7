"""A corpus in the form that exports need: its complete clips, scenario by scenario, with names and captions."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeGuard

from perturbations.api.clip_opening import typed_row
from perturbations.base import shown
from perturbations.base.errors import ManifestError, short
from perturbations.corpus.row_checks import name_of
from perturbations.exports import export_names
from perturbations.exports.export_registry import Exported, LeftOut, Request
from perturbations.manifest import files
from perturbations.manifest.companions import captions_of, companion, companion_path, numbered, read_clips
from perturbations.manifest.rows import (
    CAPTIONS,
    COMPLETE,
    MIXES,
    MULTIMODAL,
    SOURCES,
    TEXTS,
    VIDEOS,
    CaptionRow,
    ClipRow,
    CompleteSource,
    MixRow,
    MultimodalRow,
    RowKind,
    SourceRow,
    TextRow,
    VideoRow,
)
from perturbations.media import profiles

ListedRow = ClipRow | SourceRow
UsableRow = ClipRow | CompleteSource
PairedText = MultimodalRow | CaptionRow

_BY_SCENARIO: RowKind[Any] = replace(VIDEOS, key=("perturbation", "severity", "item_id"))


@dataclass(frozen=True, eq=False)
class ExportedClip:
    """A complete clip of an exported corpus.

    Attributes:
        row: its row of a videos or sources manifest, which opens its frames.
        scenario: the name of its scenario.
        key: the name of its item in files.
        captions: its clean captions, in their order.
        mix, share: the mix that it is in, and the share of perturbed clips there.
        texts: the captions that it is paired with, sorted by perturbation and id; for a clean clip the clean captions.
    """

    row: VideoRow | CompleteSource
    scenario: str
    key: str
    captions: tuple[CaptionRow, ...]
    mix: str | None = None
    share: float | None = None
    texts: tuple[PairedText, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """The identity of the clip's video: rows of several scenarios may show the same video."""
        if isinstance(self.row, CompleteSource):
            return (export_names.CLEAN, self.row.item_id)
        return self.row.suite, self.row.perturbation, str(self.row.severity), self.row.item_id


@dataclass
class ExportedCorpus:
    """What an export writes, and what it has written so far.

    Attributes:
        request: the request.
        about: the metadata of its manifest.
        records: the kind of the export's rows: "clips", "pairs", "captions" or "queries".
        rows: the rows of clips, scenario by scenario.
        captions, sources: the dataset's clean captions, and its clips.
        texts: the rows of perturbed captions.
        dataset: the dataset's name.
        suites, mixes, storages: the different values in complete rows.
        has_pictures: whether a clip is a picture.
        keys: the names of items in files.
        counts: the number of complete clips of each scenario with complete clips.
        quarantined, failed: the rows without a clip, and the clips whose videos could not be written.
        written: the number of videos that were written.
        videos: the identities of the exported clips.
        count: the number of exported rows.
    """

    request: Request
    about: Mapping[str, Any]
    records: str = "clips"
    rows: Iterable[ListedRow] = ()
    captions: Sequence[CaptionRow] = ()
    sources: Sequence[SourceRow] = ()
    texts: Sequence[TextRow] = ()
    dataset: str = ""
    suites: set[str] = field(default_factory=set)
    mixes: set[str] = field(default_factory=set)
    storages: set[str] = field(default_factory=set)
    has_pictures: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    quarantined: list[LeftOut] = field(default_factory=list)
    written: int = 0
    failed: list[LeftOut] = field(default_factory=list)
    videos: set[tuple[str, ...]] = field(default_factory=set)
    count: int = 0

    def scenarios(self) -> Iterator[tuple[str, list[ExportedClip]]]:
        """The complete clips, scenario by scenario (the clean scenario last), sorted by item."""
        captions = captions_of(self.captions)
        for name, rows in self.rows_by_scenario():
            of_item: dict[str, list[UsableRow]] = defaultdict(list)
            for row in filter(_is_usable, rows):
                of_item[row.item_id].append(row)
            if of_item:
                yield name, [self._clip(name, of_item[own], captions.get(own, ())) for own in sorted(of_item)]

    def rows_by_scenario(self) -> Iterator[tuple[str, Iterable[ListedRow]]]:
        """The rows, scenario by scenario, with the clean rows last."""
        clean = self.sources if self.request.clean and self.rows is not self.sources else ()
        return groupby(chain(self.rows, clean), export_names.scenario)

    def _clip(self, scenario: str, rows: Sequence[UsableRow], captions: tuple[CaptionRow, ...]) -> ExportedClip:
        """The clip of an item's rows; only pairs have several rows per item."""
        first, row = rows[0], typed_row(rows[0])
        assert isinstance(row, VideoRow | CompleteSource)
        texts: Iterable[PairedText] = captions
        if isinstance(row, VideoRow):
            accepted = (own for own in rows if isinstance(own, MultimodalRow) and own.accepted)
            texts = sorted(accepted, key=lambda text: (export_names.scenario_of_text(text), numbered(text.caption_id)))
        mix, share = (first.mix, first.share) if isinstance(first, MixRow) else (None, None)
        return ExportedClip(row, scenario, self.keys[row.item_id], captions, mix, share, tuple(texts))

    def clips(self) -> Iterator[ExportedClip]:
        """The clips of all scenarios."""
        return chain.from_iterable(clips for _, clips in self.scenarios())

    def captions_by_scenario(self) -> Iterator[tuple[str, Sequence[TextRow] | Sequence[CaptionRow]]]:
        """The name and the accepted captions of each scenario, with the clean captions last."""
        for name, together in groupby(self.texts, export_names.scenario):
            if rows := [row for row in together if row.accepted]:
                yield name, rows
        if self.request.clean:
            yield export_names.CLEAN, self.captions

    @property
    def left_out(self) -> list[LeftOut]:
        """The rows that are not exported."""
        return [*self.failed, *self.quarantined]

    @property
    def identity(self) -> list[str]:
        """The identity of an export: the dataset, the kind of manifest or of mix, the suites."""
        made_by = self.suites
        if not made_by and self.about.get("suite"):  # only the clean clips of a suite's manifest are exported
            made_by = {str(self.about["suite"])}
        kind = ",".join(sorted(self.mixes)) or str(self.about.get("kind", ""))
        return [self.dataset, kind, ",".join(sorted(made_by)) or export_names.CLEAN]

    @property
    def title(self) -> str:
        """The dataset's title: its name and the suites."""
        dataset, kind, made_by = self.identity
        return f"{dataset} {self.in_words(kind)} {made_by}".replace(",", ", ")

    def in_words(self, text: str) -> str:
        """A sentence about clips, which says "pictures" where the clips are pictures."""
        return shown.in_words_of(text, pictures=self.has_pictures)

    def result(self, others: str = "") -> Exported:
        """The result of the export, for the command; `others` names what was written beside or instead of videos."""
        failed, quarantined = tuple(self.failed), tuple(self.quarantined)
        return Exported(self.written, failed, quarantined, others, self.in_words("video"))


def read(
    request: Request,
    *,
    kinds: Sequence[RowKind[Any]] = (VIDEOS, MIXES, SOURCES, MULTIMODAL),
    any_tier: bool = False,
) -> ExportedCorpus:
    """The corpus of a manifest of videos, mixes, sources or pairs, with clean clips if they are requested.

    Raises `ManifestError` for another kind of manifest than `kinds`, where no clip is complete, for two complete rows
    of one item and scenario, for clips of which only sampled frames are stored (except with `any_tier`), and where
    clean clips are requested and no manifest of sources is beside or above this one.
    """
    path, kind = request.manifest, files.kind_of(request.manifest)
    if kind not in kinds:
        known = " or ".join(other.name for other in kinds)
        raise ManifestError(f"{path} is a manifest of {kind.name}; frames are exported from {known}")
    rows = read_clips(path, kind)
    sources = rows if kind == SOURCES else _companion(path, SOURCES, needed=request.clean)
    corpus = _surveyed(
        ExportedCorpus(
            request,
            _described(path),
            records="pairs" if kind == MULTIMODAL else "clips",
            rows=files.in_order(_BY_SCENARIO, rows) if kind == VIDEOS else rows,  # others are in this order
            captions=companion(path, CAPTIONS),
            sources=sources,
        )
    )
    if not corpus.counts or (kind == MULTIMODAL and not any(clip.texts for clip in corpus.clips())):
        raise ManifestError(f"{path} has no complete row to export")
    if not any_tier and (frames := sorted(name for name in corpus.storages if name.startswith("frames/"))):
        raise ManifestError(
            f"{path} stores {', '.join(frames)}, and this layout is of videos: set `storage` of config.yaml to video "
            "or recipe, or take --format vtr_tta, which is of frames"
        )
    return corpus


def read_texts(request: Request, *, with_clips: bool = False) -> ExportedCorpus:
    """The corpus of a manifest of perturbed captions, with the clean captions where they are requested, and the clips.

    Raises `ManifestError` for another kind of manifest, and where a needed manifest is missing.
    """
    path, kind = request.manifest, files.kind_of(request.manifest)
    if kind != TEXTS:
        raise ManifestError(f"{path} is a manifest of {kind.name}; captions are exported from texts")
    texts = files.read_rows(path, TEXTS)
    if not any(row.accepted for row in texts):
        raise ManifestError(f"{path} has no complete row to export")
    sources = _companion(path, SOURCES, needed=True) if with_clips else []
    corpus = ExportedCorpus(
        request,
        _described(path),
        records="captions",
        rows=sources,
        captions=_companion(path, CAPTIONS, needed=request.clean),
        sources=sources,
        texts=texts,
        dataset=texts[0].dataset,
        suites={row.suite for row in texts if row.accepted},
    )
    for name, rows in corpus.captions_by_scenario():
        _check_once(path, name, Counter(row.caption_id for row in rows))
    return _surveyed(corpus)


def of_clean(request: Request, item_ids: set[str]) -> ExportedCorpus:
    """The corpus of some clean clips of a manifest's dataset. Raises as `read_texts` does."""
    path = request.manifest
    sources = _companion(path, SOURCES, needed=True)
    chosen = [row for row in sources if row.item_id in item_ids and row.status == COMPLETE]
    captions = companion(path, CAPTIONS)
    return _surveyed(ExportedCorpus(request, _described(path), records="queries", rows=chosen, captions=captions))


def _described(path: Path) -> dict[str, Any]:
    """The metadata of a manifest, with the dataset's adapter and the language of its captions."""
    captions = companion_path(path, CAPTIONS)
    of_dataset = files.read_metadata(captions) if captions else {}
    kept = {name: of_dataset[name] for name in ("adapter", "language") if name in of_dataset}
    return kept | files.read_metadata(path)


def _companion(path: Path, kind: RowKind[Any], *, needed: bool) -> Sequence[Any]:
    rows = companion(path, kind)
    if needed and not rows:
        raise ManifestError(f"no {kind.name}.parquet beside or above {path}, or it lists nothing")
    return rows


def _surveyed(corpus: ExportedCorpus) -> ExportedCorpus:
    """The corpus after one pass over its rows, for all that must be known before the first file is written."""
    item_ids, incomplete = set(), dict[LeftOut, None]()
    for name, rows in corpus.rows_by_scenario():
        own_ids, members = set(), Counter[object]()
        for row in rows:
            corpus.dataset = corpus.dataset or row.dataset
            if not _is_usable(row):
                incomplete[left_out(row, f"{row.status}: {row.stage}: {row.error}")] = None
                continue
            own_ids.add(row.item_id)
            of_pair = isinstance(row, MultimodalRow) and (row.text_perturbation, row.text_severity, row.caption_id)
            members[(row.item_id, *of_pair) if of_pair else row.item_id] += 1
            corpus.has_pictures = corpus.has_pictures or is_picture(row)
            if isinstance(row, ClipRow):
                corpus.suites.add(row.suite)
                corpus.storages.add(row.storage)
                corpus.mixes |= {row.mix} if isinstance(row, MixRow) else set()
        _check_once(corpus.request.manifest, name, members)
        corpus.counts.update({name: len(own_ids)} if own_ids else {})
        item_ids |= own_ids
    corpus.dataset = corpus.dataset or str(corpus.about.get("dataset") or corpus.request.manifest.parent.name)
    corpus.keys = export_names.keys(item_ids)
    corpus.quarantined += incomplete
    return corpus


def _is_usable(row: ListedRow) -> TypeGuard[UsableRow]:
    return row.status == COMPLETE and isinstance(row, ClipRow | CompleteSource)


def _check_once(path: Path, scenario: str, members: Counter[Any]) -> None:
    """Raise `ManifestError` where a scenario has a row more than once."""
    if twice := [f"{short(own)} in {scenario}" for own, count in members.items() if count > 1]:
        raise ManifestError(f"{path} has complete rows more than once: {', '.join(twice[:5])}")


def is_picture(row: UsableRow) -> bool:
    """Whether a clip is a picture."""
    return profiles.is_picture(row.path or "" if isinstance(row, CompleteSource) else row.source_path)


def left_out(row: ListedRow, problem: str) -> LeftOut:
    """A row's problem, without the folders of its files, because it is published."""
    for file in filter(None, (row.path, row.source_path if isinstance(row, ClipRow) else None)):
        problem = problem.replace(os.path.join(os.path.dirname(file), ""), "") if "/" in file else problem
    key = ("item_id", "perturbation", "severity") if isinstance(row, ClipRow) else ("item_id",)
    return name_of(row, key), problem
