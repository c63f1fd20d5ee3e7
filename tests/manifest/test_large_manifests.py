"""Manifests that have no room in memory: put in order on the disk, read by row groups, and the same to everybody."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from perturbations import Corpus
from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.corpus import verification
from perturbations.corpus.captions import mixes
from perturbations.corpus.comparability import verdict
from perturbations.corpus.tally import Tally
from perturbations.manifest import files, stored_rows
from perturbations.manifest.rows import QRELS, SOURCES, VIDEOS, QrelRow
from perturbations.pages.corpus_page import corpus_page

VIDEOS_FILE = "manifests/data/mlvp/videos.parquet"


@pytest.fixture(scope="module", autouse=True)
def small_groups(small: Path) -> Iterator[None]:
    """From here on, manifests of more than four rows are large ones; `small` was written before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "GROUP", 4)
        patch.setattr(files, "_PART", 1)
        patch.setattr(stored_rows, "CHUNK", 3)
        yield


@pytest.fixture(scope="module")
def plain(small: Path) -> Path:
    """A corpus as it is written where it has room in memory."""
    return small


@pytest.fixture(scope="module")
def large(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same corpus in row groups of four rows."""
    return rewritten(plain, tmp_path_factory.mktemp("large") / "tree")


def rewritten(plain: Path, tree: Path) -> Path:
    shutil.copytree(plain, tree, symlinks=True)
    for path in tree.rglob("*.parquet"):
        kind = files.kind_of(path)
        files.write(path, kind, reversed(files.read_rows(path, kind)), files.read_metadata(path))
    return tree


def both(plain: Path, large: Path) -> Iterator[tuple[Path, Path]]:
    for path in sorted(plain.rglob("*.parquet")):
        yield path, large / path.relative_to(plain)


def test_a_large_manifest_has_the_cells_and_hashes_of_one_that_is_written_at_once(plain: Path, large: Path) -> None:
    for single, several in both(plain, large):
        kind = files.kind_of(single)
        assert pq.read_table(several).equals(pq.read_table(single))
        count = pq.read_metadata(single).num_rows
        assert pq.read_metadata(several).num_row_groups == -(-count // 4)
        assert files.read_metadata(several) == files.read_metadata(single)
        assert list(files.read_rows(several, kind)) == list(files.read_rows(single, kind))
    assert isinstance(files.read_rows(large / VIDEOS_FILE, VIDEOS), stored_rows.StoredRows)


def test_other_libraries_read_it_as_one_table(plain: Path, large: Path) -> None:
    pd.testing.assert_frame_equal(pd.read_parquet(large / VIDEOS_FILE), pd.read_parquet(plain / VIDEOS_FILE))


def test_a_corpus_of_it_is_the_same(plain: Path, large: Path) -> None:
    single, several = Corpus(plain / VIDEOS_FILE), Corpus(large / VIDEOS_FILE)

    def named(corpus: Corpus) -> list[tuple[str, str, int]]:
        return [(clip.item_id, clip.perturbation, clip.severity) for clip in corpus]

    assert named(several) == named(single)
    assert len(several.incomplete) == len(single.incomplete)
    part = several.where(perturbation="fog")
    assert (part.perturbations, part.severities) == (["fog"], single.where(perturbation="fog").severities)
    for name in ("items", "severities", "perturbations", "text_perturbations"):
        assert getattr(several, name) == getattr(single, name)
    for wanted in ({"perturbation": "fog"}, {"severity": [1, 3], "item": "clip_7"}, {"item": "none"}):
        assert named(several.where(**wanted)) == named(single.where(**wanted))
    part = several.where(perturbation="gaussian_noise")[1:]
    assert named(part) == named(single.where(perturbation="gaussian_noise")[1:])
    assert named(part.where(severity=3)) == named(single.where(perturbation="gaussian_noise")[1:].where(severity=3))
    assert named(several.filter(lambda clip: clip.severity == 3)) == named(single.where(severity=3))
    assert several[-1].path == str(large / Path(single[-1].path).relative_to(plain))


def test_what_is_made_of_it_is_the_same(plain: Path, large: Path) -> None:
    rows = files.read_rows(large / VIDEOS_FILE, VIDEOS)
    sources = files.read_rows(plain / "manifests/data/sources.parquet", SOURCES)
    listed = files.read_rows(plain / VIDEOS_FILE, VIDEOS)
    assert list(mixes.mixed_severity(rows)) == list(mixes.mixed_severity(listed))
    assert list(mixes.mixed_types(rows, sources)) == list(mixes.mixed_types(listed, sources))
    sentences = [verdict(Tally().counted(clips), Tally(), adapter="msrvtt") for clips in (rows, listed)]
    assert sentences[0] == sentences[1]
    pages = []
    for tree in (plain, large):
        page = (tree / VIDEOS_FILE).with_name("page.html")
        corpus_page(tree / VIDEOS_FILE, page)
        pages.append(page.read_text().replace(storage.sha256(tree / VIDEOS_FILE), ""))
        page.unlink()
    assert "gaussian_noise" in pages[0]
    assert pages[0] == pages[1]


def findings_of(tree: Path) -> list[tuple[str, str, str]]:
    """What is wrong with a tree, without its folder's name."""
    checked = [verification.check_manifest(path) for path in verification.manifests_in(tree / "manifests")]
    return sorted(
        (Path(finding["file"]).relative_to(tree).as_posix(), finding["row"], finding["problem"].replace(str(tree), ""))
        for each in checked
        for finding in each.findings
    )


def test_what_is_wrong_with_it_is_found_piece_by_piece(plain: Path, large: Path, tmp_path: Path) -> None:
    results = []
    for tree, size in ((plain, 2**16), (large, 4)):
        shutil.copytree(tree, tmp_path / str(size), symlinks=True)
        path = tmp_path / str(size) / VIDEOS_FILE
        rows = files.read_rows(path, VIDEOS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "GROUP", size)
            kept = [row for row in rows if (row.item_id, row.severity) != ("video1", 3)]
            files.write(path, VIDEOS, kept, files.read_metadata(path))
        (tmp_path / str(size) / (kept[1].path or "")).unlink()
        results.append(findings_of(tmp_path / str(size)))
    assert "the row is missing" in [problem for _, _, problem in results[0]]
    assert results[0] == results[1]


def test_an_edited_row_group_is_named(large: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(large / VIDEOS_FILE, tmp_path))
    table = pq.read_table(path)
    items = [*table["item_id"].to_pylist()[:-1], "x"]
    edited = table.set_column(table.column_names.index("item_id"), "item_id", [items])
    pq.write_table(edited, path, row_group_size=2)
    with pytest.raises(ManifestError, match="its SHA-256 is another"):
        files.read_rows(path, VIDEOS)
    path.write_bytes(path.read_bytes().replace(b"\x00\x00", b"\x00\x01", 1))
    with pytest.raises(ManifestError):
        files.read_rows(path, VIDEOS)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 9])
def test_rows_are_put_in_order_on_the_disk(count: int, tmp_path: Path) -> None:
    rows = [QrelRow(query_id=f"q{number * 7 % 9}", corpus_id=f"c{number}", score=1) for number in range(count)]
    files.write(tmp_path / "rows", QRELS, iter(rows))
    in_order: Sequence[QrelRow] = sorted(rows, key=lambda row: (row.query_id, row.corpus_id))
    assert list(files.read_rows(tmp_path / "rows", QRELS)) == in_order
    assert json.loads(pq.read_schema(tmp_path / "rows").metadata[b"perturbations"])["rows"] == count
