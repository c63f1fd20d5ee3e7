"""A corpus as its exports need it: its complete clips, scenario by scenario, with names and captions."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from perturbations.api.opening import typed_row
from perturbations.base import shown, storage, tars
from perturbations.base.errors import ManifestError, UnknownPerturbationError, short
from perturbations.exports import names
from perturbations.exports.registry import LeftOut, Request
from perturbations.manifest import files, locations
from perturbations.manifest.companions import companion, numbered, texts_of
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

ListedRow = ClipRow | SourceRow
UsableRow = ClipRow | CompleteSource

_OF_VIDEO = tuple(field.name for field in fields(VideoRow))


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
    similarity: float | None
    text_backend: str | None
    text_recipe_id: str | None

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
        folders: those of the clips' files.
        bytes: of the clips' files.
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
    folders: set[Path] = field(default_factory=set)
    bytes: int = 0
    has_pictures: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: list[LeftOut] = field(default_factory=list)

    def scenarios(self) -> Iterator[tuple[str, list[Clip]]]:
        """The complete clips of one scenario after another, clean ones last, sorted by item."""
        captions = texts_of(self.captions)
        of_item: dict[str, list[CaptionRow]] = defaultdict(list)
        for caption in self.captions:
            of_item[caption.item_id].append(caption)
        originals = {caption.caption_id: caption.text for caption in self.captions}
        for name, members in self._members():
            clips = []
            for rows in members:
                row, item_id = typed_row(rows[0]), rows[0].item_id
                assert isinstance(row, VideoRow | CompleteSource)
                texts = _clean_texts(of_item[item_id]) if isinstance(row, CompleteSource) else _paired(rows, originals)
                mix, share = (rows[0].mix, rows[0].share) if isinstance(rows[0], MixRow) else (None, None)
                clips.append(Clip(row, name, self.keys[item_id], captions.get(item_id, ()), mix, share, texts))
            if clips:
                yield name, clips

    def clips(self) -> Iterator[Clip]:
        """The clips of all scenarios."""
        return chain.from_iterable(clips for _, clips in self.scenarios())

    def _members(self) -> Iterator[tuple[str, list[list[UsableRow]]]]:
        """The complete rows of one scenario after another; a member is the rows of one item, several of pairs only."""
        several = len(self.suites) > 1
        for _, together in groupby(chain(self.rows, self.clean), names.scenario):
            by_name: dict[str, dict[str, list[UsableRow]]] = defaultdict(lambda: defaultdict(list))
            for row in together:
                if row.status == COMPLETE and isinstance(row, ClipRow | CompleteSource):
                    by_name[names.scenario(row, with_suite=several)][row.item_id].append(row)
            for name, of_item in sorted(by_name.items()):
                yield name, [of_item[item_id] for item_id in sorted(of_item)]

    def captions_by_scenario(self) -> Iterator[tuple[str, list[TextRow] | Sequence[CaptionRow]]]:
        """The accepted captions of one scenario after another, clean ones last, with the name of it."""
        several = len(self.suites) > 1
        for _, together in groupby(self.texts, names.scenario):
            by_name: dict[str, list[TextRow]] = defaultdict(list)
            for row in together:
                if row.accepted:
                    by_name[names.scenario(row, with_suite=several)].append(row)
            yield from sorted(by_name.items())
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
    path = request.manifest
    rows = listed(path, kinds)
    by_scenario: RowKind[Any] = replace(VIDEOS, key=("perturbation", "severity", "suite", "item_id"))
    if files.kind_of(path) == VIDEOS:  # the rows of other kinds are in the order of their scenarios already
        rows = files.in_order(by_scenario, rows)
    is_clean = files.kind_of(path) == SOURCES
    sources = [row for row in rows if isinstance(row, SourceRow)] if is_clean else companion(path, SOURCES)
    if request.clean and not sources:
        raise ManifestError(f"no sources.parquet beside or above {path}, which would list the clean clips")
    clean = [] if is_clean or not request.clean else sources
    corpus = Corpus(path, files.read_metadata(path), rows, clean, companion(path, CAPTIONS), sources)
    _survey(corpus)
    is_paired = files.kind_of(path) == MULTIMODAL
    if not corpus.counts or (is_paired and not any(clip.texts for clip in corpus.clips())):
        raise ManifestError(f"{path} has no complete row to export")
    if not any_tier:
        _check_tiers(corpus)
    return corpus


def read_texts(request: Request, *, with_clips: bool = False) -> Corpus:
    """The corpus of a manifest of perturbed captions, with clean captions and clips where they are requested.

    Raises `ManifestError` for another kind of manifest, and without the manifests of clean captions and clips.
    """
    path = request.manifest
    kind = files.kind_of(path)
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
        _check_once(path, ((name, row.caption_id) for row in rows))
    _check_tiers(corpus)
    return corpus


def of_clean(request: Request, item_ids: set[str]) -> Corpus:
    """The corpus of these clean clips of the dataset that a manifest is of. Errors as of `read_texts`."""
    sources = _required(request.manifest, SOURCES)
    chosen = [row for row in sources if row.item_id in item_ids and row.status == COMPLETE]
    captions = companion(request.manifest, CAPTIONS)
    corpus = Corpus(request.manifest, files.read_metadata(request.manifest), chosen, (), captions, sources)
    _survey(corpus)
    return corpus


def listed(path: Path, kinds: Sequence[RowKind[Any]] = (VIDEOS, SOURCES)) -> Sequence[ListedRow]:
    """The rows of a manifest of clips, with the current paths of their files.

    Raises `ManifestError` for another kind of manifest than `kinds`.
    """
    kind = files.kind_of(path)
    if kind not in kinds:
        known = " or ".join(other.name for other in kinds)
        raise ManifestError(f"{path} is a manifest of {kind.name}; frames are exported from {known}")
    root = locations.root_of(path, files.read_metadata(path))
    return _Located(files.read_rows(path, kind), partial(locations.located, root=root))


class _Located(Sequence[Any]):
    """Rows whose paths are absolute; those of a large manifest stay on the disk until they are needed."""

    def __init__(self, rows: Sequence[Any], located: Callable[[Any], Any]) -> None:
        self._rows, self._located = rows, located

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._located(self._rows[place])

    def __iter__(self) -> Iterator[Any]:
        return map(self._located, self._rows)


def _required(path: Path, kind: RowKind[Any]) -> Sequence[Any]:
    rows = companion(path, kind)
    if not rows:
        raise ManifestError(f"no {kind.name}.parquet of the dataset beside or above {path}, or it lists nothing")
    return rows


def _survey(corpus: Corpus) -> None:
    """One pass over the rows, for all that must be known before the first file is written."""
    item_ids, incomplete, folders = set(), dict[LeftOut, None](), set()
    for row in chain(corpus.rows, corpus.clean):
        corpus.dataset = corpus.dataset or row.dataset
        if row.status != COMPLETE or not isinstance(row, ClipRow | CompleteSource):
            incomplete[left_out(row, f"{row.status}: {row.stage}: {row.error}")] = None
            continue
        item_ids.add(row.item_id)
        folders.add(os.path.dirname(tars.file_of(row.path or "")))
        corpus.has_pictures = corpus.has_pictures or is_picture(row)
        if isinstance(row, ClipRow):
            corpus.suites.add(row.suite)
            corpus.storages.add(row.storage)
            corpus.mixes |= {row.mix} if isinstance(row, MixRow) else set()
    corpus.dataset = corpus.dataset or str(corpus.about.get("dataset") or corpus.manifest.parent.name)
    corpus.folders |= {Path(folder) for folder in folders if folder}
    corpus.keys.update(names.keys(item_ids))
    corpus.left_out += incomplete
    for name, members in corpus._members():
        _check_once(corpus.manifest, (video for rows in members for video in _videos(name, rows)))
        for rows in members:
            texts = [row for row in rows if isinstance(row, MultimodalRow) and row.accepted]
            _check_once(
                corpus.manifest, ((f"{name} with {_perturbed(row, None).scenario}", row.caption_id) for row in texts)
            )
        corpus.counts[name] += len(members)
        corpus.bytes += sum(rows[0].bytes or 0 for rows in members)


def _videos(name: str, rows: Sequence[UsableRow]) -> Iterator[tuple[str, str]]:
    """The different videos of an item: rows of pairs that say the same of their video are of one."""
    paired = [row for row in rows if isinstance(row, MultimodalRow)]
    count = len({tuple(getattr(row, column) for column in _OF_VIDEO) for row in paired}) if paired else len(rows)
    return ((name, rows[0].item_id) for _ in range(count))


def _check_once(path: Path, named: Iterable[tuple[str, str]]) -> None:
    """Raise `ManifestError` where a scenario has one id more than once."""
    twice = [f"{short(own)} in {name}" for (name, own), count in Counter(named).items() if count > 1]
    if twice:
        raise ManifestError(f"{path} has complete rows more than once: {', '.join(twice[:5])}")


def _check_tiers(corpus: Corpus) -> None:
    """Raise `ManifestError` for clips of which only sampled frames are stored: no video can be made of those."""
    if stored := sorted(name for name in corpus.storages if name.startswith("frames/")):
        raise ManifestError(
            f"{corpus.manifest} stores {', '.join(stored)}, and this layout is of videos: set `storage` of config.yaml "
            "to video or recipe, or take --format vtr_tta, which is of frames"
        )


def _paired(rows: Iterable[UsableRow], originals: Mapping[str, str]) -> tuple[PairedText, ...]:
    """The accepted captions of a video, by perturbation and id."""
    texts = [
        _perturbed(row, originals.get(row.caption_id))
        for row in rows
        if isinstance(row, MultimodalRow) and row.accepted
    ]
    return tuple(sorted(texts, key=lambda text: (text.scenario, numbered(text.caption_id))))


def _perturbed(row: MultimodalRow, source_text: str | None) -> PairedText:
    return PairedText(
        caption_id=row.caption_id,
        text_perturbation=row.text_perturbation,
        text_severity=row.text_severity,
        text_level=_category(f"{row.suite}/{row.text_perturbation}"),
        text=row.text,
        source_text=source_text,
        changed=row.changed,
        similarity=row.similarity,
        text_backend=row.text_backend,
        text_recipe_id=row.text_recipe_id,
    )


def _clean_texts(captions: Iterable[CaptionRow]) -> tuple[PairedText, ...]:
    """The clean captions of a clean clip."""
    in_order = sorted(captions, key=lambda row: numbered(row.caption_id))
    return tuple(
        PairedText(row.caption_id, names.CLEAN, 0, None, row.text, row.text, False, None, None, None)
        for row in in_order
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
    parts = [row.item_id, *([row.perturbation, row.severity] if isinstance(row, ClipRow) else [])]
    return LeftOut(" ".join(_readable(str(part)) for part in parts), problem)


def _readable(text: str) -> str:
    return text if text and text.isprintable() and " " not in text else repr(text)
