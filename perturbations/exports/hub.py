"""A dataset repository of the Hugging Face Hub, which `datasets.load_dataset` opens: `videofolder` with a card.

A scenario is a folder of videos and a `metadata.parquet`, whose rows name their video.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perturbations.base.errors import ManifestError
from perturbations.exports import card, columns, corpus, folder, names, videos
from perturbations.exports.card import Publication
from perturbations.exports.corpus import Clip, Corpus
from perturbations.exports.registry import Exported, LeftOut, Request

_METADATA = "metadata.parquet"
VIDEOS = "videos"
"""The folder of a scenario's videos."""

_OTHER_FILES = 5  # of a repository: the card, the marker, the lists, the description


@dataclass(frozen=True)
class Written:
    """What was written: the tables, the videos with their hashes, what they are, and the numbers."""

    tables: Sequence[Path]
    hashes: Mapping[Path, str]
    about: Publication
    exported: Exported


def write_videos(request: Request) -> Exported:
    """Write a corpus of clips. Raises `ManifestError` and `OutputError` as `corpus.read` and `folder.claim` do."""
    return _listed(tables_of(request, "hub", "clips"))


def write_pairs(request: Request) -> Exported:
    """Write a corpus of pairs: each video once, and a row per caption that it is paired with. Errors as above."""
    return _listed(tables_of(request, "hub", "pairs"))


def write_captions(request: Request) -> int:
    """Write perturbed captions, one table per scenario; with clean clips, each caption with its clip in one table.

    Returns the number of tables. Raises `ManifestError` and `OutputError` as `corpus.read_texts` and `folder.claim` do.
    """
    written = tables_of_captions(request, "hub")
    _listed(written)
    return len(written.tables)


def _listed(written: Written) -> Exported:
    folder.write_sums(written.about.request.output, written.hashes)
    return written.exported


def tables_of(request: Request, form: str, records: str) -> Written:
    """Write "clips" or "pairs", their tables and the card in a folder of this format."""
    exported = corpus.read(request)
    names.check_files(sum(exported.counts.values()) + len(exported.counts) + _OTHER_FILES)
    folder.claim(request.output, form, exported)
    tables: list[Path] = []
    hashes: dict[Path, str] = {}
    failed: list[LeftOut] = []
    shown, written, count = set(), 0, 0
    for scenario, clips in exported.scenarios():
        path = request.output / folder.DATA / scenario / _METADATA
        chosen = [clip for clip in clips if clip.texts] if records == "pairs" else clips
        placed = videos.place(_targets(path.parent, chosen), stall_limit_s=request.stall_limit_s)
        failed += placed.failed
        written += placed.written
        hashes |= {file.path: file.sha256 for file in placed.files.values()}
        shown |= {clip.identity for clip in placed.files}
        rows = [
            {"file_name": file.path.relative_to(path.parent).as_posix(), **columns.of_clip(clip, file.sha256), **text}
            for clip, file in placed.files.items()
            for text in ([own._asdict() for own in clip.texts] if records == "pairs" else [{}])
        ]
        if rows:
            schema = columns.PAIR if records == "pairs" else columns.CLIP
            count += columns.write(path, columns.with_file_name(schema), [rows])
            tables.append(path)
    left_out = [*failed, *exported.left_out]
    folder.finish(request.output, [*tables, *hashes], left_out)
    everything = {"clips": "default", "pairs": "multimodal"}[records]
    scenarios = {path.parent.name: _patterns(path.parent.name) for path in tables}
    about = card.Publication(exported, request, records, count, len(left_out), clips=len(shown))
    _write_card(about, everything, _patterns("*"), scenarios)
    done = Exported(written, len(hashes) - written, failed, exported.left_out)
    return Written(tables, hashes, about, done)


def _targets(place_of_table: Path, clips: Sequence[Clip]) -> dict[Clip, Path]:
    """The file of each clip of a scenario: `videofolder` finds files below the folder of the table only."""
    return {
        clip: place_of_table / f"{VIDEOS}/{names.subfolder(place, len(clips))}{clip.key}{videos.suffix(clip.row)}"
        for place, clip in enumerate(clips)
    }


def _patterns(scenario: str) -> tuple[str, ...]:
    return f"{folder.DATA}/{scenario}/{_METADATA}", f"{folder.DATA}/{scenario}/{VIDEOS}/**"


def _write_card(
    about: Publication, everything: str, patterns: tuple[str, ...], scenarios: Mapping[str, tuple[str, ...]]
) -> None:
    """Write a card with a configuration of everything and one per scenario."""
    configs = [card.Config(name, own) for name, own in scenarios.items()]
    if scenarios:
        configs.insert(0, card.Config(everything, patterns, is_default=everything != "default"))
    listing = ", ".join(f"`{name}`" for name in scenarios)
    parts = f"Configurations: `{everything}` is everything; the others are {listing}."
    card.write(about, configs, [_ABOUT[about.records], parts])


def tables_of_captions(request: Request, form: str) -> Written:
    """Write the captions, their tables and the card in a folder of this format."""
    texts = corpus.read_texts(request)
    names.check_files(sum(texts.counts.values()) + 1 + _OTHER_FILES)
    folder.claim(request.output, form, texts)
    if request.clean:
        return _captions_with_clips(request, texts)
    data, count, tables = request.output / folder.DATA, 0, []
    for scenario, rows in texts.captions_by_scenario():
        tables.append(data / f"{scenario}.parquet")
        count += columns.write(tables[-1], columns.CAPTION, [map(columns.of_caption, rows)])
    folder.finish(request.output, tables, ())
    about = card.Publication(texts, request, "captions", count, 0, clips=0, has_videos=False)
    scenarios = {path.stem: (f"{folder.DATA}/{path.name}",) for path in tables}
    _write_card(about, "default", (f"{folder.DATA}/*.parquet",), scenarios)
    return Written(tables, {}, about, Exported(len(tables), 0))


def _captions_with_clips(request: Request, texts: Corpus) -> Written:
    """One table with a row per caption, which names its clean clip."""
    path = request.output / folder.DATA / _METADATA
    placed = videos.place(_targets(path.parent, list(texts.clips())), stall_limit_s=request.stall_limit_s)
    of_item = {clip.row.item_id: file.path.relative_to(path.parent).as_posix() for clip, file in placed.files.items()}
    if not of_item:
        raise ManifestError(f"{request.manifest}: no caption has a clip that can be exported")

    def parts() -> Iterator[list[dict[str, Any]]]:
        for _, rows in texts.captions_by_scenario():
            yield [
                {"file_name": of_item[row.item_id], **columns.of_caption(row)} for row in rows if row.item_id in of_item
            ]

    count = columns.write(path, columns.with_file_name(columns.CAPTION), parts())
    lost = sum(len(rows) for _, rows in texts.captions_by_scenario()) - count
    hashes = {file.path: file.sha256 for file in placed.files.values()}
    folder.finish(request.output, [path, *hashes], placed.failed)
    about = card.Publication(texts, request, "captions", count, lost, clips=len(hashes))
    configs = [card.Config("default", (f"{folder.DATA}/{_METADATA}", f"{folder.DATA}/{VIDEOS}/**"))]
    card.write(about, configs, [_ABOUT["captions"], "`video` is the clean clip of the caption."])
    return Written([path], hashes, about, Exported(placed.written, len(hashes) - placed.written, placed.failed))


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
