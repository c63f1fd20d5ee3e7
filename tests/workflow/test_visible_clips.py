"""Clips that Snakemake sees: what is deleted is made again, and every command says so before."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import clips
import pytest
from workflow_project import IDS, MANIFEST, Project, copy_of, new_project

from perturbations import read_manifest
from perturbations.corpus.run_status import collect

CONFIG: dict[str, Any] = {
    "suites": {"mlvp": {"perturbations": ["gaussian_noise", "fog"], "severities": [1]}},
    "storage": {"tier": "frames", "num_frames": 2},
    "shard_size": 2,
}
CLIP = Path("corpora/tiny/mlvp/fog/1/a.npy.zst")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run of three clips in two shards. Not to be changed: use `project`."""
    project = new_project(tmp_path_factory.mktemp("finished"), **CONFIG)
    project.write_captions(IDS[:3])
    project.snakemake("mlvp_tiny")
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A copy of a finished run, whose files are as old as there."""
    return copy_of(finished, tmp_path / "project")


def inodes(project: Project) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in project.root.rglob("corpora/**/*.zst")}


def videos(project: Project) -> tuple[int, int | None]:
    """The clips that are done, and all."""
    (stage,) = (stage for stage in collect(project.root)["stages"] if stage["stage"] == "videos")
    return stage["done"], stage["total"]


def test_a_finished_run_has_a_marker_per_shard_and_nothing_to_do(finished: Project) -> None:
    markers = [path for path in (finished.root / "corpora").rglob("*") if clips.is_marker(path)]
    parts = list((finished.root / "work/tiny/mlvp").glob("*/1/*.parquet"))
    assert {path.name for path in markers} == {f".{path.stem}.json" for path in parts}
    assert len(markers) == len(parts) == 4
    assert finished.planned("mlvp_tiny") == {}
    assert videos(finished) == (6, 6)


@pytest.mark.parametrize(("gone", "jobs"), [("corpora", 4), ("corpora/tiny/mlvp/fog/1/.s*.json", 2)])
def test_what_is_gone_is_made_again(gone: str, jobs: int, project: Project) -> None:
    before = project.results()
    for path in project.root.glob(gone):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert project.planned("mlvp_tiny").get("videos", 0) == jobs
    assert project.planned("--forcerun", "videos_manifest", "--", MANIFEST).get("videos", 0) == jobs
    project.snakemake("mlvp_tiny")
    assert project.results() == before
    assert project.planned("mlvp_tiny") == {}
    assert videos(project) == (6, 6)


def test_another_size_of_shards_makes_nothing_again(project: Project) -> None:
    """Larger ones take the clips of several, smaller ones some of those of one, whichever job comes first."""
    hashes = read_manifest(project.root / MANIFEST)["sha256"].tolist()
    held = {path: path.stat().st_mtime_ns for path in inodes(project)}
    for size in (5, 1):
        project.config["shard_size"] = size
        project.snakemake(MANIFEST)
        assert {path: path.stat().st_mtime_ns for path in held} == held
        assert read_manifest(project.root / MANIFEST)["sha256"].tolist() == hashes


def test_recipes_have_no_clips_and_no_markers(tmp_path: Path) -> None:
    project = new_project(tmp_path, **{**CONFIG, "storage": {"tier": "recipe"}, "shard_size": 50})
    project.snakemake("mlvp_tiny")
    assert not list((tmp_path / "corpora").rglob("*.*"))
    assert project.planned("mlvp_tiny") == {}
    assert videos(project) == (8, 8)


# --- Snakemake's own habits: docs/how-to/check-and-resume.md --------------------------------------------------------


@pytest.mark.parametrize("words", [["--forceall"], ["--forcerun", "videos"]])
def test_forcing_means_verifying(words: list[str], project: Project) -> None:
    """Finished clips are kept as they are, a damaged one is mended."""
    before, clip = inodes(project), project.root / CLIP
    content = clip.read_bytes()
    clip.write_bytes(bytes(len(content)))  # of the same size
    project.snakemake(*words, "--", MANIFEST)
    assert clip.read_bytes() == content
    assert {path for path, inode in before.items() if path.stat().st_ino == inode} == before.keys() - {clip}


def test_touching_makes_nothing_and_is_refused_at_the_next_merge_after_a_changed_number(project: Project) -> None:
    before = project.results()
    project.snakemake("--touch", "mlvp_tiny")
    assert project.results() == before
    assert project.planned("mlvp_tiny") == {}
    project.config["suites"]["mlvp"]["parameters"] = {"fog": {1: {"intensity": 2.5}}}
    project.snakemake("--touch", "mlvp_tiny")
    failed = project.refusal("--forcerun", "videos_manifest", "--", "mlvp_tiny")
    assert "a job of videos_manifest failed: work/tiny/mlvp/fog/1/" in failed
    assert " lacks ('" in failed


def test_deleting_all_output_leaves_clips_which_the_next_run_takes_over(project: Project) -> None:
    """Snakemake lists clips and journals as untracked: whoever deletes them deletes the corpus."""
    untracked = project.snakemake("--list-untracked", "--", "mlvp_tiny").stdout
    assert CLIP.as_posix() in untracked
    assert "work/tiny/mlvp/fog/1/" in untracked
    marker = next((project.root / CLIP).parent.glob(".*.json")).relative_to(project.root)
    assert os.fspath(marker) not in untracked
    before = inodes(project)
    project.snakemake("--delete-all-output", "--", "mlvp_tiny")
    assert not (project.root / MANIFEST).exists()
    assert inodes(project) == before
    project.snakemake("mlvp_tiny")
    assert inodes(project) == before
