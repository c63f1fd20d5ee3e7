"""What an evaluation consists of, the runner of its scenarios, and both through the workflow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import clips
import numpy as np
import pytest
from looping import each
from test_workflow import IDS, Project, copy_of, new_project

from perturbations import read_manifest
from perturbations.base import sums
from perturbations.base.errors import ConfigError, ManifestError
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.engine import clip_rows as manifest_rows
from perturbations.evaluation import keys
from perturbations.evaluation import paths as evaluation_paths
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation.pictures import Picture
from perturbations.evaluation.rows import RANKS, RESULTS, RankRow, ResultRow
from perturbations.manifest import files, layout
from perturbations.manifest.kinds import SOURCES, CaptionRow, CompleteSource, SourceRow, TextRow
from perturbations.plan import caption_recipes as caption_recipes
from perturbations.plan import mixes, recipe, tiers
from perturbations.suites import registry

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_models

from perturbations.evaluation import backbone, features, galleries, queries, results, runner, scenarios
from perturbations.evaluation.jobs import _clean
from perturbations.evaluation.stored_features import StoredFeatures
from perturbations.tta.gallery import Gallery
from perturbations.tta.methods.registry import methods, title_of

SUITES: dict[str, Any] = {"mlvp": {}, "mm_robustness": {}}


def parsed(suites: dict[str, Any] = SUITES, /, **evaluated: Any) -> config.Config:
    return config_file.parse({"datasets": {"demo": {"adapter": "demo"}}, "suites": suites, "evaluation": evaluated})


# --- what there is to run --------------------------------------------------------------------------------------------


def test_clean_queries_come_first_and_each_suite_at_severity_5() -> None:
    planned = evaluation.scenarios(parsed(), "demo")
    assert planned[0] == evaluation.Scenario("v2t", "none", "clean", "clean", "clean", 0)
    of_videos = {row.perturbation: row.severity for row in planned if (row.direction, row.suite) == ("v2t", "mlvp")}
    assert of_videos == {entry.name: 5 for entry in registry.perturbations("mlvp", "video")}
    of_captions = {row.perturbation: row.severity for row in planned if row.direction == "t2v" and row.suite != "clean"}
    # What cannot be made on this machine is skipped.
    possible = {name for name, _ in caption_recipes.scenarios(parsed(), "demo", "mm_robustness")}
    assert {"keyboard", "word_swap"} <= possible
    entries = registry.perturbations("mm_robustness", "text")
    assert of_captions == {entry.name: min(5, len(entry.severities)) for entry in entries if entry.name in possible}


def test_severities_are_by_category_and_fall_to_the_highest_that_is_made() -> None:
    suites = {"mlvp": {"severities": [2, 4]}}
    planned = evaluation.scenarios(parsed(suites, severities=[1, 3, 5]), "demo")
    assert {scenario.severity for scenario in planned if scenario.suite == "mlvp"} == {2, 4}
    with pytest.raises(ConfigError, match="nothing of mlvp is made there or below: its lowest severity is 2"):
        evaluation.scenarios(parsed(suites, severities=[1]), "demo")
    planned = evaluation.scenarios(parsed(severities={"character": 7, "word": [2], "high": [1, 4]}), "demo")
    by_level: dict[str, set[int | None]] = {}
    for scenario in planned:
        by_level.setdefault(scenario.level, set()).add(scenario.severity)
    assert (by_level["character"], by_level["word"], by_level["high"]) == ({7}, {2}, {1, 4})
    assert (by_level["sentence"], by_level["low"], by_level["clean"]) == ({1}, {5}, {0})


def test_sides_perturb_the_modality_of_their_part() -> None:
    suites = {"msrvtt_p": {"captions": {"perturbations": TEXTS}}}
    planned = evaluation.scenarios(parsed(suites, sides=["query", "gallery", "both"]), "demo")
    videos = {entry.name for entry in registry.perturbations("msrvtt_p", "video")}
    combined = registry.suite("msrvtt_p").combined
    assert combined is not None
    pairs = {(video, text, 3, 1) for video in combined.video for text in TEXTS}
    for direction, of_queries, of_gallery in (("v2t", videos, set(TEXTS)), ("t2v", set(TEXTS), videos)):
        first, *own = (scenario for scenario in planned if scenario.direction == direction)
        assert first.side == "none"
        assert {scenario.perturbation for scenario in own if scenario.side == "query"} == of_queries
        assert {scenario.perturbation for scenario in own if scenario.side == "gallery"} == of_gallery
        assert pairs == {
            (scenario.perturbation, scenario.text_perturbation, scenario.severity, scenario.text_severity)
            for scenario in own
            if scenario.side == "both"
        }


TEXTS = ["shuffle_order", "spelling_error"]


def test_each_model_is_planned_by_its_own_options() -> None:
    entries = [{"name": "Small", "num_frames": 4}, {"name": "fast", "setting": "qgs_cross", "precision": "bfloat16"}]
    models = evaluation.models(parsed(models=entries, num_frames=6))
    assert [key.rpartition("-")[0] for key in models] == ["small-qs", "fast-qgs_cross"]
    small, fast = (own.evaluation for own in models.values())
    assert (small.num_frames, small.precision, small.setting) == (4, "float32", "qs")
    assert (fast.num_frames, fast.precision, fast.setting) == (6, "bfloat16", "qgs_cross")
    alone = evaluation.models(parsed(models=entries[:1], num_frames=6))
    assert list(alone) == list(models)[:1]  # another model in the list changes nothing of this one
    (single,) = evaluation.models(parsed())
    assert single == evaluation.model_key(parsed())


def test_jobs_hold_every_scenario_once_and_the_parameters_of_their_methods() -> None:
    job: evaluation.JobKey = ("v2t", "query", "mlvp", "low")
    published = evaluation.settings(parsed(), "demo", job, "adapted")
    wanted = parsed(parameters={"hatvtr": {"alpha": 50, "m": 0.5}})
    (own,) = evaluation.groups(wanted).keys() - {"none", "adapted"}
    changed = evaluation.settings(wanted, "demo", job, own)
    hatvtr = {"name": "hatvtr", "label": "HAT-VTR", "parameters": {"alpha": 50.0}}  # m is as published
    assert changed == {**published, "methods": [hatvtr]}
    wanted = parsed(mixes=["mixed_severity", "mixed_types"], severities=[1, 5])
    jobs = evaluation.jobs(wanted, "demo")
    flat = [scenario for job in jobs.values() for scenario in job]
    assert sorted(map(str, flat)) == sorted(map(str, evaluation.scenarios(wanted, "demo")))
    for (*part, level), members in jobs.items():
        assert all([scenario.direction, scenario.side, scenario.suite] == part for scenario in members)
        assert level.replace("_", "").isalnum()


@pytest.mark.parametrize(("key", "values"), [("device", ("cpu", "cuda")), ("reader", ("pyav", "decord"))])
def test_what_a_result_is_made_with_changes_no_settings(key: str, values: tuple[str, str]) -> None:
    job: evaluation.JobKey = ("v2t", "query", "mlvp", "low")
    first, second = (evaluation.settings(parsed(**{key: value}), "demo", job, "adapted") for value in values)
    assert first == second


@each(
    ("wrong", "message"),
    [
        ({"suites": ["msrvtt_p"]}, "evaluation.suites: 'msrvtt_p' is not among `suites`"),
        ({"methods": ["qbnorm"]}, "evaluation.querybank: the method `qbnorm` needs a bank"),
        ({"bank": "train"}, "evaluation.querybank: 'train' is not among `datasets`"),
        ({"gallerybank": "train"}, "evaluation.gallerybank: 'train' is not among `datasets`"),
        ({"model": "xpool"}, "evaluation.checkpoint: `xpool` needs the weights"),
        ({"revision": "abc"}, "evaluation.pretrained"),
        ({"pretrained": "clip", "checkpoint": "nowhere.pth"}, "no such file: nowhere.pth"),
        ({"methods": ["tcr", "tcr"]}, "evaluation.methods: lists a value twice: 'tcr' with the same parameters"),
        ({"methods": ["tcr", {"name": "tcr", "parameters": {"share": 0.3}, "label": "a"}]}, "lists a value twice"),
        ({"methods": ["tcr", {"name": "tcr", "parameters": {"share": 1}}]}, "two settings are called 'TCR': give each"),
        ({"methods": [{"name": "tcr", "parameters": {"sahre": 1}}]}, "evaluation.methods.0.parameters.sahre: .*share"),
        ({"methods": [{"name": "trc"}]}, "evaluation.methods.0.name: method 'trc' is unknown; .*; did you mean tcr"),
        ({"models": [{"name": "a", "methods": ["sar", "sar"]}]}, "evaluation.models.0.methods: lists a value twice"),
        ({"methods": ["magic"]}, "evaluation.methods.0: method 'magic' is unknown; allowed: none, tent, .*qbnorm"),
        ({"methods": ["tcr", "hatvr"]}, "evaluation.methods.1: method 'hatvr' is unknown; .*; did you mean hatvtr"),
        ({"severities": []}, "evaluation.severities"),
        ({"seeds": [1, 1]}, "evaluation.seeds"),
        ({"sides": ["both"]}, "evaluation.sides: `both` needs a suite that declares combinations: msrvtt_p"),
        ({"sides": ["gallery"], "continual": True}, r"evaluation.continual: .* only be \[query\]"),
        ({"severities": {"chars": 5}}, "evaluation.severities: unknown category 'chars'; known: .*character"),
        ({"severities": {"word": 9}}, "evaluation.severities.word.0: .* less than or equal to 7, not 9"),
        ({"models": [{"name": "a b"}]}, "evaluation.models.0.name"),
        ({"models": [{"name": "a"}, {"name": "A"}]}, "evaluation.models: two of them have one name"),
        ({"models": [{"name": "a"}], "pretrained": "clip"}, "evaluation.models: `pretrained`, .* single model"),
        ({"models": [{"name": "a", "pooling": "xpool"}]}, "evaluation.models.0.checkpoint: `xpool` needs"),
        ({"parameters": {"hatvtr": {"alhpa": 1}}}, "evaluation.parameters.hatvtr.alhpa"),
        ({"parameters": {"none": {"lr": 1}}}, "evaluation.parameters.none.lr"),
        ({"protocol": "hat_vtr_table_one"}, "evaluation.protocol: .* is unknown; did you mean hat_vtr_table_"),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parsed(**wrong)


# --- who asks whom ---------------------------------------------------------------------------------------------------


def source(item_id: str) -> CompleteSource:
    return clips.made_up_source(item_id, split="", width=32, height=24, frame_count=6, duration_s=0.24)


def bad_source(item_id: str) -> SourceRow:
    return manifest_rows.quarantined_source("data", clips.listed(Path("bad.mp4"), item_id), "no frames")


def caption(caption_id: str, item_id: str) -> CaptionRow:
    return CaptionRow(dataset="data", caption_id=caption_id, item_id=item_id, text=f"text {caption_id}")


def perturbed_caption(caption_id: str, item_id: str, *, accepted: bool = True) -> TextRow:
    wanted = caption_recipes.make(registry.get("mm_robustness/word_swap"), 3)
    columns = {"caption_id": caption_id, "item_id": item_id, "text": f"text {caption_id}", "recipe_id": caption_id}
    return clips.text_row(wanted, **columns, accepted=accepted)


def ids(rows: Sequence[scenarios.ScenarioRow]) -> list[str]:
    return [scenarios.id_of(row) for row in rows]


def test_videos_ask_for_any_of_their_captions() -> None:
    sources = [source("b"), source("a"), bad_source("bad"), source("mute")]
    captions = [caption("b-1", "b"), caption("a-1", "a"), caption("b-0", "b"), caption("bad-0", "bad")]
    asked = scenarios.retrieval("v2t", sources, captions, scenarios.Clean(sources, captions))
    assert asked.query_ids == ("a", "b")
    assert ids(asked.gallery) == ["a-1", "b-0", "b-1"]
    assert asked.relevant == ((0,), (1, 2))
    assert asked.missing == 2


def test_captions_that_the_gate_refused_neither_ask_nor_answer() -> None:
    """And a query whose items all left the gallery is missing; captions that were never usable are missing too."""
    sources = [source("b"), source("a"), bad_source("bad")]
    captions = [
        perturbed_caption("1", "b"),
        perturbed_caption("0", "a", accepted=False),
        perturbed_caption("2", "bad"),
        caption("3", "a"),
    ]
    listed = [caption(row.caption_id, row.item_id) for row in captions]
    clean = scenarios.Clean(sources, listed, rejected=4)
    asked = scenarios.retrieval("t2v", sources, captions, clean)
    assert asked.query_ids == ("1", "3")
    assert ids(asked.gallery) == ["a", "b"]
    assert asked.relevant == ((1,), (0,))
    assert asked.missing == 2 + 4
    answering = scenarios.retrieval("v2t", sources, captions[:3], clean, "gallery")
    assert (answering.query_ids, ids(answering.gallery), answering.missing) == (("b",), ["1"], 2)
    assert not answering.is_perturbed("query")


def test_quarantined_clips_are_no_gallery_and_no_query_is_an_error() -> None:
    sources = [source("a"), source("b")]
    captions = [caption("1", "a"), caption("2", "b")]
    wanted = recipe.make(registry.get("mlvp/gaussian_noise"), 3, seed=0, storage=tiers.Unstored())
    rows = [clips.video_row(wanted, item_id=row.item_id) for row in sources]
    perturbed = [replace(rows[0], status="quarantined", stage="video", error="no"), rows[1]]
    asked = scenarios.retrieval("t2v", perturbed, captions, scenarios.Clean(sources, captions), "gallery")
    assert (asked.query_ids, ids(asked.gallery), asked.relevant, asked.missing) == (("2",), ["b"], ((0,),), 1)
    sources = [source("a")]
    with pytest.raises(ManifestError, match="no query is left"):
        scenarios.retrieval("v2t", [bad_source("a")], [caption("1", "a")], scenarios.Clean(sources, []))


# --- a job -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_clip(tmp_path_factory.mktemp("model") / "clip")


def five_clips(folder: Path) -> list[CompleteSource]:
    scenes = np.random.default_rng(0).integers(0, 256, (5, 3, 24, 32, 3), np.uint8)
    return [
        clips.source_row(clips.write_scene(folder / f"{name}.mp4", scene), name)
        for name, scene in zip("abcde", scenes, strict=True)
    ]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[CompleteSource]:
    return five_clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The items whose clips are read from now on, in order."""
    names: list[str] = []
    sampled = queries.Clip.sampled
    monkeypatch.setattr(queries.Clip, "sampled", lambda clip, *how: names.append(clip.item_id) or sampled(clip, *how))
    return names


