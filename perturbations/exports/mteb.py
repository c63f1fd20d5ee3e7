"""A corpus as retrieval tasks: per scenario a `corpus`, `queries` and `qrels`, as the loaders of mteb name them.

All are Parquet: the Hugging Face loader reads all configurations of a repository in one way. Videos are cells of it,
each in one file of the repository only: scenarios that share videos, such as mixes, name the same files.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.base import storage, tars
from perturbations.base.errors import ManifestError, short
from perturbations.exports import card, columns, corpus, folder, names, webdataset
from perturbations.exports.card import Publication
from perturbations.exports.corpus import Clip, Corpus, PairedText
from perturbations.exports.registry import Exported, LeftOut, Request
from perturbations.exports.videos import Placed
from perturbations.exports.webdataset import Sample
from perturbations.manifest import files, layout
from perturbations.manifest.kinds import COMPLETE, VideoRow

_TASKS = "tasks.py"
_DESCRIBED = "tasks.json"
_LANGUAGE = "eng-Latn"
_GROUP_BYTES = 64_000_000  # of videos in a row group, which readers hold in memory

_TEXTS = pa.schema([("id", pa.string()), ("text", pa.string())])
_QRELS = pa.schema([("query-id", pa.string()), ("corpus-id", pa.string()), ("score", pa.int32())])


@dataclass(frozen=True)
class _Scenario:
    """A subset of a task: the files of its queries and of its corpus, and which document answers which query.

    `perturbed` says by what and on which side, in the columns of results, for reports.
    """

    queries: Sequence[Path]
    corpus: Sequence[Path]
    answers: Iterable[tuple[str, str]]
    perturbed: Mapping[str, Any] = field(default_factory=dict)


_Tasks = Mapping[str, Mapping[str, _Scenario]]
"""The scenarios of each task by their names, by the task's category: mteb's code of the queries and the corpus."""


@dataclass
class _Videos:
    """The written videos.

    Attributes:
        parts: their files per scenario.
        items: their ids per scenario.
        failed: the problems of the others.
        clips: the number of the different videos.
    """

    parts: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))
    items: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    failed: list[LeftOut] = field(default_factory=list)
    clips: int = 0

    @property
    def number(self) -> int:
        """The number of the clips of all scenarios."""
        return sum(map(len, self.items.values()))


def write_videos(request: Request) -> Exported:
    """Write the tasks of perturbed videos: as queries for captions, as the corpus of captions, and for clean ones.

    The last, perturbed videos as queries for the clean ones, is written where the request has clean clips, and needs no
    captions. Raises as `corpus.read` and `folder.claim` do, and `ManifestError` for a dataset without captions and a
    request without clean clips.
    """
    exported = corpus.read(request)
    usable = {row.item_id for row in exported.sources if row.status == COMPLETE}
    texts = sorted((row.caption_id, row.text, row.item_id) for row in exported.captions if row.item_id in usable)
    captioned = {item_id for _, _, item_id in texts}
    chosen = {
        name: [clip for clip in clips if request.clean or clip.row.item_id in captioned]
        for name, clips in exported.scenarios()
    }
    asked = (clip.row.item_id in captioned for clip in chosen.get(names.CLEAN, ()))
    if not any(clips for name, clips in chosen.items() if name != names.CLEAN) and not any(asked):
        raise ManifestError(
            f"{request.manifest}: no clip has captions; the tasks need the dataset's captions.parquet and "
            "sources.parquet, beside the manifest or above it. --clean writes the one task that needs none: perturbed "
            "videos as queries for the clean ones"
        )
    _begin(request, exported)
    written = _write_videos(request, chosen)
    captions = request.output / folder.DATA / layout.name("captions")
    if texts:
        _write_texts(captions, [(caption_id, text) for caption_id, text, _ in texts])
    tasks: dict[str, dict[str, _Scenario]] = defaultdict(dict)
    clean = written.items.get(names.CLEAN, set())
    for scenario, paths in written.parts.items():
        held = written.items[scenario]
        answers = [(item_id, caption_id) for caption_id, _, item_id in texts if item_id in held]
        if answers:
            perturbed = _perturbed(chosen[scenario])
            tasks["v2t"][scenario] = _Scenario(paths, [captions], answers, _on(perturbed, "query"))
            of_captions = [(text, video) for video, text in answers]
            tasks["t2v"][scenario] = _Scenario([captions], paths, of_captions, _on(perturbed, "gallery"))
        if scenario != names.CLEAN and clean & held:
            same = [(item_id, item_id) for item_id in clean & held]
            tasks["v2v"][scenario] = _Scenario(paths, written.parts[names.CLEAN], same)
    left_out = [*written.failed, *exported.left_out]
    about = card.Publication(exported, request, "clips", written.number, len(left_out), clips=written.clips)
    _finish(about, tasks, left_out, "Videos are")
    return Exported(written.number, 0, written.failed, exported.left_out)


def write_captions(request: Request) -> int:
    """Write the task of accepted captions as queries, whose corpus is all complete clips; returns the scenarios.

    Raises as `corpus.read_texts` and `folder.claim` do, and `ManifestError` where no caption has a clip.
    """
    texts = corpus.read_texts(request, with_clips=True)
    _begin(request, texts)
    written = _write_videos(request, dict(texts.scenarios()))
    held, paths = written.items[names.CLEAN], written.parts[names.CLEAN]
    scenarios: dict[str, _Scenario] = {}
    count = 0
    for scenario, rows in texts.captions_by_scenario():
        members = sorted((row.caption_id, row.text, row.item_id) for row in rows if row.item_id in held)
        if members:
            perturbed = {name: getattr(rows[0], name, None) for name in ("suite", "perturbation", "severity")}
            scenarios[scenario] = _asking(request, scenario, members, paths, _on(perturbed, "query"))
            count += len(members)
    _check_tasks(request, scenarios)
    lost = sum(len(rows) for _, rows in texts.captions_by_scenario()) - count
    about = card.Publication(texts, request, "captions", count, lost, clips=written.clips)
    _finish(about, {"t2v": scenarios}, written.failed, "Queries are")
    return len(scenarios)


def write_pairs(request: Request) -> Exported:
    """Write the task of perturbed captions as queries, whose corpus is the perturbed videos that they are paired with.

    A scenario of the task is one of videos and one of captions. Raises as `corpus.read` and `folder.claim` do, and
    `ManifestError` where no pair has a video that can be exported.
    """
    exported = corpus.read(request)
    _begin(request, exported)
    scenarios: dict[str, _Scenario] = {}
    written = _Videos()
    count = 0
    for video, clips in exported.scenarios():
        _write_group(request, written, video, [video], clips)
        relevant: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        texts: dict[str, PairedText] = {}
        for clip in clips:
            for text in clip.texts if clip.row.item_id in written.items[video] else ():
                relevant[text.scenario].append((text.caption_id, text.text, clip.row.item_id))
                texts[text.scenario] = text
        for name, members in sorted(relevant.items()):
            subset = f"{video}-{name}" if name != video else video
            perturbed = _on(_perturbed(clips), "both")
            if perturbed["side"] == "both":
                perturbed |= {key: getattr(texts[name], key) for key in ("text_perturbation", "text_severity")}
            scenarios[subset] = _asking(request, subset, sorted(members), written.parts[video], perturbed)
            count += len(members)
    _check_tasks(request, scenarios)
    left_out = [*written.failed, *exported.left_out]
    about = card.Publication(exported, request, "pairs", count, len(left_out), clips=written.clips)
    _finish(about, {"t2v": scenarios}, left_out, "Queries and corpus are")
    return Exported(written.number, 0, written.failed, exported.left_out)


def write_splits(request: Request) -> list[Path]:
    """Write the task of composed queries, a video and an instruction, whose corpus is the clips of the split's pool.

    Returns the written files. A query whose clip, or all of whose targets, cannot be exported is left out. Raises
    `ManifestError` where none is left, and as `folder.claim` does.
    """
    listed = files.read_rows(request.manifest, files.kind_of(request.manifest))
    pool = request.manifest.with_name(layout.name("composed_pool"))
    exported = corpus.of_clean(request, {row.clip_id for row in files.read_rows(pool, files.kind_of(pool))})
    _begin(request, exported)
    placed = webdataset.stage(request, list(exported.clips()))
    held = {clip.row.item_id: clip for clip in placed.files}
    paths = _write_parts(request, f"{names.CLEAN}-videos", _samples(placed))
    targets = {row.query_id: [name for name in _target_names(row.targets) if name in held] for row in listed}
    answered = [row for row in listed if row.clip_id in held and targets[row.query_id]]
    if not answered:
        raise ManifestError(f"{request.manifest}: no query has clips that can be exported")
    samples = [Sample(row.query_id, _cell(held[row.clip_id], placed)) for row in answered]
    texts = {row.query_id: row.instruction for row in answered}
    queries = _write_parts(request, f"{names.CLEAN}-queries", samples, texts)
    answers = [(row.query_id, name) for row in answered for name in targets[row.query_id]]
    scenario = _Scenario(queries, paths, answers)
    lost = [LeftOut(row.query_id, "its clips cannot be exported") for row in listed if row.query_id not in texts]
    left_out = [*placed.failed, *lost]
    about = card.Publication(exported, request, "queries", len(answered), len(left_out), clips=len(held))
    _finish(about, {"vt2v": {names.CLEAN: scenario}}, left_out, "None is")
    return [path for path in sorted(request.output.rglob("*")) if path.is_file()]


def _begin(request: Request, exported: Corpus) -> None:
    folder.claim(request.output, "mteb", exported)


def _target_names(text: str) -> list[str]:
    """The names of a query's targets. Raises `ManifestError`."""
    with suppress(ValueError, RecursionError):
        if isinstance(parsed := json.loads(text), list):
            return [str(name) for name in parsed]
    raise ManifestError(f"a query's targets are a list of names, not {short(text)}")


