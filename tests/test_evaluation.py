"""What an evaluation consists of, the runner of its scenarios, and both through the workflow."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest
from test_workflow import IDS, Project, new_project

from perturbations import read_manifest
from perturbations.base.errors import ConfigError, ManifestError
from perturbations.config import sections as config
from perturbations.engine import rows as manifest_rows
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation.pictures import Picture
from perturbations.evaluation.rows import RANKS, RESULTS, RankRow, ResultRow
from perturbations.manifest import files
from perturbations.manifest.kinds import CaptionRow, CompleteSource, SourceRow, TextRow
from perturbations.plan import captions as caption_recipes
from perturbations.plan import recipe
from perturbations.suites import registry

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_models

from perturbations.evaluation import backbone, galleries, queries, results, runner, scenarios
from perturbations.tta import frames
from perturbations.tta.methods.registry import methods

DEMO: dict[str, Any] = {"datasets": {"demo": {"adapter": "demo"}}, "suites": {"mlvp": {}, "mm_robustness": {}}}


def parsed(**evaluated: Any) -> config.Config:
    return config.parse({**DEMO, "evaluation": evaluated})


# --- what there is to run --------------------------------------------------------------------------------------------


def test_clean_queries_come_first_and_each_suite_at_severity_5() -> None:
    planned = evaluation.scenarios(parsed(), "demo")
    assert planned[0] == evaluation.Scenario("v2t", "clean", "clean", "clean", 0)
    of_videos = [scenario for scenario in planned if scenario.direction == "v2t" and scenario.suite == "mlvp"]
    assert [scenario.perturbation for scenario in of_videos] == [
        entry.name for entry in registry.perturbations("mlvp", "video")
    ]
    assert {scenario.severity for scenario in of_videos} == {5}
    of_captions = {
        scenario.perturbation: scenario.severity
        for scenario in planned
        if scenario.direction == "t2v" and scenario.suite != "clean"
    }
    # What cannot be made on this machine is skipped.
    possible = {name for name, _ in caption_recipes.scenarios(parsed(), "demo", "mm_robustness")}
    assert {"keyboard", "word_swap"} <= possible
    assert of_captions == {
        entry.name: min(5, len(entry.severities))
        for entry in registry.perturbations("mm_robustness", "text")
        if entry.name in possible
    }


def test_severities_that_are_not_made_fall_to_the_highest_below() -> None:
    raw = {**DEMO, "suites": {"mlvp": {"severities": [2, 4]}}, "evaluation": {"severities": [1, 3, 5]}}
    planned = evaluation.scenarios(config.parse(raw), "demo")
    assert {scenario.severity for scenario in planned if scenario.suite == "mlvp"} == {2, 4}


def test_jobs_hold_every_scenario_once() -> None:
    wanted = parsed(mixes=["mixed_severity", "mixed_types"], severities=[1, 5])
    jobs = evaluation.jobs(wanted, "demo")
    flat = [scenario for job in jobs.values() for scenario in job]
    assert sorted(map(str, flat)) == sorted(map(str, evaluation.scenarios(wanted, "demo")))
    for (direction, suite, level), members in jobs.items():
        assert {(scenario.direction, scenario.suite) for scenario in members} == {(direction, suite)}
        assert level.replace("_", "").isalnum()


def test_settings_of_a_job_nobody_asks_for() -> None:
    with pytest.raises(ConfigError, match="t2v/mlvp/low"):
        evaluation.settings(parsed(), "demo", ("t2v", "mlvp", "low"), "none")


@pytest.mark.parametrize(("key", "values"), [("device", ("cpu", "cuda")), ("reader", ("pyav", "decord"))])
def test_what_a_result_is_made_with_changes_no_settings(key: str, values: tuple[str, str]) -> None:
    job: evaluation.Job = ("v2t", "mlvp", "low")
    first, second = (evaluation.settings(parsed(**{key: value}), "demo", job, "adapted") for value in values)
    assert first == second


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"suites": ["msrvtt_p"]}, "evaluation.suites: 'msrvtt_p' is not among `suites`"),
        ({"methods": ["qbnorm"]}, "evaluation.bank: the method `qbnorm` needs a bank"),
        ({"bank": "train"}, "evaluation.bank: 'train' is not among `datasets`"),
        ({"model": "xpool"}, "evaluation.checkpoint: `xpool` needs the weights"),
        ({"revision": "abc"}, "evaluation.pretrained"),
        ({"pretrained": "clip", "checkpoint": "nowhere.pth"}, "no such file: nowhere.pth"),
        ({"methods": ["magic"]}, "evaluation.methods.0: method 'magic' is unknown; allowed: none, tent, .*qbnorm"),
        ({"methods": ["tcr", "hatvr"]}, "evaluation.methods.1: method 'hatvr' is unknown; .*; did you mean hatvtr"),
        ({"severities": []}, "evaluation.severities"),
        ({"seeds": [1, 1]}, "evaluation.seeds"),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parsed(**wrong)


# --- who asks whom ---------------------------------------------------------------------------------------------------


def source(item_id: str) -> CompleteSource:
    return CompleteSource(
        dataset="data",
        split="",
        item_id=item_id,
        path=f"{item_id}.mp4",
        bytes=1,
        sha256="",
        frames_sha256="",
        codec="h264",
        pix_fmt="yuv420p",
        width=32,
        height=24,
        fps=25.0,
        frame_count=6,
        duration_s=0.24,
        rotation=0,
        status="complete",
    )


def bad_source(item_id: str) -> SourceRow:
    return manifest_rows.quarantined_source("data", clips.listed(Path("bad.mp4"), item_id), "no frames")


def caption(caption_id: str, item_id: str) -> CaptionRow:
    return CaptionRow(dataset="data", caption_id=caption_id, item_id=item_id, text=f"text {caption_id}")


def perturbed_caption(caption_id: str, item_id: str, *, accepted: bool) -> TextRow:
    return clips.text_row(
        caption_recipes.make(registry.get("mm_robustness/word_swap"), 3),
        caption_id=caption_id,
        item_id=item_id,
        backend="rules",
        text=f"text {caption_id}",
        similarity=0.95 if accepted else 0.1,
        accepted=accepted,
        recipe_id=caption_id,
    )


def test_videos_ask_for_any_of_their_captions() -> None:
    sources = [source("b"), source("a"), bad_source("bad"), source("mute")]
    captions = [caption("b-1", "b"), caption("a-1", "a"), caption("b-0", "b"), caption("bad-0", "bad")]
    asked = scenarios.of_videos([*sources, source("a2")], captions, sources)
    assert asked.query_ids == ("a", "b")
    assert asked.gallery_ids == ("a-1", "b-0", "b-1")
    assert asked.relevant == ((0,), (1, 2))
    assert asked.missing == 3


def test_captions_that_the_gate_refused_do_not_ask() -> None:
    sources = [source("b"), source("a"), bad_source("bad")]
    captions = [
        perturbed_caption("1", "b", accepted=True),
        perturbed_caption("0", "a", accepted=False),
        perturbed_caption("2", "bad", accepted=True),
        caption("3", "a"),
    ]
    asked = scenarios.of_captions(captions, sources)
    assert asked.query_ids == ("1", "3")
    assert asked.gallery_ids == ("a", "b")
    assert asked.relevant == ((1,), (0,))
    assert asked.missing == 2


def test_nobody_asks() -> None:
    with pytest.raises(ManifestError, match="no query is left"):
        scenarios.of_videos([bad_source("a")], [caption("1", "a")], [source("a")])


# --- what the model sees ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(48, 64), (64, 48), (33, 101), (16, 16), (8, 40)])
def test_frames_are_resized_as_clips_processor_does(height: int, width: int) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    processor = importlib.import_module("transformers.models.clip.image_processing_pil_clip").CLIPImageProcessorPil
    expected = processor(size={"shortest_edge": 32}, crop_size=32)(list(pictures), return_tensors="np")["pixel_values"]
    pixels = frames.normalized(frames.resized(pictures, 32)).numpy()
    assert pixels.shape == expected.shape
    # Levels may round differently by one.
    assert np.abs(pixels - expected).max() <= 1.01 / 255 / min(frames.STD)


# --- a job -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_clip(tmp_path_factory.mktemp("model") / "clip")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[CompleteSource]:
    folder = tmp_path_factory.mktemp("clips")
    generator = np.random.default_rng(0)
    return [
        clips.source_row(
            clips.write_scene(folder / f"{name}.mp4", generator.integers(0, 256, (6, 24, 32, 3), np.uint8)), name
        )
        for name in "abcde"
    ]


CAPTIONS = [caption(name, name) for name in "abcde"]


def job(direction: str, methods: Sequence[str], seeds: Sequence[int] = (42,)) -> dict[str, Any]:
    clean = {"direction": direction, "suite": "clean", "level": "clean", "perturbation": "clean", "severity": 0}
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
        "scenarios": [{"dataset": "data", **clean, "mix": None, "share": None}],
        "methods": list(methods),
    }


def run(
    settings: Mapping[str, Any], model: Path, rows: Sequence[CompleteSource], folder: Path, name: str = "journal"
) -> tuple[list[ResultRow], list[RankRow], list[Picture]]:
    loaded = backbone.load(settings, str(model), None, "cpu")
    gallery = folder / "gallery.safetensors"
    galleries.write(gallery, loaded, rows, settings["num_frames"])
    asking = rows if settings["scenarios"][0]["direction"] == "v2t" else CAPTIONS
    return runner.evaluate(
        settings,
        loaded,
        sources=rows,
        captions=CAPTIONS,
        asking=lambda scenario: (asking, "hash"),
        gallery=gallery,
        journal=folder / f"{name}.jsonl",
    )


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
    assert (read["r1"] <= read["r5"]).all()
    assert (read["queries"] == 5).all()
    for _, row in read.iterrows():
        mine = places[(places["method"] == row["method"]) & (places["seed"] == row["seed"])]["rank"]
        assert row["r1"] == pytest.approx(100 * (mine <= 1).mean())
        assert row["mean_rank"] == pytest.approx(mine.mean())
        assert row["encode_ms_p50"] > 0
    assert len(pictures) == len(results)
    assert np.sum(pictures[0].occurrence) == pytest.approx(5 * 5)  # as many of the gallery as there are


def test_an_interrupted_job_goes_on_where_it_was(
    model: Path, rows: list[CompleteSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = job("v2t", ["none", "tcr", "hatvtr"])
    whole = run(settings, model, rows, tmp_path, "whole")
    asked: list[str] = []
    adapted = runner._similarities

    def counted(*arguments: Any) -> Any:
        asked.append(arguments[2])
        if len(asked) == 3:
            raise KeyboardInterrupt
        return adapted(*arguments)

    monkeypatch.setattr(runner, "_similarities", counted)
    with pytest.raises(KeyboardInterrupt):
        run(settings, model, rows, tmp_path)
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"key": "cut sh')
    again = run(settings, model, rows, tmp_path)
    assert asked == ["none", "tcr", "hatvtr", "hatvtr"]
    assert again[1] == whole[1]
    assert run(settings, model, rows, tmp_path) == again
    assert len(asked) == 4
    # What changes a result is asked anew.
    run({**settings, "steps": 2}, model, rows, tmp_path)
    assert asked[4:] == ["none", "tcr", "hatvtr"]


def test_clips_are_read_once_for_all_methods_and_give_the_ranks_of_each_method_alone(
    model: Path, rows: list[CompleteSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [run(job("v2t", [name]), model, rows, tmp_path, name) for name in ("none", "tcr", "dsl")]
    reads: list[str] = []
    sampled = queries.sampled

    def counted(row: CompleteSource, *arguments: Any) -> Any:
        reads.append(row.item_id)
        return sampled(row, *arguments)

    together = job("v2t", ["none", "tcr", "dsl"])
    with monkeypatch.context() as patched:
        patched.setattr(queries, "sampled", counted)
        results, ranks, _ = run(together, model, rows, tmp_path, "together")
    assert sorted(reads) == sorted(2 * [row.item_id for row in rows])  # once as queries, once as the gallery of t2v
    assert ranks == [rank for single in alone for rank in single[1]]
    assert [row.recipe_id for row in results] == [row.recipe_id for single in alone for row in single[0]]


# --- through the workflow --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Project:
    """A project of which both directions were evaluated."""
    root = tmp_path_factory.mktemp("evaluated")
    project = new_project(
        root,
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


def test_every_scenario_and_method_has_its_row(evaluated: Project) -> None:
    results = read_manifest(folder_of(evaluated, "manifests/tiny/adaptation") / "results.parquet")
    wanted = evaluation.scenarios(config.parse(evaluated.config), "tiny")
    assert len(results) == 3 * len(wanted)
    assert set(results["method"]) == {"none", "tcr", "qbnorm"}
    asked = {(row.direction, row.suite, row.perturbation) for row in results.itertuples()}
    assert ("v2t", "mlvp", "all") in asked
    assert ("t2v", "mm_robustness", "keyboard") in asked
    assert set(results[results["perturbation"] == "fog"]["severity"].dropna()) == {1, 3}
    assert (results["queries"] == len(IDS)).all()
    ranks = read_manifest(folder_of(evaluated, "manifests/tiny/adaptation") / "ranks.parquet")
    assert len(ranks) == len(IDS) * len(results)


def test_without_adapting_nothing_is_run_again(evaluated: Project) -> None:
    """The jobs of all methods hold the runs without adaptation in their journals."""
    evaluated.snakemake("evaluate_tiny")
    logs = list(evaluated.root.glob("work/logs/tiny/evaluation/**/none.log"))
    assert logs
    assert not any("batches of" in log.read_text() for log in logs)
    assert not any("clips read" in log.read_text() for log in logs)
    results = read_manifest(folder_of(evaluated, "manifests/tiny/evaluation") / "results.parquet")
    assert set(results["method"]) == {"none"}


def test_with_another_reader_nothing_is_run_again(evaluated: Project) -> None:
    with_decord = {**evaluated.config, "evaluation": {**evaluated.config["evaluation"], "reader": "decord"}}
    changed = Project(evaluated.root, with_decord)
    output = changed.snakemake("tta_tiny", "--dry-run")
    assert not {"evaluate", "gallery"} & {line.partition(" ")[0] for line in output.stdout.splitlines()}


def test_another_method_runs_alone(evaluated: Project) -> None:
    """The journals hold what was run before."""
    journal = folder_of(evaluated, "work/tiny/evaluation") / "v2t/mlvp/low/adapted.jsonl"
    before = journal.read_text().splitlines()
    with_one_more = {**evaluated.config["evaluation"], "methods": ["tcr", "qbnorm", "dsl"]}
    changed = Project(evaluated.root, {**evaluated.config, "evaluation": with_one_more})
    changed.snakemake(str(journal.with_suffix(".parquet").relative_to(evaluated.root)), started=True)
    after = journal.read_text().splitlines()
    assert after[: len(before)] == before
    assert {json.loads(line)["row"]["method"] for line in after[len(before) :]} == {"dsl"}


def test_the_report_shows_what_was_evaluated(evaluated: Project) -> None:
    evaluated.snakemake("report")
    page = (evaluated.root / "manifests/report.html").read_text()
    assert "mm_robustness at severity 5: R@1" in page
    assert "mlvp, mixed types: R@1" in page
    assert "20% perturbed" in page
    # Nothing was asked again for it.
    assert "rule evaluate:" not in evaluated.snakemake("report", "--forcerun", "report").stderr


@pytest.mark.parametrize(
    ("changed", "severities"),
    [({}, None), ({"calibrated": True}, "calibrated"), ({"params": '{"sigma":0.5}'}, "own parameters")],
)
def test_results_say_whose_severities_they_have(changed: dict[str, str], severities: str | None) -> None:
    entry = registry.get("mlvp/gaussian_noise")
    wanted = recipe.make(entry, 3, seed=0, storage=recipe.Unstored())
    published = manifest_rows.expected_video(wanted, source("a"), None)
    backends = results.backends(None, [published, replace(published, **changed)])
    assert backends == {"retrieval": "demo_encoder"} | ({"severities": severities} if severities else {})


def test_an_evaluation_without_a_complete_clip_stops_with_one_message() -> None:
    from perturbations.evaluation.jobs import _check_any_complete

    rows = [SourceRow(dataset="d", split="test", item_id=name, status="quarantined", error="x") for name in "ab"]
    with pytest.raises(ManifestError, match=r"s\.parquet has no complete clip: all 2 are quarantined or missing"):
        _check_any_complete(Path("s.parquet"), rows)
