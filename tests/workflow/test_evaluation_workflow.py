"""An evaluation through the workflow: what is run, and what is run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from workflow_project import IDS, Project, copy_of, new_project

from perturbations import read_manifest
from perturbations.base import storage
from perturbations.config import file as config_file
from perturbations.corpus.captions import mixes
from perturbations.evaluation.plan import evaluation_files as evaluation_paths
from perturbations.evaluation.plan import planned_runs as evaluation
from perturbations.evaluation.result_rows import RESULTS
from perturbations.manifest import files, manifest_paths


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_clip(tmp_path_factory.mktemp("model") / "clip")


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
            "model": str(model),
            "methods": ["tcr", "qbnorm"],
            "querybank": "tiny",
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
    scenarios = {(row.direction, row.suite, row.perturbation) for row in results.itertuples()}
    assert ("v2t", "mlvp", "all") in scenarios
    assert ("t2v", "mm_robustness", "keyboard") in scenarios
    assert set(results[results["perturbation"] == "fog"]["severity"].dropna()) == {1, 3}
    assert (results["queries"] == len(IDS)).all()
    ranks = read_manifest(folder_of(evaluated, "manifests/tiny/adaptation") / "ranks.parquet")
    assert len(ranks) == len(IDS) * len(results)


def test_clips_that_only_evaluations_read_are_no_strangers(evaluated: Project, tmp_path: Path) -> None:
    project = copy_of(evaluated, tmp_path / "project")
    kept = project.root.glob("work/tiny/mm_robustness/*.sha256")
    for path in (*(project.root / "manifests/tiny/mm_robustness").iterdir(), *kept):  # as where no mixes need them
        path.unlink()
    verified = project.perturb("verify")
    assert (verified.returncode, "no row names" in verified.stdout) == (0, False), verified.stdout


def test_results_without_adapting_and_the_report_run_nothing_again(evaluated: Project) -> None:
    """The jobs of all methods hold the runs without adaptation in their journals."""
    evaluated.snakemake("evaluate_tiny")
    logs = [path.read_text() for path in evaluated.root.glob("work/logs/tiny/evaluation/**/evaluation.log")]
    assert logs
    assert not any("batches of" in log or "clips read" in log for log in logs)
    results = read_manifest(folder_of(evaluated, "manifests/tiny/evaluation") / "results.parquet")
    assert set(results["method"]) == {"none"}
    jobs = evaluated.snakemake("report").stderr
    assert "rule evaluate" not in jobs, jobs
    page = (evaluated.root / "manifests/report.html").read_text()
    for shown in ("mm_robustness, severity 5", "mlvp, mixed types per batch", "20% perturbed"):
        assert shown in page


def test_what_is_lost_of_results_is_made_again(evaluated: Project, tmp_path: Path) -> None:
    """A job that fails loses its output, and Snakemake's next run must not take the results for those of that job."""
    project = copy_of(evaluated, tmp_path / "project")
    project.snakemake("report")
    targets = "tta_tiny", "report"
    assert not any(map(project.planned, targets))
    for lost, rules in (
        ("work/tiny/evaluation/*/v2t/query/mlvp/low/adaptation.parquet", {"evaluate", "results"}),
        ("work/tiny/evaluation/*/t2v/none/clean/clean/adaptation.ranks.parquet", {"evaluate", "results"}),
        ("work/tiny/evaluation/*/captions.safetensors", {"gallery", "evaluate", "results"}),
        ("work/tiny/mm_robustness/captions/*.json", {"texts", "evaluate", "results"}),
        ("work/tiny/mlvp/fog/3/*.parquet", {"videos", "evaluate", "results"}),
        ("manifests/tiny/adaptation/*/ranks.parquet", {"results"}),
    ):
        paths = [*project.root.glob(lost)]
        assert paths, lost
        for path in paths:
            path.rename(path.with_suffix(".gone"))
        for target in targets if lost.endswith("adaptation.parquet") else targets[:1]:
            assert rules <= project.planned(target).keys(), (lost, target)
        for path in paths:
            path.with_suffix(".gone").rename(path)
    assert not any(map(project.planned, targets))


def test_with_another_reader_nothing_is_run_again(evaluated: Project) -> None:
    assert not {"evaluate", "gallery"} & changed(evaluated, reader="decord").planned("tta_tiny").keys()


RULES = ("evaluate", "results", "gallery", "check_model", "videos", "captions")


def test_another_setting_of_a_method_runs_alone(evaluated: Project) -> None:
    """The journals hold what was run before."""
    journal = folder_of(evaluated, "work/tiny/evaluation") / "v2t/query/mlvp/low/adaptation.jsonl"
    before = [*storage.journal_lines(journal)]
    own = {"name": "tcr", "label": "share <0.5>", "parameters": {"share": 0.5}}
    project = changed(evaluated, methods=["tcr", "qbnorm", own])
    planned = {name: count for name, count in project.planned("tta_tiny").items() if name.startswith(RULES)}
    of_setting = len(evaluation_paths.jobs(config_file.parse(project.config), "tiny", "adaptation"))
    assert planned == {"evaluate": of_setting, "results": 1}
    project.snakemake("tta_tiny")
    after = [*storage.journal_lines(journal)]
    assert after[: len(before)] == before
    assert {json.loads(str(line))[1][0][0]["label"] for line in after[len(before) :]} == {"share <0.5>"}
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
    config = config_file.parse(project.config)
    parts = evaluation_paths.result_parts(config, "tiny", evaluation_paths.jobs(config, "tiny", "adaptation"))
    rerun = [part for part in parts if "/t2v/query/" in part]
    journals = [project.root / manifest_paths.journal_of(Path(part)) for part in rerun]
    before = [len(path.read_text().splitlines()) for path in journals]
    times = {part: (project.root / part).stat().st_mtime_ns for part in parts}
    project.snakemake("tta_tiny")
    assert [part for part in parts if (project.root / part).stat().st_mtime_ns != times[part]] == rerun
    added = [len(path.read_text().splitlines()) - lines for path, lines in zip(journals, before, strict=True)]
    assert added == [lines // 2 for lines in before], "the other runs are of keyboard"


def test_another_seed_draws_its_order_and_its_mixture(evaluated: Project) -> None:
    part = folder_of(evaluated, "work/tiny/evaluation") / "v2t/query/mlvp/mixed/adaptation.parquet"
    changed(evaluated, seeds=[42, 7]).snakemake(str(part.relative_to(evaluated.root)), started=True)
    rows = [row for row in files.read_rows(part, RESULTS) if row.method == "none"]
    own, listed = ([row for row in rows if row.seed == seed] for seed in (7, 42))
    assert {row.order for row in own} == {"seed 7"}
    assert [row.share for row in own] == [row.share for row in listed] == list(mixes.SHARES)
    assert [row.queries_sha256 for row in own] != [row.queries_sha256 for row in listed]
    assert {row.queries for row in own} == {len(IDS)}
