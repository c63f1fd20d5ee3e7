"""Calibration through the workflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_workflow import Project, copy_of, folders, new_project

from perturbations.calibration import table as calibration_table


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that was calibrated and then made."""
    project = new_project(tmp_path_factory.mktemp("calibrated"), shard_size=50, storage={"tier": "recipe"})
    project.config["suites"]["mlvp"]["severity"] = "calibrated"
    failed = project.snakemake("mlvp_tiny", check=False)
    output = failed.stdout + failed.stderr
    assert failed.returncode != 0
    assert "suites.mlvp.severity is `calibrated`: there is no calibration table" in output
    assert "`snakemake calibrate_tiny`" in output
    assert "Traceback (most recent" not in output
    assert not project.outputs()
    project.snakemake("calibrate_tiny")
    project.snakemake("mlvp_tiny")
    return project


def test_the_workflow_solves_then_makes(finished: Project) -> None:
    from perturbations import read_manifest

    folder = finished.root / "manifests/tiny"
    table = calibration_table.read(folder / "calibration.json")
    assert set(table["perturbations"]) == {"mlvp/gaussian_noise", "mlvp/fog"}
    assert {row["item_id"] for row in table["sample"]} == {"a", "b", "c", "d"}
    assert "mlvp/fog" in (folder / "calibration.md").read_text()
    videos = read_manifest(folder / "mlvp/videos.parquet")
    assert set(videos["calibrated"]) == {True}
    assert videos.attrs["comparability"].endswith("; severities are calibrated")
    for (name, severity), group in videos.groupby(["perturbation", "severity"]):
        solved = table["perturbations"][f"mlvp/{name}"]["severities"][str(severity)]
        assert [json.loads(params) for params in set(group["params"])] == [solved["params"]]
        assert group["ssim"].mean() == pytest.approx(solved["attained"], abs=1e-4)


def test_a_changed_number_reruns_its_own_jobs_only(finished: Project, tmp_path: Path) -> None:
    project = copy_of(finished, tmp_path / "project")
    assert project.rerun("mlvp_tiny") == set()
    path = project.root / "manifests/tiny/calibration.json"
    table = json.loads(path.read_text())
    severities = table["perturbations"]["mlvp/gaussian_noise"]["severities"]
    severities["3"]["params"]["sigma"] = 0.4321
    severities["1"]["attained"] = 0.0  # nothing that frames depend on
    path.write_text(json.dumps(table))
    assert folders(project.rerun("mlvp_tiny")) == {"tiny/mlvp/gaussian_noise/3"}
