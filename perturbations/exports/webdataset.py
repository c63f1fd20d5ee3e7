"""A corpus as WebDataset shards: tar files whose samples are a row (`json`), a caption (`txt`) and a video (`mp4`).

The same rows give the same bytes: members are sorted, and have no owner, no time and no mode of their own.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from perturbations.base import storage, tars
from perturbations.exports import card, columns, corpus, folder, names, videos
from perturbations.exports.card import Publication
from perturbations.exports.corpus import Clip
from perturbations.exports.registry import Exported, LeftOut, Request
from perturbations.exports.videos import Placed

_STAGED = "staged"
"""The folder, below `data`, of videos that are encoded for the shards; `folder.finish` deletes it."""

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
        return sum(_BLOCK + -(-_size(part) // _BLOCK) * _BLOCK for _, part in self.members)


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else tars.at(content).size


def write_videos(request: Request) -> Exported:
    """Write the shards of a corpus of clips. Raises as `corpus.read` and `folder.claim` do."""
    return _write_clips(request, "clips")


def write_pairs(request: Request) -> Exported:
    """Write the shards of a corpus of pairs: a sample per video, whose `json` has the captions it is paired with.

    Raises as `corpus.read` and `folder.claim` do.
    """
    return _write_clips(request, "pairs")


def _write_clips(request: Request, records: str) -> Exported:
    """Write the shards of one scenario after another, so that the clips of one are in memory."""
    exported = corpus.read(request)
    folder.claim(request.output, "webdataset", exported)
    shards: list[Path] = []
    failed: list[LeftOut] = []
    written, shown = 0, set()
    for scenario, clips in exported.scenarios():
        placed = stage(request, [clip for clip in clips if clip.texts] if records == "pairs" else clips)
        shards += _write_shards(request, scenario, [_sample(placed, clip, records) for clip in placed.files])
        failed += placed.failed
        written += len(placed.files)
        shown |= {clip.identity for clip in placed.files}
    left_out = [*failed, *exported.left_out]
    about = card.Publication(exported, request, "clips", written, len(left_out), clips=len(shown))
    _finish(about, shards, records, left_out)
    return Exported(written, 0, failed, exported.left_out)


def stage(request: Request, clips: Sequence[Clip]) -> Placed:
    """Check the stored videos and encode the others into a folder of their own."""
    staged = request.output / folder.DATA / _STAGED
    targets = {clip: staged / f"{clip.scenario}-{clip.key}{videos.form(clip.row)}" for clip in clips}
    return videos.place(targets, stall_limit_s=request.stall_limit_s, one_form=True)


def _sample(placed: Placed, clip: Clip, records: str) -> Sample:
    file = placed.files[clip]
    row = columns.as_json(columns.CLIP, columns.of_clip(clip, file.sha256))
    if records == "pairs":
        row[_PAIRS] = [columns.as_json(columns.PAIRED, text._asdict()) for text in clip.texts]
    return _described(f"{clip.scenario}-{clip.key}", row, row["caption"], (file.path.suffix[1:].lower(), file.path))


def _described(key: str, row: Mapping[str, Any], text: str, *medium: tuple[str, Path]) -> Sample:
    content = json.dumps(row, sort_keys=True).encode()
    return Sample(key, (("json", content), *medium, ("txt", text.encode("utf-8", "surrogatepass"))))


def write_captions(request: Request) -> int:
    """Write the shards of a manifest of perturbed captions; returns their number."""
    texts = corpus.read_texts(request)
    folder.claim(request.output, "webdataset", texts)
    keys = names.keys(row.caption_id for _, rows in texts.captions_by_scenario() for row in rows)
    shards: list[Path] = []
    count = 0
    for scenario, rows in texts.captions_by_scenario():
        described = ((row, columns.as_json(columns.CAPTION, columns.of_caption(row))) for row in rows)
        samples = [_described(f"{scenario}-{keys[row.caption_id]}", own, row.text) for row, own in described]
        shards += _write_shards(request, scenario, samples)
        count += len(samples)
    about = card.Publication(texts, request, "captions", count, 0, clips=0, has_videos=False)
    _finish(about, shards, "captions", ())
    return len(shards)


def _write_shards(request: Request, scenario: str, samples: Iterable[Sample]) -> list[Path]:
    """Write samples as `data/SCENARIO-000000.tar` and so on, each of the size that is asked for or of one sample."""
    shards = []
    in_order = sorted(samples, key=lambda sample: sample.key)
    for number, members in enumerate(split(in_order, request.shard_bytes)):
        path = request.output / folder.DATA / f"{scenario}-{number:06d}.tar"
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
    member.size = _size(content)
    with io.BytesIO(content) if isinstance(content, bytes) else tars.opened(content) as file:
        shard.addfile(member, file)


def _finish(about: Publication, shards: Sequence[Path], records: str, left_out: Sequence[LeftOut]) -> None:
    output = about.request.output
    folder.finish(output, shards, left_out)
    config = card.Config("default", (f"{folder.DATA}/*.tar",), _features(records, pictures=about.exported.has_pictures))
    card.write(about, [config], [_ABOUT[records]])
    folder.write_sums(output)


def _features(records: str, *, pictures: bool) -> list[dict[str, Any]]:
    """What `datasets` would otherwise take from the first samples, where a column may be empty."""
    schema: pa.Schema = columns.CAPTION if records == "captions" else columns.CLIP
    struct: list[dict[str, Any]] = [*columns.features(schema)]
    if records == "pairs":
        struct.append({"name": _PAIRS, "list": columns.features(columns.PAIRED)})
    medium = {"name": "png", "dtype": "image"} if pictures else {"name": "mp4", "dtype": "video"}
    keys = [{"name": name, "dtype": "string"} for name in ("__key__", "__url__")]
    held = [medium] if records != "captions" else []
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