CAPTIONS = [caption(name, name) for name in "abcde"]
CLEAN = {"side": "none", "suite": "clean", "level": "clean", "perturbation": "clean", "severity": 0}
CLEAN |= dict.fromkeys(("text_perturbation", "text_severity", "mix", "share"))


def job(direction: str, methods: Sequence[str], seeds: Sequence[int] = (42,), **scenario: Any) -> dict[str, Any]:
    return {
        "model": "clip4clip",
        "pretrained": "clip",
        "revision": None,
        "num_frames": 3,
        "model_key": "clip4clip-clip-qs-0",
        "setting": "qs",
        "seeds": list(seeds),
        "batch_size": 2,
        "steps": 1,
        "precision": "float32",
        "scenarios": [{"dataset": "data", "direction": direction, **CLEAN, **scenario}],
        "adapter": "folder",
        "methods": [{"name": name, "label": title_of(name), "parameters": {}} for name in methods],
    }


def run(
    settings: Mapping[str, Any],
    model: Path,
    rows: Sequence[CompleteSource],
    folder: Path,
    name: str = "journal",
    perturbed: scenarios.Perturbed | None = None,
    captions: Sequence[CaptionRow] = CAPTIONS,
) -> tuple[list[ResultRow], list[RankRow], list[Picture]]:
    loaded = backbone.load(settings, str(model), None, "cpu")
    clean = scenarios.Clean(rows, captions)
    encoded: dict[evaluation.Modality, Any] = {}
    for modality in evaluation.MODALITIES:
        path = folder / f"{modality}.safetensors"
        galleries.write(path, loaded, clean, modality, settings["num_frames"])
        encoded[modality] = galleries.read(path, loaded, modality)
    given = runner.EvaluationJob(settings, loaded, clean, encoded, None)
    return runner.evaluate(given, perturbed or (lambda scenario, modality: ([], "")), folder / f"{name}.jsonl")


