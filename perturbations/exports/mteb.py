"""A corpus as retrieval tasks: per scenario a `corpus`, `queries` and `qrels`, as the loaders of mteb name them.

All tables are Parquet: the Hugging Face loader reads all configurations of a repository in one way. Videos are cells of
tables, each in only one file: scenarios that share videos, such as mixes, name the same files.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from perturbations.base import shown, storage
from perturbations.base.errors import ConfigError, ManifestError, short
from perturbations.exports import card, export_folder, export_names, exported_corpus, webdataset
from perturbations.exports.export_registry import Exported, Request
from perturbations.exports.exported_corpus import ExportedClip, ExportedCorpus, PairedText
from perturbations.exports.mteb_tables import write_parts, write_qrels, write_ranked, write_texts
from perturbations.manifest import files, manifest_paths
from perturbations.manifest.companions import companion
from perturbations.manifest.rows import COMPLETE, QUESTIONS, MultimodalRow, QuestionRow, TextRow, VideoRow
from perturbations.text import tables

_log = logging.getLogger("perturbations")

_TASKS = "tasks.py"
_DESCRIBED = "tasks.json"
_SPLIT, _WITH_SOURCE = ("pool", "galleries"), "+source"
"""The other manifests of a split, and the ending of a gallery's name if the gallery holds the query's own clip."""

_SHOWN = 3
"""Clips that a warning names."""

_Caption = tuple[str, str, str]
"""The id of a caption, its text, and its item."""


_Scenario = tuple[Sequence[Path], Sequence[Path], Sequence[tuple[str, str]], Mapping[str, Any]]
"""A subset of a task: files of its queries, files of its corpus, which document answers which query; for reports, the
scenario in the columns of results.
"""

_Videos = tuple[list[Path], set[str]]
"""The written videos of a scenario: their files, and their ids."""


def write_videos(request: Request) -> Exported:
    """Write the tasks of perturbed videos: as queries for captions, and as the corpus for queries that are captions.

    Raises as `exported_corpus.read` and `export_folder.claim` do, and `ManifestError` for a dataset without captions.
    """
    if questions := companion(request.manifest, QUESTIONS):
        return _write_questions(request, questions)
    exported = exported_corpus.read(request)
    usable = {row.item_id for row in exported.sources if row.status == COMPLETE}
    texts = sorted((row.caption_id, row.text, row.item_id) for row in exported.captions if row.item_id in usable)
    captioned = {item_id for _, _, item_id in texts}
    of_all = dict(exported.scenarios())
    chosen = {
        name: [clip for clip in clips if request.clean or clip.row.item_id in captioned]
        for name, clips in of_all.items()
    }
    if not any(clip.row.item_id in captioned for clips in chosen.values() for clip in clips):
        raise ManifestError(
            f"{request.manifest}: no clip has captions; the tasks need the dataset's captions.parquet and "
            "sources.parquet, beside the manifest or above it"
        )
    every, used = ({clip.row.item_id for clips in own for clip in clips} for own in (of_all.values(), chosen.values()))
    if lacking := sorted(every - used):
        count, names = shown.plural(len(lacking), "clip"), "; ".join(shown.first_of([*map(short, lacking)], _SHOWN))
        _log.warning("%s without a caption, which tasks need, left out: %s", count, names)
    export_folder.claim(exported)
    captions = request.data / "captions.parquet"
    write_texts(captions, ((caption_id, text) for caption_id, text, _ in texts))
    tasks: dict[str, dict[str, _Scenario]] = defaultdict(dict)
    for scenario, (paths, items) in _write_videos(exported, chosen).items():
        exported.count += len(items)
        answers = [(item_id, caption_id) for caption_id, _, item_id in texts if item_id in items]
        if not answers:
            continue
        clips, of_captions = chosen[scenario], [(text, video) for video, text in answers]
        tasks["v2t"][scenario] = paths, [captions], answers, _perturbed(clips, "query")
        tasks["t2v"][scenario] = [captions], paths, of_captions, _perturbed(clips, "gallery")
    _finish(exported, tasks, "Videos are")
    return exported.result()


def write_captions(request: Request) -> Exported:
    """Write the task of accepted captions as queries, whose corpus is all complete clips.

    Raises `ManifestError` where no caption has a clip, and as `exported_corpus.read_texts` and `export_folder.claim`.
    """
    if companion(request.manifest, QUESTIONS):
        raise ManifestError(f"{request.manifest}: perturbed questions are exported as lmms_eval and vlmevalkit")
    texts = exported_corpus.read_texts(request, with_clips=True)
    export_folder.claim(texts)
    videos = _write_videos(texts, dict(texts.scenarios())).get(export_names.CLEAN, ([], set()))
    scenarios: dict[str, _Scenario] = {}
    for scenario, rows in texts.captions_by_scenario():
        members = [(row.caption_id, row.text, row.item_id) for row in rows if row.item_id in videos[1]]
        if members:
            row, perturbed = rows[0], {**_CLEAN}
            if isinstance(row, TextRow):
                perturbed |= {name: getattr(row, name) for name in ("suite", "perturbation", "severity")}
                perturbed["side"] = "query"
            scenarios[scenario] = _asking(request, scenario, members, videos, perturbed)
        texts.count += len(members)
    _finish(texts, {"t2v": scenarios}, "Queries are")
    return texts.result(shown.plural(texts.count, "caption"))


def write_pairs(request: Request) -> Exported:
    """Write the task of perturbed captions as queries, whose corpus is the perturbed videos that they are paired with.

    A scenario of the task combines a scenario of videos and a scenario of captions. Raises `ManifestError` where no
    pair has a video that can be exported, and as `exported_corpus.read` and `export_folder.claim` do.
    """
    exported = exported_corpus.read(request)
    export_folder.claim(exported)
    chosen = dict(exported.scenarios())
    scenarios: dict[str, _Scenario] = {}
    for video, written in _write_videos(exported, chosen).items():
        relevant: dict[str, list[tuple[PairedText, ExportedClip]]] = defaultdict(list)
        for clip in chosen[video]:
            for text in clip.texts if clip.row.item_id in written[1] else ():
                relevant[export_names.scenario_of_text(text)].append((text, clip))
        for name, members in sorted(relevant.items()):
            subset = f"{video}-{name}" if name != video else video
            text, perturbed = members[0][0], _perturbed(chosen[video], "both")
            if isinstance(text, MultimodalRow):
                perturbed |= {"text_perturbation": text.text_perturbation, "text_severity": text.text_severity}
            captions = [(text.caption_id, text.text, clip.row.item_id) for text, clip in members]
            scenarios[subset] = _asking(request, subset, captions, written, perturbed)
            exported.count += len(captions)
    _finish(exported, {"t2v": scenarios}, "Queries and corpus are")
    return exported.result()


def write_splits(request: Request) -> Exported:
    """Write the task of composed queries, a video and an instruction, whose corpus is the clips of the split's pool.

    Where the dataset has local galleries, or `request.gallery` names one, each query ranks the clips of its own
    gallery. A query whose clip, or all of whose targets, cannot be exported is left out. Raises `ManifestError` where
    no query is left, and as `export_folder.claim` does; `ConfigError` for an unknown gallery.
    """
    listed = files.read_rows(request.manifest, files.kind_of(request.manifest))
    pool = request.manifest.with_name(manifest_paths.name("composed_pool"))
    exported = exported_corpus.of_clean(request, {row.clip_id for row in files.read_rows(pool, files.kind_of(pool))})
    export_folder.claim(exported)
    placed = webdataset.stage(exported, list(exported.clips()))
    held = {clip.row.item_id: (clip, file) for clip, (file, _) in placed.items()}
    paths = write_parts(exported, f"{export_names.CLEAN}-videos", [(name, *own) for name, own in held.items()])
    targets = {row.query_id: [name for name in _target_names(row.targets) if name in held] for row in listed}
    answered = [row for row in listed if row.clip_id in held and targets[row.query_id]]
    texts = {row.query_id: row.instruction for row in answered}
    cells = [(row.query_id, *held[row.clip_id]) for row in answered]
    queries = write_parts(exported, f"{export_names.CLEAN}-queries", cells, texts)
    answers = [(row.query_id, name) for row in answered for name in targets[row.query_id]]
    exported.failed += [(row.query_id, "its clips cannot be exported") for row in listed if row.query_id not in texts]
    exported.count = len(answered)
    scenarios: dict[str, _Scenario] = {export_names.CLEAN: (queries, paths, answers, {})} if answered else {}
    ranked = _ranked(request, {row.query_id: row.clip_id for row in answered}, set(held))
    _finish(exported, {"vt2v": scenarios}, "None is", ranked)
    return exported.result(shown.plural(exported.count, "query"))


def _ranked(request: Request, queries: Mapping[str, str], clip_ids: Collection[str]) -> dict[str, Path] | None:
    """The file of each query's gallery of exported clips; None where all queries have the whole corpus.

    `queries` are the clips of the queries by their ids.
    """
    about = files.read_metadata(request.manifest)
    own_in_gallery = about.get("source_in_gallery") is True
    brought = [name for name in about.get("brought", []) if not name.startswith("global")]
    if not (request.gallery or brought):
        return None
    name = request.gallery or f"{brought[0]}{_WITH_SOURCE * own_in_gallery}"
    pool, galleries = (request.manifest.with_name(manifest_paths.name(f"composed_{part}")) for part in _SPLIT)
    clip_of = {row.row: row.clip_id for row in files.read_rows(pool, files.kind_of(pool))}
    rows = files.read_rows(galleries, files.kind_of(galleries))
    of_query = {row.query_id: row.rows for row in rows if row.gallery == name.removesuffix(_WITH_SOURCE)}
    if not of_query:
        known = ", ".join(sorted({row.gallery for row in rows}))
        raise ConfigError(f"--gallery: no gallery {short(name)}; choose one of {known}")
    shared = {*of_query.get(None, ())}  # for a global gallery, a query lists only the rows in which its gallery differs

    def names_of(query: str) -> list[str]:
        names = {clip_of[row] for row in shared.symmetric_difference(of_query.get(query, ()))}
        names = names | {queries[query]} if name.endswith(_WITH_SOURCE) else names - {queries[query]}
        return sorted(names.intersection(clip_ids))

    return {export_names.CLEAN: write_ranked(request, export_names.CLEAN, {name: names_of(name) for name in queries})}


def _target_names(text: str) -> list[str]:
    """The names of a query's targets. Raises `ManifestError`."""
    with suppress(ValueError, RecursionError):
        if isinstance(parsed := json.loads(text), list):
            return [str(name) for name in parsed]
    raise ManifestError(f"a query's targets are a list of names, not {short(text)}")


