"""What a repair does of one fault of each class: all as it was, or nothing, and the fault is still reported."""

from __future__ import annotations

import shutil
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import needs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import faults

from perturbations.base import storage, sums
from perturbations.manifest import files
from perturbations.manifest.kinds import SOURCES, VIDEOS
from perturbations.verify import run

pytestmark = needs.wings("evaluation")  # whose results the kept corpus has


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept corpus as this version writes it: with hashes of the metadata, and lists of files and pages."""
    root = tmp_path_factory.mktemp("repair") / "sound"
    with tarfile.open(Path(__file__).with_name("kept_corpus.tar.xz")) as archive:
        archive.extractall(root, filter="data")
    for path in sorted((root / "manifests").rglob("*.parquet")):
        kind, about = files.kind_of(path), files.read_metadata(path)
        about.pop("comparability", None)  # of another version
        files.write(path, kind, files.read_rows(path, kind), about)
    for path in sorted((root / "manifests").rglob("*.md")):
        storage.write_text(path, path.read_text("utf-8"))
    return root


@pytest.fixture
def tree(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "tree"))


def every_fault(root: Path) -> dict[str, list[faults.Fault]]:
    by_kind: dict[str, list[faults.Fault]] = {}
    known = [faults.cell_faults, faults.metadata_faults, faults.row_faults, faults.file_faults]
    for fault in (fault for generated in known for fault in generated(root)):
        by_kind.setdefault(fault.kind, []).append(fault)
    return by_kind


def test_a_fault_of_each_class_is_found_and_mended_or_left_alone(sound: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    assert faults.findings(sound, fast=True) == []
    original = faults.contents(sound)
    by_kind = every_fault(sound)
    assert len(by_kind) >= 50
    copy = tmp_path / "tree"
    outcomes: dict[str, str] = {}
    for kind, members in by_kind.items():
        for place in generator.permutation(len(members)):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(sound, copy)
            if members[place].inject(copy, generator):
                break
        is_found, outcome = faults.repair(copy, original, fast=True)
        outcomes[kind] = outcome if is_found else f"missed; {outcome}"
    assert {kind: outcome for kind, outcome in outcomes.items() if outcome not in ("mended", "reported")} == {}
    assert sum(outcome == "mended" for outcome in outcomes.values()) >= 15


def _edit(path: Path, name: str, value: object) -> None:
    """Write another value into a column's first cell, with hashes that fit."""
    table = pq.read_table(path)
    place = table.column_names.index(name)
    field = table.schema.field(place)
    cells = pa.array([value, *table[name].to_pylist()[1:]], field.type)
    faults.write(path, table.set_column(place, field, cells), hashed=True)


@pytest.mark.parametrize("name", ["sha256", "width", "item_id"])
def test_a_wrong_parent_is_not_written_into_its_children(
    name: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the list of the dataset's files is gone, so that nothing but the children tells of it."""
    monkeypatch.chdir(tree)
    Path("manifests/tiny", sums.NAME).unlink()
    _edit(Path("manifests/tiny/sources.parquet"), name, 7 if name == "width" else "f" * 64)
    before = faults.contents(tree)
    summaries = list(run.verify([Path("manifests")], run.Options(fast=True, repair=True)))
    assert faults.contents(tree) == before
    told = [finding.problem for summary in summaries for finding in summary.findings]
    assert any("not repaired, because manifests/tiny/sources.parquet has a problem itself" in text for text in told)
    assert any("run `snakemake --cores 1 manifests/tiny/sources.parquet`" in text for text in told)


def test_a_parent_is_mended_before_its_children_in_one_pass(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    before = faults.contents(tree)
    _edit(Path("manifests/tiny/sources.parquet"), "sha256", "f" * 64)
    _edit(Path("manifests/tiny/mlvp/videos.parquet"), "level", "high")
    list(run.verify([Path("manifests")], run.Options(fast=True, repair=True)))
    assert faults.contents(tree) == before


def test_a_forged_file_with_a_fitting_row_is_mended_in_one_pass(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    before = faults.contents(tree)
    path = Path("manifests/tiny/mlvp/videos.parquet")
    rows, about = files.read_rows(path, VIDEOS), files.read_metadata(path)
    forged, other = rows[0], next(row for row in rows if row.item_id != rows[0].item_id)
    assert forged.path is not None
    assert other.path is not None
    shutil.copy(other.path, forged.path)
    cells = ("bytes", "sha256", "frames_sha256", "bitrate_bps", "psnr_db", "ssim", "storage_psnr_db", "stored_frames")
    rows[0] = replace(forged, **{name: getattr(other, name) for name in cells})
    files.write(path, VIDEOS, rows, about)  # the list of files is forged too
    assert all("mixed" in finding for finding in faults.findings(tree, fast=True))
    list(run.verify([Path("manifests/tiny/mlvp/videos.parquet")], run.Options(repair=True, stall_limit_s=60)))
    assert faults.contents(tree) == before


def test_a_deleted_suite_an_edited_page_and_a_file_of_no_suite_are_found_with_the_way_out(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    shutil.rmtree("manifests/tiny/mm_robustness")
    page = Path("manifests/tiny/mlvp/README.md")
    page.write_text(page.read_text() + "Comparable with everything.\n")
    found = faults.findings(tree, fast=True)
    for name in ("videos.parquet", "captions.md", "captions.parquet"):
        command = f"`snakemake --cores 1 manifests/tiny/mm_robustness/{name}` makes it again"
        assert any("mm_robustness" in text and command in text for text in found), name
    assert any(f"{page}: it was changed after it was written: delete it" in text for text in found)
    assert any("corpora/tiny/mm_robustness/pixelate/5/a.mp4: no row names this file" in text for text in found)


def test_a_forged_verdict_is_found_and_taken_back(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where hashes, and the list of files, are computed again after it."""
    monkeypatch.chdir(tree)
    path = Path("manifests/tiny/mlvp/videos.parquet")
    rows, about = files.read_rows(path, VIDEOS), files.read_metadata(path)
    files.write(path, VIDEOS, rows, {**about, "comparability": "comparable with published numbers"})
    (found,) = (text for text in faults.findings(tree, fast=True) if "comparability" in text)
    assert "its rows give 'not comparable with published numbers" in found
    faults.repair(tree, {}, fast=True)
    assert files.read_metadata(path)["comparability"].startswith("not comparable")


def test_a_missing_source_leaves_every_manifest_as_it_is(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    before = faults.contents(tree)
    lost = next(row.path for row in files.read_rows(Path("manifests/tiny/sources.parquet"), SOURCES) if row.path)
    Path(lost).unlink()
    next(Path("corpora").rglob("b.mp4")).unlink()
    list(run.verify([Path("manifests")], run.Options(repair=True, stall_limit_s=60)))
    assert faults.contents(tree) == before, "what can be put back is, whatever else is wrong"
