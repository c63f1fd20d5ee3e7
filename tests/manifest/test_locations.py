"""Where the files of manifests lie: below a root, which no path leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from manifest_rows import filled

from perturbations import read_manifest
from perturbations.base.errors import ManifestError
from perturbations.corpus import row_checks, verification
from perturbations.corpus.jobs.job_metadata import provenance
from perturbations.manifest import files, locations
from perturbations.manifest.rows import CAPTIONS, SOURCE_STORAGE, VIDEOS, CaptionRow, MixRow, VideoRow


@pytest.mark.parametrize(
    ("root", "below"), [(None, "manifests/data"), ("..", "manifests"), ("../..", "manifests/data")]
)
def test_read_manifest_makes_paths_absolute(
    root: str | None, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / below / "videos.parquet"
    rows = [
        filled(VideoRow, item_id="a", path="corpora/a b.mp4", source_path="/elsewhere/a.mp4"),
        filled(VideoRow, item_id="b", path=None, source_path="../b.mp4"),
    ]
    files.write(path, VIDEOS, rows, {} if root is None else {"root": root})
    monkeypatch.chdir(path.parent)
    for name in (path, str(path), "videos.parquet"):
        frame = read_manifest(name)
        base = (path.parent / (root or ".")).resolve()
        assert frame["path"].iloc[0] == str(base / "corpora" / "a b.mp4")
        assert pd.isna(frame["path"].iloc[1])
        assert frame["source_path"].tolist() == ["/elsewhere/a.mp4", f"{base}/../b.mp4"]
        assert frame.attrs["kind"] == "videos"
    located = [locations.located(row, base) for row in files.read_rows(path, VIDEOS)]
    assert [row.path for row in located] == [str(base / "corpora" / "a b.mp4"), None]
    assert [row.source_path for row in located] == ["/elsewhere/a.mp4", f"{base}/../b.mp4"]


@pytest.mark.parametrize(
    ("root", "below", "expected"),
    [
        (None, "anywhere", "anywhere"),
        (".", "anywhere", "anywhere"),
        ("..", "manifests", "."),
        ("../..", "manifests/data", "."),
        ("../../..", "manifests/data/mlvp", "."),
        ("../..", "work/parts", "."),
    ],
)
def test_the_root_is_the_folder_that_holds_manifests(
    root: str | None, below: str, expected: str, tmp_path: Path
) -> None:
    described = {} if root is None else {"root": root}
    assert locations.root_of(tmp_path / below / "a.parquet", described) == (tmp_path / expected).resolve()


@pytest.mark.parametrize("path", ["corpora/a.mp4", "a b.mp4", "corpora/видео/…", "corpora/..a", "corpora/a\nb", "-"])
def test_a_path_below_the_root_is_allowed(path: str, tmp_path: Path) -> None:
    assert locations.path_below(tmp_path, path) == tmp_path / path


def test_a_clean_clip_lies_where_its_dataset_has_it(tmp_path: Path) -> None:
    """Of other rows, no path leaves the corpus."""
    for path in ("../../etc/passwd", "/etc/passwd"):
        clean = filled(MixRow, path=path, storage=SOURCE_STORAGE)
        assert locations.located(clean, tmp_path).path == str(tmp_path / path)
        with pytest.raises(ManifestError, match="leaves the corpus' folder"):
            locations.located(filled(VideoRow, path=path), tmp_path)


def test_the_files_of_facts_are_located(tmp_path: Path) -> None:
    row = filled(VideoRow, guide='{"files":{"encoder":null,"image":"styles/é.png"},"style":"s"}')
    facts = json.loads(locations.located(row, tmp_path).guide or "")
    assert facts == {"files": {"encoder": None, "image": str(tmp_path / "styles/é.png")}, "style": "s"}


# --- a run whose `manifests` or `work` is a link to another disk ------------------------------------------------------


@pytest.mark.parametrize("through", ["manifests", "work"])
def test_manifests_behind_a_link_are_read(through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "disk" / "results").mkdir(parents=True)
    (tmp_path / "run" / through).symlink_to(tmp_path / "disk" / "results")
    monkeypatch.chdir(tmp_path / "run")
    path = Path(through) / "d" / "captions.parquet"
    files.write(path, CAPTIONS, [CaptionRow(dataset="d", caption_id="a", item_id="a", text="t")], provenance(path))
    assert files.read_metadata(path)["root"] == "../.."
    assert read_manifest(path)["caption_id"].tolist() == ["a"]
    assert read_manifest(path.absolute())["caption_id"].tolist() == ["a"]


def test_a_run_in_a_linked_folder_has_the_same_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real" / "run").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "link" / "run")
    assert provenance(Path("manifests/d/captions.parquet"))["root"] == os.path.join("..", "..")


def test_a_damaged_part_is_removed_from_linked_work_and_from_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "disk" / "d").mkdir(parents=True)
    (tmp_path / "run" / "work").symlink_to(tmp_path / "disk")
    monkeypatch.chdir(tmp_path / "run")
    elsewhere = (Path("../work.parquet"), Path("work/../manifests.parquet"), tmp_path / "other.parquet")
    for part, removed in ((Path("work/d/s0.parquet"), True), *((path, False) for path in elsewhere)):
        part.write_bytes(b"PAR1")
        with pytest.raises(ManifestError, match="is Parquet, but no manifest") as error:
            files.read_part(part, CAPTIONS)
        assert ("(removed)" in str(error.value)) == removed
        assert part.exists() != removed


def test_verify_knows_a_corpus_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "disk" / "results").mkdir(parents=True)
    (tmp_path / "run" / "manifests").symlink_to(tmp_path / "disk" / "results")
    monkeypatch.chdir(tmp_path / "run")
    path = Path("manifests/d/mlvp/videos.parquet")
    files.write(path, VIDEOS, [], {**provenance(path), "dataset": "d", "suite": "mlvp"})
    stranger = Path("corpora/d/mlvp/fog/1/stranger.mp4")
    stranger.parent.mkdir(parents=True)
    stranger.touch()
    (manifest,) = verification.manifests_in(Path("manifests"))
    findings = [row_checks.line_of(finding) for finding in verification.check_manifest(manifest).findings]
    assert [finding for finding in findings if "no row names this file" in finding]