def _write_questions(request: Request, questions: Sequence[QuestionRow]) -> Exported:
    """Write the task of questions: a clip and a question as the query, its options as the documents that are ranked."""
    exported = exported_corpus.read(request)
    export_folder.claim(exported)
    of_item: dict[str, list[QuestionRow]] = defaultdict(list)
    for row in questions:
        of_item[row.item_id].append(row)
    options = request.data / "options.parquet"
    ids = {row.question_id: [f"{row.question_id}_c{place}" for place in range(len(row.options))] for row in questions}
    texts = {row.question_id: row.question for row in questions}
    write_texts(options, (own for row in questions for own in zip(ids[row.question_id], row.options, strict=True)))
    scenarios: dict[str, _Scenario] = {}
    ranked: dict[str, Path] = {}
    for scenario, clips in exported.scenarios():
        asked = [clip for clip in clips if clip.row.item_id in of_item]
        placed = webdataset.stage(exported, asked)
        held = {row.question_id: (row, clip) for clip in placed for row in of_item[clip.row.item_id]}
        if not held:
            continue
        cells = [(name, clip, placed[clip][0]) for name, (_, clip) in held.items()]
        paths = write_parts(exported, f"{scenario}-queries", cells, texts)
        answers = [(name, ids[name][row.answer]) for name, (row, _) in held.items()]
        scenarios[scenario] = paths, [options], answers, _perturbed(asked, "query")
        ranked[scenario] = write_ranked(request, scenario, {name: ids[name] for name in held})
        exported.count += len(held)
    if not scenarios:
        raise ManifestError(f"{request.manifest}: no clip of a question can be exported")
    _finish(exported, {"vt2t": scenarios}, "Videos are", ranked)
    return exported.result(shown.plural(exported.count, "question"))


