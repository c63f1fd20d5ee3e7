"""Transmission and tampering through the workflow: they are made, checked and exported."""

from __future__ import annotations

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
