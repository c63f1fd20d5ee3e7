"""Clips that Snakemake sees: what is deleted is made again, and every command says so before."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import needs
import preloaded
import pytest

from perturbations import read_manifest
from perturbations.cli.main import main
from perturbations.plan import clip_markers
from perturbations.status.status import collect

pytestmark = needs.wings("demo")

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
    return {name: int(count) for name, count in re.findall(r"(?m)^([a-z_]+) +(\d+)$", text)}


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
    markers = [path for path in (corpus / "corpora").rglob("*") if clip_markers.is_marker(path)]
    parts = list((corpus / "work/demo/mlvp").glob("*/1/*.parquet"))
    assert {path.name for path in markers} == {f".{path.stem}.json" for path in parts}
    assert len(markers) == len(parts) == 4
    assert planned(corpus, "mlvp_demo") == {}
    assert videos(corpus) == (6, 6)


@pytest.mark.parametrize(
    ("gone", "lost", "jobs"), [("the whole folder", 6, 4), ("a clip, half a clip, a marker", 2, 2)]
)
def test_what_is_gone_is_made_again(gone: str, lost: int, jobs: int, corpus: Path) -> None:
    before = {path: path.read_bytes() for path in corpus.rglob("corpora/**/*.zst")}
    if gone == "the whole folder":
        shutil.rmtree(corpus / "corpora")
    else:
        (corpus / CLIP).unlink()
        (corpus / CLIP.as_posix().replace("fog", "gaussian_noise")).write_bytes(b"short")
        markers = (corpus / CLIP).parent.glob(".*.json")
        next(path for path in markers if CLIP.name not in (clip_markers.read(path) or {})).write_text("{")
    assert videos(corpus) == (6 - lost, 6)
    assert planned(corpus, "mlvp_demo").get("videos", 0) == jobs
    merged = ["--forcerun", "videos_manifest", "--", "manifests/demo/mlvp/videos.parquet"]
    assert planned(corpus, *merged).get("videos", 0) == jobs
    snakemake(corpus, "mlvp_demo")
    assert {path: path.read_bytes() for path in corpus.rglob("corpora/**/*.zst")} == before
    assert planned(corpus, "mlvp_demo") == {}
    assert videos(corpus) == (6, 6)


def test_clips_of_a_version_without_markers_are_taken_over(corpus: Path) -> None:
    for path in list((corpus / "corpora").rglob(".*.json")):
        path.unlink()
    clips = {path: path.stat().st_mtime_ns for path in corpus.rglob("corpora/**/*.zst")}
    assert planned(corpus, "mlvp_demo") == {}
    assert len(list((corpus / "corpora").rglob(".*.json"))) == 4
    assert {path: path.stat().st_mtime_ns for path in clips} == clips


def test_another_size_of_shards_makes_nothing_again(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger ones take the clips of several, smaller ones some of those of one, whichever job comes first."""
    hashes = read_manifest(corpus / "manifests/demo/mlvp/videos.parquet")["sha256"].tolist()
    clips = {path: path.stat().st_mtime_ns for path in corpus.rglob("corpora/**/*.zst")}
    for size, shards in ((5, 1), (1, 3)):
        (corpus / "config.yaml").write_text(CONFIG.replace("shard_size: 2", f"shard_size: {size}"))
        snakemake(corpus, "mlvp_demo")
        assert {path: path.stat().st_mtime_ns for path in clips} == clips
        assert read_manifest(corpus / "manifests/demo/mlvp/videos.parquet")["sha256"].tolist() == hashes
        # Markers of shards that are no more are gone.
        assert len(list((corpus / "corpora").rglob(".*.json"))) == 2 * shards
    assert list((corpus / "work").rglob("former/*.jsonl"))
    monkeypatch.chdir(corpus)
    assert main(["clean", "--delete"]) == 0
    assert not list((corpus / "work").rglob("former"))


@needs.wings("report")
def test_a_run_killed_before_its_end_gets_its_page_of_pages_from_the_next(corpus: Path) -> None:
    """Also where nothing is left to do, so that Snakemake calls no handler."""
    page, note = corpus / "manifests/index.html", corpus / "work/run.txt"
    written = page.stat().st_mtime_ns
    snakemake(corpus, "mlvp_demo")
    assert page.stat().st_mtime_ns == written
    os.utime(note, ns=(written + 1, written + 1))
    snakemake(corpus, "--dry-run", "mlvp_demo")
    assert page.stat().st_mtime_ns == written
    page.unlink()
    snakemake(corpus, "mlvp_demo")
    assert "mlvp" in page.read_text()


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