# --- tables -----------------------------------------------------------------------------------------------------------


_CLEAN = {"suite": export_names.CLEAN, "perturbation": export_names.CLEAN, "severity": 0, "side": "none"}
"""The columns of results for clean clips and captions."""


def _perturbed(clips: Sequence[ExportedClip], side: str) -> dict[str, Any]:
    """The columns of results that say how the clips of a scenario are perturbed, and on which side."""
    rows = [clip.row for clip in clips if isinstance(clip.row, VideoRow)]
    if not rows:
        return {**_CLEAN}
    mix, kinds = clips[0].mix, {row.perturbation for row in rows}
    return {
        "suite": rows[0].suite,
        "perturbation": "all" if mix == "mixed_types" or len(kinds) > 1 else rows[0].perturbation,
        "severity": None if mix else rows[0].severity,
        **({"mix": mix, "share": clips[0].share} if mix else {}),
        "side": side,
    }


def _asking(
    request: Request, scenario: str, captions: Iterable[_Caption], videos: _Videos, perturbed: Mapping[str, Any]
) -> _Scenario:
    """Captions as queries for videos."""
    captions = sorted(captions)
    path = request.data / f"{scenario}-queries.parquet"
    write_texts(path, ((caption_id, text) for caption_id, text, _ in captions))
    return [path], videos[0], [(caption_id, item_id) for caption_id, _, item_id in captions], perturbed