def _check_tasks(request: Request, scenarios: Mapping[str, _Scenario]) -> None:
    if not scenarios:
        raise ManifestError(f"{request.manifest}: no caption has a clip that can be exported")


# --- tables -----------------------------------------------------------------------------------------------------------


def _perturbed(clips: Sequence[Clip]) -> dict[str, Any]:
    """What perturbs the clips of a scenario, in the columns of results; nothing of clean ones."""
    rows = [clip.row for clip in clips if isinstance(clip.row, VideoRow)]
    if not rows:
        return {}
    mix, kinds = clips[0].mix, {row.perturbation for row in rows}
    return {
        "suite": rows[0].suite,
        "perturbation": "all" if mix == "mixed_types" or len(kinds) > 1 else rows[0].perturbation,
        "severity": None if mix else rows[0].severity,
        **({"mix": mix, "share": clips[0].share} if mix else {}),
    }


def _on(perturbed: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The same with the perturbed side."""
    if perturbed.get("suite"):
        return {**perturbed, "side": side}
    return {"suite": names.CLEAN, "perturbation": names.CLEAN, "severity": 0, "side": "none"}


def _asking(
    request: Request,
    scenario: str,
    members: Sequence[tuple[str, str, str]],
    videos: Sequence[Path],
    perturbed: Mapping[str, Any],
) -> _Scenario:
    """Captions, with their ids and their items, as queries for videos."""
    path = request.output / folder.DATA / f"{scenario}-queries.parquet"
    _write_texts(path, [(caption_id, text) for caption_id, text, _ in members])
    return _Scenario([path], videos, [(caption_id, item_id) for caption_id, _, item_id in members], perturbed)


def _write_texts(path: Path, texts: Iterable[tuple[str, str]]) -> None:
    columns.write(path, _TEXTS, [[{"id": own, "text": text} for own, text in texts]])


def _write_videos(request: Request, clips: Mapping[str, Sequence[Clip]]) -> _Videos:
    """Write each video of some scenarios once: those that the same scenarios have lie in the same files."""
    of_video: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, members in clips.items():
        for clip in members:
            of_video[clip.identity].append(name)
    groups: dict[tuple[str, ...], list[Clip]] = defaultdict(list)
    for name, members in clips.items():
        for clip in members:
            if of_video[clip.identity][0] == name:
                groups[tuple(of_video[clip.identity])].append(clip)
    written = _Videos()
    for number, scenarios in enumerate(sorted(groups)):
        name = scenarios[0] if len(scenarios) == 1 else f"shared_{number:04d}"
        _write_group(request, written, name, scenarios, groups[scenarios])
    # In the order of the scenarios: the card and the tasks list them.
    written.parts = {name: written.parts[name] for name in clips if name in written.parts}
    return written


def _write_group(
    request: Request, written: _Videos, name: str, scenarios: Sequence[str], clips: Sequence[Clip]
) -> None:
    """Write the videos that these scenarios have."""
    placed = webdataset.stage(request, clips)
    paths = _write_parts(request, f"{name}-videos", _samples(placed))
    written.clips += len(placed.files)
    for scenario in scenarios:
        written.failed += placed.failed
        written.items[scenario] |= {clip.row.item_id for clip in placed.files}
        if paths:
            written.parts.setdefault(scenario, []).extend(paths)


def _samples(placed: Placed) -> Iterator[Sample]:
    return (Sample(clip.row.item_id, _cell(clip, placed)) for clip in placed.files)


def _cell(clip: Clip, placed: Placed) -> tuple[tuple[str, bytes | Path], ...]:
    path = placed.files[clip].path
    return ((f"{clip.key}{path.suffix}", path),)


def _write_parts(
    request: Request, name: str, samples: Iterable[Sample], texts: Mapping[str, str] | None = None
) -> list[Path]:
    """Write videos, with their `texts` where they have some, as files of limited size; returns those."""
    paths = []
    for number, part in enumerate(webdataset.split(samples, request.shard_bytes)):
        paths.append(request.output / folder.DATA / f"{name}-{number:06d}.parquet")
        medium = "image" if any(storage.is_picture(file) for file, _ in part[0].members) else "video"
        schema = _schema(medium, has_texts=texts is not None)
        plain = {"compression": "none", "use_dictionary": False, "write_statistics": ["id"]}
        with storage.atomic_path(paths[-1]) as temporary, pq.ParquetWriter(temporary, schema, **plain) as writer:
            for group in webdataset.split(part, _GROUP_BYTES):
                cells = [{"bytes": _content(file), "path": own} for sample in group for own, file in sample.members]
                rows: dict[str, list[Any]] = {"id": [sample.key for sample in group], medium: cells}
                if texts is not None:
                    rows["text"] = [texts[sample.key] for sample in group]
                writer.write_table(pa.Table.from_pydict(rows, schema))
    return paths


def _schema(medium: str, *, has_texts: bool) -> pa.Schema:
    """The schema of videos or images, with or without texts, which tells `datasets` what the cells are."""
    features = {"id": {"dtype": "string", "_type": "Value"}, medium: {"_type": medium.capitalize()}}
    columns_of = [("id", pa.string()), (medium, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))]
    if has_texts:
        features["text"] = features["id"]
        columns_of.append(("text", pa.string()))
    return pa.schema(columns_of, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def _content(stored: bytes | Path) -> bytes:
    if isinstance(stored, bytes):
        return stored
    with tars.opened(stored) as file:
        return file.read()


# --- tasks ------------------------------------------------------------------------------------------------------------


def _finish(about: Publication, tasks: _Tasks, left_out: Sequence[LeftOut], perturbed: str) -> None:
    """Write the qrels of every task, what describes them, and the card; delete what an earlier export left."""
    output = about.request.output
    written: list[Path] = []
    configs: list[card.Config] = []
    described: list[dict[str, Any]] = []
    for of_videos, scenarios in tasks.items():
        category = of_videos.replace("v", "i") if about.exported.has_pictures else of_videos
        # All tasks of a folder share its configurations: those of the first one have the scenarios' plain names.
        subsets = {f"{category}-{name}" if described else name: scenario for name, scenario in scenarios.items()}
        for subset, scenario in subsets.items():
            qrels = output / folder.DATA / f"{subset}-qrels.parquet"
            pairs = ({"query-id": query, "corpus-id": target, "score": 1} for query, target in sorted(scenario.answers))
            columns.write(qrels, _QRELS, [pairs])
            written += [qrels, *scenario.queries, *scenario.corpus]
            configs += _configs(output, subset, scenario, qrels)
        of_subsets = {name: dict(scenario.perturbed) for name, scenario in subsets.items()}
        described.append(_described(about.exported.title, category, of_subsets, about.in_words(perturbed)))
    folder.finish(output, written, left_out)
    described_as = f"Retrieval under perturbations: {about.exported.title}."
    benchmark = {"name": _name(about.exported.title), "description": described_as, "dataset": about.exported.dataset}
    content = json.dumps(benchmark | {"tasks": described}, indent=1)
    storage.write_text_if_changed(output / _DESCRIBED, content + "\n")
    source = Path(__file__).with_name("mteb_tasks.py").read_text(encoding="utf-8")
    storage.write_text_if_changed(output / _TASKS, source)
    card.write(about, configs, _ABOUT)
    folder.write_sums(output)


def _configs(output: Path, name: str, scenario: _Scenario, qrels: Path) -> list[card.Config]:
    parts: Mapping[str, Sequence[Path]] = {"corpus": scenario.corpus, "queries": scenario.queries, "qrels": [qrels]}
    return [
        card.Config(f"{name}-{part}", tuple(path.relative_to(output).as_posix() for path in paths))
        for part, paths in parts.items()
    ]


def _name(title: str) -> str:
    return "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", title))


def _described(title: str, category: str, subsets: Mapping[str, Any], perturbed: str) -> dict[str, Any]:
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
