"""A corpus as its exports need it: its complete clips, scenario by scenario, with names and captions."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from perturbations.api.opening import typed_row
from perturbations.base import shown, storage
from perturbations.base.errors import ManifestError, UnknownPerturbationError, short
from perturbations.exports import names
from perturbations.exports.registry import LeftOut, Request
from perturbations.manifest import files, locations
from perturbations.manifest.companions import companion, numbered
from perturbations.manifest.files import stored
from perturbations.manifest.kinds import (
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
from perturbations.suites import registry as suites
from perturbations.verify.checking import name_of

ListedRow = ClipRow | SourceRow
UsableRow = ClipRow | CompleteSource

_BY_SCENARIO: RowKind[Any] = replace(VIDEOS, key=("perturbation", "severity", "item_id"))


class PairedText(NamedTuple):
    """The caption of an exported pair.

    `source_text` is the caption that it was made from, None where the dataset's `captions.parquet` does not have it.
    `text_perturbation` of clean captions is `clean`, their severity is 0.
    """

    caption_id: str
    text_perturbation: str
    text_severity: int
    text_level: str | None
    text: str
    source_text: str | None
    changed: bool
    similarity: float | None = None
    text_backend: str | None = None
    text_recipe_id: str | None = None

    @property
    def scenario(self) -> str:
        """The name of its scenario: `no_verbs_1`, `clean`."""
        if self.text_perturbation == names.CLEAN:
            return names.CLEAN
        return names.named(self.text_perturbation, str(self.text_severity))


@dataclass(frozen=True, eq=False)
class Clip:
    """A complete clip of an exported corpus.

    Attributes:
        row: its row, with which its frames are opened: of videos or of sources.
        scenario: the name of its scenario.
        key: the name of its item in files.
        captions: its clean captions, in their order.
        mix, share: of the mix that it is in.
        texts: the captions that it is paired with, by perturbation and id.
    """

    row: VideoRow | CompleteSource
    scenario: str
    key: str
    captions: tuple[str, ...]
    mix: str | None = None
    share: float | None = None
    texts: tuple[PairedText, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells the clip's video from others: rows of several scenarios may be of one video."""
        if isinstance(self.row, CompleteSource):
            return (names.CLEAN, self.row.item_id)
        return self.row.suite, self.row.perturbation, str(self.row.severity), self.row.item_id


@dataclass
class Corpus:
    """What an export writes.

    Attributes:
        manifest: the exported manifest.
        about: its metadata.
        rows: its rows of clips, or the clean clips of its captions; rows of one scenario follow each other.
        clean: the clean clips that are exported with others.
        captions: the dataset's clean captions.
        sources: the dataset's clips.
        texts: the rows of perturbed captions, where it is a manifest of these.
        clean_texts: the clean captions that are exported with them.
        dataset: the dataset's name.
        suites, mixes, storages: the different ones of complete rows.
        has_pictures: whether a clip is a picture.
        keys: the names of items in files.
        counts: the number of complete clips per scenario.
        left_out: the rows without a clip.
    """

    manifest: Path
    about: Mapping[str, Any]
    rows: Iterable[ListedRow] = ()
    clean: Sequence[SourceRow] = ()
    captions: Sequence[CaptionRow] = ()
    sources: Sequence[SourceRow] = ()
    texts: Sequence[TextRow] = ()
    clean_texts: Sequence[CaptionRow] = ()
    dataset: str = ""
    suites: set[str] = field(default_factory=set)
    mixes: set[str] = field(default_factory=set)
    storages: set[str] = field(default_factory=set)
    has_pictures: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: list[LeftOut] = field(default_factory=list)

    def scenarios(self) -> Iterator[tuple[str, list[Clip]]]:
        """The complete clips of one scenario after another, clean ones last, sorted by item."""
        of_item: dict[str, list[CaptionRow]] = defaultdict(list)
        for caption in sorted(self.captions, key=lambda caption: numbered(caption.caption_id)):
            of_item[caption.item_id].append(caption)
        originals = {caption.caption_id: caption.text for caption in self.captions}
        for name, members in self._members():
            yield name, [self._clip(name, rows, of_item[rows[0].item_id], originals) for rows in members]

    def _clip(
        self, scenario: str, rows: Sequence[UsableRow], captions: Sequence[CaptionRow], originals: Mapping[str, str]
    ) -> Clip:
        """The clip of one item's rows, which are several of pairs only."""
        first, row = rows[0], typed_row(rows[0])
        assert isinstance(row, VideoRow | CompleteSource)
        mix, share = (first.mix, first.share) if isinstance(first, MixRow) else (None, None)
        if isinstance(row, CompleteSource):
            texts = [PairedText(own.caption_id, names.CLEAN, 0, None, own.text, own.text, False) for own in captions]
        else:
            texts = [_paired(own, originals) for own in rows if isinstance(own, MultimodalRow) and own.accepted]
            texts.sort(key=lambda text: (text.scenario, numbered(text.caption_id)))
        captioned = tuple(caption.text for caption in captions)
        return Clip(row, scenario, self.keys[row.item_id], captioned, mix, share, tuple(texts))

    def clips(self) -> Iterator[Clip]:
        """The clips of all scenarios."""
        return chain.from_iterable(clips for _, clips in self.scenarios())

    def _members(self) -> Iterator[tuple[str, list[list[UsableRow]]]]:
        """The complete rows of one scenario after another; a member is the rows of one item, several of pairs only."""
        for name, together in groupby(chain(self.rows, self.clean), names.scenario):
            of_item: dict[str, list[UsableRow]] = defaultdict(list)
            for row in together:
                if row.status == COMPLETE and isinstance(row, ClipRow | CompleteSource):
                    of_item[row.item_id].append(row)
            if of_item:
                yield name, [of_item[item_id] for item_id in sorted(of_item)]

    def captions_by_scenario(self) -> Iterator[tuple[str, Sequence[TextRow] | Sequence[CaptionRow]]]:
        """The accepted captions of one scenario after another, clean ones last, with the name of it."""
        for name, together in groupby(self.texts, names.scenario):
            if rows := [row for row in together if row.accepted]:
                yield name, rows
        if self.clean_texts:
            yield names.CLEAN, self.clean_texts

    @property
    def rejected(self) -> int:
        """The number of captions that the fidelity gate rejected, which are left out."""
        return sum(not row.accepted for row in self.texts)

    @property
    def identity(self) -> list[str]:
        """What tells an export from others: the dataset, the kind of manifest or of mix, the suites."""
        made_by = self.suites
        if not made_by and self.about.get("suite"):  # of a suite's manifest, only clean clips are exported
            made_by = {str(self.about["suite"])}
        kind = ",".join(sorted(self.mixes)) or str(self.about.get("kind", ""))
        return [self.dataset, kind, ",".join(sorted(made_by)) or names.CLEAN]

    @property
    def title(self) -> str:
        """The dataset's title: its name and the suites."""
        dataset, kind, made_by = self.identity
        return f"{dataset} {shown.in_words_of(kind, pictures=self.has_pictures)} {made_by}".replace(",", ", ")


