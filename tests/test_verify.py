"""What `perturb verify` finds, and mends, in a real corpus: one fault at a time."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import needs
import preloaded
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import faults

from perturbations.base.errors import ManifestError, OutputError
from perturbations.engine import render_clip
from perturbations.manifest import files
from perturbations.manifest.kinds import VIDEOS
from perturbations.plan import recipe
from perturbations.suites import registry
from perturbations.verify import run

pytestmark = needs.wings("demo")  # which draws the clips


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("verify") / "sound"
    faults.make_corpus(root, [*preloaded.command("snakemake"), "--no-hooks"])
    return root


@pytest.fixture
def tree(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "tree", ignore=shutil.ignore_patterns(".snakemake", "logs", "benchmarks"))
    return tmp_path / "tree"


def contents(root: Path) -> dict[str, bytes]:
    """The manifests and files of a corpus."""
    paths = [path for name in ("manifests", "corpora") for path in (root / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.suffix in (".parquet", ".mp4")}


def repaired(root: Path, monkeypatch: pytest.MonkeyPatch, *, fast: bool = True) -> list[str]:
    """What is left to find after a repair."""
    monkeypatch.chdir(root)
    for _ in run.verify([Path("manifests")], run.Options(repair=True, fast=fast, stall_limit_s=60)):
        pass
    return faults.findings(root, fast=True)


@pytest.mark.parametrize("fast", [True, False])
def test_a_sound_corpus_has_no_findings(fast: bool, sound: Path) -> None:
    assert faults.findings(sound, fast=fast) == []


def _first(root: Path) -> Path:
    return sorted((root / "corpora").rglob("*.mp4"))[0]


def _edit(name: str, value: object) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        path = root / "manifests/tiny/mlvp/videos.parquet"
        rows = files.read_rows(path, VIDEOS)
        about = files.read_metadata(path)
        files.write(path, VIDEOS, [replace(rows[0], **{name: value}), *rows[1:]], about)

    return edit


def _lose_rows(root: Path) -> None:
    path = root / "manifests/tiny/mlvp/videos.parquet"
    files.write(path, VIDEOS, files.read_rows(path, VIDEOS)[2:], files.read_metadata(path))


def _miscount(root: Path) -> None:
    path = root / "manifests/tiny/mlvp/videos.parquet"
    about = files.read_metadata(path)
    about["set"] = {**about["set"], "listed": 1000, "missing": 997}
    files.write(path, VIDEOS, files.read_rows(path, VIDEOS), about)


MENDED: dict[str, Callable[[Path], object]] = {
    "a missing file": lambda root: _first(root).unlink(),
    "a damaged file": lambda root: _first(root).write_bytes(b"damaged"),
    "a folder in a file's place": lambda root: (_first(root).rename(root / "aside"), _place(root).mkdir()),
    "a link in a file's place": lambda root: (_first(root).rename(root / "aside"), _place(root).symlink_to("nowhere")),
    "an edited place": _edit("path", "corpora/tiny/mlvp/other.mp4"),
    "an edited level": _edit("level", "high"),
    "lost rows": _lose_rows,
    "a wrong count": _miscount,
    "a changed view": lambda root: _halve(root / "manifests/tiny/mlvp/mixed_types.parquet"),
    "a leftover": lambda root: _first(root).with_name(".it.part-0123456789ab.mp4").write_bytes(b"x"),
}


def _place(root: Path) -> Path:
    """Where the first file belongs, which is no longer there."""
    rows = files.read_rows(root / "manifests/tiny/mlvp/videos.parquet", VIDEOS)
    (gone,) = (row.path for row in rows if row.path and not (root / row.path).exists())
    return root / gone


def _halve(path: Path) -> None:
    kind = files.kind_of(path)
    rows = files.read_rows(path, kind)
    files.write(path, kind, rows[: len(rows) // 2], files.read_metadata(path))


@pytest.mark.parametrize("name", MENDED)
def test_what_can_be_made_again_is_mended_to_the_byte(name: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(tree)
    MENDED[name](tree)
    assert repaired(tree, monkeypatch) == []
    assert contents(tree) == before


def _edit_behind_the_hash(root: Path, name: str, kind: str, value: object) -> Path:
    """Change a cell as another program does, which leaves the recorded hashes as they are."""
    path = root / "manifests/tiny" / f"{kind}.parquet"
    table = pq.read_table(path)
    place = table.column_names.index(name)
    column = pa.array([value, *table[name].to_pylist()[1:]], table.schema.field(place).type)
    pq.write_table(table.set_column(place, table.schema.field(place), column), path)
    return path


def test_a_fast_repair_gives_no_new_hash_to_a_cell_that_it_cannot_judge(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(tree)
    edited = [
        _edit_behind_the_hash(tree, "psnr_db", "mlvp/videos", 1.0),
        _edit_behind_the_hash(tree, "codec", "sources", "vp9"),
    ]
    damaged = [path.read_bytes() for path in edited]
    left = repaired(tree, monkeypatch)
    assert sum("it was changed after it was written: content_sha256" in finding for finding in left) == len(edited)
    assert [path.read_bytes() for path in edited] == damaged
    assert repaired(tree, monkeypatch, fast=False) == []
    assert contents(tree) == before


def test_without_sources_rows_that_change_the_length_accuse_no_other_row(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a lost manifest said of clean clips is taken from the rows of perturbations that keep it."""
    path = tree / "manifests/tiny/mlvp/videos.parquet"
    rows = files.read_rows(path, VIDEOS)
    shorter = recipe.make(registry.get("mlvp/temporal_scrambling"), 5, seed=0, storage=recipe.Unstored())
    columns = {"frame_count": 2, "duration_s": 0.08, "source_frame_count": rows[0].source_frame_count}
    same = ("item_id", "dataset", "fps", "width", "height", "source_path", "source_sha256")
    kept = {name: getattr(rows[0], name) for name in same}
    files.write(path, VIDEOS, [*rows, clips.video_row(shorter, **kept, **columns)], files.read_metadata(path))
    (tree / "manifests/tiny/sources.parquet").unlink()
    monkeypatch.chdir(tree)
    assert not [finding for finding in faults.findings(tree, fast=True) if "duration_s" in finding]


