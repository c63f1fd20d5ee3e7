"""What the workflow promises, for perturbations that must know more of a clip than its frames."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
import pytest
import workflow_project
from workflow_project import IDS, Project, copy_of, folders, is_rendered_again, tiny_clip

from perturbations import open_clip, read_manifest

GUIDED = ["motion_blur", "video_defocus", "main_object_occlusion", "style_transfer", "event_insertion"]
FRAMES = 6
MANIFEST = "manifests/tiny/mlvp/videos.parquet"
TARGETS = (MANIFEST, "manifests/tiny/mlvp/mixed_types.parquet")


def new_project(root: Path, **config: Any) -> Project:
    suites = {"mlvp": {"perturbations": [*GUIDED, "temporal_scrambling"], "severities": [2, 5]}}
    return workflow_project.new_project(root, **{"suites": suites, "shard_size": 3, **config})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose run has ended well. Not to be changed: use `project`."""
    project = new_project(tmp_path_factory.mktemp("finished"))
    project.snakemake(*TARGETS)
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A copy of a finished project."""
    return copy_of(finished, tmp_path / "project")


def videos_of(project: Project) -> pd.DataFrame:
    return read_manifest(project.root / MANIFEST)


def test_regenerated_from_its_recipes_it_checks_out(finished: Project, tmp_path: Path) -> None:
    finished.check_published("mlvp", tmp_path)


def test_an_analysis_runs_once_a_shard_and_serves_all_that_need_it(finished: Project) -> None:
    outputs = finished.outputs()
    shards = {path.stem for path in (finished.root / "work/tiny/shards").iterdir()}
    assert len(shards) >= 2
    for analysis in ("motion", "main_object", "embedding"):
        assert {name for name in outputs if f"analyses/{analysis}/s" in name} == {
            f"tiny/analyses/{analysis}/{shard}.parquet" for shard in shards
        }


def test_rows_say_what_the_frames_depend_on(finished: Project) -> None:
    videos = videos_of(finished).set_index(["perturbation", "severity", "item_id"]).sort_index()
    assert (videos["status"] == "complete").all()
    for name in IDS:
        donor = videos.loc[("event_insertion", 2, name)]
        assert donor["donor_id"] in set(IDS) - {name}
        assert -1 <= donor["donor_similarity"] <= 1
        assert json.loads(donor["backend"])["embedding"]["backend"] == "offline"
        assert donor["guide"] == videos.loc[("event_insertion", 5, name)]["guide"]
        assert json.loads(videos.loc[("main_object_occlusion", 2, name)]["guide"])["positions"]
        assert json.loads(videos.loc[("style_transfer", 2, name)]["guide"])["style"]
        assert json.loads(videos.loc[("motion_blur", 2, name)]["backend"]) == {}
    attributes = videos_of(finished).attrs
    assert attributes["comparability"].startswith("not comparable with published numbers")
    for word in ("main_object_occlusion (main_object)", "style_transfer (style)", "event_insertion (embedding)"):
        assert word in attributes["comparability"]
    card = (finished.root / "manifests/tiny/mlvp/README.md").read_text()
    assert attributes["comparability"] in card
    assert "4 of 4 listed clips complete" in card
    assert "48 of 48 videos" in card


def test_only_the_analyses_that_are_needed_run(tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=50)
    project.config["suites"]["mlvp"] = {"perturbations": ["motion_blur", "temporal_scrambling"], "severities": [3]}
    jobs = project.planned("mlvp_tiny")
    assert (jobs["analyses"], jobs["videos"]) == (1, 2)
    assert "analyses_manifest" not in jobs


def test_results_do_not_depend_on_how_the_work_is_cut(finished: Project, tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=7)
    some = {"perturbations": ["motion_blur", "main_object_occlusion", "event_insertion"], "severities": [5]}
    project.config["suites"]["mlvp"] = some
    project.write_captions(IDS[::-1])
    project.snakemake(MANIFEST, cores=1)
    ours, theirs = (
        {name: held for name, held in each.results().items() if "/5/" in name} for each in (project, finished)
    )
    assert len(ours) == 3 * len(IDS)
    assert ours.items() <= theirs.items()


def test_an_unfinished_analysis_keeps_its_finished_clips(project: Project) -> None:
    before = project.results()
    (part,) = (
        path
        for path in (project.root / "work/tiny/analyses/motion").glob("s*.parquet")
        if len(path.with_suffix(".jsonl").read_text().splitlines()) == 3
    )
    files = {path: path.stat().st_ino for path in (part.parent / "files").iterdir()}
    journal = part.with_suffix(".jsonl")
    *finished, last = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(finished) + last[: len(last) // 2])
    part.unlink()
    project.snakemake(str(part.relative_to(project.root)))
    assert sum(path.stat().st_ino != inode for path, inode in files.items()) == 1
    project.snakemake(*TARGETS)
    assert project.results() == before


def test_the_variant_reruns_what_differs_in_it(project: Project) -> None:
    before = {path: path.stat().st_ino for path in (project.root / "corpora").rglob("*.mp4")}
    project.config["suites"]["mlvp"].update(variant="paper", severities=[5])
    rerun = folders(project.rerun(*TARGETS))
    assert not {name for name in rerun if "analyses" in name}
    assert {"tiny/mlvp/motion_blur/5", "tiny/mlvp/event_insertion/5"} <= rerun
    assert set(videos_of(project)["variant"]) == {"paper"}
    assert {path for path in before if not path.is_file()} == set()


def test_other_style_images_repaint_and_nothing_else(project: Project) -> None:
    (project.root / "styles").mkdir()
    for seed in range(3):
        image = np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)
        cv2.imwrite(str(project.root / "styles" / f"style {seed}.png"), image)
    project.config["backends"] = {"style": {"backend": "offline", "images": "styles"}}
    rerun = folders(project.rerun(*TARGETS))
    assert rerun == {"tiny/mlvp/style_transfer/2", "tiny/mlvp/style_transfer/5"}
    styled = videos_of(project).query("perturbation == 'style_transfer'")
    assert {len(json.loads(guide)["style"]) for guide in styled["guide"]} == {64}  # a SHA-256
    assert is_rendered_again(styled.iloc[0].to_dict())  # from anywhere: the paths are absolute


def test_a_new_video_may_become_a_donor(project: Project) -> None:
    shutil.copy(project.root / "videos/a.mp4", project.root / "videos/twin.mp4")
    tiny_clip(project.root / "videos" / "z.mp4", seed=9)
    project.write_captions([*IDS, "twin", "z"])
    project.config["suites"]["mlvp"] = {"perturbations": ["event_insertion", "motion_blur"], "severities": [2]}
    corpus = {path: path.stat().st_ino for path in (project.root / "corpora").rglob("2/*.mp4")}

    def donors_of_clips() -> dict[str, str]:
        inserted = videos_of(project).query("perturbation == 'event_insertion' and severity == 2")
        return dict(inserted[["item_id", "donor_id"]].values)

    donors = donors_of_clips()
    project.snakemake(*TARGETS)
    now = donors_of_clips()
    assert now["a"] != "twin", "the same file under another name"
    assert now["twin"] != "a"
    for path, inode in corpus.items():
        same_donor = path.parent.parent.name != "event_insertion" or now[path.stem] == donors[path.stem]
        assert (path.stat().st_ino == inode) == same_donor, path


def test_donors_from_another_dataset(tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=50)
    for seed in (20, 21):
        tiny_clip(tmp_path / "train" / f"t{seed}.mp4", seed=seed, frames=30, size=(40, 56))
    rows = [{"item_id": f"t{seed}", "caption": "one to take from"} for seed in (20, 21)]
    (tmp_path / "train.json").write_text(json.dumps(rows))
    project.config["datasets"]["train"] = {"adapter": "folder", "annotations": "train.json", "videos": "train"}
    project.config["datasets"]["tiny"]["donors"] = "train"
    project.config["suites"]["mlvp"] = {"perturbations": ["event_insertion"], "severities": [1]}
    project.snakemake(*TARGETS)
    videos = videos_of(project)
    assert set(videos["donor_id"]) <= {"t20", "t21"}
    assert (videos["width"] == 32).all()
    assert not (tmp_path / "corpora/train").exists(), "donors are not perturbed"
    project.check_published("mlvp", tmp_path / "elsewhere", clips=".")
    shutil.rmtree(tmp_path / "train")
    project.output_of("verify")  # what is stored needs no donor


def test_a_clip_without_any_donor_is_quarantined(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    project.config["suites"]["mlvp"] = {"perturbations": ["event_insertion", "motion_blur"], "severities": [2]}
    project.write_captions(["a"])
    project.refusal("mlvp_tiny")
    log = (tmp_path / "work/logs/tiny/mlvp/check.log").read_text()
    assert "'a': analysis: no other clip in the corpus `tiny`" in log
    quarantine = read_manifest(tmp_path / "manifests/tiny/mlvp/quarantine.parquet")
    assert set(quarantine["perturbation"]) == {"event_insertion"}
    videos = videos_of(project)
    assert (videos[videos["perturbation"] != "event_insertion"]["status"] == "complete").all()


def test_mixes_point_at_videos_that_are_there(finished: Project) -> None:
    folder = finished.root / "manifests/tiny/mlvp"
    videos = videos_of(finished).set_index(["item_id", "perturbation", "severity"])
    severities = read_manifest(folder / "mixed_severity.parquet")
    assert len(severities) == len(IDS) * 6
    assert not severities.duplicated(["item_id", "perturbation"]).any()
    types = read_manifest(folder / "mixed_types.parquet")
    assert sorted(set(types["share"])) == [0.2, 0.4, 0.6, 0.8]
    perturbed = types[types["severity"] > 0]
    assert perturbed.groupby("share").size().to_dict() == {0.2: 1, 0.4: 2, 0.6: 2, 0.8: 3}
    for _, row in pd.concat([severities, perturbed]).iterrows():
        single = videos.loc[(row.item_id, row.perturbation, row.severity)]
        assert (row.path, row.recipe_id) == (single["path"], single["recipe_id"])
    clean = types[types["severity"] == 0]
    assert all(len(open_clip(row)) == FRAMES for _, row in clean.iterrows())
    by_share = {share: set(rows["item_id"]) for share, rows in perturbed.groupby("share")}
    assert by_share[0.2] <= by_share[0.4] <= by_share[0.6] <= by_share[0.8]
    verdict = videos_of(finished).attrs["comparability"]
    assert verdict.startswith("not comparable")
    assert types.attrs["comparability"] == severities.attrs["comparability"] == verdict
