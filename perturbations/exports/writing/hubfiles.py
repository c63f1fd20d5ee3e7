"""A corpus in the layout of Hugging Face's `videofolder`: per scenario a folder of videos and a `metadata.parquet`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base.errors import ManifestError
from perturbations.exports.writing import (
    dataset_card,
    export_columns,
    export_layout,
    export_rows,
    output_folder,
    pairs,
    publication,
    videofiles,
)
from perturbations.exports.writing.export_rows import ExportedClip, ExportedCorpus, ExportedTexts
from perturbations.exports.writing.publication import Publication
from perturbations.exports.writing.requests import Exported, Request

_METADATA = "metadata.parquet"
_VIDEOS = "videos"


@dataclass(frozen=True)
class Written:
    """What was written: the tables, of "clips", "captions" or "pairs", what they are of, and the numbers."""

    tables: tuple[Path, ...]
    records: str
    about: Publication
    exported: Exported

    @property
    def videos(self) -> list[str]:
        """Patterns of the videos' paths."""
        if not self.about.has_videos or not self.tables:
            return []
        output = self.about.request.output
        nested = self.tables[0].parent.name != output_folder.DATA
        pattern = f"{output_folder.DATA}/*/{_VIDEOS}/*" if nested else f"{output_folder.DATA}/{_VIDEOS}/*"
        return [pattern, *([f"{pattern}/*"] if any(path.is_dir() for path in output.glob(pattern)) else [])]


def write_clips(request: Request, form: str) -> Written:
    """Write a corpus of clips. Raises `ManifestError` and `OutputError` as `corpus.read` and `folder.claim` do."""
    exported = export_rows.read(request)
    return _write(request, form, exported, _clip_rows, _CLIP_TABLES)


def write_pairs(request: Request, form: str) -> Written:
    """Write a corpus of pairs: each video once, and a row per caption that it is paired with.

    Raises `ManifestError` and `OutputError` as `pairs.read` and `folder.claim` do.
    """
    paired = pairs.read(request)
    return _write(request, form, paired.with_captions, paired.rows, _PAIR_TABLES)


@dataclass(frozen=True)
class _Tables:
    """Tables of rows that name a video: their columns, the configuration of all of them, what the card says."""

    records: str
    kind: type[export_columns.Columns]
    everything: str
    paragraph: str


def _clip_rows(clip: ExportedClip, sha256: str) -> Iterable[export_columns.Columns]:
    return [export_columns.of_clip(clip, sha256)]


def _write(
    request: Request,
    form: str,
    exported: ExportedCorpus,
    rows_of: Callable[[ExportedClip, str], Iterable[export_columns.Columns]],
    described: _Tables,
) -> Written:
    """Write the videos, and per scenario a table of the rows that `rows_of` gives of a clip and its file's hash."""
    counts = {scenario: len(clips) for scenario, clips in exported.scenarios.items()}
    export_layout.check_counts(counts, others=4)
    export_rows.claim(request.output, form, exported)
    targets = _targets(request.output, exported)
    placed = videofiles.place(
        request.manifest,
        list(targets),
        targets.__getitem__,
        stall_limit_s=request.stall_limit_s,
    )
    tables, count = [], 0
    for scenario, clips in exported.scenarios.items():
        members = [clip for clip in clips if clip in placed.files]
        if members:
            path = request.output / output_folder.DATA / scenario / _METADATA
            rows = [(clip, row) for clip in members for row in rows_of(clip, placed.files[clip].sha256)]
            names = [targets[clip].relative_to(path.parent).as_posix() for clip, _ in rows]
            export_columns.write_table(
                path, _with_names(names, export_columns.table(described.kind, [row for _, row in rows]))
            )
            tables.append(path)
            count += len(rows)
    quarantined = exported.quarantined
    output_folder.prune(request.output, [*tables, *(file.path for file in placed.files.values())])
    output_folder.write_left_out(request.output, [*placed.failed, *quarantined])
    scenarios = [path.parent.name for path in tables]
    everything = dataset_card.Config(described.everything, _patterns("*"), is_default=described.everything != "default")
    configs = [everything] if scenarios else []
    configs += [dataset_card.Config(name, _patterns(name)) for name in scenarios]
    parts = f"Configurations: `{described.everything}` is everything; the others are {_listed(scenarios)}."
    paragraphs = [described.paragraph, parts]
    shown = len({clip.identity for clip in placed.files})
    left_out = (*placed.failed, *quarantined)
    what = publication.of(exported, request, described.records, count, left_out, clips=shown)
    dataset_card.write(what, configs, paragraphs)
    kept = len(placed.files) - placed.written
    return Written(tuple(tables), described.records, what, Exported(placed.written, kept, placed.failed, quarantined))


_CLIP_TABLES = _Tables(
    "clips",
    export_columns.ClipColumns,
    "default",
    "Video clips under perturbations. `datasets.load_dataset` gives per clip its `video`, `item`, `perturbation`, "
    "`severity` (0: clean), `caption` (the first of its clean `captions`), and how it was made (`variant`, `params`, "
    "`seed`, `recipe_id`), its size and time, its distances from the clean clip (`psnr_db`, `ssim`), and hashes of its "
    "frames and its file.",
)
_PAIR_TABLES = _Tables(
    "pairs",
    export_columns.PairColumns,
    "multimodal",
    "Pairs of a perturbed video and a perturbed caption. `datasets.load_dataset` gives per pair its `video`, `item`, "
    "`perturbation`, `severity` and `level`, and its `text`, `caption_id`, `text_perturbation`, `text_severity` and "
    "`text_level`; `source_text` is the caption that `text` was made from. Pairs of one video name the same file. "
    "Captions that the fidelity gate rejected are left out.",
)


