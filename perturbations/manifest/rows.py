"""The kinds of manifests: what a row is, and which columns identify and order the rows.

`manifests/README.md` explains every column to users. The Parquet schema is derived from the types of rows
(`perturbations.manifest.columns`): a field whose type admits None may be empty, every other one is filled in every row.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

RowStatus = Literal["complete", "quarantined", "missing"]
COMPLETE: RowStatus = "complete"
QUARANTINED: RowStatus = "quarantined"
MISSING: RowStatus = "missing"
"""Listed, but there is no video file: known before any job."""

QuarantineStage = Literal["annotation", "source", "analysis", "video"]

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class RowKind(Generic[RowT]):
    """One kind of manifest.

    Attributes:
        name: of the kind.
        row: the type of its rows.
        key: the columns that identify a row and order them.
        complete: the type of its complete rows, where those have more columns filled.
        contradictions: what its rows contradict in files beside it, a sentence each, given its path, rows and metadata.
    """

    name: str
    row: type[RowT]
    key: tuple[str, ...]
    complete: type[RowT] | None = None
    contradictions: Callable[[Path, Sequence[Any], Mapping[str, Any]], Iterable[str]] | None = field(
        default=None, compare=False
    )

    def type_of(self, status: object) -> type[RowT]:
        """The type of a row of that status."""
        return self.complete if self.complete is not None and status == COMPLETE else self.row


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """A listed clip. What was measured is empty where it could not be used.

    `sample_aspect_ratio` is a pixel's width over its height, "16/15", and empty where pixels are square.
    `source_losses` names what the video has and no perturbed clip, "PQ, 10 bits, subtitles"; empty where that is
    nothing. A picture is one frame without a clock: its `fps` and `duration_s` are 0. `attributes` are the further
    columns of the annotations, a JSON object (`perturbations.manifest.attributes`).
    """

    dataset: str
    split: str
    item_id: str
    source_video_id: str | None = None
    start_s: float | None = None
    end_s: float | None = None
    path: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    frames_sha256: str | None = None
    codec: str | None = None
    pix_fmt: str | None = None
    width: int | None = None
    height: int | None = None
    fps: float | None = None
    frame_count: int | None = None
    duration_s: float | None = None
    rotation: int | None = None
    sample_aspect_ratio: str | None = None
    source_losses: str | None = None
    attributes: str | None = None
    status: RowStatus
    stage: QuarantineStage | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteSource(SourceRow):
    """A listed clip that was decoded from its first to its last frame."""

    path: str
    bytes: int
    sha256: str
    frames_sha256: str
    codec: str
    pix_fmt: str
    width: int
    height: int
    fps: float
    frame_count: int
    duration_s: float
    rotation: int


SOURCES = RowKind("sources", SourceRow, ("item_id",), CompleteSource)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionRow:
    """A listed caption."""

    dataset: str
    caption_id: str
    item_id: str
    text: str


CAPTIONS = RowKind("captions", CaptionRow, ("caption_id",))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    """A question of multiple choice about a listed clip, which may turn out to be unusable.

    `answer` counts from 0. Questions of one `cluster`, a source video, do not count as independent of each other.
    `source_index` is the row in the annotations, from 0. `others` are the other columns there, as JSON.
    """

    question_id: str
    item_id: str
    question: str
    options: list[str]
    answer: int
    category: str | None = None
    subcategory: str | None = None
    cluster: str
    source_index: int
    others: str | None = None


QUESTIONS = RowKind("questions", QuestionRow, ("question_id",))


@dataclass(frozen=True, slots=True, kw_only=True)
class QrelRow:
    """Which clip answers a caption."""

    query_id: str
    corpus_id: str
    score: int


QRELS = RowKind("qrels", QrelRow, ("query_id", "corpus_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisRow:
    """What an analysis found about one clip."""

    dataset: str
    item_id: str
    analysis: str
    recipe: str
    recipe_id: str
    backend: str | None = None
    result: str | None = None
    vector: tuple[float, ...] | None = None
    path: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    width: int
    height: int
    fps: float
    frame_count: int
    source_path: str
    source_sha256: str
    source_frames_sha256: str
    start_s: float | None = None
    end_s: float | None = None
    status: RowStatus
    stage: QuarantineStage | None = None
    error: str | None = None


ANALYSES = RowKind("analyses", AnalysisRow, ("analysis", "item_id"))


SOURCE_STORAGE = "source"
"""What the column `storage` says of a clean clip in a mixed manifest: it lies where the dataset has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipRow:
    """A clip as the manifests of videos and of mixes have it.

    What a perturbation's row says of its recipe is empty of a clean clip (severity 0), and what was measured is empty
    where nothing could be made.
    """

    dataset: str
    item_id: str
    suite: str
    perturbation: str | None = None
    severity: int
    level: str | None = None
    variant: str | None = None
    draw: str | None = None
    params: str | None = None
    backend: str | None = None
    guide: str | None = None
    donor_id: str | None = None
    donor_similarity: float | None = None
    seed: int
    recipe: str | None = None
    recipe_id: str | None = None
    path: str | None = None
    storage: str
    codec: str | None = None
    pix_fmt: str | None = None
    width: int
    height: int
    sample_aspect_ratio: str | None = None
    fps: float
    frame_count: int
    stored_frames: int | None = None
    duration_s: float
    bytes: int | None = None
    bitrate_bps: float | None = None
    audio: str | None = None
    sha256: str | None = None
    frames_sha256: str | None = None
    storage_psnr_db: float | None = None
    psnr_db: float | None = None
    ssim: float | None = None
    source_path: str
    source_sha256: str
    source_frame_count: int
    start_s: float | None = None
    end_s: float | None = None
    cut: str | None = None
    status: RowStatus
    stage: QuarantineStage | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRow(ClipRow):
    """A clip under one perturbation at one severity."""

    perturbation: str
    level: str
    variant: str
    draw: str
    params: str
    backend: str
    recipe: str
    recipe_id: str


