"""Whatever disturbs a finished corpus: `perturb verify` finds it, `--delete` deletes it, and one run makes it again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from workflow_project import Project, copy_of, new_project, tiny_clip

from perturbations.base import storage
from perturbations.cli.main import main
from perturbations.corpus import run_status
from perturbations.manifest import files

TARGETS = "mlvp_tiny", "text_mm_robustness_tiny"
CLIP, OTHER_CLIP = Path("corpora/tiny/mlvp/fog/1/a.mp4"), Path("corpora/tiny/mlvp/fog/3/a.mp4")
MANIFESTS, WORK = Path("manifests/tiny"), Path("work/tiny")
VIDEOS, TEXTS = MANIFESTS / "mlvp/videos.parquet", MANIFESTS / "mm_robustness/captions.parquet"
FOLDERS = {"video": WORK / "mlvp/fog/1", "source": WORK / "sources", "text": WORK / "mm_robustness/captions/keyboard/1"}
SOURCE_BYTES = 20_000


def padded(path: Path) -> None:
    """Give a video the size of every other one, by a box that decoders skip."""
    data = path.read_bytes()
    rest = SOURCE_BYTES - len(data)
    path.write_bytes(data + rest.to_bytes(4, "big") + b"free" + bytes(rest - 8))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    captions = {"perturbations": ["keyboard"], "severities": [1]}
    project = new_project(
        tmp_path_factory.mktemp("finished"),
        suites={
            "mlvp": {"perturbations": ["fog", "gaussian_noise"], "severities": [1, 3]},
            "mm_robustness": {"perturbations": ["brightness"], "severities": [1], "captions": captions},
        },
        storage={"tier": "video", "profile": "compatible"},
        shard_size=50,
    )
    project.write_captions(["a", "b", "c"])
    tiny_clip(project.root / "another.mp4", seed=9)
    for path in [project.root / "another.mp4", *(project.root / "videos").iterdir()]:
        padded(path)
    project.snakemake(*TARGETS)
    return project


@pytest.fixture
def corpus(finished: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = copy_of(finished, tmp_path / "run")
    monkeypatch.chdir(project.root)
    return project


def contents() -> dict[str, bytes]:
    """Every clip, manifest and marker."""
    paths = [path for top in ("corpora", "manifests") for path in Path(top).rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in paths if path.suffix in (".mp4", ".parquet", ".json")}


# --- what disturbs ---------------------------------------------------------------------------------------------------

Disturbance = Callable[[Project], object]


def of(change: Callable[..., object], *paths: Path) -> Disturbance:
    return lambda corpus: change(*paths)


def in_work(change: Callable[[Path], object], kind: str, pattern: str = "s*.parquet") -> Disturbance:
    """A change of the one file of a kind of part."""

    def changed(corpus: Project) -> None:
        (path,) = FOLDERS[kind].glob(pattern)
        change(path)

    return changed


def flipped(place: float) -> Callable[[Path], object]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(place * (len(data) - 1))] ^= 4
        path.write_bytes(data)

    return flip


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def exchanged(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def linked(path: Path, to: Path) -> None:
    path.unlink()
    path.symlink_to(to.resolve())


def other_cell(path: Path) -> None:
    """A cell that another program has written."""
    table = pq.read_table(path)
    place = table.column_names.index("seed")
    pq.write_table(table.set_column(place, "seed", [[7, *table["seed"].to_pylist()[1:]]]), path)


def rows_with(**columns: object) -> Callable[[Path], object]:
    """The manifest of another dataset, suite or seed, with hashes that fit."""

    def rewrite(path: Path) -> None:
        kind, about = files.kind_of(path), files.read_metadata(path)
        rows = [replace(row, **columns) for row in files.read_rows(path, kind)]
        files.write(path, kind, rows, {**about, **{name: columns[name] for name in columns if name in about}})

    return rewrite


def other_digit(path: Path) -> None:
    """Another digit in what a journal says was measured."""
    text = path.read_bytes()
    start = text.index(b'"psnr_db": ') + len(b'"psnr_db": ')
    path.write_bytes(text[:start] + bytes([text[start] ^ 1]) + text[start + 1 :])


def appended(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes() + data)


def foreign_and_damaged(corpus: Project) -> None:
    rows_with(seed=8)(VIDEOS)
    CLIP.write_bytes(b"x")


def replaced_source(time_too: bool) -> Disturbance:
    def replaced(corpus: Project) -> None:
        path = Path("videos/a.mp4")
        before = path.stat()
        shutil.copyfile("another.mp4", path)
        if not time_too:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return replaced


def configured(**config: Any) -> Disturbance:
    """Another configuration, after a run."""

    def change(corpus: Project) -> None:
        for name, value in config.items():
            corpus.config[name] = {**corpus.config[name], **value} if isinstance(value, dict) else value
        corpus.snakemake(*TARGETS)

    return change


def without_a_clip(corpus: Project) -> None:
    corpus.write_captions(["a", "b"])
    corpus.snakemake(*TARGETS)


def without_a_suite(corpus: Project) -> None:
    """Its manifests were deleted by hand, its clips were not."""
    shutil.rmtree(MANIFESTS / "mlvp")
    del corpus.config["suites"]["mlvp"]
    corpus.write_config()


def in_larger_tars(corpus: Project) -> None:
    configured(storage={"container": "tar"}, shard_size=1)(corpus)
    configured(shard_size=50)(corpus)
    logs = [path.read_text() for path in Path("work/logs/tiny/mlvp").glob("*/*/*.log")]
    assert sum("3 of 3 were finished before" in log for log in logs) == 4, "clips are taken from the other tars"


LEFTOVER = storage.temporary_path(CLIP)
ONE_SEVERITY = {"mlvp": {"perturbations": ["fog", "gaussian_noise"], "severities": [1]}}
ONE_PERTURBATION = {"mlvp": {"perturbations": ["fog"], "severities": [1, 3]}}
MADE = sorted(
    [
        VIDEOS,
        TEXTS,
        *(MANIFESTS / f"{name}.parquet" for name in ("sources", "captions", "qrels", "captions_quarantine")),
    ]
    + [MANIFESTS / f"mlvp/{name}.parquet" for name in ("quarantine", "mixed_types", "mixed_severity")]
    + [MANIFESTS / "mm_robustness/caption_statistics.parquet"]
)

DISTURBANCES: dict[str, Disturbance] = {
    "a clip is missing": of(Path.unlink, CLIP),
    "a clip is empty": of(lambda path: path.write_bytes(b""), CLIP),
    "a clip is cut": of(cut, CLIP),
    "a bit of a clip": of(flipped(0.5), CLIP),
    "bytes after a clip": of(appended(b"x"), CLIP),
    "two clips are exchanged": of(exchanged, CLIP, OTHER_CLIP),
    "a link to another clip": of(linked, CLIP, OTHER_CLIP),
    "an interrupted write": of(lambda: LEFTOVER.write_bytes(b"x")),
    "a folder of clips": of(shutil.rmtree, CLIP.parent),
    "corpora": of(shutil.rmtree, Path("corpora")),
    **{f"{path.parent.name}/{path.stem} is missing": of(Path.unlink, path) for path in MADE},
    "a folder of manifests": of(shutil.rmtree, VIDEOS.parent),
    **{f"a bit of a manifest at {place}": of(flipped(place), VIDEOS) for place in (0, 0.3, 0.7, 0.85, 0.98, 1)},
    "a bit of captions": of(flipped(0.9), TEXTS),
    "a manifest is cut": of(cut, VIDEOS),
    "a manifest is empty": of(lambda path: path.write_bytes(b""), VIDEOS),
    "a cell": of(other_cell, VIDEOS),
    "another seed": of(rows_with(seed=8), VIDEOS),
    "captions of another seed": of(rows_with(seed=8), TEXTS),
    "another dataset": of(rows_with(dataset="other"), VIDEOS),
    "another suite": of(rows_with(suite="mm_robustness"), VIDEOS),
    "other hashes of clips": of(rows_with(sha256="0" * 64), VIDEOS),
    "another kind": of(shutil.copy, MANIFESTS / "qrels.parquet", VIDEOS),
    "a foreign manifest and a damaged clip": foreign_and_damaged,
    "a bit of a part": in_work(flipped(0.9), "video"),
    "a part of sources": in_work(flipped(0.5), "source"),
    "a part of captions": in_work(flipped(0.5), "text"),
    "a part of captions is missing": in_work(Path.unlink, "text"),
    "a digit of a journal": in_work(other_digit, "video", "s*.jsonl"),
    "a journal that is no text": in_work(appended(b"\xff\xfe torn"), "video", "s*.jsonl"),
    "a marker": lambda corpus: next(CLIP.parent.glob(".s*.json")).write_text("{"),
    "a marker of captions": lambda corpus: next((WORK / "mm_robustness/captions").glob("s*.json")).write_text("{"),
    "a source of the same size": replaced_source(time_too=True),
    "a source of the same size and time": replaced_source(time_too=False),
    "a clip is taken out": without_a_clip,
    "a severity is taken out": configured(suites=ONE_SEVERITY),
    "a perturbation is taken out": configured(suites=ONE_PERTURBATION),
    "a suite is taken out": without_a_suite,
    "frames": configured(storage={"tier": "frames"}),
    "recipes": configured(storage={"tier": "recipe"}),
    "tars of other shards": in_larger_tars,
}
OTHERS = ("a source", "a clip is taken", "a severity", "a perturbation", "a suite", "frames", "recipes", "tars")
"""What these leave is not what was there before."""


@pytest.mark.parametrize("name", DISTURBANCES)
def test_what_disturbs_is_found_and_deleted_and_made_again_in_one_run(
    name: str, corpus: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents()
    DISTURBANCES[name](corpus)
    assert main(["verify"]) == 1
    assert main(["verify", "--delete"]) == 1
    targets = TARGETS if "mlvp" in corpus.config["suites"] else TARGETS[1:]
    corpus.snakemake(*targets)
    capsys.readouterr()
    assert main(["verify"]) == 0, capsys.readouterr().out
    assert name.startswith(OTHERS) or contents() == before


SOUND: dict[str, Disturbance] = {
    "nothing": lambda corpus: None,
    "all sources are touched": lambda corpus: [os.utime(path) for path in Path("videos").iterdir()],
    "the whole is copied": lambda corpus: [os.utime(path) for path in Path().rglob("*")],
    "smaller shards": configured(shard_size=1),
    "a part is missing": in_work(Path.unlink, "source"),
    "a journal is missing": in_work(Path.unlink, "video", "s*.jsonl"),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_is_neither_found_nor_deleted_nor_made_again(name: str, corpus: Project) -> None:
    SOUND[name](corpus)
    before, clips = contents(), {path: path.stat().st_ino for path in Path("corpora").rglob("*.mp4")}
    assert main(["verify", "--delete"]) == 0
    assert contents() == before
    corpus.snakemake(*TARGETS)
    assert {path: path.stat().st_ino for path in Path("corpora").rglob("*.mp4")} == clips
    assert main(["verify"]) == 0


def test_a_stranger_s_file_is_named_with_its_size_and_stays(
    corpus: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    strangers = [CLIP.with_name("mine.mp4"), CLIP.with_name("notes.txt"), Path("corpora/tiny/mlvp/list.csv")]
    for path in strangers:
        path.write_bytes(b"mine")
    assert main(["verify", "--delete"]) == 1
    printed = capsys.readouterr().out
    assert all(f"{path}: no row names this file of 4 bytes" in printed for path in strangers)
    assert all(path.read_bytes() == b"mine" for path in strangers)


def test_status_counts_the_clips_that_lie_there(corpus: Project) -> None:
    def done() -> int:
        (stage,) = (each for each in run_status.collect(Path())["stages"] if each["stage"] == "videos")
        return int(stage["done"])

    assert done() == 12
    CLIP.unlink()
    assert done() == 11
    shutil.rmtree("corpora")
    assert done() == 0
