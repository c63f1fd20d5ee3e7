"""A corpus as retrieval tasks: per scenario a `corpus`, `queries` and `qrels`, as the loaders of mteb name them.

All are Parquet: the Hugging Face loader reads all configurations of a repository in one way. Videos are cells of it,
each in one file of the repository only: scenarios that share videos, such as mixes, name the same files.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from perturbations.base import jsontext, storage
from perturbations.base.errors import ManifestError, short
from perturbations.exports.writing import (
    dataset_card,
    export_columns,
    export_layout,
    export_rows,
    output_folder,
    pairs,
    publication,
    shardfiles,
    task_tables,
)
from perturbations.exports.writing.export_rows import ExportedClip
from perturbations.exports.writing.publication import Publication
from perturbations.exports.writing.requests import Exported, Request
from perturbations.exports.writing.videofiles import Placed
from perturbations.manifest import files, layout, row_groups
from perturbations.manifest.kinds import COMPLETE, CaptionRow, TextRow
from perturbations.manifest.row_groups import StoredRows
from perturbations.verify.findings import Finding

_TASKS = "tasks.py"
_DESCRIBED = "tasks.json"
_LANGUAGE = "eng-Latn"


@dataclass(frozen=True)
class _Scenario:
    """A subset of a task: the files of its queries and of its corpus, and gives which document answers which query."""

    queries: Sequence[Path]
    corpus: Sequence[Path]
    answers: Callable[[], Iterable[tuple[str, str]]]


_Tasks = Mapping[str, Mapping[str, _Scenario]]
"""The scenarios of each task by their names, by the task's category: mteb's code of the queries and the corpus."""


def write_clips(request: Request) -> Exported:
    """Write the tasks of perturbed videos: as queries for captions, as the corpus of captions, and for clean ones.

    The last, perturbed videos as queries for the clean ones, is written where the request has clean clips, and needs no
    captions. Raises as `corpus.read` and `folder.claim` do, and `ManifestError` for a dataset without captions and a
    request without clean clips.
    """
    exported = export_rows.read(request)
    export_layout.check_shards([exported.listed.bytes], request.shard_bytes)
    usable = {row.item_id for row in exported.sources if row.status == COMPLETE}
    texts = sorted((row for row in exported.captions if row.item_id in usable), key=lambda row: row.caption_id)
    captioned = {row.item_id for row in texts}
    chosen = {name: row_groups.stored(clips) for name, clips in exported.scenarios.items()}
    if not request.clean and not exported.listed.item_ids <= captioned:
        kept = {name: [clip.row.item_id in captioned for clip in clips] for name, clips in chosen.items()}
        chosen = {name: clips.taken(np.flatnonzero(kept[name])) for name, clips in chosen.items()}
    if not any(chosen[name] for name in chosen if name != export_layout.CLEAN) and not captioned & {
        clip.row.item_id for clip in chosen.get(export_layout.CLEAN, ())
    }:
        raise ManifestError(
            f"{request.manifest}: no clip has captions; the tasks need the dataset's captions.parquet and "
            "sources.parquet, beside the manifest or above it. --clean writes the one task that needs none: perturbed "
            "videos as queries for the clean ones"
        )
    export_rows.claim(request.output, "mteb", exported)
    placed = _written(request, chosen, shared=bool(exported.listed.mixes))
    tasks: dict[str, dict[str, _Scenario]] = defaultdict(dict)
    captions = request.output / output_folder.DATA / layout.name("captions")
    if texts:
        export_columns.write_table(captions, task_tables.texts((row.caption_id, row.text) for row in texts))
    clean = placed.items.get(export_layout.CLEAN, [])
    for scenario, videos in sorted(placed.parts.items()):
        held = placed.items[scenario]
        if not captioned.isdisjoint(held):
            tasks["v2t"][scenario] = _Scenario(videos, [captions], partial(_captions_of, held, texts))
            tasks["t2v"][scenario] = _Scenario([captions], videos, partial(_videos_of, held, texts))
        if scenario != export_layout.CLEAN and not {*clean}.isdisjoint(held):
            tasks["v2v"][scenario] = _Scenario(videos, placed.parts[export_layout.CLEAN], partial(_same, held, clean))
    failed, quarantined = placed.failed, exported.quarantined
    left_out = (*failed, *quarantined)
    _finish(
        publication.of(exported, request, "clips", placed.number, left_out, clips=placed.clips),
        tasks,
        left_out,
        "Videos are",
    )
    return Exported(placed.number, 0, failed, quarantined)


def _captions_of(item_ids: Iterable[str], texts: Iterable[CaptionRow]) -> Iterator[tuple[str, str]]:
    """Each of these videos with each of its captions."""
    held = {*item_ids}
    return ((row.item_id, row.caption_id) for row in texts if row.item_id in held)


def _videos_of(item_ids: Iterable[str], texts: Iterable[CaptionRow | TextRow]) -> Iterator[tuple[str, str]]:
    """Each caption of these videos with its video."""
    held = {*item_ids}
    return ((row.caption_id, row.item_id) for row in texts if row.item_id in held)


def _same(item_ids: Iterable[str], others: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each video with the clean one of its item."""
    return ((item_id, item_id) for item_id in {*item_ids} & {*others})


