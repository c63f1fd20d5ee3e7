"""A dataset repository of the Hugging Face Hub, which `datasets.load_dataset` opens: `videofolder` with a card.

A scenario is a folder of videos and a `metadata.parquet`, whose rows name their video. In the format `croissant`,
`croissant.json` describes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from perturbations.base import shown
from perturbations.base.errors import ManifestError
from perturbations.exports import card, croissant, export_columns, export_folder, export_names, exported_corpus, videos
from perturbations.exports.export_registry import Exported, Request
from perturbations.exports.exported_corpus import ExportedClip, ExportedCorpus
from perturbations.exports.videos import VideoFile

_METADATA = "metadata.parquet"
_VIDEOS = "videos"
_FILE_NAME = pa.field("file_name", pa.string())


def write_videos(request: Request) -> Exported:
    """Write a corpus of clips, or of pairs: each video once, and a row per caption that it is paired with.

    Raises `ManifestError` and `OutputError` as `exported_corpus.read` and `export_folder.claim` do.
    """
    exported = exported_corpus.read(request)
    export_names.check_files(exported.counts.values())
    export_folder.claim(exported)
    of_pairs = exported.records == "pairs"
    further = export_columns.further_columns(exported)
    clip_columns = pa.schema([_FILE_NAME, *export_columns.CLIP, *further.schema])
    schema = pa.schema([*clip_columns, *export_columns.PAIRED]) if of_pairs else clip_columns
    tables: list[Path] = []
    written: list[VideoFile] = []
    for scenario, clips in exported.scenarios():
        place = request.data / scenario
        placed = _place(exported, place, [clip for clip in clips if clip.texts or not of_pairs])
        rows = [
            {"file_name": path.relative_to(place).as_posix(), **export_columns.of_clip(clip, sha256, further), **text}
            for clip, (path, sha256) in placed.items()
            for text in (export_columns.of_texts(clip) if of_pairs else [{}])
        ]
        if rows:
            tables.append(place / _METADATA)
            exported.count += export_columns.write(tables[-1], schema, [rows])
        written += placed.values()
    named = {"multimodal" if of_pairs else "default": "*", **{path.parent.name: path.parent.name for path in tables}}
    configs = [
        card.config(name, [f"data/{own}/{_METADATA}", f"data/{own}/{_VIDEOS}/**"], is_default=name == "multimodal")
        for name, own in named.items()
    ]
    _finish(exported, tables, written, configs)
    return exported.result()


write_pairs = write_videos


def write_captions(request: Request) -> Exported:
    """Write perturbed captions, one table per scenario; with clean clips, each caption with its clip in one table.

    Raises `ManifestError` and `OutputError` as `exported_corpus.read_texts` and `export_folder.claim` do.
    """
    texts = exported_corpus.read_texts(request, with_clips=request.clean)
    export_names.check_files(texts.counts.values())
    export_folder.claim(texts)
    data, tables = request.data, list[Path]()
    if request.clean:
        _write_with_clips(texts, data)
        return texts.result(shown.plural(texts.count, "caption"))
    for scenario, rows in texts.captions_by_scenario():
        tables.append(data / f"{scenario}.parquet")
        texts.count += export_columns.write(tables[-1], export_columns.CAPTION, [map(export_columns.of_caption, rows)])
    scenarios = [card.config(path.stem, [f"data/{path.name}"]) for path in tables]
    _finish(texts, tables, [], [card.config("default", ["data/*.parquet"]), *scenarios])
    return texts.result(shown.plural(texts.count, "caption"))


def _write_with_clips(texts: ExportedCorpus, data: Path) -> None:
    """Write one table with a row per caption, which names its clean clip."""
    placed = _place(texts, data, list(texts.clips()))
    of_item = {clip.row.item_id: path.relative_to(data).as_posix() for clip, (path, _) in placed.items()}
    if not of_item:
        raise ManifestError(f"{texts.request.manifest}: no caption has a clip that can be exported")
    parts = (
        [
            {"file_name": of_item[row.item_id], **export_columns.of_caption(row)}
            for row in rows
            if row.item_id in of_item
        ]
        for _, rows in texts.captions_by_scenario()
    )
    texts.count = export_columns.write(data / _METADATA, export_columns.CAPTION.insert(0, _FILE_NAME), parts)
    everything = card.config("default", [f"data/{_METADATA}", f"data/{_VIDEOS}/**"])
    _finish(texts, [data / _METADATA], [*placed.values()], [everything])


def _place(exported: ExportedCorpus, place: Path, clips: Sequence[ExportedClip]) -> dict[ExportedClip, VideoFile]:
    """Put the clips of a scenario into its folder: `videofolder` only finds files below the folder of the table."""
    return videos.place(exported, {clip: place / _VIDEOS / f"{clip.key}{videos.suffix(clip.row)}" for clip in clips})


def _finish(
    exported: ExportedCorpus, tables: Sequence[Path], written: Sequence[VideoFile], configs: list[dict[str, Any]]
) -> None:
    """Write the card (with one configuration for everything and one per scenario), the description, and the hashes."""
    hashes = dict(written)
    everything, *scenarios = (f"`{config['config_name']}`" for config in configs)
    parts = f"Configurations: {everything} is everything; the others are {', '.join(scenarios)}."
    if exported.texts and exported.videos:
        parts = "`video` is the clean clip of the caption."
    card.finish(exported, configs if tables else [], [_ABOUT[exported.records], parts])
    if exported.request.form == "croissant" and tables:
        places = {path.parents[1].relative_to(exported.request.data) for path in hashes}
        patterns = sorted({f"data/{'*/' if place.parts else ''}{_VIDEOS}/*" for place in places})
        croissant.write(exported, {exported.records: tables}, patterns)
    export_folder.write_sums(exported.request.output, hashes)


_ABOUT = {
    "clips": "Video clips under perturbations. `datasets.load_dataset` gives per clip its `video`, `item`, "
    "`perturbation`, `severity` (0: clean), `caption` (the first of its clean `captions`), and how it was made "
    "(`variant`, `params`, `seed`, `recipe_id`), its size and time, its distances from the clean clip (`psnr_db`, "
    "`ssim`), and hashes of its frames and its file.",
    "pairs": "Pairs of a perturbed video and a perturbed caption. `datasets.load_dataset` gives per pair its `video`, "
    "`item`, `perturbation`, `severity` and `level`, and its `text`, `caption_id`, `text_perturbation`, "
    "`text_severity` and `text_level`; `source_text` is the caption that `text` was made from. Pairs of one video name "
    "the same file. Captions that the fidelity gate rejected are left out.",
    "captions": "Captions under perturbations: per caption its `text`, the `source_text` that it was made from, `id`, "
    "`item` (its video), `perturbation` and `severity` (0: clean). Captions that the fidelity gate rejected are left "
    "out.",
}
"""What an export holds, by its kind of row."""
