"""A corpus as WebDataset shards: tar files whose samples are a row (`json`), a caption (`txt`) and a video (`mp4`).

The same rows give the same bytes: members are sorted, and have no owner, no time and no mode of their own.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from perturbations.base import storage, tars
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
from perturbations.exports.writing.export_columns import CaptionColumns, ClipColumns, Columns, PairColumns, PairedText
from perturbations.exports.writing.export_rows import ExportedClip, ExportedCorpus
from perturbations.exports.writing.publication import Publication
from perturbations.exports.writing.requests import Exported, Request
from perturbations.exports.writing.videofiles import Placed
from perturbations.verify.findings import Finding

_STAGED = "staged"
"""The folder, below `data`, of videos that are encoded for the shards; `folder.prune` deletes it at the end."""

_PAIRS = "pairs"
"""The key, in a sample's `json`, of the captions that its video is paired with."""

_BLOCK = tarfile.BLOCKSIZE


@dataclass(frozen=True)
class Sample:
    """A sample of a shard: its key, and the bytes or the file per extension."""

    key: str
    members: tuple[tuple[str, bytes | Path], ...]

    @property
    def size(self) -> int:
        """Bytes in a tar file."""
        sizes = [len(part) if isinstance(part, bytes) else tars.at(part).size for _, part in self.members]
        return sum(_BLOCK + -(-size // _BLOCK) * _BLOCK for size in sizes)


def write_clips(request: Request) -> Exported:
    """Write the shards of a corpus of clips. Raises as `corpus.read` and `folder.claim` do."""
    return _write(request, export_rows.read(request), lambda clip: (), ClipColumns)


def write_pairs(request: Request) -> Exported:
    """Write the shards of a corpus of pairs: a sample per video, whose `json` has the captions it is paired with.

    Raises as `pairs.read` and `folder.claim` do.
    """
    paired = pairs.read(request)
    return _write(request, paired.with_captions, paired.of, PairColumns)


def _write(
    request: Request,
    exported: ExportedCorpus,
    texts_of: Callable[[ExportedClip], Sequence[PairedText]],
    kind: type[Columns],
) -> Exported:
    """Write the shards of one scenario after another, so that the clips of one are in memory."""
    export_layout.check_shards([exported.listed.bytes], request.shard_bytes)
    export_rows.claim(request.output, "webdataset", exported)
    shards: list[Path] = []
    failed: list[Finding] = []
    written = 0
    held: set[tuple[str, ...]] = set()
    for scenario, clips in exported.scenarios.items():
        placed = stage(request, clips)
        samples = (
            _sample_of(placed, clip, [export_columns.as_json(text) for text in texts_of(clip)]) for clip in placed.files
        )
        shards += _write_shards(request.output, scenario, samples, request.shard_bytes)
        failed += placed.failed
        written += len(placed.files)
        held |= {clip.identity for clip in placed.files}
    quarantined = exported.quarantined
    left_out = (*failed, *quarantined)
    _finish(publication.of(exported, request, "clips", written, left_out, clips=len(held)), shards, kind, left_out)
    return Exported(written, 0, tuple(failed), quarantined)


def stage(request: Request, clips: Sequence[ExportedClip]) -> Placed:
    """Check the stored videos and encode the others into a folder of their own."""
    staged = request.output / output_folder.DATA / _STAGED

    def target(clip: ExportedClip) -> Path | None:
        stored = videofiles.is_stored(clip.row, one_form=True)
        return None if stored else staged / f"{clip.scenario}-{clip.key}{videofiles.form(clip.row)}"

    return videofiles.place(request.manifest, clips, target, stall_limit_s=request.stall_limit_s, one_form=True)


def _sample_of(placed: Placed, clip: ExportedClip, texts: Sequence[Mapping[str, Any]] = ()) -> Sample:
    """The sample of a clip, with the columns of the captions that it is paired with."""
    file = placed.files[clip]
    row = export_columns.of_clip(clip, file.sha256)
    described = export_columns.as_json(row) | ({_PAIRS: list(texts)} if texts else {})
    txt = row.caption.encode("utf-8", "surrogatepass")
    medium = file.path.suffix[1:].lower()  # readers name a column by it
    return Sample(f"{clip.scenario}-{clip.key}", (("json", _json(described)), (medium, file.path), ("txt", txt)))


def _json(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, sort_keys=True).encode()


def write_captions(request: Request) -> int:
    """Write the shards of a manifest of perturbed captions; returns their number."""
    texts = export_rows.read_texts(request)
    export_rows.claim(request.output, "webdataset", texts)
    keys = export_layout.keys(texts.caption_ids)
    shards: list[Path] = []
    for scenario, rows in sorted(texts.rows.items()):
        samples = (
            Sample(
                f"{scenario}-{keys[row.caption_id]}",
                (
                    ("json", _json(export_columns.as_json(export_columns.of_caption(row)))),
                    ("txt", row.text.encode("utf-8", "surrogatepass")),
                ),
            )
            for row in rows
        )
        shards += _write_shards(request.output, scenario, samples, request.shard_bytes)
    count = sum(map(len, texts.rows.values()))
    _finish(publication.of(texts, request, "captions", count, 0, clips=0, has_videos=False), shards, CaptionColumns, ())
    return len(shards)


def _write_shards(output: Path, scenario: str, samples: Iterable[Sample], limit: int) -> list[Path]:
    """Write samples as `data/SCENARIO-000000.tar` and so on, each of at most `limit` bytes or of one sample."""
    shards = []
    in_order = sorted(samples, key=lambda sample: sample.key)
    for number, members in enumerate(split(in_order, limit)):
        path = output / output_folder.DATA / f"{scenario}-{number:06d}.tar"
        with storage.atomic_path(path) as temporary, tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as shard:
            for sample in members:
                for extension, content in sample.members:
                    _add(shard, f"{sample.key}.{extension}", content)
        shards.append(path)
    return shards


def split(samples: Iterable[Sample], limit: int) -> Iterator[list[Sample]]:
    """Samples in groups of at most `limit` bytes, or of one sample."""
    group: list[Sample] = []
    size = 0
    for sample in samples:
        if group and size + sample.size > limit:
            yield group
            group, size = [], 0
        group.append(sample)
        size += sample.size
    if group:
        yield group


def _add(shard: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    member = tarfile.TarInfo(name)  # without time, owner and mode of the file
    if isinstance(content, bytes):
        member.size = len(content)
        shard.addfile(member, io.BytesIO(content))
        return
    with tars.opened(content) as file:
        member.size = tars.at(content).size
        shard.addfile(member, file)


def _finish(what: Publication, shards: Sequence[Path], kind: type[Columns], left_out: Sequence[Finding]) -> None:
    output = what.request.output
    output_folder.prune(output, shards)
    output_folder.write_left_out(output, left_out)
    dataset_card.write(
        what, [dataset_card.Config("default", (f"{output_folder.DATA}/*.tar",), _features(kind, what))], [_ABOUT[kind]]
    )


_ABOUT: dict[type[Columns], str] = {
    ClipColumns: "Video clips under perturbations as WebDataset shards, one or more per scenario "
    "(`data/PERTURBATION_SEVERITY-*.tar`): a sample is `json` (the row), `mp4` and `txt` (the first clean caption).",
    CaptionColumns: "Captions under perturbations as WebDataset shards, one or more per scenario "
    "(`data/PERTURBATION_SEVERITY-*.tar`): a sample is `json` (the row) and `txt` (the perturbed caption).",
    PairColumns: "Perturbed video clips, each with perturbed captions, as WebDataset shards, one or more per scenario "
    "(`data/PERTURBATION_SEVERITY-*.tar`): a sample is `json` (the row; `pairs` lists the captions: `text`, "
    "`text_perturbation`, `text_severity`, `text_level`), `mp4` and `txt` (the first clean caption). Captions that the "
    "fidelity gate rejected are left out.",
}


def _features(kind: type[Columns], what: Publication) -> list[dict[str, Any]]:
    """What `datasets` would otherwise guess from the first samples, where a column may be empty."""
    struct = _struct(ClipColumns if kind is PairColumns else kind)
    if kind is PairColumns:
        struct.append({"name": _PAIRS, "list": _struct(PairedText)})
    medium = {"name": "png", "dtype": "image"} if what.has_pictures else {"name": "mp4", "dtype": "video"}
    video = [medium] if kind is not CaptionColumns else []
    keys = [{"name": name, "dtype": "string"} for name in ("__key__", "__url__")]
    return [{"name": "json", "struct": struct}, *video, {"name": "txt", "dtype": "string"}, *keys]


def _struct(kind: type[Columns | PairedText]) -> list[dict[str, Any]]:
    return [_feature(column) for column in export_columns.schema(kind)]


def _feature(column: pa.Field) -> dict[str, str]:
    if pa.types.is_list(column.type):
        return {"name": column.name, "list": str(column.type.value_type)}
    return {"name": column.name, "dtype": "float64" if column.type == pa.float64() else str(column.type)}
