"""A manifest of multimodal pairs as layouts need it: each video once, with the captions that it is paired with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from perturbations.base.errors import ManifestError, UnknownPerturbationError
from perturbations.exports.writing import export_columns, export_layout, export_rows, stored_clips
from perturbations.exports.writing.export_columns import PairColumns, PairedText
from perturbations.exports.writing.export_rows import ExportedClip, ExportedCorpus
from perturbations.exports.writing.requests import Request
from perturbations.manifest.companions import numbered
from perturbations.manifest.kinds import COMPLETE, MULTIMODAL, CompleteSource, MultimodalRow, VideoRow
from perturbations.suites import registry

_VIDEO = tuple(field.name for field in fields(VideoRow))


@dataclass(frozen=True)
class _Pairs:
    """The pairs of a corpus.

    Attributes:
        corpus: the videos, each once, also those of which the gate accepted no caption.
        captions: the accepted captions per video, named by `Clip.identity`.
    """

    corpus: ExportedCorpus
    captions: Mapping[tuple[str, ...], Sequence[PairedText]]

    @property
    def with_captions(self) -> ExportedCorpus:
        """The corpus of the videos that are paired with a caption."""
        members = {name: [clip for clip in clips if self.of(clip)] for name, clips in self.corpus.scenarios.items()}
        return replace(self.corpus, scenarios={name: clips for name, clips in members.items() if clips})

    def of(self, clip: ExportedClip) -> Sequence[PairedText]:
        """The captions that a video is paired with, by perturbation and id."""
        return self.captions.get(clip.identity, ())

    def rows(self, clip: ExportedClip, sha256: str) -> Iterator[PairColumns]:
        """The columns of a video's pairs; `sha256` is the hash of its file."""
        described = export_columns.of_clip(clip, sha256)
        return (export_columns.of_pair(described, text) for text in self.of(clip))


def scenario(text: PairedText) -> str:
    """The name of a caption's scenario: `no_verbs_1`, `clean`."""
    if text.text_perturbation == export_layout.CLEAN:
        return export_layout.CLEAN
    return export_layout.named(text.text_perturbation, str(text.text_severity))


def read(request: Request) -> _Pairs:
    """The pairs of a manifest; with each clean clip and its clean captions where they are requested.

    Captions that the fidelity gate rejected are left out. Raises `ManifestError` as `corpus.read` does, and where no
    video is complete and has an accepted caption.
    """
    rows = [row for row in stored_clips.read(request.manifest, (MULTIMODAL,)) if isinstance(row, MultimodalRow)]
    videos = dict.fromkeys(VideoRow(**{name: getattr(row, name) for name in _VIDEO}) for row in rows)
    exported = export_rows.of_rows(request, list(videos))
    captions = _captions(request, exported, [row for row in rows if row.accepted and row.status == COMPLETE])
    if not any(captions.get(clip.identity) for clip in exported.clips):
        raise ManifestError(f"{request.manifest} has no complete row to export")
    return _Pairs(exported, captions)


def _captions(
    request: Request, exported: ExportedCorpus, rows: Sequence[MultimodalRow]
) -> dict[tuple[str, ...], list[PairedText]]:
    clean = {row.caption_id: row.text for row in exported.captions}
    texts: dict[tuple[str, ...], list[PairedText]] = defaultdict(list)
    for row in rows:
        identity = (row.suite, row.perturbation, str(row.severity), row.item_id)
        texts[identity].append(_perturbed(row, clean.get(row.caption_id)))
    complete = {clip.row.item_id: clip.identity for clip in exported.clips if isinstance(clip.row, CompleteSource)}
    for caption in exported.captions:
        if caption.item_id in complete:
            texts[complete[caption.item_id]].append(_clean(caption.caption_id, caption.text))
    titled = [(f"{' '.join(identity)} with {scenario(text)}", text) for identity in texts for text in texts[identity]]
    stored_clips.check_twice(request.manifest, sorted((name, text.caption_id) for name, text in titled))
    for members in texts.values():
        members.sort(key=lambda text: (scenario(text), numbered(text.caption_id)))
    return dict(texts)


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