METHODS = tuple(name for name, entry in methods().items() if not entry.needs_bank)


@pytest.mark.parametrize("direction", ["v2t", "t2v"])
def test_every_method_gives_a_row_and_a_rank_a_query(
    direction: str, model: Path, rows: list[CompleteSource], tmp_path: Path
) -> None:
    results, ranks, pictures = run(job(direction, METHODS, [1, 2]), model, rows, tmp_path)
    assert [(row.method, row.seed) for row in results] == [(name, seed) for name in METHODS for seed in (1, 2)]
    path = tmp_path / "results.parquet"
    files.write(path, RESULTS, results)
    files.write(tmp_path / "ranks.parquet", RANKS, ranks)
    read, places = read_manifest(path), read_manifest(tmp_path / "ranks.parquet")
    assert (read["recall_at_1"] <= read["recall_at_5"]).all()
    assert (read["queries"] == 5).all()
    assert set(read["architecture"]) == {"clip ViT-32/8"}
    for _, row in read.iterrows():
        mine = places[(places["method"] == row["method"]) & (places["seed"] == row["seed"])]["rank"]
        assert row["recall_at_1"] == pytest.approx(100 * (mine <= 1).mean())
        assert row["mean_rank"] == pytest.approx(mine.mean())
        assert row["encode_ms_p50"] > 0
    assert len(pictures) == len(results)
    assert np.sum(pictures[0].occurrence) == pytest.approx(5 * 5)  # as many of the gallery as there are