def read(
    request: Request,
    *,
    kinds: Sequence[RowKind[Any]] = (VIDEOS, MIXES, SOURCES, MULTIMODAL),
    any_tier: bool = False,
) -> Corpus:
    """The corpus of a manifest of videos, mixes, sources or pairs; with the clean clips where they are requested.

    Raises `ManifestError` for another kind of manifest than `kinds`, where no clip is complete, for two complete rows
    of one item and scenario, for clips whose frames only are stored (but with `any_tier`), and where clean clips are
    requested and no manifest of sources is beside or above this one.
    """
    path, kind = request.manifest, files.kind_of(request.manifest)
    if kind not in kinds:
        known = " or ".join(other.name for other in kinds)
        raise ManifestError(f"{path} is a manifest of {kind.name}; frames are exported from {known}")
    about = files.read_metadata(path)
    # A large manifest's rows stay on the disk until they are needed.
    rows = stored(files.read_rows(path, kind)).mapped(partial(locations.located, root=locations.root_of(path, about)))
    sources = rows if kind == SOURCES else companion(path, SOURCES)
    if request.clean and not sources:
        raise ManifestError(f"no sources.parquet beside or above {path}, which would list the clean clips")
    in_order = files.in_order(_BY_SCENARIO, rows) if kind == VIDEOS else rows  # other kinds are in that order
    clean = sources if request.clean and kind != SOURCES else []
    corpus = Corpus(path, about, in_order, clean, companion(path, CAPTIONS), sources)
    _survey(corpus)
    if not corpus.counts or (kind == MULTIMODAL and not any(clip.texts for clip in corpus.clips())):
        raise ManifestError(f"{path} has no complete row to export")
    if not any_tier:
        _check_tiers(corpus)
    return corpus


def read_texts(request: Request, *, with_clips: bool = False) -> Corpus:
    """The corpus of a manifest of perturbed captions, with clean captions and clips where they are requested.

    Raises `ManifestError` for another kind of manifest, and without the manifests of clean captions and clips.
    """
    path, kind = request.manifest, files.kind_of(request.manifest)
    if kind != TEXTS:
        raise ManifestError(f"{path} is a manifest of {kind.name}; captions are exported from texts")
    texts = files.read_rows(path, TEXTS)
    if not any(row.accepted for row in texts):
        raise ManifestError(f"{path} has no complete row to export")
    captions = _required(path, CAPTIONS) if request.clean else companion(path, CAPTIONS)
    sources = _required(path, SOURCES) if with_clips or request.clean else []
    corpus = Corpus(path, files.read_metadata(path), sources, (), captions, sources, texts)
    corpus.clean_texts = captions if request.clean else ()
    _survey(corpus)
    corpus.suites |= {row.suite for row in texts if row.accepted}
    corpus.dataset = next(row.dataset for row in texts)
    for name, rows in corpus.captions_by_scenario():
        _check_once(path, name, (row.caption_id for row in rows))
    return corpus


