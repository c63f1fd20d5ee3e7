"""A manifest of multimodal pairs as layouts need it: each video once, with the captions that it is paired with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby

from perturbations.base.errors import ManifestError, UnknownPerturbationError
from perturbations.exports.writing import export_columns, export_layout, export_rows, stored_clips
from perturbations.exports.writing.export_columns import PairColumns, PairedText
from perturbations.exports.writing.export_rows import ExportedClip, ExportedCorpus
from perturbations.exports.writing.requests import Request
from perturbations.manifest import files, row_groups
from perturbations.manifest.companions import numbered
from perturbations.manifest.kinds import COMPLETE, MULTIMODAL, CaptionRow, CompleteSource, MultimodalRow, VideoRow
from perturbations.suites import registry

_VIDEO = tuple(field.name for field in fields(VideoRow))


_BY_VIDEO = replace(
    MULTIMODAL,
    key=("suite", "perturbation", "severity", "item_id", "text_perturbation", "text_severity", "caption_id"),
)
"""Pairs in the order of their videos."""


@dataclass(frozen=True)
class _Pairs:
    """The pairs of a corpus, which are read when they are needed.

    Attributes:
        corpus: the videos, each once, also those of which the gate accepted no caption.
        listed: the rows of pairs, in the order of `_BY_VIDEO`.
        places: those of each video with an accepted caption, named by `Clip.identity`.
        clean: the clean captions per item.
        originals: their texts by their ids.
    """

    corpus: ExportedCorpus
    listed: Sequence[MultimodalRow]
    places: Mapping[tuple[str, ...], range]
    clean: Mapping[str, Sequence[CaptionRow]]
    originals: Mapping[str, str]

    @property
    def with_captions(self) -> ExportedCorpus:
        """The corpus of the videos that are paired with a caption."""
        places = {
            name: [place for place, clip in enumerate(clips) if self.has(clip)]
            for name, clips in self.corpus.scenarios.items()
        }
        scenarios = self.corpus.scenarios
        return replace(
            self.corpus,
            scenarios={name: row_groups.stored(scenarios[name]).taken(kept) for name, kept in places.items() if kept},
        )

    def has(self, clip: ExportedClip) -> bool:
        """Whether a video is paired with a caption."""
        is_clean = isinstance(clip.row, CompleteSource)
        return clip.row.item_id in self.clean if is_clean else clip.identity in self.places

    def of(self, clip: ExportedClip) -> Sequence[PairedText]:
        """The captions that a video is paired with, by perturbation and id."""
        if isinstance(clip.row, CompleteSource):
            texts = [_clean(row.caption_id, row.text) for row in self.clean.get(clip.row.item_id, ())]
        else:
            rows = (self.listed[place] for place in self.places.get(clip.identity, ()))
            texts = [_perturbed(row, self.originals.get(row.caption_id)) for row in rows if _is_exported(row)]
        return sorted(texts, key=lambda text: (scenario(text), numbered(text.caption_id)))

    def rows(self, clip: ExportedClip, sha256: str) -> Iterator[PairColumns]:
        """The columns of a video's pairs; `sha256` is the hash of its file."""
        described = export_columns.of_clip(clip, sha256)
        return (export_columns.of_pair(described, text) for text in self.of(clip))


def scenario(text: PairedText | MultimodalRow) -> str:
    """The name of a caption's scenario: `no_verbs_1`, `clean`."""
    if text.text_perturbation == export_layout.CLEAN:
        return export_layout.CLEAN
    return export_layout.named(text.text_perturbation, str(text.text_severity))


def read(request: Request) -> _Pairs:
    """The pairs of a manifest; with each clean clip and its clean captions where they are requested.

    Captions that the fidelity gate rejected are left out. Raises `ManifestError` as `corpus.read` does, and where no
    video is complete and has an accepted caption.
    """
    pairs = (row for row in stored_clips.read(request.manifest, (MULTIMODAL,)) if isinstance(row, MultimodalRow))
    listed = files.in_order(_BY_VIDEO, pairs)
    places: dict[tuple[str, ...], range] = {}
    videos: list[int] = []
    for identity, members in groupby(enumerate(listed), lambda pair: _identity(pair[1])):
        numbered_rows = list(members)
        names = [
            (f"{' '.join(identity)} with {scenario(row)}", row.caption_id)
            for _, row in numbered_rows
            if _is_exported(row)
        ]
        stored_clips.check_twice(request.manifest, sorted(names))
        # Rows of one video that say different things of it are different videos, which is refused.
        distinct = {_video(row): place for place, row in reversed(numbered_rows)}
        videos += sorted(distinct.values())
        if names:
            places[identity] = range(numbered_rows[0][0], numbered_rows[-1][0] + 1)
    exported = export_rows.of_rows(request, row_groups.stored(listed).taken(videos).mapped(_video))
    clean: dict[str, list[CaptionRow]] = defaultdict(list)
    for caption in exported.captions:
        clean[caption.item_id].append(caption)
    for item_id, captions in clean.items() if export_layout.CLEAN in exported.scenarios else ():
        named = sorted((f"clean {item_id} with clean", caption.caption_id) for caption in captions)
        stored_clips.check_twice(request.manifest, named)
    originals = {row.caption_id: row.text for row in exported.captions}
    paired = _Pairs(exported, listed, places, clean, originals)
    if not any(map(paired.has, exported.clips)):
        raise ManifestError(f"{request.manifest} has no complete row to export")
    return paired


def _identity(row: MultimodalRow) -> tuple[str, ...]:
    """The name of a pair's video, as `Clip.identity`."""
    return row.suite, str(row.perturbation), str(row.severity), row.item_id


def _is_exported(row: MultimodalRow) -> bool:
    return row.accepted and row.status == COMPLETE


def _video(row: MultimodalRow) -> VideoRow:
    return VideoRow(**{name: getattr(row, name) for name in _VIDEO})


def _perturbed(row: MultimodalRow, source_text: str | None) -> PairedText:
    return PairedText(
        caption_id=row.caption_id,
        text_perturbation=row.text_perturbation,
        text_severity=row.text_severity,
        text_level=_level(f"{row.suite}/{row.text_perturbation}"),
        text=row.text,
        source_text=source_text,
        changed=row.changed,
        similarity=row.similarity,
        text_backend=row.text_backend,
        text_recipe_id=row.text_recipe_id,
    )


def _clean(caption_id: str, text: str) -> PairedText:
    return PairedText(
        caption_id=caption_id,
        text_perturbation=export_layout.CLEAN,
        text_severity=0,
        text_level=None,
        text=text,
        source_text=text,
        changed=False,
        similarity=None,
        text_backend=None,
        text_recipe_id=None,
    )


def _level(name: str) -> str | None:
    """The category of a perturbation of captions, which rows of pairs do not have; None of one from elsewhere."""
    try:
        return registry.get(name).category
    except UnknownPerturbationError:
        return None
