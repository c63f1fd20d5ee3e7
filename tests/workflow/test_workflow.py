"""The workflow as users run it: real Snakemake runs on tiny clips."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from clips import is_marker
from copies import ROOT
from workflow_project import (
    IDS,
    MANIFEST,
    PROFILES,
    Project,
    copy_of,
    folders,
    new_project,
    tiny_clip,
)

from perturbations import read_manifest
from perturbations.manifest import manifest_paths
from perturbations.suites import suite_registry


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of shards of up to three clips whose run has ended well. Not to be changed: use `project`."""
    project = new_project(tmp_path_factory.mktemp("finished"), shard_size=3)
    project.write_captions(IDS[::-1])
    project.snakemake("mlvp_tiny", cores=1, hooks=True)
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A copy of a finished project."""
    return copy_of(finished, tmp_path / "project")


def test_a_run_makes_every_video_and_every_row_checks_out(tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=50)
    project.config["suites"]["mlvp"] = {"perturbations": "all", "severities": [5]}
    project.write_captions(IDS[:2])
    project.snakemake(MANIFEST)
    videos = read_manifest(tmp_path / MANIFEST)
    assert len(videos) == 2 * len(suite_registry.perturbations("mlvp", "video"))
    assert set(videos["status"]) == {"complete"}
    assert all(Path(path).is_file() for path in videos["path"])
    shorter = videos["perturbation"] == "temporal_scrambling"
    assert (videos[~shorter]["frame_count"] == 6).all()
    assert (videos[shorter]["frame_count"] < 6).all()
    assert (videos["stored_frames"] == videos["frame_count"]).all()
    assert (videos["width"] == 32).all()
    project.output_of("verify", "--render", "-j", "2")


def test_captions_and_their_clips_are_listed_beside_the_videos(finished: Project) -> None:
    captions = read_manifest(finished.root / "manifests/tiny/captions.parquet")
    assert sorted(captions["text"]) == [f"a caption of {name}" for name in IDS]
    qrels = read_manifest(finished.root / "manifests/tiny/qrels.parquet")
    assert sorted(qrels["corpus_id"]) == IDS


def test_touched_files_a_published_number_written_out_and_another_limit_rerun_nothing(project: Project) -> None:
    for path in [*project.root.glob("*"), *(project.root / "videos").iterdir(), *project.root.rglob("work/**/*.jsonl")]:
        os.utime(path)
    for path in [*project.root.rglob("*.parquet"), *project.root.rglob("corpora/**/*.mp4")]:
        os.utime(path)
    project.config["suites"]["mlvp"]["parameters"] = {"gaussian_noise": {3: {"sigma": 0.18}}}
    project.config["limits"] = {"frames": 1000, "decode_mib": 999}
    before, parts = project.results(), project.outputs()
    done = project.snakemake("mlvp_tiny")
    assert "Nothing to be done" in done.stdout + done.stderr
    assert (project.results(), project.outputs()) == (before, parts)


def test_changed_numbers_and_what_is_new_make_only_themselves(project: Project) -> None:
    """A perturbation that is left out removes nothing, and one of its severities makes only itself."""
    mlvp = {"perturbations": ["impulse_noise", "gaussian_noise", "fog"], "severities": [3, 2, 1]}
    project.config["suites"]["mlvp"] = {**mlvp, "parameters": {"gaussian_noise": {3: {"sigma": 0.3}}}}
    rerun = project.rerun(MANIFEST)
    changed = {"gaussian_noise/3", "gaussian_noise/2", "fog/2", "impulse_noise/1", "impulse_noise/2", "impulse_noise/3"}
    assert folders(rerun) == {f"tiny/mlvp/{name}" for name in changed}
    assert len(rerun) == len(changed) * len(list((project.root / "work/tiny/shards").iterdir()))
    videos = read_manifest(project.root / MANIFEST)
    noise = videos[(videos["perturbation"] == "gaussian_noise") & (videos["severity"] == 3)]
    assert set(noise["params"]) == {'{"sigma":0.3}'}
    project.config["suites"]["mlvp"] |= {"perturbations": ["gaussian_noise", "fog"], "severities": [3]}
    project.config["datasets"]["other"] = {**project.config["datasets"]["tiny"], "subset": ["a"]}
    assert {name.partition("/")[0] for name in project.rerun(MANIFEST, MANIFEST.replace("tiny", "other"))} == {"other"}


def test_a_new_video_reruns_its_shard_and_a_replaced_one_its_own_and_keep_the_others(project: Project) -> None:
    folder = project.root / "work/tiny/shards"
    shards = {path.stem: path.read_text() for path in folder.iterdir()}
    corpus = {path: path.stat().st_mtime_ns for path in (project.root / "corpora").rglob("*.mp4")}
    tiny_clip(project.root / "videos" / "z.mp4", seed=9)
    project.write_captions(["z", *IDS])
    rerun = {Path(name).stem for name in project.rerun(MANIFEST)}
    now = {path.stem: path.read_text() for path in folder.iterdir()}
    assert rerun == {shard for shard, text in now.items() if shards.get(shard) != text}
    assert len(set(now) - rerun) >= 1
    assert {path: path.stat().st_mtime_ns for path in corpus} == corpus, "finished clips were made again"
    tiny_clip(project.root / "videos" / "b.mp4", seed=77, frames=9)
    assert len({Path(name).stem for name in project.rerun(MANIFEST)}) == 1
    videos = read_manifest(project.root / MANIFEST)
    assert videos.groupby("item_id")["frame_count"].unique().to_dict() == {
        name: [9 if name == "b" else 6] for name in "abcdz"
    }
    project.snakemake("mlvp_tiny")  # captions are listed with the clips
    project.output_of("verify")


def test_killed_and_resumed_in_another_shard_and_order_results_are_equal(finished: Project, tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=7)
    project.kill_after("videos", "--cores", "2", "mlvp_tiny")
    kept = {path: path.stat().st_ino for path in (tmp_path / "corpora").rglob("*.mp4") if path.name[0] != "."}
    assert kept
    project.snakemake("--unlock")
    project.snakemake("mlvp_tiny")
    assert {path: path.stat().st_ino for path in kept} == kept, "finished clips were made again"
    assert project.results() == finished.results()
    hidden = [path for path in (tmp_path / "corpora").rglob(".*") if not is_marker(path)]
    assert not hidden, "temporary files were left behind"


def test_an_unfinished_shard_keeps_its_finished_clips(project: Project) -> None:
    before = project.results()
    folder = project.root / "work/tiny/mlvp/fog/3"
    journal, *_ = (path for path in folder.glob("*.jsonl") if len(path.read_text().splitlines()) == 3)
    *finished, last = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(finished) + last[: len(last) // 2])
    journal.with_suffix(".parquet").unlink()
    (project.root / MANIFEST).unlink()
    files = sorted((project.root / "corpora/tiny/mlvp/fog/3").glob("*.mp4"))
    inodes = {path: path.stat().st_ino for path in files}
    project.snakemake(MANIFEST)
    assert len([path for path in files if path.stat().st_ino != inodes[path]]) == 1
    assert project.results() == before


def test_failures_are_listed_at_the_end_and_nothing_else_is_lost(tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=50, limits={"frames": 6})
    whole = (tmp_path / "videos/b.mp4").read_bytes()
    (tmp_path / "videos/b.mp4").write_bytes(whole[: len(whole) // 2])
    tiny_clip(tmp_path / "videos/d.mp4", seed=1, frames=7)
    project.write_captions([*IDS, "gone"])
    # The check before the first job would stop for the missing clip.
    assert "3 items quarantined or missing, and max_failed_items is 0" in project.refusal("mlvp_tiny")
    log = (tmp_path / "work/logs/tiny/mlvp/check.log").read_text()
    assert "'gone': annotation: missing" in log
    assert "'b': source: " in log
    videos = read_manifest(tmp_path / "manifests/tiny/mlvp/videos.parquet")
    assert sorted(set(videos["item_id"])) == ["a", "c"]
    assert set(videos["status"]) == {"complete"}
    sources = read_manifest(tmp_path / "manifests/tiny/sources.parquet").set_index("item_id")
    assert dict(sources["status"].value_counts()) == {"complete": 2, "quarantined": 2, "missing": 1}
    assert sources.loc["d", "error"] == "the file has 7 frames or more; limits.frames allows 6"
    project.config["datasets"]["tiny"]["max_failed_items"] = 3
    assert project.rerun(MANIFEST) == set()


def test_annotations_that_are_not_there_fail_before_any_job(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    project.config["datasets"]["tiny"]["annotations"] = "nowhere.json"
    assert "datasets.tiny.annotations" in project.refusal("mlvp_tiny")
    assert not list(tmp_path.rglob("work/**/*.parquet"))


def test_odd_names_are_only_names(tmp_path: Path) -> None:
    odd = [
        "with space",
        "quo'te\"s",
        "$(touch pwned);`x`",
        "new\nline",
        "日本語 🎥",
        "-rf",
        "percent%2Fcoded",
        "a#b?c&d",
    ]
    project = new_project(tmp_path, shard_size=3)
    project.config["suites"]["mlvp"] = {"perturbations": ["gaussian_noise"], "severities": [2]}
    for index, name in enumerate(odd):
        tiny_clip(tmp_path / "videos" / f"{name}.mp4", seed=index)
    outside = ["../videos/a", "/etc/passwd"]
    project.config["max_failed_items"] = len(outside)
    project.write_captions([*odd, *outside])
    project.snakemake(MANIFEST)
    videos = read_manifest(tmp_path / MANIFEST)
    assert sorted(videos["item_id"]) == sorted(odd)
    corpus = list((tmp_path / "corpora/tiny/mlvp/gaussian_noise/2").glob("*.mp4"))
    assert len(corpus) == len(odd)
    assert all(path.name.isascii() for path in corpus)
    assert not list(tmp_path.rglob("pwned"))
    project.output_of("verify", "--render")


def test_a_read_only_corpus_folder_stops_the_run_with_a_reason(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    (tmp_path / "corpora").write_text("in the way")
    assert "cannot write" in project.refusal("mlvp_tiny")


# --- Snakemake's own ways of looking -----------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["default", "slurm"])
def test_dry_run_with_each_profile(tmp_path: Path, profile: str) -> None:
    """A broken dataset does not stop the others."""
    project = new_project(tmp_path)
    project.config["datasets"]["broken"] = {"adapter": "msrvtt", "annotations": "nowhere.csv", "videos": "videos"}
    done = project.snakemake("--dry-run", "--workflow-profile", str(PROFILES / profile), "mlvp_tiny")
    assert "videos 16" in done.stderr
    assert len((done.stdout + done.stderr).splitlines()) <= 40
    assert not (tmp_path / "corpora").exists()


def test_a_graph_and_the_menu(finished: Project) -> None:
    graph = finished.snakemake("mlvp_tiny", "--rulegraph").stdout.strip()
    assert graph.startswith("digraph")
    assert "videos" in graph
    menu = finished.snakemake("--list-target-rules").stdout
    assert "mlvp_tiny (2 perturbations of mlvp x severities 1, 3 on the dataset `tiny` (folder)" in menu


def test_a_run_ends_with_the_page_of_all_pages(finished: Project) -> None:
    text = (finished.root / "manifests" / "index.html").read_text()
    assert 'href="tiny/mlvp/corpus.html"' in text
    assert 'href="../corpora/tiny/mlvp"' in text
    assert "<code>snakemake mlvp_tiny</code>" in text


def test_the_default_target_is_the_demo(tmp_path: Path) -> None:
    project = Project(tmp_path, yaml.safe_load((ROOT / "config.yaml").read_text()))
    jobs = project.planned()
    assert (jobs["sources"], jobs["videos"], jobs["all"]) == (1, 60, 1)


def test_a_dataset_may_have_the_name_of_a_folder_or_of_a_suite(tmp_path: Path) -> None:
    names = ("models", "composed", "whole", "mlvp")
    project = new_project(tmp_path, storage={"tier": "recipe"}, shard_size=50)
    project.write_captions(["a"])
    project.config["datasets"] = {name: {**project.config["datasets"]["tiny"]} for name in names}
    project.config["suites"] = {"mlvp": {"perturbations": ["fog"], "severities": [1]}}
    manifests = [
        path
        for name in names
        for path in (
            manifest_paths.at("mixed_types", dataset=name, suite="mlvp"),
            manifest_paths.at("captions", dataset=name),
        )
    ]
    project.snakemake(*manifests)
    stages = json.loads(project.perturb("status", "--json").stdout)["stages"]
    assert {(stage["dataset"], stage["stage"]) for stage in stages} >= {(name, "videos") for name in names}
    verified = {
        entry["manifest"]: entry["problems"]
        for entry in json.loads(project.perturb("verify", "--json").stdout)["manifests"]
    }
    assert {*manifests} <= {*verified}
    assert not any(verified.values())