def write_captions(request: Request) -> int:
    """Write the task of accepted captions as queries, whose corpus is all complete clips; returns the scenarios.

    Raises as `corpus.read_texts` and `folder.claim` do, and `ManifestError` where no caption has a clip.
    """
    texts = export_rows.read_texts(request, clean_clips=True)
    export_layout.check_shards((clip.row.bytes for clip in texts.clean), request.shard_bytes)
    export_rows.claim(request.output, "mteb", texts)
    placed = _written(request, {export_layout.CLEAN: row_groups.stored(texts.clean)})
    held, videos = {*placed.items[export_layout.CLEAN]}, placed.parts.get(export_layout.CLEAN, [])
    scenarios = {}
    count = 0
    for scenario, rows in sorted(texts.rows.items()):
        members = sorted((row for row in rows if row.item_id in held), key=lambda row: row.caption_id)
        if members:
            count += len(members)
            queries = _queries(request, scenario, [(row.caption_id, row.text) for row in members])
            scenarios[scenario] = _Scenario([queries], videos, partial(_videos_of, held, rows))
    _check_tasks(request, scenarios)
    left_out = placed.failed
    _finish(
        publication.of(texts, request, "captions", count, left_out, clips=placed.clips),
        {"t2v": scenarios},
        left_out,
        "Queries are",
    )
    return len(scenarios)


def write_pairs(request: Request) -> Exported:
    """Write the task of perturbed captions as queries, whose corpus is the perturbed videos that they are paired with.

    A scenario of the task is one of videos and one of captions. Raises as `pairs.read` and `folder.claim` do, and
    `ManifestError` where no pair has a video that can be exported.
    """
    paired = pairs.read(request)
    exported = paired.corpus
    export_layout.check_shards([exported.listed.bytes], request.shard_bytes)
    export_rows.claim(request.output, "mteb", exported)
    placed = _written(request, {name: row_groups.stored(clips) for name, clips in exported.scenarios.items()})
    scenarios: dict[str, _Scenario] = {}
    rows = 0
    for video, parts in sorted(placed.parts.items()):
        held = {*placed.items[video]}
        relevant: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for clip in exported.scenarios[video]:
            for text in paired.of(clip) if clip.row.item_id in held else ():
                relevant[pairs.scenario(text)].append((text.caption_id, text.text, clip.row.item_id))
        for name, members in sorted(relevant.items()):
            subset = f"{video}-{name}" if name != video else video
            members.sort()
            queries = _queries(request, subset, [(caption, text) for caption, text, _ in members])
            ids, items = (pa.array([member[place] for member in members]) for place in (0, 2))
            scenarios[subset] = _Scenario([queries], parts, partial(_listed, ids, items.dictionary_encode()))
            rows += len(members)
    _check_tasks(request, scenarios)
    failed, quarantined = placed.failed, exported.quarantined
    left_out = (*failed, *quarantined)
    _finish(
        publication.of(exported, request, "pairs", rows, left_out, clips=placed.clips),
        {"t2v": scenarios},
        left_out,
        "Queries and corpus are",
    )
    return Exported(placed.number, 0, failed, quarantined)


def _listed(*columns: pa.Array) -> Iterable[tuple[str, str]]:
    """The pairs of two columns."""
    return zip(*(column.to_pylist() for column in columns), strict=True)