def _patterns(scenario: str) -> tuple[str, ...]:
    return f"{output_folder.DATA}/{scenario}/{_METADATA}", f"{output_folder.DATA}/{scenario}/{_VIDEOS}/**"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _targets(output: Path, exported: ExportedCorpus) -> dict[ExportedClip, Path]:
    targets = {}
    for scenario, clips in exported.scenarios.items():
        for place, clip in enumerate(clips):
            name = f"{export_layout.folder_of(place, len(clips))}{clip.key}{videofiles.suffix(clip.row)}"
            targets[clip] = output / output_folder.DATA / scenario / _VIDEOS / name
    return targets


def _with_names(names: Sequence[str], table: pa.Table) -> pa.Table:
    return table.add_column(0, pa.field("file_name", pa.string()), pa.array(names, pa.string()))


def write_captions(request: Request, form: str) -> Written:
    """Write perturbed captions, one table per scenario; with clean clips, each caption with its clip in one table.

    Raises `ManifestError` and `OutputError` as `corpus.read_texts` and `folder.claim` do.
    """
    texts = export_rows.read_texts(request)
    export_rows.claim(request.output, form, texts)
    if request.clean:
        return _captions_with_clips(request, texts)
    tables = []
    for scenario, rows in sorted(texts.rows.items()):
        path = request.output / output_folder.DATA / f"{scenario}.parquet"
        export_columns.write_table(
            path, export_columns.table(export_columns.CaptionColumns, [export_columns.of_caption(row) for row in rows])
        )
        tables.append(path)
    output_folder.prune(request.output, tables)
    configs = [dataset_card.Config("default", (f"{output_folder.DATA}/*.parquet",))]
    configs += [dataset_card.Config(path.stem, (f"{output_folder.DATA}/{path.name}",)) for path in tables]
    paragraphs = [*_CAPTIONS, f"Configurations: `default` is everything; the others are {_listed(sorted(texts.rows))}."]
    count = sum(map(len, texts.rows.values()))
    what = publication.of(texts, request, "captions", count, 0, clips=0, has_videos=False)
    dataset_card.write(what, configs, paragraphs)
    return Written(tuple(tables), "captions", what, Exported(len(tables), 0))


_CAPTIONS = (
    "Captions under perturbations: per caption its `text`, the `source_text` that it was made from, `id`, `item` (its "
    "video), `perturbation` and `severity` (0: clean). Captions that the fidelity gate rejected are left out.",
)


def _captions_with_clips(request: Request, texts: ExportedTexts) -> Written:
    """One table with a row per caption, which names its clean clip: `videofolder` finds files below the table only."""
    export_layout.check_counts({export_layout.CLEAN: len(texts.clean)}, others=4)
    data = request.output / output_folder.DATA
    parts = {clip: export_layout.folder_of(place, len(texts.clean)) for place, clip in enumerate(texts.clean)}
    names = {clip: f"{_VIDEOS}/{parts[clip]}{clip.key}{videofiles.suffix(clip.row)}" for clip in texts.clean}
    placed = videofiles.place(
        request.manifest, texts.clean, lambda clip: data / names[clip], stall_limit_s=request.stall_limit_s
    )
    of_item = {clip.row.item_id: names[clip] for clip in placed.files}
    tables = _tables_of(texts, of_item)
    first = next(tables, None)
    if first is None:
        raise ManifestError(f"{request.manifest}: no caption has a clip that can be exported")
    export_columns.write_tables(data / _METADATA, first, tables)
    rows = pq.read_metadata(data / _METADATA).num_rows
    output_folder.prune(request.output, [data / _METADATA, *(file.path for file in placed.files.values())])
    output_folder.write_left_out(request.output, placed.failed)
    left_out = sum(map(len, texts.rows.values())) - rows
    configs = [
        dataset_card.Config("default", (f"{output_folder.DATA}/{_METADATA}", f"{output_folder.DATA}/{_VIDEOS}/**"))
    ]
    paragraphs = [*_CAPTIONS, "`video` is the clean clip of the caption."]
    what = publication.of(texts, request, "captions", rows, left_out, clips=len(placed.files))
    dataset_card.write(what, configs, paragraphs)
    kept = len(placed.files) - placed.written
    return Written((data / _METADATA,), "captions", what, Exported(placed.written, kept, placed.failed))


_ROWS = 2**17
"""Rows of a table that are in memory."""


def _tables_of(texts: ExportedTexts, names: Mapping[str, str]) -> Iterator[pa.Table]:
    """The captions of all scenarios whose clips have names, in tables of up to `_ROWS`."""
    rows = (row for _, members in sorted(texts.rows.items()) for row in members if row.item_id in names)
    while part := [*islice(rows, _ROWS)]:
        table = export_columns.table(export_columns.CaptionColumns, [export_columns.of_caption(row) for row in part])
        yield _with_names([names[row.item_id] for row in part], table)