def _write_videos(exported: ExportedCorpus, clips: Mapping[str, Sequence[ExportedClip]]) -> dict[str, _Videos]:
    """Write each video of some scenarios once: videos of the same set of scenarios lie in the same files."""
    shown: dict[tuple[str, ...], tuple[ExportedClip, list[str]]] = {}
    for name, members in clips.items():
        for clip in members:
            shown.setdefault(clip.identity, (clip, []))[1].append(name)
    groups: dict[tuple[str, ...], list[ExportedClip]] = defaultdict(list)
    for clip, names in shown.values():
        groups[tuple(names)].append(clip)
    written: dict[str, _Videos] = defaultdict(lambda: ([], set()))
    for number, scenarios in enumerate(sorted(groups)):
        name = scenarios[0] if len(scenarios) == 1 else f"shared_{number:04d}"
        placed = webdataset.stage(exported, groups[scenarios])
        cells = [(clip.row.item_id, clip, file) for clip, (file, _) in placed.items()]
        paths = write_parts(exported, f"{name}-videos", cells)
        for scenario in scenarios if cells else ():
            written[scenario][0].extend(paths)
            written[scenario][1].update(item_id for item_id, _, _ in cells)
    return {name: written[name] for name in clips if name in written}


# --- tasks ------------------------------------------------------------------------------------------------------------


