"""Transmission and tampering through the workflow: they are made, checked and exported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from test_workflow import Project, tiny_clip

from perturbations import read_manifest

TARGETS = ("transmission_tiny", "tampering_tiny")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose run has ended well. Not to be changed: use a copy."""
    root = tmp_path_factory.mktemp("finished")
    for index, name in enumerate("abc"):
        tiny_clip(root / "videos" / f"{name}.mp4", seed=index, frames=20, size=(48, 64))
    project = Project(
        root,
        {
            "datasets": {"tiny": {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}},
            "suites": {
                "transmission": {"perturbations": ["packet_loss", "h265_crf"], "severities": [5]},
                "tampering": {"perturbations": ["substitute", "drop"], "severities": [5]},
            },
        },
    )
    project.write_captions(["a", "b", "c"])
    project.snakemake(*TARGETS)
    return project


def rows(project: Project, suite: str, name: str = "videos") -> pd.DataFrame:
    return read_manifest(project.root / f"manifests/tiny/{suite}/{name}.parquet")


def test_they_are_made_check_out_and_are_exported(finished: Project, tmp_path: Path) -> None:
    for suite in ("transmission", "tampering"):
        assert len(rows(finished, suite)) == 2 * 3
        assert set(rows(finished, suite)["status"]) == {"complete"}
    assert set(rows(finished, "tampering").query("perturbation == 'drop'")["frame_count"]) == {20 - 14}
    done = finished.perturb("verify")
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = str(finished.root / "manifests/tiny/tampering/videos.parquet")
    done = finished.perturb("export", manifest, "--format", "vtr_tta", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "out").rglob("*.pt"))) == 2 * 3


def test_without_a_sound_donor_only_what_needs_one_is_missing(finished: Project, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", json.loads(json.dumps(finished.config)))
    shutil.copytree(finished.root / "videos", project.root / "videos")
    project.write_captions(["a", "b", "c"])
    project.config["max_failed_items"] = 6
    whole = (project.root / "videos" / "b.mp4").read_bytes()
    (project.root / "videos" / "b.mp4").write_bytes(whole[: len(whole) // 2])
    (project.root / "videos" / "c.mp4").unlink()
    project.snakemake(*TARGETS)
    tampered = rows(project, "tampering")
    assert set(tampered.query("status == 'complete'")["perturbation"]) == {"drop"}
    assert set(tampered.query("status == 'complete'")["item_id"]) == {"a"}
    reasons = rows(project, "tampering", "quarantine").query("item_id == 'a'")["error"]
    assert len(reasons) == 1
    assert "no other clip" in reasons.iloc[0]
    assert set(rows(project, "transmission").query("status == 'complete'")["item_id"]) == {"a"}
    assert project.perturb("verify").returncode == 0
