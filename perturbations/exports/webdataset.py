"""A corpus as WebDataset shards: tar files whose samples are a row (`json`), a caption (`txt`) and a video (`mp4`).

The same rows give the same bytes: members are sorted, and have no owner, no time and no mode of their own.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from perturbations.base import shown, storage, tars
from perturbations.exports import card, export_columns, export_folder, export_names, exported_corpus, videos
from perturbations.exports.export_columns import FurtherColumns
from perturbations.exports.export_registry import Exported, Request
from perturbations.exports.exported_corpus import ExportedClip, ExportedCorpus
from perturbations.exports.videos import VideoFile

_PAIRS = "pairs"
"""The key, in a sample's `json`, of the captions that its video is paired with."""

_Item = TypeVar("_Item")
_Sample = tuple[str, Sequence[tuple[str, bytes | Path]]]
"""A sample of a shard: its key, and the bytes or the file per extension."""


def write_videos(request: Request) -> Exported:
    """Write the shards of a corpus of clips, or of pairs, one scenario in memory at a time.

    A sample is a video; in a corpus of pairs, its `json` holds the captions that it is paired with. Raises as
    `exported_corpus.read` and `export_folder.claim` do.
    """
    exported = exported_corpus.read(request)
    export_folder.claim(exported)
    of_pairs, further = exported.records == "pairs", export_columns.further_columns(exported)
    for scenario, clips in exported.scenarios():
        placed = stage(exported, [clip for clip in clips if clip.texts or not of_pairs])
        _write_shards(request, scenario, [_of_clip(*own, further, of_pairs=of_pairs) for own in placed.items()])
        exported.count += len(placed)
    # A row is a clip, whatever its captions are.
    exported.records = "clips"
    _finish(exported, "pairs" if of_pairs else "clips", further.schema)
    return exported.result()


write_pairs = write_videos


def write_captions(request: Request) -> Exported:
    """Write the shards of a manifest of perturbed captions."""
    texts = exported_corpus.read_texts(request)
    export_folder.claim(texts)
    keys = export_names.keys(row.caption_id for _, rows in texts.captions_by_scenario() for row in rows)
    for scenario, rows in texts.captions_by_scenario():
        described = (
            (row, export_columns.as_json(export_columns.CAPTION, export_columns.of_caption(row))) for row in rows
        )
        samples = [_described(f"{scenario}-{keys[row.caption_id]}", own, row.text) for row, own in described]
        _write_shards(request, scenario, samples)
        texts.count += len(samples)
    _finish(texts, "captions")
    return texts.result(shown.plural(texts.count, "caption"))


def stage(exported: ExportedCorpus, clips: Sequence[ExportedClip]) -> dict[ExportedClip, VideoFile]:
    """Check the stored videos and encode the others into a folder of their own."""
    staged = exported.request.data / export_folder.STAGED
    targets = {clip: staged / f"{clip.scenario}-{clip.key}{videos.form(clip.row)}" for clip in clips}
    return videos.place(exported, targets, one_form=True)


def _of_clip(clip: ExportedClip, file: VideoFile, further: FurtherColumns, *, of_pairs: bool) -> _Sample:
    path, sha256 = file
    schema = pa.schema([*export_columns.CLIP, *further.schema])
    row = export_columns.as_json(schema, export_columns.of_clip(clip, sha256, further))
    if of_pairs:
        row[_PAIRS] = [export_columns.as_json(export_columns.PAIRED, text) for text in export_columns.of_texts(clip)]
    return _described(f"{clip.scenario}-{clip.key}", row, row["caption"], (path.suffix[1:].lower(), path))


def _described(key: str, row: Mapping[str, Any], text: str, *medium: tuple[str, Path]) -> _Sample:
    content = json.dumps(row, sort_keys=True).encode()
    return key, (("json", content), *medium, ("txt", text.encode("utf-8", "surrogatepass")))


def _write_shards(request: Request, scenario: str, samples: Iterable[_Sample]) -> None:
    """Write samples as `data/SCENARIO-000000.tar` and so on, each of at most the requested size, or of one sample."""
    in_order = sorted(samples, key=lambda sample: sample[0])
    for number, part in enumerate(split(in_order, request.shard_bytes, lambda sample: size_in_tar(*sample[1]))):
        path = request.data / f"{scenario}-{number:06d}.tar"
        with storage.atomic_path(path) as temporary, tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as shard:
            for key, members in part:
                for extension, content in members:
                    _add(shard, f"{key}.{extension}", content)


def size_in_tar(*members: tuple[str, bytes | Path]) -> int:
    """The bytes that members take in a tar."""
    return sum(tars.BLOCK + tars.padded(_size(content)) for _, content in members)


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else tars.at(content)[2]


def split(items: Iterable[_Item], limit: int, size: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Items in groups of at most `limit` bytes, or of one item."""
    group: list[_Item] = []
    held = 0
    for item in items:
        if group and held + size(item) > limit:
            yield group
            group, held = [], 0
        group.append(item)
        held += size(item)
    if group:
        yield group


def _add(shard: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    member = tarfile.TarInfo(name)  # without time, owner and mode of the file
    member.size = _size(content)
    with io.BytesIO(content) if isinstance(content, bytes) else tars.opened(content) as file:
        shard.addfile(member, file)


def _finish(exported: ExportedCorpus, what: str, further: Iterable[pa.Field] = ()) -> None:
    features = _features(what, further, pictures=exported.has_pictures)
    card.finish(exported, [card.config("default", ["data/*.tar"])], [_ABOUT[what]], features)
    export_folder.write_sums(exported.request.output)


def _features(what: str, further: Iterable[pa.Field], *, pictures: bool) -> list[dict[str, Any]]:
    """The types of columns; `datasets` would guess them from the first samples, where a column may be empty."""
    schema = export_columns.CAPTION if what == "captions" else pa.schema([*export_columns.CLIP, *further])
    struct: list[dict[str, Any]] = [*export_columns.features(schema)]
    if what == "pairs":
        struct.append({"name": _PAIRS, "list": export_columns.features(export_columns.PAIRED)})
    medium = {"name": "png", "dtype": "image"} if pictures else {"name": "mp4", "dtype": "video"}
    keys = [{"name": name, "dtype": "string"} for name in ("__key__", "__url__")]
    held = [medium] if what != "captions" else []
    return [{"name": "json", "struct": struct}, *held, {"name": "txt", "dtype": "string"}, *keys]


_SHARDS = "as WebDataset shards, one or more per scenario (`data/PERTURBATION_SEVERITY-*.tar`): a sample is"
_ABOUT = {
    "clips": f"Video clips under perturbations {_SHARDS} `json` (the row), `mp4` and `txt` (the first clean caption).",
    "captions": f"Captions under perturbations {_SHARDS} `json` (the row) and `txt` (the perturbed caption).",
    "pairs": f"Perturbed video clips, each with perturbed captions, {_SHARDS} `json` (the row; `pairs` lists the "
    "captions: `text`, `text_perturbation`, `text_severity`, `text_level`), `mp4` and `txt` (the first clean caption). "
    "Captions that the fidelity gate rejected are left out.",
}
"""What an export holds, by its kind of row."""
