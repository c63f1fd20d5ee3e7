"""The storage tier `recipe` under every perturbation of the suites that came after the papers' three."""

from __future__ import annotations

import hashlib
from pathlib import Path

import clips
import numpy as np
import pyarrow.parquet as pq
import pytest

from perturbations import Corpus
from perturbations.cli.main import main
from perturbations.engine import shards
from perturbations.manifest import files
from perturbations.manifest.kinds import SOURCES, VIDEOS, CompleteSource, VideoRow
from perturbations.plan import recipe, tiers
from perturbations.suites import registry

PAPERS = {"mlvp", "mm_robustness", "msrvtt_p"}
SUITES = [name for name in registry.suites() if name not in PAPERS and registry.perturbations(name, "video")]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two clips."""
    root = tmp_path_factory.mktemp("tree")
    sources: list[CompleteSource] = []
    for number in range(2):
        frames = np.random.default_rng(number).integers(0, 256, (16, 6, 8, 3), np.uint8).repeat(8, 1).repeat(8, 2)
        sources.append(clips.source_row(clips.write_scene(root / f"clean/{number}.mp4", frames), f"it{number}"))
    files.write(root / "manifests/data/sources.parquet", SOURCES, sources, {"root": "../.."})
    return root


def rows_of(root: Path, entry: registry.Perturbation) -> list[VideoRow]:
    sources: list[CompleteSource] = [
        row
        for row in files.read_rows(root / "manifests/data/sources.parquet", SOURCES)
        if isinstance(row, CompleteSource)
    ]
    wanted = recipe.make(entry, entry.severities[-1], seed=0, storage=tiers.Unstored(), donors="data")
    folder = root / "work" / entry.key
    known = clips.known(wanted, sources[0], folder, sources)
    return shards.run_videos(
        wanted,
        sources[:1],
        root=root,
        folder=folder,
        journal=folder / "rows.jsonl",
        stall_limit_s=60,
        known=known,
    )


@pytest.mark.parametrize("suite", SUITES)
def test_clips_that_nobody_stored_are_made_when_read_and_exported(tree: Path, tmp_path: Path, suite: str) -> None:
    entries = registry.perturbations(suite, "video")
    rows = [row for entry in entries for row in rows_of(tree, entry)]
    assert {(row.status, row.storage, row.path, row.stored_frames) for row in rows} == {("complete", "recipe", None, 0)}
    folder = tree / f"manifests/data/{suite}"
    files.write(folder / "videos.parquet", VIDEOS, rows, {"root": "../../.."})
    corpus = Corpus(folder)
    assert corpus.perturbations == sorted(entry.name for entry in entries)
    for clip in corpus:
        frames = clip.frames()
        assert hashlib.sha256(frames.tobytes()).hexdigest() == clip.frames_sha256
        np.testing.assert_array_equal(clip.frames([len(frames) - 1, 0]), frames[[-1, 0]])
        assert clip.clean is not None
        assert not np.array_equal(clip.clean.frames(), frames)
    assert main(["export", str(folder / "videos.parquet"), "--format", "hub", "-o", str(tmp_path / "out")]) == 0
    for table in (tmp_path / "out/data").glob("*/metadata.parquet"):
        (row,) = pq.read_table(table).to_pylist()
        encoded = clips.images(table.parent / row["file_name"])
        assert hashlib.sha256(encoded.tobytes()).hexdigest() == row["frames_sha256"]


@pytest.mark.parametrize(
    ("key", "ticks"), [("mlvp/h264_compression", [0, 1, 2, 5, 6, 9]), ("msrvtt_p/mpeg2", [0, 1, 2, 3, 4, 5])]
)
def test_exported_streams_of_codecs_show_frames_in_time(key: str, ticks: list[int], tmp_path: Path) -> None:
    """An encoder counts frames with a clock of its own. (MPEG-4 has a constant rate, also of uneven frames.)"""
    path = clips.written(tmp_path / "clean.mp4", clips.noise(len(ticks)), ticks)
    row = clips.made_row(key, tiers.Unstored(), clips.source_row(path), tmp_path)
    manifest = tmp_path / "manifests/videos.parquet"
    files.write(manifest, VIDEOS, [row], {"root": ".."})
    assert main(["export", str(manifest), "--format", "hub", "-o", str(tmp_path / "hub")]) == 0
    (exported,) = (tmp_path / "hub").rglob("*.mp4")
    assert clips.container_times(exported) == clips.container_times(path)