def test_a_seed_draws_the_order_of_queries_and_ranks_keep_their_ids(
    model: Path, rows: list[CompleteSource], tmp_path: Path
) -> None:
    results, ranks, _ = run(job("v2t", ["none", "hatvtr"], [42, 7]), model, rows, tmp_path)
    assert [(row.seed, row.order) for row in results] == [(42, "listed"), (7, "seed 7")] * 2
    of_runs = {
        (row.method, row.seed): [(rank.query_id, rank.rank) for rank in ranks if keys.key_of(rank) == keys.key_of(row)]
        for row in results
    }
    assert of_runs["none", 42] == of_runs["none", 7]
    drawn = keys.places_of("abcde", 7)
    assert sorted(drawn) == [0, 1, 2, 3, 4] != drawn
    in_order = [rows[place] for place in drawn]
    renamed = [replace(row, item_id=name) for row, name in zip(in_order, "abcde", strict=True)]
    captions = [replace(CAPTIONS[place], item_id=name) for place, name in zip(drawn, "abcde", strict=True)]
    listed = run(job("v2t", ["hatvtr"]), model, renamed, tmp_path, "renamed", captions=captions)[1]
    assert [rank.rank for rank in listed] == [dict(of_runs["hatvtr", 7])["abcde"[place]] for place in drawn]


