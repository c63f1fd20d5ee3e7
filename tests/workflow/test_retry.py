"""`perturb retry`: quarantined items are processed again, and nothing else is made again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from workflow_project import IDS, Project, copy_of, new_project

from perturbations import read_manifest

MADE = "corpora/tiny/mlvp"


def quarantined(project: Project) -> dict[str, str]:
    frame = read_manifest(project.root / "manifests/tiny/mlvp/quarantine.parquet")
    return dict(zip(frame["item_id"], frame["stage"], strict=True))


def inodes(project: Project) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in (project.root / MADE).rglob("*.mp4")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, bytes]:
    """A finished run with a clip that was damaged, and what the clip was before. Not to be changed: use `damaged`."""
    project = new_project(tmp_path_factory.mktemp("finished"), shard_size=50, max_failed_items=1)
    clip = project.root / "videos/b.mp4"
    whole = clip.read_bytes()
    clip.write_bytes(bytes(len(whole)))  # as large as before
    project.snakemake("mlvp_tiny")
    assert quarantined(project) == {"b": "source"}
    return project, whole


@pytest.fixture
def damaged(finished: tuple[Project, bytes], tmp_path: Path) -> tuple[Project, bytes]:
    """A copy of it."""
    project, whole = finished
    return copy_of(project, tmp_path / "project"), whole


def rewrite(path: Path, content: bytes) -> None:
    """Write a file that keeps its time: planning would look at another."""
    times = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_mended_clip_is_made_and_no_other(damaged: tuple[Project, bytes]) -> None:
    project, whole = damaged
    rewrite(project.root / "videos/b.mp4", whole)
    assert project.rerun("mlvp_tiny") == set(), "nothing tells Snakemake that it was mended"
    before, parts = inodes(project), project.outputs()

    would = project.perturb("retry", "--dry-run")
    assert would.returncode == 0, would.stderr
    assert "'b': source: " in would.stdout
    assert "1 quarantined row in 1 part would be processed again" in would.stdout
    assert project.outputs() == parts

    assert project.perturb("retry").returncode == 0
    project.snakemake("mlvp_tiny")
    assert quarantined(project) == {}
    videos = read_manifest(project.root / "manifests/tiny/mlvp/videos.parquet")
    assert sorted(set(videos["item_id"])) == IDS
    assert set(videos["status"]) == {"complete"}
    after = inodes(project)
    assert {path.stem for path in after if path not in before} == {"b"}
    assert {path: after[path] for path in before} == before, "finished clips were made again"
    logs = [path.read_text() for path in (project.root / "work/logs/tiny/mlvp").rglob("s*.log")]
    assert len(logs) == 4
    assert all("3 of 4 were finished before and are kept" in log for log in logs)
    assert "0 quarantined rows" in project.perturb("retry").stdout
    assert project.rerun("mlvp_tiny") == set()


def test_a_clip_that_failed_while_it_was_made_is_made_again_alone(tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=50, max_failed_items=1)
    # A clip that changes between two jobs: its rows are quarantined at the stage `video`.
    project.snakemake("mlvp_tiny", "--until", "sources")
    whole = (tmp_path / "videos/c.mp4").read_bytes()
    changed = bytearray(whole)
    changed[-20] ^= 1
    rewrite(tmp_path / "videos/c.mp4", changed)
    project.snakemake("mlvp_tiny")
    assert quarantined(project) == {"c": "video"}
    rewrite(tmp_path / "videos/c.mp4", whole)
    before = inodes(project)
    assert "0 quarantined rows" in project.perturb("retry", "--item", "a", "b").stdout
    assert "0 quarantined rows" in project.perturb("retry", "--stage", "source").stdout
    assert (
        "4 quarantined rows in 4 parts will be"
        in project.perturb("retry", "--stage", "video", "--suite", "mlvp").stdout
    )
    remade = project.rerun("mlvp_tiny")
    assert len([name for name in remade if "mlvp" in name]) == 4
    assert not any("sources" in name for name in remade)
    assert quarantined(project) == {}
    after = inodes(project)
    assert {path.stem for path in after if path not in before} == {"c"}
    assert {path: after[path] for path in before} == before


def test_names_that_are_not_there_are_refused(damaged: tuple[Project, bytes], tmp_path: Path) -> None:
    project, _ = damaged
    refused = project.perturb("retry", "--dataset", "tyni")
    assert refused.returncode == 1
    assert "no dataset 'tyni' was made here; there are: ['tiny']" in refused.stderr
    assert "no suite 'fog'" in project.perturb("retry", "--suite", "fog").stderr
    empty = Project(tmp_path / "empty", {})
    empty.root.mkdir()
    assert "no folder work here" in empty.perturb("retry").stderr


def test_nothing_is_removed_while_snakemake_runs(damaged: tuple[Project, bytes]) -> None:
    project, _ = damaged
    before = project.outputs()
    lock = project.root / ".snakemake/locks/0.input.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.write_text("here")
    refused = project.perturb("retry")
    assert refused.returncode == 1
    assert "snakemake --unlock" in refused.stderr
    assert project.outputs() == before
    assert project.perturb("retry", "--dry-run").returncode == 0


def test_deleted_and_cut_files_and_damaged_parts_are_made_again_and_no_others(damaged: tuple[Project, bytes]) -> None:
    project, _ = damaged
    before, results = inodes(project), project.results()
    deleted, cut = (project.root / MADE / "fog" / severity / "a.mp4" for severity in ("1", "3"))
    deleted.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    part = next((project.root / "work/tiny/mlvp/gaussian_noise/3").glob("*.parquet"))
    part.write_bytes(b"")
    assert f"{part.relative_to(project.root)}: all its items: part: cannot be read" in project.perturb("retry").stdout
    project.snakemake("mlvp_tiny")
    assert project.results() == results
    assert {path for path, inode in inodes(project).items() if before.get(path) != inode} == {deleted, cut}