VIDEOS = RowKind("videos", VideoRow, ("item_id", "suite", "perturbation", "severity"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MixRow(ClipRow):
    """A row of a mixed manifest: a row of the videos manifest, or a clean clip, and why it is there."""

    mix: Literal["mixed_severity", "mixed_types"]
    share: float | None = None


MIXES = RowKind("mixes", MixRow, ("mix", "share", "perturbation", "item_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRow:
    """A caption under one perturbation at one severity.

    `language` is the dataset's. `effective_change` is a change that remains after lower-casing and stripping
    punctuation. `unchanged` is why the text is the caption itself. `similarity` is the cosine of both texts' sentence
    embeddings, measured where the meaning should stay. `fluency_change` is the text's mean log10 probability per word
    by a bigram model, minus the original's (`perturbations.text.fluency`).
    """

    dataset: str
    caption_id: str
    item_id: str
    suite: str
    perturbation: str
    severity: int
    level: str
    variant: str
    params: str
    backend: str
    seed: int
    language: str
    source_text: str
    text: str
    changed: bool
    effective_change: bool
    unchanged: str | None = None
    similarity: float | None = None
    fluency_change: float | None = None
    attempts: int
    accepted: bool
    recipe: str
    recipe_id: str


TEXTS = RowKind("texts", TextRow, ("perturbation", "severity", "caption_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MultimodalRow(VideoRow):
    """A perturbed caption with its perturbed video: the columns of the video after those of the caption."""

    caption_id: str
    text_perturbation: str
    text_severity: int
    text: str
    changed: bool
    similarity: float | None = None
    attempts: int
    accepted: bool
    text_backend: str
    text_recipe_id: str


MULTIMODAL = RowKind(
    "multimodal", MultimodalRow, ("perturbation", "severity", "text_perturbation", "caption_id", "item_id")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStatisticsRow:
    """What became of all captions under one perturbation at one severity."""

    dataset: str
    suite: str
    perturbation: str
    severity: int
    level: str
    variant: str
    backend: str
    captions: int
    changed: int
    effectively_changed: int
    accepted: int
    similarity_mean: float | None = None
    similarity_min: float | None = None
    fluency_change_mean: float | None = None
    attempts_mean: float | None = None
    attempts_max: int
    bleu4: float | None = None
    meteor: float | None = None
    rouge1: float | None = None


TEXT_STATISTICS = RowKind("text_statistics", TextStatisticsRow, ("perturbation", "severity"))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRow:
    """What could not be made, and why."""

    dataset: str
    item_id: str
    status: RowStatus
    stage: QuarantineStage | None = None
    suite: str | None = None
    perturbation: str | None = None
    severity: int | None = None
    error: str | None = None


QUARANTINE = RowKind(
    "quarantine", QuarantineRow, ("item_id", "stage", "suite", "perturbation", "severity", "status", "error")
)


PUBLISHED = (
    *("sources", "captions", "questions", "qrels", "videos", "mixed_severity", "mixed_types", "texts", "multimodal"),
    *("text_statistics", "quarantine"),
)
"""The manifests that belong to a published corpus."""