def write_splits(request: Request) -> list[Path]:
    """Write the task of composed queries, a video and an instruction, whose corpus is the clips of the split's pool.

    Returns the written files. A query whose clip, or all of whose targets, cannot be exported is left out. Raises
    `ManifestError` where none is left, and as `folder.claim` does.
    """
    listed = files.read_rows(request.manifest, files.kind_of(request.manifest))
    pool = request.manifest.with_name(layout.name("composed_pool"))
    names = {row.clip_id for row in files.read_rows(pool, files.kind_of(pool))}
    whole = export_rows.of_rows(replace(request, clean=True), [])
    clips = [clip for clip in whole.clips if clip.row.item_id in names]
    exported = replace(whole, scenarios={export_layout.CLEAN: clips}, listed=replace(whole.listed, incomplete=[]))
    export_layout.check_shards((clip.row.bytes for clip in clips), request.shard_bytes)
    export_rows.claim(request.output, "mteb", exported)
    placed = shardfiles.stage(request, clips)
    held = {clip.row.item_id: clip for clip in placed.files}
    videos = _videos(request, export_layout.CLEAN, placed)
    targets = {row.query_id: [name for name in _names(row.targets) if name in held] for row in listed}
    answered = [row for row in listed if row.clip_id in held and targets[row.query_id]]
    if not answered:
        raise ManifestError(f"{request.manifest}: no query has clips that can be exported")
    samples = [shardfiles.Sample(row.query_id, _video(held[row.clip_id], placed)) for row in answered]
    texts = {row.query_id: row.instruction for row in answered}
    queries = _write_parts(request, f"{export_layout.CLEAN}-queries", samples, texts)
    answers = [(row.query_id, name) for row in answered for name in targets[row.query_id]]
    scenario = _Scenario(queries, videos, lambda: answers)
    lost = [row.query_id for row in listed if row.query_id not in texts]
    left_out = [*placed.failed, *(Finding(request.manifest, name, "its clips cannot be exported") for name in lost)]
    what = publication.of(exported, request, "queries", len(answered), left_out, clips=len(held))
    _finish(what, {"vt2v": {export_layout.CLEAN: scenario}}, left_out, "None is")
    return [path for path in sorted(request.output.rglob("*")) if path.is_file()]


def _names(text: str) -> list[str]:
    """The names of a query's targets. Raises `ManifestError`."""
    with suppress(ValueError):
        if isinstance(names := jsontext.parse(text), list):
            return [str(name) for name in names]
    raise ManifestError(f"a query's targets are a list of names, not {short(text)}")


def _check_tasks(request: Request, scenarios: Mapping[str, _Scenario]) -> None:
    if not scenarios:
        raise ManifestError(f"{request.manifest}: no caption has a clip that can be exported")


def _queries(request: Request, scenario: str, texts: Iterable[tuple[str, str]]) -> Path:
    """Write the queries of a scenario: ids and texts of captions."""
    path = request.output / output_folder.DATA / f"{scenario}-queries.parquet"
    export_columns.write_table(path, task_tables.texts(texts))
    return path


