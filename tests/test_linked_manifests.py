"""A run whose `manifests` or `work` is a link to another disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perturbations import read_manifest
from perturbations.base.errors import ManifestError
from perturbations.cli.common import provenance
from perturbations.manifest import files, sets
from perturbations.manifest.kinds import CAPTIONS, VIDEOS, CaptionRow
from perturbations.verify import checking


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


@pytest.mark.parametrize("is_link", [False, True])
def test_a_damaged_part_is_removed_wherever_work_lies(
    is_link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "disk" / "d").mkdir(parents=True)
    if is_link:
        (tmp_path / "run" / "work").symlink_to(tmp_path / "disk")
    monkeypatch.chdir(tmp_path / "run")
    part = Path("work/d/s0.parquet")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(b"PAR1")
    with pytest.raises(ManifestError, match=r"cannot be read as Parquet.*\(removed\)"):
        sets.read_part(part, CAPTIONS)
    assert not part.exists()


def test_what_lies_elsewhere_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run" / "work").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "run")
    for part in (Path("../work.parquet"), Path("work/../manifests.parquet"), tmp_path / "other.parquet"):
        part.write_bytes(b"PAR1")
        with pytest.raises(ManifestError) as error:
            sets.read_part(part, CAPTIONS)
        assert "(removed)" not in str(error.value)
        assert part.exists()


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
    (manifest,) = checking.manifests_in(Path("manifests"))
    findings = [str(finding) for finding in checking.check_manifest(manifest).findings]
    assert [finding for finding in findings if "no row names this file" in finding]