def _finish(
    exported: ExportedCorpus,
    tasks: Mapping[str, Mapping[str, _Scenario]],
    perturbed: str,
    ranked: Mapping[str, Path] | None = None,
) -> None:
    """Write the qrels and the description of every task, and the card.

    `tasks` are the scenarios by their names, by the task's category: mteb's code of the queries and the corpus;
    `ranked` has the documents per query, of tasks in which these are a few. Raises `ManifestError` where no caption or
    query has a clip.
    """
    output, title = exported.request.output, exported.title
    language = tables.language_codes()[card.language(exported) or "en"]
    if exported.records != "clips" and not any(tasks.values()):
        what = "query has clips" if exported.records == "queries" else "caption has a clip"
        raise ManifestError(f"{exported.request.manifest}: no {what} that can be exported")
    configs: list[dict[str, Any]] = []
    described: list[dict[str, Any]] = []
    name = "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", title))
    for of_videos, scenarios in tasks.items():
        category = of_videos.replace("v", "i") if exported.has_pictures else of_videos
        what, prompt = _CATEGORIES[category]
        # All tasks of a folder share its configurations: those of the first task have the scenarios' plain names.
        subsets = {f"{category}-{name}" if described else name: scenario for name, scenario in scenarios.items()}
        for subset, (of_queries, of_corpus, answers, _) in subsets.items():
            qrels = write_qrels(exported.request, subset, answers)
            of_parts = {"corpus": of_corpus, "queries": of_queries, "qrels": [qrels]}
            of_parts |= {"top_ranked": [ranked[subset]]} if ranked else {}
            for part, paths in of_parts.items():
                patterns = [path.relative_to(output).as_posix() for path in paths]
                configs.append(card.config(f"{subset}-{part}", patterns))
        described.append(
            {
                "name": f"{name}{category.upper()}",
                "description": f"{what} under perturbations: {title}. {exported.in_words(perturbed)} perturbed.",
                "category": category,
                "prompt": prompt,
                "language": language,
                "subsets": {subset: dict(scenario[-1]) for subset, scenario in subsets.items()},
            }
        )
    benchmark = {
        "name": name,
        "description": f"Retrieval under perturbations: {title}.",
        "dataset": exported.dataset,
        "tasks": described,
    }
    storage.write_text(output / _DESCRIBED, json.dumps(benchmark, indent=1) + "\n")
    source = Path(__file__).with_name("mteb_tasks.py").read_text(encoding="utf-8")
    storage.write_text(output / _TASKS, source)
    card.finish(exported, configs, _ABOUT)
    export_folder.write_sums(output)


_CATEGORIES = {
    "v2t": ("Video-text retrieval", "Find the caption that describes the following video."),
    "t2v": ("Text-video retrieval", "Find the video clip that matches the given caption."),
    "i2t": ("Image-text retrieval", "Find an image caption describing the following image."),
    "t2i": ("Text-image retrieval", "Find an image that matches the given caption."),
    "it2i": (
        "Composed image retrieval",
        "Given the reference image and editing text, retrieve the image that matches the composed query.",
    ),
    "vt2t": ("Questions about videos", "Answer the question about the video by one of the options."),
    "vt2v": (
        "Composed video retrieval",
        "Given the reference video and editing text, retrieve the video that matches the composed query.",
    ),
}
"""For each category of tasks: a description, and the prompt of mteb's own tasks: MSRVTTV2T, MSRVTTT2V, CoVR."""

_ABOUT = (
    "Retrieval tasks for `mteb`: run `import mteb; from tasks import benchmark; "
    "mteb.evaluate(model, benchmark()).to_dataframe(aggregation_level='subset')` in this folder. Per scenario there is "
    "a subset of each task, with the configurations `SCENARIO-queries`, `SCENARIO-corpus` and `SCENARIO-qrels`.",
    "`r_at_k` is R@k as `perturbations.retrieval` computes it: a tie counts against the model. mteb's own "
    "`hit_rate_at_k` is the same without ties; with them it puts the document first whose id is the greater text.",
)
