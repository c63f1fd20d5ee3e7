"""A corpus as retrieval tasks: per scenario a `corpus`, `queries` and `qrels`, as the loaders of mteb name them.

All are Parquet: the Hugging Face loader reads all configurations of a repository in one way. Videos are cells of it,
each in one file of the repository only: scenarios that share videos, such as mixes, name the same files.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.exports.writing import card, columns, corpus, folder, hubfiles, layout, pairs, shardfiles
from perturbations.exports.writing.corpus import Clip
from perturbations.exports.writing.records import Exported, Request
from perturbations.exports.writing.videofiles import Placed
from perturbations.manifest.kinds import COMPLETE
from perturbations.verify.findings import Finding

TASKS = "tasks.py"
DESCRIBED = "tasks.json"
_GROUP_BYTES = 64_000_000  # of videos in a row group, which readers hold in memory
_LANGUAGE = "eng-Latn"

_TEXTS = pa.schema([("id", pa.string()), ("text", pa.string())])
_QRELS = pa.schema([("query-id", pa.string()), ("corpus-id", pa.string()), ("score", pa.int32())])
_VIDEOS = pa.schema(
    [("id", pa.string()), ("video", pa.struct([("bytes", pa.binary()), ("path", pa.string())]))],
    metadata={
        "huggingface": json.dumps(
            {"info": {"features": {"id": {"dtype": "string", "_type": "Value"}, "video": {"_type": "Video"}}}}
        )
    },
)


def write_clips(request: Request) -> Exported:
    """Write the task of videos as queries, whose corpus is the captions of all complete clips.

    Raises as `corpus.read` and `folder.claim` do, and `ManifestError` for a dataset without captions.
    """
    exported = corpus.read(request)
    hubfiles.check_any(exported)
    layout.check_shards((clip.row.bytes for clip in exported.clips), request.shard_bytes)
    usable = {row.item_id for row in exported.sources if row.status == COMPLETE}
    texts = sorted((row for row in exported.captions if row.item_id in usable), key=lambda row: row.caption_id)
    of_item: dict[str, list[str]] = defaultdict(list)
    for row in texts:
        of_item[row.item_id].append(row.caption_id)
    query_clips = [clip for clip in exported.clips if clip.row.item_id in of_item]
    if not query_clips:
        raise ManifestError(
            f"{request.manifest}: no clip has captions; the tasks need the dataset's captions.parquet and "
            "sources.parquet, beside the manifest or above it"
        )
    hubfiles.claim(request.output, "mteb", exported)
    placed = shardfiles.stage(request, query_clips)
    data = request.output / folder.DATA
    captions = data / "captions.parquet"
    columns.write_table(captions, _texts((row.caption_id, row.text) for row in texts))
    written, configs, subsets = [captions], [], []
    for scenario, parts in _video_parts(
        request, [clip for clip in query_clips if clip in placed.files], placed
    ).items():
        members = [clip for clip in query_clips if clip.scenario == scenario and clip in placed.files]
        pairs = ((clip.row.item_id, caption) for clip in members for caption in of_item[clip.row.item_id])
        qrels = data / f"{scenario}-qrels.parquet"
        columns.write_table(qrels, _qrels(pairs))
        written += [qrels, *parts]
        configs += _configs(request.output, scenario, [captions], parts, qrels)
        subsets.append(scenario)
    quarantined = corpus.incomplete_findings(request.manifest, exported.incomplete)
    title = hubfiles.title(exported)
    _finish(request, title, "v2t", subsets, configs, written, (*placed.failed, *quarantined))
    return Exported(len(placed.files), 0, placed.failed, quarantined)


def write_captions(request: Request) -> int:
    """Write the task of accepted captions as queries, whose corpus is all complete clips; returns the scenarios.

    Raises as `corpus.read_texts` and `folder.claim` do, and `ManifestError` where no caption has a clip.
    """
    texts = corpus.read_texts(request, clean_clips=True)
    hubfiles.check_any(texts)
    layout.check_shards((clip.row.bytes for clip in texts.clean), request.shard_bytes)
    hubfiles.claim(request.output, "mteb", texts)
    placed = shardfiles.stage(request, texts.clean)
    gallery = [clip for clip in texts.clean if clip in placed.files]
    held = {clip.row.item_id for clip in gallery}
    videos = _video_parts(request, gallery, placed).get(layout.CLEAN, [])
    written, configs, subsets = list(videos), [], []
    for scenario, rows in sorted(texts.rows.items()):
        members = sorted((row for row in rows if row.item_id in held), key=lambda row: row.caption_id)
        if not members:
            continue
        queries, qrels = _queries(request, scenario, [(row.caption_id, row.text, row.item_id) for row in members])
        written += [queries, qrels]
        configs += _configs(request.output, scenario, videos, [queries], qrels)
        subsets.append(scenario)
    if not subsets:
        raise ManifestError(f"{request.manifest}: no caption has a clip that can be exported")
    title = hubfiles.title(texts)
    _finish(request, title, "t2v", subsets, configs, written, placed.failed)
    return len(subsets)


def write_pairs(request: Request) -> Exported:
    """Write the task of perturbed captions as queries, whose corpus is the perturbed videos that they are paired with.

    A scenario of the task is one of videos and one of captions. Raises as `pairs.read` and `folder.claim` do, and
    `ManifestError` where no pair has a video that can be exported.
    """
    paired = pairs.read(request)
    exported = paired.corpus
    layout.check_shards((clip.row.bytes for clip in exported.clips), request.shard_bytes)
    hubfiles.claim(request.output, "mteb", exported)
    placed = shardfiles.stage(request, exported.clips)
    gallery = [clip for clip in exported.clips if clip in placed.files]
    written, configs, subsets = [], [], []
    for video, parts in _video_parts(request, gallery, placed).items():
        relevant: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for clip in gallery:
            for text in paired.of(clip) if clip.scenario == video else ():
                relevant[pairs.scenario(text)].append((text.caption_id, text.text, clip.row.item_id))
        for name, members in sorted(relevant.items()):
            subset = f"{video}-{name}" if name != video else video
            members.sort()
            queries, qrels = _queries(request, subset, members)
            written += [queries, qrels]
            configs += _configs(request.output, subset, parts, [queries], qrels)
            subsets.append(subset)
        written += parts
    if not subsets:
        raise ManifestError(f"{request.manifest}: no caption has a clip that can be exported")
    quarantined = corpus.incomplete_findings(request.manifest, exported.incomplete)
    title = hubfiles.title(exported)
    left_out = (*placed.failed, *quarantined)
    _finish(request, title, "t2v", subsets, configs, written, left_out, perturbed="Queries and corpus are")
    return Exported(len(placed.files), 0, placed.failed, quarantined)


def _queries(request: Request, scenario: str, members: Sequence[tuple[str, str, str]]) -> tuple[Path, Path]:
    """Write the queries of a scenario, and which clip answers each: the caption's id, its text, the clip's item."""
    queries = request.output / folder.DATA / f"{scenario}-queries.parquet"
    qrels = request.output / folder.DATA / f"{scenario}-qrels.parquet"
    columns.write_table(queries, _texts((caption, text) for caption, text, _ in members))
    columns.write_table(qrels, _qrels((caption, item) for caption, _, item in members))
    return queries, qrels


def _texts(rows: Iterable[tuple[str, str]]) -> pa.Table:
    ids, texts = zip(*rows, strict=True)
    return pa.Table.from_arrays([pa.array(ids, pa.string()), pa.array(texts, pa.string())], schema=_TEXTS)


def _qrels(pairs: Iterable[tuple[str, str]]) -> pa.Table:
    queries, targets = zip(*pairs, strict=True)
    scores = pa.array([1] * len(queries), pa.int32())
    return pa.Table.from_arrays([pa.array(queries, pa.string()), pa.array(targets, pa.string()), scores], schema=_QRELS)


def _video_parts(request: Request, members: Sequence[Clip], placed: Placed) -> dict[str, list[Path]]:
    """Write each video once; returns the files per scenario.

    The videos that the same scenarios have lie in the same files.
    """
    of_video: dict[tuple[str, ...], list[Clip]] = defaultdict(list)
    for clip in members:
        of_video[clip.identity].append(clip)
    groups: dict[tuple[str, ...], list[Clip]] = defaultdict(list)
    for clips in of_video.values():
        groups[tuple(sorted({clip.scenario for clip in clips}))].append(clips[0])
    parts: dict[str, list[Path]] = defaultdict(list)
    for number, scenarios in enumerate(sorted(groups)):
        name = scenarios[0] if len(scenarios) == 1 else f"shared_{number:04d}"
        samples = (shardfiles.Sample(clip.row.item_id, _video(clip, placed)) for clip in groups[scenarios])
        for shard, group in enumerate(shardfiles.split(samples, request.shard_bytes)):
            path = request.output / folder.DATA / f"{name}-videos-{shard:06d}.parquet"
            with storage.atomic_path(path) as temporary:
                _write_videos(temporary, group)
            for scenario in scenarios:
                parts[scenario].append(path)
    return dict(sorted(parts.items()))


def _video(clip: Clip, placed: Placed) -> tuple[tuple[str, bytes | Path], ...]:
    return ((f"{clip.key}.mp4", placed.files[clip].path),)


def _write_videos(path: Path, samples: Sequence[shardfiles.Sample]) -> None:
    """Write videos as cells, in row groups of limited size; videos are compressed already, and no two are the same."""
    with pq.ParquetWriter(path, _VIDEOS, compression="none", use_dictionary=False, write_statistics=["id"]) as writer:
        for group in _row_groups(samples):
            ids = pa.array([sample.key for sample in group], pa.string())
            cells = [{"bytes": Path(str(file)).read_bytes(), "path": name} for ((name, file),) in _members(group)]
            writer.write_table(pa.Table.from_arrays([ids, pa.array(cells, _VIDEOS.field(1).type)], schema=_VIDEOS))


def _members(group: Iterable[shardfiles.Sample]) -> Iterator[tuple[tuple[str, bytes | Path], ...]]:
    return (sample.members for sample in group)


def _row_groups(samples: Sequence[shardfiles.Sample]) -> Iterator[list[shardfiles.Sample]]:
    return shardfiles.split(samples, _GROUP_BYTES)


def _configs(
    output: Path, scenario: str, gallery: Sequence[Path], queries: Sequence[Path], qrels: Path
) -> list[card.Config]:
    parts: Mapping[str, Sequence[Path]] = {"corpus": gallery, "queries": queries, "qrels": [qrels]}
    return [
        card.Config(f"{scenario}-{part}", tuple(path.relative_to(output).as_posix() for path in paths))
        for part, paths in parts.items()
    ]


def _finish(
    request: Request,
    title: str,
    category: str,
    subsets: Sequence[str],
    configs: Sequence[card.Config],
    written: Sequence[Path],
    left_out: Sequence[Finding],
    *,
    perturbed: str = "Queries are",
) -> None:
    folder.prune(request.output, written)
    folder.write_left_out(request.output, left_out)
    name = "".join(part.capitalize() for part in layout.words(title)) + category.upper()
    described: dict[str, Any] = {
        "name": name,
        "description": f"Video-text retrieval under perturbations: {title}. {perturbed} perturbed.",
        "category": category,
        "language": _LANGUAGE,
        "subsets": list(subsets),
    }
    storage.write_text_if_changed(request.output / DESCRIBED, json.dumps([described], indent=1) + "\n")
    source = Path(__file__).with_name("mteb_tasks.py").read_text(encoding="utf-8")
    storage.write_text_if_changed(request.output / TASKS, source)
    card.write(request.output, title, configs, _ABOUT, request.manifest, left_out=len(left_out))


_ABOUT = (
    "Retrieval tasks for `mteb`: run `import mteb; from tasks import tasks; mteb.evaluate(model, tasks())` in this "
    "folder. Per scenario there is a subset of the task, with the configurations `SCENARIO-queries`, "
    "`SCENARIO-corpus` and `SCENARIO-qrels`.",
    "`r_at_k` is R@k as `perturbations.retrieval` computes it: a tie counts against the model. mteb's own "
    "`hit_rate_at_k` is the same without ties; with them it puts the document first whose id is the greater text.",
)
