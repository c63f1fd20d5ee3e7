"""Perturbed videos with perturbed captions in the layouts of other libraries: bad input, and a second time."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from export_readers import FORMATS, export
from small_corpus import ITEMS

from perturbations.base.errors import ManifestError
from perturbations.cli.main import main
from perturbations.manifest import files
from perturbations.manifest.kinds import MULTIMODAL, MultimodalRow

PAIRS = 2 * 2 * (2 * len(ITEMS) - 1)


@pytest.fixture(scope="module")
def tree(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(small, tmp_path_factory.mktemp("pairs") / "tree"))


def manifest_of(tree: Path) -> Path:
    return tree / "manifests/data/mlvp/multimodal.parquet"


def written_again(tree: Path, tmp_path: Path, change: Any) -> Path:
    """The manifest of pairs beside its own, with other rows."""
    path = manifest_of(tree).with_name(f"{tmp_path.name}.parquet")
    files.write(path, MULTIMODAL, change(files.read_rows(manifest_of(tree), MULTIMODAL)), {"root": "../../.."})
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_a_quarantined_video_is_listed_once_and_costs_no_other_pair(tree: Path, tmp_path: Path, name: str) -> None:
    def change(rows: list[MultimodalRow]) -> list[MultimodalRow]:
        bad = {"status": "quarantined", "stage": "video", "error": "no frames", "path": None}
        return [
            replace(row, **bad) if (row.item_id, row.perturbation) == (ITEMS[1], "fog") else row  # type: ignore[arg-type]
            for row in rows
        ]

    done = export(name, written_again(tree, tmp_path, change), tmp_path / "out", "pairs")
    assert (done.written, len(done.failed), len(done.quarantined)) == (2 * len(ITEMS) - 1, 0, 1)
    assert (tmp_path / "out/left_out.csv").read_text("utf-8").count("no frames") == 1


@pytest.mark.parametrize("name", FORMATS)
def test_pairs_that_are_there_twice_or_not_at_all_are_refused(tree: Path, tmp_path: Path, name: str) -> None:
    twice = written_again(tree, tmp_path, lambda rows: [*rows, rows[0]])
    with pytest.raises(ManifestError, match="complete rows more than once"):
        export(name, twice, tmp_path / "out", "pairs")
    rejected = written_again(tree, tmp_path, lambda rows: [replace(row, accepted=False) for row in rows])
    with pytest.raises(ManifestError, match="no complete row to export"):
        export(name, rejected, tmp_path / "out", "pairs")
    assert not (tmp_path / "out").exists()


def test_an_export_before_the_first_pair_is_one_of_the_same_suite(tree: Path, tmp_path: Path) -> None:
    """Where no severity of config.yaml is that of the pairs, only the clean ones are exported."""
    shutil.copytree(tree, tmp_path / "tree")
    manifest, about = manifest_of(tmp_path / "tree"), {"root": "../../..", "dataset": "data", "suite": "mlvp"}
    rows = files.read_rows(manifest, MULTIMODAL)
    for members, videos in (([], len(ITEMS)), (rows, 3 * len(ITEMS))):
        files.write(manifest, MULTIMODAL, members, about)
        done = export("hub", manifest, tmp_path / "out", "pairs", clean=True)
        assert done.written + done.kept == videos
    assert len(pq.read_table(tmp_path / "out/data/fog_1/metadata.parquet")) == PAIRS // 2


def test_the_level_of_a_caption_s_perturbation_is_its_suite_s(tree: Path, tmp_path: Path) -> None:
    def change(rows: list[MultimodalRow]) -> list[MultimodalRow]:
        return [replace(row, suite="mm_robustness") for row in rows if row.text_perturbation == "word_swap"]

    export("hub", written_again(tree, tmp_path, change), tmp_path / "out", "pairs")
    (row, *_) = pq.read_table(tmp_path / "out/data/fog_1/metadata.parquet").to_pylist()
    assert row["text_level"] == "word"


def test_pairs_without_the_dataset_s_captions_are_exported_without_them(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "manifests/data/mlvp/multimodal.parquet"
    target.parent.mkdir(parents=True)
    target.write_bytes(manifest_of(tree).read_bytes())
    for folder in ("corpora", "clean"):
        shutil.copytree(tree / folder, tmp_path / folder)
    export("hub", target, tmp_path / "hub", "pairs")
    (row, *_) = pq.read_table(tmp_path / "hub/data/fog_1/metadata.parquet").to_pylist()
    assert (row["source_text"], row["captions"]) == (None, [])
    assert row["text"].startswith("typos ")
    with pytest.raises(ManifestError, match=r"no sources\.parquet"):
        export("hub", target, tmp_path / "out", "pairs", clean=True)


def test_the_loaders_that_read_videos_or_captions_refuse_pairs(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    command = ["export", str(manifest_of(tree)), "--format", "vtr_tta", "-o", str(tmp_path / "out")]
    assert main(command) == 1
    message = capsys.readouterr().err
    assert "takes videos and captions only, not pairs of both: export videos.parquet and captions.parquet" in message
    assert not (tmp_path / "out").exists()


def test_the_command_says_what_it_wrote_and_a_second_time_keeps_it(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export", str(manifest_of(tree)), "--format", "hub", "-o", str(tmp_path / "out")]
    for counted in ("10 videos written, 0 existed", "0 videos written, 10 existed"):
        assert main(command) == 0
        assert f"{counted}, 0 failed" in capsys.readouterr().out
    front = yaml.safe_load((tmp_path / "out/README.md").read_text("utf-8").split("---\n")[1])
    assert [(entry["config_name"], entry.get("default")) for entry in front["configs"]] == [
        *(("multimodal", True), ("fog_1", None), ("gaussian_noise_1", None)),
    ]
