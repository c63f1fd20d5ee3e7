"""A run whose `manifests` is a link to another disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perturbations import read_manifest
from perturbations.cli.common import provenance
from perturbations.manifest import files
from perturbations.manifest.kinds import CAPTIONS, CaptionRow


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