def of_clean(request: Request, item_ids: set[str]) -> Corpus:
    """The corpus of these clean clips of the dataset that a manifest is of. Errors as of `read_texts`."""
    sources = _required(request.manifest, SOURCES)
    chosen = [row for row in sources if row.item_id in item_ids and row.status == COMPLETE]
    captions = companion(request.manifest, CAPTIONS)
    corpus = Corpus(request.manifest, files.read_metadata(request.manifest), chosen, (), captions, sources)
    _survey(corpus)
    return corpus


def _required(path: Path, kind: RowKind[Any]) -> Sequence[Any]:
    rows = companion(path, kind)
    if not rows:
        raise ManifestError(f"no {kind.name}.parquet of the dataset beside or above {path}, or it lists nothing")
    return rows


def _survey(corpus: Corpus) -> None:
    """One pass over the rows, for all that must be known before the first file is written."""
    item_ids, incomplete = set(), dict[LeftOut, None]()
    for row in chain(corpus.rows, corpus.clean):
        corpus.dataset = corpus.dataset or row.dataset
        if row.status != COMPLETE or not isinstance(row, ClipRow | CompleteSource):
            incomplete[left_out(row, f"{row.status}: {row.stage}: {row.error}")] = None
            continue
        item_ids.add(row.item_id)
        corpus.has_pictures = corpus.has_pictures or is_picture(row)
        if isinstance(row, ClipRow):
            corpus.suites.add(row.suite)
            corpus.storages.add(row.storage)
            corpus.mixes |= {row.mix} if isinstance(row, MixRow) else set()
    corpus.dataset = corpus.dataset or str(corpus.about.get("dataset") or corpus.manifest.parent.name)
    corpus.keys.update(names.keys(item_ids))
    corpus.left_out += incomplete
    for name, members in corpus._members():
        _check_once(corpus.manifest, name, (_identity(row) for rows in members for row in rows))
        corpus.counts[name] = len(members)


def _identity(row: UsableRow) -> tuple[object, ...] | str:
    """What one row of a scenario has: its item, of pairs with the caption."""
    if isinstance(row, MultimodalRow):
        return row.item_id, row.text_perturbation, row.text_severity, row.caption_id
    return row.item_id


def _check_once(path: Path, scenario: str, identities: Iterable[object]) -> None:
    """Raise `ManifestError` where a scenario has a row more than once."""
    if twice := [f"{short(own)} in {scenario}" for own, count in Counter(identities).items() if count > 1]:
        raise ManifestError(f"{path} has complete rows more than once: {', '.join(twice[:5])}")


def _check_tiers(corpus: Corpus) -> None:
    """Raise `ManifestError` for clips of which only sampled frames are stored: no video can be made of those."""
    if stored_as := sorted(name for name in corpus.storages if name.startswith("frames/")):
        raise ManifestError(
            f"{corpus.manifest} stores {', '.join(stored_as)}, and this layout is of videos: set `storage` of "
            "config.yaml to video or recipe, or take --format vtr_tta, which is of frames"
        )


def _paired(row: MultimodalRow, originals: Mapping[str, str]) -> PairedText:
    return PairedText(
        caption_id=row.caption_id,
        text_perturbation=row.text_perturbation,
        text_severity=row.text_severity,
        text_level=_category(f"{row.suite}/{row.text_perturbation}"),
        text=row.text,
        source_text=originals.get(row.caption_id),
        changed=row.changed,
        similarity=row.similarity,
        text_backend=row.text_backend,
        text_recipe_id=row.text_recipe_id,
    )


def _category(name: str) -> str | None:
    """The category of a perturbation of captions, which rows of pairs do not have; None of one from elsewhere."""
    try:
        return suites.get(name).category
    except UnknownPerturbationError:
        return None


def is_picture(row: UsableRow) -> bool:
    """Whether a clip is a picture."""
    return storage.is_picture(row.path or "" if isinstance(row, CompleteSource) else row.source_path)


def left_out(row: ListedRow, problem: str) -> LeftOut:
    """A row's problem, without the folders of its files: it is published."""
    for file in filter(None, (row.path, row.source_path if isinstance(row, ClipRow) else None)):
        problem = problem.replace(os.path.join(os.path.dirname(file), ""), "") if "/" in file else problem
    key = ("item_id", "perturbation", "severity") if isinstance(row, ClipRow) else ("item_id",)
    return LeftOut(name_of(row, key), problem)
