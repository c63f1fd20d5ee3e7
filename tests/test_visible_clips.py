"""Clips that Snakemake sees: what is deleted is made again, and every command says so before."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import clips
import preloaded
import pytest

from perturbations import read_manifest
from perturbations.status.status import collect

CONFIG = """
seed: 3
datasets: {demo: {adapter: demo, clips: 3}}
suites: {mlvp: {perturbations: [gaussian_noise, fog], severities: [1]}}
storage: {tier: frames, num_frames: 2}
shard_size: 2
"""
CLIP = Path("corpora/demo/mlvp/fog/1/demo-0001.npy.zst")


def snakemake(folder: Path, *arguments: str, status: int = 0) -> str:
    workflow = ("--snakefile", str(Path(__file__).parents[1] / "Snakefile"))
    return preloaded.snakemake(folder, *workflow, *arguments, status=status)


def planned(folder: Path, *arguments: str) -> dict[str, int]:
    """The number of jobs per rule that a dry run plans."""
    text = snakemake(folder, "--dry-run", *arguments)
    (jobs,) = re.findall(r"(?m)^\d+ jobs?: (.*)$", text) or [""]
    return {name: int(count) for name, count in re.findall(r"([a-z_]+) (\d+)", jobs)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "config.yaml").write_text(CONFIG)
    snakemake(folder, "mlvp_demo")
    return folder


@pytest.fixture
def corpus(finished: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, whose files are as old as there."""
    return Path(shutil.copytree(finished, tmp_path / "run", symlinks=True))


def videos(folder: Path) -> tuple[int, int | None]:
    """The clips that are done, and all."""
    (stage,) = (stage for stage in collect(folder).stages if stage.stage == "videos")
    return stage.done, stage.total


def test_a_finished_run_has_a_marker_per_shard_and_nothing_to_do(corpus: Path) -> None:
    markers = [path for path in (corpus / "corpora").rglob("*") if clips.is_marker(path)]
    parts = list((corpus / "work/demo/mlvp").glob("*/1/*.parquet"))
    assert {path.name for path in markers} == {f".{path.stem}.json" for path in parts}
    assert len(markers) == len(parts) == 4
    assert planned(corpus, "mlvp_demo") == {}
    assert videos(corpus) == (6, 6)


@pytest.mark.parametrize(
    ("gone", "jobs"), [("corpora", 4), ("corpora/demo/mlvp/fog", 2), ("corpora/demo/mlvp/fog/1/.s*.json", 2)]
)
def test_what_is_gone_is_made_again(gone: str, jobs: int, corpus: Path) -> None:
    before = {path: path.read_bytes() for path in corpus.rglob("corpora/**/*.zst")}
    for path in corpus.glob(gone):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert planned(corpus, "mlvp_demo").get("videos", 0) == jobs
    merged = ["--forcerun", "videos_manifest", "--", "manifests/demo/mlvp/videos.parquet"]
    assert planned(corpus, *merged).get("videos", 0) == jobs
    snakemake(corpus, "mlvp_demo")
    assert {path: path.read_bytes() for path in corpus.rglob("corpora/**/*.zst")} == before
    assert planned(corpus, "mlvp_demo") == {}
    assert videos(corpus) == (6, 6)


def test_another_size_of_shards_makes_nothing_again(corpus: Path) -> None:
    """Larger ones take the clips of several, smaller ones some of those of one, whichever job comes first."""
    hashes = read_manifest(corpus / "manifests/demo/mlvp/videos.parquet")["sha256"].tolist()
    clips = {path: path.stat().st_mtime_ns for path in corpus.rglob("corpora/**/*.zst")}
    for size in (5, 1):
        (corpus / "config.yaml").write_text(CONFIG.replace("shard_size: 2", f"shard_size: {size}"))
        snakemake(corpus, "mlvp_demo")
        assert {path: path.stat().st_mtime_ns for path in clips} == clips
        assert read_manifest(corpus / "manifests/demo/mlvp/videos.parquet")["sha256"].tolist() == hashes


def test_recipes_have_no_clips_and_no_markers(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG.replace("frames, num_frames: 2", "recipe"))
    snakemake(tmp_path, "mlvp_demo")
    assert not (tmp_path / "corpora").exists() or not list((tmp_path / "corpora").rglob("*.*"))
    assert planned(tmp_path, "mlvp_demo") == {}
    assert videos(tmp_path) == (6, 6)


# --- Snakemake's own habits: docs/how-to/snakemake-habits.md ---------------------------------------------------------


@pytest.mark.parametrize("words", [["--forceall"], ["--forcerun", "videos"]])
def test_forcing_means_verifying(words: list[str], corpus: Path) -> None:
    """Finished clips are kept as they are, a damaged one is mended."""
    inodes = {path: path.stat().st_ino for path in corpus.rglob("corpora/**/*.zst")}
    content = (corpus / CLIP).read_bytes()
    (corpus / CLIP).write_bytes(bytes(len(content)))  # of the same size
    snakemake(corpus, *words, "--", "mlvp_demo")
    assert (corpus / CLIP).read_bytes() == content
    same = {path for path, inode in inodes.items() if path.stat().st_ino == inode}
    assert same == inodes.keys() - {corpus / CLIP}


def test_touching_makes_nothing(corpus: Path) -> None:
    before = {path: path.read_bytes() for path in corpus.rglob("manifests/**/*.parquet")}
    snakemake(corpus, "--touch", "mlvp_demo")
    assert {path: path.read_bytes() for path in before} == before
    assert planned(corpus, "mlvp_demo") == {}


def test_touching_after_a_changed_number_is_refused_at_the_next_merge(corpus: Path) -> None:
    parameters = "severities: [1], parameters: {fog: {1: {intensity: 2.5}}}"
    (corpus / "config.yaml").write_text(CONFIG.replace("severities: [1]", parameters))
    snakemake(corpus, "--touch", "mlvp_demo")
    failed = snakemake(corpus, "--forcerun", "videos_manifest", "--", "mlvp_demo", status=1)
    assert "a job of videos_manifest failed: work/demo/mlvp/fog/1/" in failed
    assert " lacks ('demo-0002', " in failed
    assert "fog" in failed


def test_deleting_all_output_leaves_clips_which_the_next_run_takes_over(corpus: Path) -> None:
    clips = {path: path.stat().st_ino for path in corpus.rglob("corpora/**/*.zst")}
    snakemake(corpus, "--delete-all-output", "--", "mlvp_demo")
    assert not (corpus / "manifests/demo/mlvp/videos.parquet").exists()
    assert all(path.exists() for path in clips)
    snakemake(corpus, "mlvp_demo")
    assert {path: path.stat().st_ino for path in clips} == clips


def test_untracked_files_are_no_rubbish(corpus: Path) -> None:
    """Snakemake lists clips and journals as untracked: whoever deletes them deletes the corpus."""
    untracked = snakemake(corpus, "--list-untracked", "--", "mlvp_demo")
    assert CLIP.as_posix() in untracked
    assert "work/demo/mlvp/fog/1/" in untracked
    assert os.fspath(next((corpus / CLIP).parent.glob(".*.json")).relative_to(corpus)) not in untracked
