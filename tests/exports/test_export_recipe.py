"""A corpus published without its pixels: another folder, with the clips elsewhere, makes the same frames from it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import needs
import numpy as np
import pyarrow.parquet as pq
import pytest
from export_readers import export

from perturbations import open_clip, read_manifest
from perturbations.base import storage
from perturbations.cli.main import main
from perturbations.corpus.plan import recipe, tiers
from perturbations.exports import export_folder
from perturbations.manifest import files
from perturbations.manifest.rows import VIDEOS
from perturbations.suites import suite_registry as suites

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def tree(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(small, tmp_path_factory.mktemp("publisher") / "tree"))


@pytest.fixture(scope="module")
def published(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("published") / "recipes"
    manifest = str(tree / "manifests/data/mlvp/videos.parquet")
    assert main(["export", manifest, "--format", "recipe", "-o", str(output)]) == 0
    return output


def test_recipes_are_counted_and_have_the_version_of_their_corpus(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tree / "manifests/data/mlvp/videos.parquet"
    assert main(["export", str(place), "--format", "recipe", "-o", str(tmp_path / "out")]) == 0
    assert f"recipes of {len(read_manifest(place))} clips written, 0 failed" in capsys.readouterr().out
    described = json.loads((tmp_path / "out/croissant.json").read_bytes())
    assert described["version"] == f"1.0.0+{storage.sha256(tree / 'manifests/data/mlvp/videos.parquet')[:16]}"


@pytest.fixture
def held(tree: Path, tmp_path: Path) -> Path:
    """The clips in the folder of somebody else."""
    return Path(shutil.copytree(tree / "clean", tmp_path / "my clips"))


def regenerate(published: Path, held: Path, output: Path, *words: str) -> int:
    return main(["regenerate", str(published), "--clips", str(held), "-o", str(output), *words])


def test_an_export_of_recipes_has_no_pixels_and_no_paths_of_its_publisher(tree: Path, published: Path) -> None:
    every = [path for path in published.rglob("*") if path.is_file()]
    assert {path.suffix for path in every} - {".csv"} == {".parquet", ".json", ".md", ""}
    text = b"".join(path.read_bytes() for path in every if path.suffix != ".parquet").decode()
    assert "perturb regenerate" in text
    assert "extra_gated_prompt" not in text
    for path in every:
        if path.suffix == ".parquet":
            text += repr(pq.read_table(path).to_pylist()) + str(files.read_metadata(path))
    assert str(tree) not in text
    assert "clean/" not in text
    stored = files.read_rows(tree / "manifests/data/mlvp/videos.parquet", VIDEOS)
    rows = files.read_rows(published / "data/mlvp/videos.parquet", VIDEOS)
    assert [replace(row, source_path="") for row in rows] == [replace(row, source_path="") for row in stored]
    library = needs.reader("mlcroissant")
    dataset = library.Dataset(published / "croissant.json")
    assert len(list(dataset.records("mlvp_videos"))) == len(rows)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_somebody_else_makes_the_same_frames(
    tree: Path, published: Path, held: Path, tmp_path: Path, jobs: str
) -> None:
    output = tmp_path / "elsewhere"
    assert regenerate(published, held, output, "-j", jobs) == 0
    theirs = read_manifest(tree / "manifests/data/mlvp/videos.parquet")
    ours = read_manifest(output / "manifests/data/mlvp/videos.parquet")
    for expected, row in zip(theirs.itertuples(), ours.itertuples(), strict=True):
        assert (row.item_id, row.frames_sha256, row.sha256) == (
            expected.item_id,
            expected.frames_sha256,
            expected.sha256,
        )
        assert Path(str(row.source_path)).is_relative_to(held)
        np.testing.assert_array_equal(open_clip(row), open_clip(expected))
    clean = read_manifest(output / "manifests/data/sources.parquet").query("status == 'complete'")
    assert all(Path(path).is_relative_to(held) for path in map(str, clean["path"]))
    words = ["--format", "mteb", "--clean", "-o", str(tmp_path / "tasks")]
    assert main(["export", str(output / "manifests/data/mlvp/videos.parquet"), *words]) == 0
    assert len(json.loads((tmp_path / "tasks/tasks.json").read_bytes())["tasks"]) == 2
    mixed = read_manifest(output / "manifests/data/mlvp/mixed_types.parquet")
    assert all(Path(path).is_file() for path in map(str, mixed["path"].dropna()))


def _name(row: Any) -> tuple[str, str, int]:
    return row.item_id, row.perturbation, row.severity


def test_a_second_time_makes_what_is_missing_only(
    published: Path, held: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "elsewhere"
    assert regenerate(published, held, output) == 0
    stored = sorted((output / "corpora").rglob("*.mp4"))
    stored[0].unlink()
    stored[1].write_bytes(b"damaged")
    recipes = sum(row.storage == "recipe" for row in files.read_rows(published / "data/mlvp/videos.parquet", VIDEOS))
    capsys.readouterr()
    assert regenerate(published, held, output) == 0
    assert f"({2 + recipes} made now), other ones: 0; 0 other" in capsys.readouterr().out


def test_a_mistyped_folder_of_clips_is_one_line(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert regenerate(published, tmp_path / "typo", tmp_path / "elsewhere") == 1
    assert capsys.readouterr().err == f"perturb: --clips: no such folder: {tmp_path / 'typo'}\n"
    assert not (tmp_path / "elsewhere").exists()


def test_a_clip_that_is_another_one_is_reported_and_costs_no_other(
    published: Path, held: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(held / "1.mp4", held / "2.mp4")
    (held / "3.mp4").unlink()
    assert regenerate(published, held, tmp_path / "elsewhere") == 1
    assert "the published frames: 9 clips (9 made now), other ones: 6" in capsys.readouterr().out


def forged(published: Path, name: str, target: Path, change: Callable[[Any], Any], **about: str) -> Path:
    """An export in which somebody changed the first row of a table, with all of its hashes and the list of tables."""
    copy = Path(shutil.copytree(published, target))
    place = copy / "data" / name
    kind = files.kind_of(place)
    first, *rest = files.read_rows(place, kind)
    kept = {name: value for name, value in files.read_metadata(place).items() if name not in files.COUNTS}
    files.write(place, kind, [*filter(None, [change(first)]), *rest], kept | about)
    export_folder.write_sums(copy, only=sorted((copy / "data").rglob("*.parquet")))
    return copy


EDITS = {
    "a frame": ("mlvp/videos.parquet", {"frames_sha256": "0" * 64, "sha256": "0" * 64}),
    "a severity": ("mlvp/videos.parquet", {"severity": 4}),
    "an item": ("mlvp/videos.parquet", {"item_id": "another"}),
    "a clock": ("mlvp/videos.parquet", {"fps": 24.0}),
    "a recipe": ("mlvp/videos.parquet", {"recipe": "{}"}),
    "a row": ("mlvp/videos.parquet", None),
    "a clean clip": ("sources.parquet", {"item_id": "another"}),
    "a mix": ("mlvp/mixed_types.parquet", {"severity": 4}),
    "a caption": ("captions.parquet", {"text": "another"}),
    "a split": ("sources.parquet", {"split": "another"}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_table_is_named_also_where_its_hashes_fit(
    published: Path, held: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: str
) -> None:
    name, changes = EDITS[edit]
    claimed = forged(published, name, tmp_path / "forged", lambda row: changes and replace(row, **changes))
    root = storage.sha256(published / export_folder.SUMS)
    assert regenerate(claimed, held, tmp_path / "out", "--root", root) == 1
    assert f"its root is {storage.sha256(claimed / export_folder.SUMS)}, not {root}" in capsys.readouterr().err
    is_proven = edit not in ("a clock", "a mix", "a caption", "a split")
    assert regenerate(claimed, held, tmp_path / "out") == is_proven
    done = capsys.readouterr()
    assert "the publisher's word" in done.out or Path(name).name in done.err
    assert "Traceback" not in done.err
    shutil.copy(published / export_folder.SUMS, claimed)
    assert regenerate(claimed, held, tmp_path / "out") == 1
    assert f"{claimed / 'data' / name} is not the file that" in capsys.readouterr().err


def test_a_lost_table_is_named(published: Path, held: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = Path(shutil.copytree(published, tmp_path / "lost"))
    (lost / "data/captions.parquet").unlink()
    assert regenerate(lost, held, tmp_path / "out") == 1
    assert "captions.parquet is missing" in capsys.readouterr().err
    (lost / export_folder.SUMS).unlink()
    assert regenerate(lost, held, tmp_path / "out") == 1
    assert "SHA256SUMS is no list of an export's files" in capsys.readouterr().err


def test_a_changed_manifest_is_not_published(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = Path(shutil.copytree(tree, tmp_path / "tree"))
    place = changed / "manifests/data/captions.parquet"
    table = pq.read_table(place)
    texts = ["another", *table["text"].to_pylist()[1:]]
    pq.write_table(table.set_column(table.column_names.index("text"), "text", [texts]), place)
    manifest = str(changed / "manifests/data/mlvp/videos.parquet")
    assert main(["export", manifest, "--format", "recipe", "-o", str(tmp_path / "out")]) == 1
    assert f"{place} was changed after it was written" in capsys.readouterr().err


def test_frames_that_differ_are_an_error_and_the_published_hash_stays(
    published: Path, held: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, changes = EDITS["a frame"]
    claimed = forged(published, name, tmp_path / "claimed", lambda row: replace(row, **changes))
    assert regenerate(claimed, held, tmp_path / "out") == 1
    assert "its frames are not the published ones" in capsys.readouterr().out
    rows, again = (
        files.read_rows(place / name, VIDEOS) for place in (claimed / "data", tmp_path / "out/manifests/data")
    )
    assert [row.frames_sha256 for row in again] == [row.frames_sha256 for row in rows]


@pytest.mark.parametrize("planted", ["source", "stored", "dataset", "suite", "marker"])
def test_a_stranger_s_export_writes_and_reads_nowhere_else(
    published: Path, held: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], planted: str
) -> None:
    change = {
        "source": lambda row: replace(row, source_path="../my clips/1.mp4"),
        "stored": lambda row: replace(row, path=row.path and "manifests/data/mlvp/videos.parquet"),
    }.get(planted, lambda row: row)
    about = {planted: "../../up"} if planted in ("dataset", "suite") else {}
    evil = forged(published, "mlvp/videos.parquet", tmp_path / "evil", change, **about)
    if planted == "marker":
        (evil / export_folder.MARKER).write_text("{}", "utf-8")
    before = {path: storage.sha256(path) for path in tmp_path.rglob("*") if path.is_file()}
    status = regenerate(evil, held, tmp_path / "out")
    assert status == (0 if planted == "stored" else 1)  # a path is not taken from the export
    new = {path for path in tmp_path.rglob("*") if path.is_file()} - set(before)
    assert all(path.is_relative_to(tmp_path / "out") for path in new)
    assert {path: storage.sha256(path) for path in before} == before
    assert "Traceback" not in capsys.readouterr().err


def test_only_videos_have_recipes(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--format", "recipe", "-o", str(tmp_path / "out")]
    assert main(["export", str(tree / "manifests/data/sources.parquet"), *words]) == 1
    assert "recipes are exported from videos" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_name_is_a_path_below_the_folder_of_all_clips(tmp_path: Path) -> None:
    """As of YouCook2, whose videos lie in folders of recipes."""
    wanted = recipe.make(suites.get("mlvp/fog"), 1, seed=0, storage=tiers.UNSTORED)
    place = tmp_path / "manifests/data/mlvp/videos.parquet"
    rows = [clips.video_row(wanted, item_id=name, source_path=f"clips/{name}.mp4") for name in ("a/1", "b/1")]
    files.write(place, VIDEOS, rows, {"root": "../../..", "dataset": "data", "suite": "mlvp"})
    export("recipe", place, tmp_path / "out")
    stored = files.read_rows(tmp_path / "out/data/mlvp/videos.parquet", VIDEOS)
    assert sorted(row.source_path for row in stored) == ["a/1.mp4", "b/1.mp4"]