# --- perturb clean ---------------------------------------------------------------------------------------------------


def test_what_no_configuration_needs_is_listed_and_deleted(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(corpus)
    there = {path for path in corpus.rglob("*") if path.is_file()}
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == "Every file of this folder's runs is needed.\n"
    (corpus / "other.yaml").write_text(CONFIG)
    (corpus / "config.yaml").write_text(CONFIG.replace("gaussian_noise, fog", "gaussian_noise"))
    (corpus / "manifests/mine.txt").write_text("no file of a run")
    (corpus / CLIP.parent / "notes.txt").write_text("of the user")
    (corpus / CLIP.parent / "former.mp4").write_text("a clip of no marker")
    assert main(["clean", "--configfile", "config.yaml", "other.yaml"]) == 0
    assert "corpora/demo/mlvp/fog/1: 1 files" in capsys.readouterr().out
    assert main(["clean"]) == 0
    listed = capsys.readouterr().out
    assert "corpora/demo/mlvp/fog/1: 6 files" in listed
    assert "are not needed; `perturb clean --delete` deletes them" in listed
    assert {path for path in there if not path.exists()} == set()
    assert main(["clean", "--delete"]) == 0
    gone = {path.relative_to(corpus).parts[:4] for path in there if not path.exists()}
    assert gone == {("corpora", "demo", "mlvp", "fog"), ("work", "demo", "mlvp", "fog")}
    assert os.listdir(corpus / CLIP.parent) == ["notes.txt"]
    assert (corpus / "manifests/mine.txt").exists()
    snakemake(corpus, "mlvp_demo")
    assert main(["clean"]) == 0
    assert "Every file" in capsys.readouterr().out
    monkeypatch.chdir(corpus / "manifests")
    assert main(["clean", "--delete"]) == 1
    assert "config.yaml: no such file; run this where config.yaml is" in capsys.readouterr().err


def test_a_file_that_is_none_or_mistaken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.yaml").write_text("datasets: {d: {adapter: demo, clips: 1}}\nsuites: {mlvq: {}}\n")
    for words, message in (
        ([], "config.yaml: no such file; run this where config.yaml is"),
        (["--configfile", "absent.yaml"], "absent.yaml: no such file"),
        (["--configfile", "other.yaml"], "other.yaml, line 2: suites.mlvq"),
    ):
        assert main(["clean", *words]) == 1
        assert message in capsys.readouterr().err


def test_clips_of_a_corpus_that_became_recipes_are_not_needed(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(corpus)
    (corpus / "other.yaml").write_text(CONFIG)
    (corpus / "config.yaml").write_text(CONFIG.replace("frames, num_frames: 2", "recipe"))
    snakemake(corpus, "mlvp_demo")
    assert main(["clean", "--configfile", "config.yaml", "other.yaml"]) == 0
    assert "Every file" in capsys.readouterr().out
    assert main(["clean", "--delete"]) == 0
    assert not list((corpus / "corpora").rglob("*.*"))
    assert planned(corpus, "mlvp_demo") == {}


def test_nothing_is_deleted_while_snakemake_runs(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(corpus)
    (corpus / "config.yaml").write_text(CONFIG.replace("{demo:", "{other:"))
    locks = corpus / ".snakemake/locks"
    locks.mkdir(exist_ok=True)
    (locks / "0.output.lock").write_text("here")
    assert main(["clean", "--delete"]) == 1
    assert "snakemake --unlock" in capsys.readouterr().err
    assert (corpus / CLIP).exists()


def test_nothing_is_deleted_behind_a_link_that_leads_out(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = corpus.with_name("elsewhere")
    (corpus / "corpora").rename(elsewhere)
    (corpus / "corpora").symlink_to(elsewhere)
    (corpus / "config.yaml").write_text(CONFIG.replace("{demo:", "{other:"))
    there = sorted(corpus.rglob("work/**/*.*")) + sorted(elsewhere.rglob("*"))
    monkeypatch.chdir(corpus)
    assert main(["clean", "--delete"]) == 1
    assert "a symbolic link leads to" in capsys.readouterr().err
    assert all(path.exists() for path in there)