@dataclass(frozen=True)
class _Written:
    """The written videos.

    Attributes:
        parts: their files per scenario.
        items: their ids per scenario.
        problems: those of the clips that are left out, per scenario.
        clips: the number of the different videos.
    """

    parts: Mapping[str, list[Path]]
    items: Mapping[str, list[str]]
    problems: Mapping[str, list[Finding]]
    clips: int

    @property
    def number(self) -> int:
        """The number of the clips of all scenarios."""
        return sum(map(len, self.items.values()))

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The problems."""
        return tuple(chain.from_iterable(self.problems.values()))


def _written(request: Request, clips: Mapping[str, StoredRows[ExportedClip]], *, shared: bool = False) -> _Written:
    """Write each video of some scenarios once; the clips of one file are in memory.

    Where scenarios have `shared` videos, those that the same scenarios have lie in the same files.
    """
    alone: dict[tuple[str, ...], StoredRows[ExportedClip]] = {(name,): members for name, members in clips.items()}
    groups = _shared(clips) if shared else alone
    parts: dict[str, list[Path]] = defaultdict(list)
    items: dict[str, list[str]] = {name: [] for name in clips}
    problems: dict[str, list[Finding]] = {name: [] for name in clips}
    known: dict[str, str] = {}  # an id that repeats takes memory once
    different = 0
    for number, scenarios in enumerate(sorted(groups)):
        placed = shardfiles.stage(request, groups[scenarios])
        paths = _videos(request, scenarios[0] if len(scenarios) == 1 else f"shared_{number:04d}", placed)
        different += len(placed.files)
        ids = [known.setdefault(clip.row.item_id, clip.row.item_id) for clip in placed.files]
        for scenario in scenarios if paths else ():
            parts[scenario] += paths
            items[scenario] += ids
        for scenario in scenarios:
            problems[scenario] += placed.failed
    return _Written(parts, items, problems, different)


def _shared(clips: Mapping[str, StoredRows[ExportedClip]]) -> dict[tuple[str, ...], StoredRows[ExportedClip]]:
    """Each video once, by the scenarios that have it."""
    of_video: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name, members in clips.items():
        for clip in members:
            of_video[clip.identity] = (*of_video.get(clip.identity, ()), name)
    places: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for name, members in clips.items():
        for place, clip in enumerate(members):
            if (scenarios := of_video[clip.identity])[0] == name:
                places[scenarios].append(place)
    return {tuple(sorted(scenarios)): clips[scenarios[0]].taken(places[scenarios]) for scenarios in places}


def _videos(request: Request, name: str, placed: Placed) -> list[Path]:
    """Write placed videos as files of limited size; returns those."""
    samples = (shardfiles.Sample(clip.row.item_id, _video(clip, placed)) for clip in placed.files)
    return _write_parts(request, f"{name}-videos", samples)


def _write_parts(
    request: Request, name: str, samples: Iterable[shardfiles.Sample], texts: Mapping[str, str] | None = None
) -> list[Path]:
    """Write videos, with their `texts` where they have some, as files of limited size; returns those."""
    paths = []
    for shard, group in enumerate(shardfiles.split(samples, request.shard_bytes)):
        path = request.output / output_folder.DATA / f"{name}-{shard:06d}.parquet"
        with storage.atomic_path(path) as temporary:
            task_tables.write_videos(temporary, group, texts)
        paths.append(path)
    return paths


def _video(clip: ExportedClip, placed: Placed) -> tuple[tuple[str, bytes | Path], ...]:
    path = placed.files[clip].path
    return ((f"{clip.key}{path.suffix}", path),)


def _configs(output: Path, name: str, scenario: _Scenario, qrels: Path) -> list[dataset_card.Config]:
    parts: Mapping[str, Sequence[Path]] = {"corpus": scenario.corpus, "queries": scenario.queries, "qrels": [qrels]}
    return [
        dataset_card.Config(f"{name}-{part}", tuple(path.relative_to(output).as_posix() for path in paths))
        for part, paths in parts.items()
    ]


def _finish(what: Publication, tasks: _Tasks, left_out: Sequence[Finding], perturbed: str) -> None:
    """Write the qrels of every task, what describes them, and the card; delete what an earlier export left."""
    output = what.request.output
    written: list[Path] = []
    configs: list[dataset_card.Config] = []
    described: list[dict[str, Any]] = []
    for of_videos, scenarios in tasks.items():
        category = of_videos.replace("v", "i") if what.has_pictures else of_videos
        # All tasks of a folder share its configurations: those of the first one have the scenarios' plain names.
        subsets = {f"{category}-{name}" if described else name: scenario for name, scenario in scenarios.items()}
        for subset, scenario in subsets.items():
            qrels = output / output_folder.DATA / f"{subset}-qrels.parquet"
            export_columns.write_table(qrels, task_tables.qrels(scenario.answers()))
            written += [qrels, *scenario.queries, *scenario.corpus]
            configs += _configs(output, subset, scenario, qrels)
        described.append(_described(what.title, category, list(subsets), what.in_words(perturbed)))
    output_folder.prune(output, written)
    output_folder.write_left_out(output, left_out)
    benchmark = {"name": _name(what.title), "description": f"Retrieval under perturbations: {what.title}."}
    content = json.dumps(benchmark | {"tasks": described}, indent=1)
    storage.write_text_if_changed(output / _DESCRIBED, content + "\n")
    source = Path(__file__).with_name("mteb_tasks.py").read_text(encoding="utf-8")
    storage.write_text_if_changed(output / _TASKS, source)
    dataset_card.write(what, configs, _ABOUT)


def _name(title: str) -> str:
    return "".join(part.capitalize() for part in export_layout.words(title))


def _described(title: str, category: str, subsets: Sequence[str], perturbed: str) -> dict[str, Any]:
    what, prompt = _CATEGORIES[category]
    return {
        "name": f"{_name(title)}{category.upper()}",
        "description": f"{what} under perturbations: {title}. {perturbed} perturbed.",
        "category": category,
        "prompt": prompt,
        "language": _LANGUAGE,
        "subsets": subsets,
    }


_CATEGORIES = {
    "v2t": ("Video-text retrieval", "Find the caption that describes the following video."),
    "t2v": ("Text-video retrieval", "Find the video clip that matches the given caption."),
    "v2v": ("Retrieval of the clean source", "Retrieve the video that this query is a copy of."),
    "i2t": ("Image-text retrieval", "Find an image caption describing the following image."),
    "t2i": ("Text-image retrieval", "Find an image that matches the given caption."),
    "i2i": ("Retrieval of the clean source", "Retrieve the image that this query is a copy of."),
    "it2i": (
        "Composed image retrieval",
        "Given the reference image and editing text, retrieve the image that matches the composed query.",
    ),
    "vt2v": (
        "Composed video retrieval",
        "Given the reference video and editing text, retrieve the video that matches the composed query.",
    ),
}
"""Of each category of tasks: what it is, and the prompt of mteb's own tasks: MSRVTTV2T, MSRVTTT2V, VSC2022, CoVR."""

_ABOUT = (
    "Retrieval tasks for `mteb`: run `import mteb; from tasks import benchmark; "
    "mteb.evaluate(model, benchmark()).to_dataframe(aggregation_level='subset')` in this folder. Per scenario there is "
    "a subset of each task, with the configurations `SCENARIO-queries`, `SCENARIO-corpus` and `SCENARIO-qrels`.",
    "`r_at_k` is R@k as `perturbations.retrieval` computes it: a tie counts against the model. mteb's own "
    "`hit_rate_at_k` is the same without ties; with them it puts the document first whose id is the greater text.",
)