def test_an_interrupted_job_goes_on_where_it_was(
    model: Path, rows: list[CompleteSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = job("v2t", ["none", "tcr", "hatvtr"])
    whole = run(settings, model, rows, tmp_path, "whole")
    asked: list[str] = []
    adapted = runner._similarities

    def counted(*arguments: Any) -> Any:
        asked.append(arguments[3])
        if len(asked) == 3:
            raise KeyboardInterrupt
        return adapted(*arguments)

    monkeypatch.setattr(runner, "_similarities", counted)
    with pytest.raises(KeyboardInterrupt):
        run(settings, model, rows, tmp_path)
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"key": "cut sh')
    again = run(settings, model, rows, tmp_path)
    assert again[1] == whole[1]
    assert run(settings, model, rows, tmp_path) == again
    assert asked == ["none", "TCR", "HAT-VTR", "HAT-VTR"]
    run({**settings, "steps": 2}, model, rows, tmp_path)
    assert asked[4:] == ["none", "TCR", "HAT-VTR"], "what changes a result is asked anew"


def test_clips_are_read_once_for_all_methods_and_give_the_ranks_of_each_method_alone(
    model: Path, rows: list[CompleteSource], tmp_path: Path, reads: list[str]
) -> None:
    methods = ["none", "tcr", "dsl"]
    results, ranks, _ = run(job("v2t", methods), model, rows, tmp_path, "together")
    assert sorted(reads) == sorted(2 * [row.item_id for row in rows])  # once as queries, once as the gallery of t2v
    alone = [run(job("v2t", [name]), model, rows, tmp_path, name) for name in methods]
    assert ranks == [rank for single in alone for rank in single[1]]
    assert [row.recipe_id for row in results] == [row.recipe_id for single in alone for row in single[0]]


SWAPPED = {"side": "gallery", "suite": "mm_robustness", "level": "word", "perturbation": "word_swap", "severity": 3}


def test_a_perturbed_gallery_is_encoded_once_and_its_clean_queries_not_again(
    model: Path, rows: list[CompleteSource], tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Perturbed captions that say what the clean ones do give the clean ranks, also to a method that adapts."""
    same = [perturbed_caption(name, name) for name in "abcde"]
    names = ["none", "dsl", "tcr"]
    _, clean_ranks, _ = run(job("v2t", names, [1, 2]), model, rows, tmp_path, "clean")
    encode, encoded = galleries.encoded, []

    def counted(given: Any, items: Sequence[Any], *arguments: Any) -> Any:
        encoded.append([type(item).__name__ for item in items])
        return encode(given, items, *arguments)

    monkeypatch.setattr(galleries, "encoded", counted)
    reads.clear()
    given = job("v2t", names, [1, 2], **SWAPPED)
    results, ranks, _ = run(given, model, rows, tmp_path, "gallery", lambda scenario, modality: (same, modality))
    assert encoded == [["CompleteSource"] * 5, ["CaptionRow"] * 5, ["TextRow"] * 5]
    assert sorted(reads) == sorted(2 * [row.item_id for row in rows])  # for the clean side, and for the pixels of TCR
    assert [row.rank for row in ranks] == [row.rank for row in clean_ranks]
    assert {(row.side, row.manifest_sha256) for row in results} == {("gallery", "captions")}
    assert [row.encode_ms_p50 is None for row in results] == [True] * 4 + [False] * 2
    assert {row.updates + row.empty for row in results if row.method == "tcr"} == {3}


@pytest.mark.parametrize("direction", ["v2t", "t2v"])
def test_both_sides_of_a_combination_are_perturbed(
    direction: str, model: Path, rows: list[CompleteSource], tmp_path: Path
) -> None:
    wanted = recipe.make(registry.get("msrvtt_p/jumble"), 3, seed=0, storage=tiers.Unstored())
    videos = [
        replace(
            mixes._clean_row(0.2, clips.video_row(wanted, item_id=row.item_id), row), perturbation="jumble", severity=3
        )
        for row in rows
    ]
    texts = [perturbed_caption(name, name, accepted=name != "c") for name in "abcde"]
    scenario = {"side": "both", "suite": "msrvtt_p", "level": "temporal", "perturbation": "jumble", "severity": 3}
    given = job(direction, ["none"], **scenario, text_perturbation="word_swap", text_severity=3)
    held = {"clips": videos, "captions": texts}
    results, ranks, _ = run(
        given, model, rows, tmp_path, perturbed=lambda scenario, modality: (held[modality], modality)
    )
    (row,) = results
    assert (row.queries, row.missing_queries, row.manifest_sha256) == (4, 1, "clips captions")
    assert row.gallery == (4 if direction == "v2t" else 5)
    assert (row.text_perturbation, row.text_severity) == ("word_swap", 3)
    assert {rank.query_id for rank in ranks} == set("abde")


# --- through the workflow --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Project:
    """A project of which both directions were evaluated."""
    project = new_project(
        tmp_path_factory.mktemp("evaluated"),
        suites={
            "mlvp": {"perturbations": ["fog"], "severities": [1, 3]},
            "mm_robustness": {
                "perturbations": ["pixelate"],
                "severities": [5],
                "captions": {"perturbations": ["keyboard"], "severities": [5]},
            },
        },
        evaluation={
            "pretrained": str(model),
            "methods": ["tcr", "qbnorm"],
            "bank": "tiny",
            "severities": [1, 5],
            "mixes": ["mixed_types"],
            "num_frames": 3,
            "steps": 1,
        },
        shard_size=4,
    )
    project.snakemake("tta_tiny")
    return project


def folder_of(project: Project, folder: str) -> Path:
    """The only model's folder inside a folder of a project."""
    (model,) = (path for path in (project.root / folder).iterdir() if path.is_dir())
    return model


def changed(project: Project, **evaluated: Any) -> Project:
    """The project with other settings of its evaluation."""
    return Project(project.root, {**project.config, "evaluation": {**project.config["evaluation"], **evaluated}})


def test_every_scenario_and_method_has_its_row(evaluated: Project) -> None:
    results = read_manifest(folder_of(evaluated, "manifests/tiny/adaptation") / "results.parquet")
    wanted = evaluation.scenarios(config_file.parse(evaluated.config), "tiny")
    assert len(results) == 3 * len(wanted)
    assert set(results["method"]) == {"none", "tcr", "qbnorm"}
    asked = {(row.direction, row.suite, row.perturbation) for row in results.itertuples()}
    assert ("v2t", "mlvp", "all") in asked
    assert ("t2v", "mm_robustness", "keyboard") in asked
    assert set(results[results["perturbation"] == "fog"]["severity"].dropna()) == {1, 3}
    assert (results["queries"] == len(IDS)).all()
    ranks = read_manifest(folder_of(evaluated, "manifests/tiny/adaptation") / "ranks.parquet")
    assert len(ranks) == len(IDS) * len(results)


def test_clips_that_only_evaluations_read_are_no_strangers(evaluated: Project, tmp_path: Path) -> None:
    """Who deletes them as verify said has no next evaluation."""
    project = copy_of(evaluated, tmp_path / "project")
    for path in (project.root / "manifests/tiny/mm_robustness").iterdir():  # as where no mixes need them
        path.unlink()
        sums.remove(path)
    verified = project.perturb("verify", "--fast")
    assert (verified.returncode, "no row names" in verified.stdout) == (0, False), verified.stdout
    folder = project.root / "corpora/tiny/mm_robustness/pixelate/5"
    (folder / "stranger.mp4").write_bytes(next(folder.glob("*.mp4")).read_bytes())
    verified = project.perturb("verify", "--fast")
    assert verified.returncode == 1
    assert "stranger.mp4: no row names this file" in verified.stdout
    assert "1 files that no row names" in verified.stdout


def test_results_without_adapting_and_the_report_run_nothing_again(evaluated: Project) -> None:
    """The jobs of all methods hold the runs without adaptation in their journals."""
    evaluated.snakemake("evaluate_tiny")
    logs = [path.read_text() for path in evaluated.root.glob("work/logs/tiny/evaluation/**/none.log")]
    assert logs
    assert not any("batches of" in log or "clips read" in log for log in logs)
    results = read_manifest(folder_of(evaluated, "manifests/tiny/evaluation") / "results.parquet")
    assert set(results["method"]) == {"none"}
    jobs = evaluated.snakemake("report").stderr
    assert "evaluate" not in jobs, jobs
    page = (evaluated.root / "manifests/report.html").read_text()
    for shown in ("mm_robustness at severity 5: R@1", "mlvp, mixed types per batch: R@1", "20% perturbed"):
        assert shown in page


def test_with_another_reader_nothing_is_run_again(evaluated: Project) -> None:
    output = changed(evaluated, reader="decord").snakemake("tta_tiny", "--dry-run")
    assert not {"evaluate", "gallery"} & {line.partition(" ")[0] for line in output.stdout.splitlines()}


RULES = ("evaluate", "results", "gallery", "check_model", "videos", "captions")


def test_another_setting_of_a_method_runs_alone(evaluated: Project) -> None:
    own = {"name": "tcr", "label": "share <0.5>", "parameters": {"share": 0.5}}
    project = changed(evaluated, methods=["tcr", "qbnorm", own])
    lines = project.snakemake("tta_tiny", "--dry-run").stdout.splitlines()
    planned = {name: int(count) for name, count in (line.split() for line in lines if line.startswith(RULES))}
    of_setting = len(evaluation.jobs(config_file.parse(project.config), "tiny"))
    assert planned == {"evaluate": of_setting, "results": 1}
    project.snakemake("tta_tiny")
    results = read_manifest(folder_of(evaluated, "manifests/tiny/adaptation") / "results.parquet")
    counts = results[results["method"] == "tcr"].groupby("label")["parameters"].agg(["count", "first"])
    assert counts["count"].loc["TCR"] == counts["count"].loc["share <0.5>"] == len(results) / 4
    assert [json.loads(values)["share"] for values in counts["first"].loc[["TCR", "share <0.5>"]]] == [0.3, 0.5]


def test_after_a_changed_caption_its_runs_are_made_again(evaluated: Project, tmp_path: Path) -> None:
    """One job makes all captions of a suite, so all of its jobs on captions run; their journals keep the other runs."""
    project = copy_of(evaluated, tmp_path / "project")
    project.config["suites"]["mm_robustness"]["captions"]["perturbations"] += ["ocr"]
    project.snakemake("tta_tiny")
    project.config["suites"]["mm_robustness"]["captions"]["parameters"] = {"ocr": {5: {"ratio": 0.9}}}
    parts = evaluation_paths.result_parts(config_file.parse(project.config), "tiny", "adaptation")
    asked = [part for part in parts if "/mm_robustness/character/" in part]
    journals = [project.root / layout.journal_of(Path(part)) for part in asked]
    before = [len(path.read_text().splitlines()) for path in journals]
    times = {part: (project.root / part).stat().st_mtime_ns for part in parts}
    project.snakemake("tta_tiny")
    assert [part for part in parts if (project.root / part).stat().st_mtime_ns != times[part]] == asked
    added = [len(path.read_text().splitlines()) - lines for path, lines in zip(journals, before, strict=True)]
    assert added == [lines // 2 for lines in before], "half of the runs are of keyboard"


def test_another_seed_draws_its_order_and_its_mixture(evaluated: Project) -> None:
    part = folder_of(evaluated, "work/tiny/evaluation") / "v2t/query/mlvp/mixed/none-seed7.parquet"
    changed(evaluated, seeds=[42, 7]).snakemake(str(part.relative_to(evaluated.root)), started=True)
    own, listed = (files.read_rows(path, RESULTS) for path in (part, part.with_name("adapted.parquet")))
    listed = [row for row in listed if row.method == "none"]
    assert {row.order for row in own} == {"seed 7"}
    assert [row.share for row in own] == [row.share for row in listed] == list(mixes.SHARES)
    assert [row.queries_sha256 for row in own] != [row.queries_sha256 for row in listed]
    assert {row.queries for row in own} == {len(IDS)}


def test_another_method_runs_alone(evaluated: Project) -> None:
    """The journals hold what was run before."""
    journal = folder_of(evaluated, "work/tiny/evaluation") / "v2t/query/mlvp/low/adapted.jsonl"
    before = journal.read_text().splitlines()
    project = changed(evaluated, methods=["tcr", "qbnorm", "dsl"])
    project.snakemake(str(journal.with_suffix(".parquet").relative_to(evaluated.root)), started=True)
    after = journal.read_text().splitlines()
    assert after[: len(before)] == before
    assert {json.loads(line)["row"]["method"] for line in after[len(before) :]} == {"dsl"}


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({}, {}),
        ({"calibrated": True}, {"severities": "calibrated", "corpus": "severities are calibrated"}),
        (
            {"params": '{"sigma":0.5}'},
            {"severities": "own parameters", "corpus": "parameters are not the published ones: gaussian_noise"},
        ),
    ],
)
def test_results_say_whose_severities_they_have(changed: dict[str, str], facts: dict[str, str]) -> None:
    wanted = recipe.make(registry.get("mlvp/gaussian_noise"), 3, seed=0, storage=tiers.Unstored())
    published = manifest_rows.expected_video(wanted, source("a"), None)
    backends = results.backends(None, [published, replace(published, **changed)])
    assert backends == {"retrieval": "demo_encoder"} | facts


def test_an_evaluation_without_a_complete_clip_stops_with_one_message(tmp_path: Path) -> None:
    rows = [SourceRow(dataset="d", split="test", item_id=name, status="quarantined", error="x") for name in "ab"]
    files.write(tmp_path / "s.parquet", SOURCES, rows)
    with pytest.raises(ManifestError, match=r"s\.parquet has no complete clip: all 2 are quarantined or missing"):
        _clean(tmp_path / "s.parquet", None)


# --- features of other weights: those in a folder may be replaced ----------------------------------------------------


def of_weights(sha256: str) -> Any:
    return SimpleNamespace(sha256=sha256, model=SimpleNamespace(device=torch.device("cpu")))


def test_a_gallery_of_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.arange(12.0).reshape(2, 3, 2)
    monkeypatch.setattr(galleries, "encoded", lambda *_: Gallery("t2v", rows))
    path = tmp_path / "clips.safetensors"
    galleries.write(path, of_weights("old"), scenarios.Clean([source("a")], []), "clips", 3)
    assert torch.equal(galleries.read(path, of_weights("old"), "clips").features, rows)
    with pytest.raises(ManifestError, match="encoded with other weights.*run snakemake again, which encodes"):
        galleries.read(path, of_weights("new"), "clips")


def test_features_of_other_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "features.safetensors"
    features.write(path, {"clean": StoredFeatures(path, ("a",), np.ones((1, 4), np.float32))}, of_weights("old"))
    assert features.read(path, "old")["clean"].ids == ("a",)
    with pytest.raises(ManifestError, match="encoded with other weights.*run snakemake again, which encodes"):
        features.read(path, "new")