def test_one_place_that_cannot_be_mended_does_not_stop_the_others(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = sorted((tree / "corpora").rglob("*.mp4"))[:2]
    whole = second.read_bytes()
    first.unlink()
    first.mkdir()
    (first / "mine.txt").write_text("mine")
    second.write_bytes(b"damaged")
    left = repaired(tree, monkeypatch)
    assert any("folder" in finding for finding in left)
    assert (first / "mine.txt").read_text() == "mine"
    assert second.read_bytes() == whole


def test_a_manifest_that_cannot_be_written_does_not_hide_what_was_found(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lose_rows(tree)
    _halve(tree / "manifests/tiny/mlvp/mixed_types.parquet")
    written = files.as_written

    def refused(path: Path, *arguments: Any) -> bytes:
        if path.name == "videos.parquet":
            raise OutputError(f"cannot write {path}: Read-only file system")
        return written(path, *arguments)

    monkeypatch.setattr(files, "as_written", refused)
    monkeypatch.chdir(tree)
    summaries = {
        str(summary.path): summary for summary in run.verify([Path("manifests")], run.Options(1, 60, True, True))
    }
    problems = [finding.problem for finding in summaries["manifests/tiny/mlvp/videos.parquet"].findings]
    assert "the row is missing" in problems
    assert any("it cannot be repaired: cannot write" in problem for problem in problems)
    assert summaries["manifests/tiny/mlvp/mixed_types.parquet"].findings


def test_fast_looks_at_hashes_and_renders_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_clip, "produce", lambda *arguments, **options: pytest.fail("rendered"))
    monkeypatch.setattr(render_clip, "measure", lambda *arguments, **options: pytest.fail("rendered"))
    assert faults.findings(tree, fast=True) == []
    _first(tree).write_bytes(b"damaged")
    assert any("not the one that the row describes" in finding for finding in faults.findings(tree, fast=True))


def test_no_manifest_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="make a corpus first"):
        list(run.verify([tmp_path], run.Options()))


def test_sources_that_are_not_at_hand_are_a_remark_of_the_corpus(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing but manifests and corpora, stored files are still read and their frames compared."""
    shutil.rmtree(tree / "work")
    monkeypatch.chdir(tree)
    summaries = {str(summary.path): summary for summary in run.verify([Path("manifests")], run.Options())}
    videos = summaries["manifests/tiny/mlvp/videos.parquet"]
    assert videos.findings == []
    assert sum(videos.remarks.values()) == videos.rows
    assert summaries["manifests/tiny/sources.parquet"].findings
